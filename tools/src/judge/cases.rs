//! What Linux's drivers are judged by: every chip healthy, then each fault they are known to survive.

/// A model of ours, with the Linux driver that judges it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Card {
    /// `via-rhine`.
    Rhine,
    /// `gemini`, on 32-bit ARM.
    Gemini,
}

impl Card {
    /// All that are judged.
    pub const ALL: [Card; 2] = [Card::Rhine, Card::Gemini];

    /// The model's name on the command line, in crate and program.
    pub fn name(self) -> &'static str {
        match self {
            Card::Rhine => "rhine",
            Card::Gemini => "gemini",
        }
    }

    /// Its cases.
    pub fn cases(self) -> &'static [Case] {
        match self {
            Card::Rhine => CASES,
            Card::Gemini => GEMINI_CASES,
        }
    }
}

/// One guest run.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Whose.
    pub card: Card,
    /// The model's `--chip`.
    pub chip: &'static str,
    /// The model's `--fault`.
    pub fault: &'static str,
    /// The model's `--wire-fault`.
    pub wire_fault: &'static str,
    /// The guest's tests, comma separated; empty: all of the usual ones.
    pub tests: &'static str,
    /// A counter of the model that must have moved for the case to count; may be empty.
    pub moved: &'static str,
    /// Counters of the model that must not have moved.
    pub unmoved: &'static [&'static str],
}

const RHINE: Case = Case {
    card: Card::Rhine,
    chip: "",
    fault: "",
    wire_fault: "",
    tests: "",
    moved: "",
    unmoved: &[],
};

/// Segmentation has to be in use, and none of the traps sprung that Linux knows how to avoid.
const GEMINI: Case = Case {
    card: Card::Gemini,
    chip: "fixed",
    moved: "tx_super_frames",
    unmoved: &[
        "tx_truncated",
        "tx_tcp_plain",
        "tx_bad_mtu",
        "tx_fixed_len",
        "tx_protocol_errors",
        "unknown_accesses",
        "odd_accesses",
    ],
    ..RHINE
};

impl Case {
    const fn healthy(chip: &'static str) -> Case {
        Case { chip, ..RHINE }
    }

    const fn gemini(fault: &'static str) -> Case {
        Case { fault, tests: "up,ping,tcp,v6,bounce,stats,down", ..GEMINI }
    }

    const fn fault(chip: &'static str, fault: &'static str) -> Case {
        Case { chip, fault, tests: "up,ping,tcp,bounce,stats,down", ..RHINE }
    }

    const fn wire(wire_fault: &'static str) -> Case {
        let tests = "up,ping,tcp,stats,down";
        Case { chip: "vt6105m", wire_fault, tests, ..RHINE }
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

/// The Gemini's. Hangs are left out, since Linux's driver does not recover from them (docs/hardware/gemini.md 11.3), and so
/// is `rx-null`, which it survives, but reports with the word "BUG".
pub const GEMINI_CASES: &[Case] = &[
    GEMINI,
    Case::gemini("paced"),
    Case::gemini("late-status"),
    Case::gemini("tx-error=300"),
    Case::gemini("rx-crc=300,rx-runt=300"),
    Case::gemini("rx-overrun=300"),
    Case::gemini("mib-nonsense,narrow-mib"),
    Case { wire_fault: "loss=0.5", ..Case::gemini("") },
    Case { wire_fault: "corruption=0.2,truncation=0.2", ..Case::gemini("") },
];

/// The Rhine's.
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
