//! `rhine-model`: a VIA Rhine for QEMU's `-device vfio-user-pci`.

use lexopt::prelude::*;
use trireme_rhine_model::{Chip, Faults, Rhine};
use trireme_vfio::Program;

const PROGRAM: Program = Program {
    name: "rhine-model",
    usage: "\
usage: rhine-model --socket PATH --tap NAME | --connect PATH | --listen PATH [options]
  --chip NAME[.REVISION]   vt86c100a, vt6102, vt8235, vt6105 or vt6105m (default)
  --mac ADDRESS            station address in the EEPROM (default 00:0d:b9:00:00:01)
  --fault LIST             of the card, e.g. tx-underrun=100,posted-writes,link-flap=2000",
};

fn main() {
    let (mut chip, mut faults) = (Chip::VT6105M, Faults::default());
    let setup = PROGRAM.setup(|option, parser| {
        match option {
            "chip" => chip = parser.value()?.parse()?,
            "fault" => faults = parser.value()?.parse()?,
            _ => return Ok(false),
        }
        Ok(true)
    });
    let mac = setup.mac.unwrap_or([0x00, 0x0d, 0xb9, 0, 0, 1]);
    let rhine = Rhine::new(chip, mac, faults, setup.seed);
    PROGRAM.serve(setup, 1, rhine, Rhine::counters);
}
