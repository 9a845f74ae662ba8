//! What Linux's `via-rhine` is judged by: every chip healthy, then each fault it is known to survive.

/// One guest run.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// The model's `--chip`.
    pub chip: &'static str,
    /// The model's `--fault`.
    pub fault: &'static str,
    /// The model's `--wire-fault`.
    pub wire_fault: &'static str,
    /// The guest's tests, comma separated; empty: all of the usual ones.
    pub tests: &'static str,
}

impl Case {
    const fn healthy(chip: &'static str) -> Case {
        Case { chip, fault: "", wire_fault: "", tests: "" }
    }

    const fn fault(chip: &'static str, fault: &'static str) -> Case {
        Case { chip, fault, wire_fault: "", tests: "up,ping,tcp,bounce,stats,down" }
    }

    const fn wire(wire_fault: &'static str) -> Case {
        let tests = "up,ping,tcp,stats,down";
        Case { chip: "vt6105m", fault: "", wire_fault, tests }
    }

    /// Chip and faults, as the report shows them.
    pub fn name(&self) -> String {
        let words = [self.chip, self.fault, self.wire_fault];
        words.into_iter().filter(|w| !w.is_empty()).collect::<Vec<_>>().join(" ")
    }

    /// Nothing is injected, so no error may be counted.
    pub fn is_healthy(&self) -> bool {
        self.fault.is_empty() && self.wire_fault.is_empty()
    }
}

/// All of them.
pub const CASES: &[Case] = &[
    Case::healthy("vt86c100a"),
    Case::healthy("vt6102"),
    Case::healthy("vt8235"),
    Case::healthy("vt6105"),
    Case::healthy("vt6105m"),
    Case::fault("vt6105m", "posted-writes"),
    Case::fault("vt6102", "posted-writes"),
    Case::fault("vt6105m", "reset=20"),
    Case::fault("vt6102", "reset=until-forced"),
    Case::fault("vt6102", "slow-eeprom=5,eeprom-arms-wake"),
    Case::fault("vt6105m", "reset-clears-par,tally-read-clears"),
    Case::fault("vt8235", "asleep"),
    Case::fault("vt8235", "promiscuous-phy"),
    Case::fault("vt6105m", "tx-underrun=50"),
    Case::fault("vt86c100a", "tx-underrun=50"),
    Case::fault("vt6105m", "tx-abort=300"),
    Case::fault("vt6105m", "tx-bad-link=300"),
    Case::fault("vt6105m", "tx-unexplained=300"),
    Case::fault("vt6102", "tx-race=300"),
    Case::fault("vt6105m", "tx-extra-interrupt"),
    Case::fault("vt6105m", "tx-stall=300"),
    Case::fault("vt6105m", "rx-crc=300,rx-runt=300"),
    Case::fault("vt6105m", "rx-overflow=300"),
    Case::fault("vt6105m", "spurious=50"),
    Case { tests: "up,link,stats,down", ..Case::fault("vt6105m", "link-flap=4000") },
    Case::wire("loss=0.5"),
    Case::wire("duplication=2,reorder=2,hold=3"),
    Case::wire("corruption=0.2,truncation=0.2"),
];
