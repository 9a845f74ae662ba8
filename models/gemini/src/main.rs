//! `gemini-model`: the Ethernet block of a Gemini for QEMU's `-device vfio-user-pci`.

use lexopt::prelude::*;
use trireme_gemini_model::{Board, BoardKind, Faults, Gemini};
use trireme_vfio::Program;

const PROGRAM: Program = Program {
    name: "gemini-model",
    usage: "\
usage: gemini-model --socket PATH WIRE [WIRE...] [options]
  --tap NAME | --connect PATH | --listen PATH
                           a wire, as often as the board has them: port 0 and port 1, or the
                           switch's sockets; those left out have no cable
  --chip BOARD             fixed (default: two ports, fixed links), dns313, wbd222 or dir685
  --mac ADDRESS            port 0's station address as the boot loader leaves it (default
                           00:50:c2:00:00:10); port 1's differs in the last bit
  --fault LIST             of the card, e.g. tx-hang=1000,paced,link-flap=2000",
};

fn main() {
    let (mut kind, mut faults) = (BoardKind::Fixed, Faults::default());
    let setup = PROGRAM.setup(|option, parser| {
        match option {
            "chip" => kind = parser.value()?.parse()?,
            "fault" => faults = parser.value()?.parse()?,
            _ => return Ok(false),
        }
        Ok(true)
    });
    let mut board = Board::new(kind);
    let ports = board.wires();
    for unplugged in setup.wires()..ports {
        board.set_cable(unplugged, false);
    }
    let mac = setup.mac.unwrap_or([0x00, 0x50, 0xc2, 0, 0, 0x10]);
    let gemini = Gemini::new(board, mac, faults, setup.seed);
    PROGRAM.serve(setup, ports, gemini, Gemini::counters);
}
