//! `ravb-model`: a Renesas RAVB for QEMU's `-device vfio-user-pci`.

use lexopt::prelude::*;
use trireme_ravb_model::{Faults, Ravb, Variant};
use trireme_vfio::Program;

const PROGRAM: Program = Program {
    name: "ravb-model",
    usage: "\
usage: ravb-model --socket PATH --tap NAME | --connect PATH | --listen PATH [options]
  --chip NAME              gen2, gen3 (default) or gbeth
  --mac ADDRESS            as a boot loader leaves it (default 2e:09:0a:00:00:01)
  --phy ADDRESS            of the PHY on its MDIO (default 0)
  --fault LIST             of the card, e.g. rx-crc=100,dts-never,link-flap=2000",
};

fn main() {
    let (mut variant, mut phy, mut faults) = (Variant::Gen3, 0, Faults::default());
    let setup = PROGRAM.setup(|option, parser| {
        match option {
            "chip" => variant = parser.value()?.parse()?,
            "phy" => phy = parser.value()?.parse()?,
            "fault" => faults = parser.value()?.parse()?,
            _ => return Ok(false),
        }
        Ok(true)
    });
    let mac = setup.mac.unwrap_or([0x2e, 0x09, 0x0a, 0, 0, 1]);
    let ravb = Ravb::with_phy(variant, mac, phy, faults, setup.seed);
    PROGRAM.serve(setup, 1, ravb, Ravb::counters);
}
