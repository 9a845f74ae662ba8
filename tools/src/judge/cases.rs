//! What Linux's drivers are judged by: every chip healthy, then each fault they are known to survive.

/// A model of ours, with the Linux driver that judges it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Card {
    /// `via-rhine`.
    Rhine,
    /// `gemini`, on 32-bit ARM.
    Gemini,
    /// `ravb`, on 64-bit ARM, for EtherAVB and GbEth.
    Ravb,
}

impl Card {
    /// All that are judged.
    pub const ALL: [Card; 3] = [Card::Rhine, Card::Gemini, Card::Ravb];

    /// The model's name on the command line, in crate and program.
    pub fn name(self) -> &'static str {
        match self {
            Card::Rhine => "rhine",
            Card::Gemini => "gemini",
            Card::Ravb => "ravb",
        }
    }

    /// Its cases.
    pub fn cases(self) -> &'static [Case] {
        match self {
            Card::Rhine => CASES,
            Card::Gemini => GEMINI_CASES,
            Card::Ravb => RAVB_CASES,
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

/// No rule of the manual broken, no register touched that is not there.
const RAVB: Case = Case {
    card: Card::Ravb,
    moved: "rx_checksums",
    unmoved: &["violations", "unknown_accesses", "tx_misaligned", "dma_errors"],
    ..RHINE
};

impl Case {
    const fn ravb(chip: &'static str, fault: &'static str) -> Case {
        Case { chip, fault, tests: "up,ping,tcp,v6,bounce,stats,down", ..RAVB }
    }

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

    /// MTU of the other side, in bytes: a card that takes longer frames shall get some, and GbEth such as span several of
    /// its buffers.
    pub fn peer_mtu(&self) -> u32 {
        match (self.card, self.chip) {
            (Card::Rhine, _) => 1500,
            (Card::Ravb, "gbeth") => 7100,
            (Card::Gemini | Card::Ravb, _) => 2026,
        }
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

/// RAVB's. Left out is what `ravb` does not recover from: a transmit queue that stopped with an error (docs/hardware/ravb.md
/// 6.1), lost interrupts, a PHY that is not there, and spurious interrupts: 6.12 asks for its line before it has mapped the
/// registers its handler reads, and one at that moment is its end.
pub const RAVB_CASES: &[Case] = &[
    Case { chip: "gen2", ..RAVB },
    Case { chip: "gen3", ..RAVB },
    Case { chip: "gbeth", ..RAVB },
    Case::ravb("gen3", "slow-mode=20"),
    Case::ravb("gen2", "slow-ptp=20"),
    Case::ravb("gbeth", "slow-toe=20"),
    Case::ravb("gen3", "slow-link=1500"),
    Case::ravb("gen3", "rx-late=2"),
    Case::ravb("gbeth", "tx-late=1"),
    Case::ravb("gbeth", "tx-stall=300"),
    Case::ravb("gen3", "rx-crc=300,rx-runt=300,rx-phy-error=300"),
    Case::ravb("gbeth", "rx-crc=300,rx-extension=300"),
    Case::ravb("gen2", "rx-overflow=300,rx-queue-full=300"),
    Case::ravb("gbeth", "rx-overflow=300,rx-queue-full=300"),
    Case::ravb("gen2", "reset-keeps,sum-as-ones"),
    Case::ravb("gbeth", "takes-options,zero-udp-is-right"),
    Case { tests: "up,link,stats,down", moved: "", ..Case::ravb("gen3", "link-flap=4000") },
    Case { wire_fault: "loss=0.5", ..Case::ravb("gen3", "") },
    Case { wire_fault: "corruption=0.2,truncation=0.2", ..Case::ravb("gen3", "") },
    Case { wire_fault: "corruption=0.2,truncation=0.2", ..Case::ravb("gbeth", "") },
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
