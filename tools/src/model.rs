//! Device models as a machine's network card: the process, and how QEMU reaches it.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::qemu::Network;
use crate::workspace::{cargo, check, target_directory};

/// How long a model may take to open its sockets.
const PATIENCE: Duration = Duration::from_secs(5);

/// A model of ours, and how it is to behave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Model {
    /// The crate.
    package: String,
    /// Its program.
    program: String,
    /// `--chip`; the model's own choice if empty.
    pub chip: String,
    /// `--fault`.
    pub faults: String,
    /// `--wire-fault`.
    pub wire_faults: String,
    /// `--rx-wire-fault`.
    pub rx_wire_faults: String,
    /// `--pcap`.
    pub pcap: Option<PathBuf>,
    /// Wires besides the first, which the machine's network is: on user networking each is a network of its own,
    /// with a TAP these are more.
    more_wires: usize,
    /// TAPs of these.
    pub more_taps: Vec<String>,
}

/// Where a running model is reached.
#[derive(Debug)]
pub(crate) struct Sockets {
    card: PathBuf,
    /// None: the model has its TAPs itself.
    wires: Vec<PathBuf>,
}

impl Sockets {
    /// The value of QEMU's `-device`.
    pub(crate) fn device(&self) -> String {
        let socket = serde_json::json!({ "type": "unix", "path": self.card });
        serde_json::json!({ "driver": "vfio-user-pci", "socket": socket }).to_string()
    }

    /// The values of QEMU's `-netdev` for the model's wires, as `wire0` and so on.
    pub(crate) fn netdevs(&self) -> Vec<String> {
        let netdev = |(n, path): (usize, &PathBuf)| {
            format!("stream,id=wire{n},server=off,addr.type=unix,addr.path={}", path.display())
        };
        self.wires.iter().enumerate().map(netdev).collect()
    }
}

impl Model {
    /// A VIA Rhine.
    pub fn rhine(chip: &str) -> Model {
        Model {
            package: "trireme-rhine-model".to_owned(),
            program: "rhine-model".to_owned(),
            chip: chip.to_owned(),
            ..Model::default()
        }
    }

    /// A Renesas EtherAVB or GbEth.
    pub fn ravb(chip: &str) -> Model {
        Model {
            package: "trireme-ravb-model".to_owned(),
            program: "ravb-model".to_owned(),
            chip: chip.to_owned(),
            ..Model::default()
        }
    }

    /// The ports of a Cortina Gemini on a board, `fixed` if empty.
    pub fn gemini(board: &str) -> Model {
        Model {
            package: "trireme-gemini-model".to_owned(),
            program: "gemini-model".to_owned(),
            chip: board.to_owned(),
            more_wires: usize::from(board != "dns313"),
            ..Model::default()
        }
    }

    /// The same with these faults, as the model's `--fault` spells them.
    pub fn with_faults(mut self, faults: &str) -> Model {
        self.faults = faults.to_owned();
        self
    }

    /// Builds it, and returns the command of a card as it is to behave; where its sockets are is not in it.
    pub(crate) fn command(&self) -> Result<Command> {
        check(cargo().args(["build", "--quiet", "--release", "-p", &self.package]))?;
        let mut command = Command::new(target_directory().join("release").join(&self.program));
        for (option, value) in [
            ("--chip", &self.chip),
            ("--fault", &self.faults),
            ("--wire-fault", &self.wire_faults),
            ("--rx-wire-fault", &self.rx_wire_faults),
        ] {
            if !value.is_empty() {
                command.args([option, value]);
            }
        }
        if let Some(pcap) = &self.pcap {
            command.arg("--pcap").arg(pcap);
        }
        Ok(command)
    }

    /// Builds and starts it. It ends when QEMU does, or with us.
    pub(crate) fn start(&self, network: &Network) -> Result<Sockets> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let card_command = self.command()?;
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let base = env::temp_dir().join(format!("trireme-model-{}-{number}", std::process::id()));
        let card = base.with_extension("card");
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "TERM", "--"]);
        command.arg(card_command.get_program()).args(card_command.get_args());
        command.arg("--once").arg("--socket").arg(&card);
        let mut wires = Vec::new();
        match network {
            Network::Tap(name) => {
                for name in [name].into_iter().chain(&self.more_taps) {
                    command.args(["--tap", name]);
                }
            }
            Network::User(_) | Network::Other(_) => {
                for n in 0..=self.more_wires {
                    let path = base.with_extension(format!("wire{n}"));
                    let _ = fs::remove_file(&path);
                    command.arg("--listen").arg(&path);
                    wires.push(path);
                }
            }
        }
        let _ = fs::remove_file(&card);
        let mut child =
            command.stdin(Stdio::null()).spawn().context("cannot start the device model")?;
        let start = Instant::now();
        while !card.exists() {
            ensure!(child.try_wait()?.is_none(), "the device model ended at once");
            ensure!(start.elapsed() < PATIENCE, "the device model made no socket");
            thread::sleep(Duration::from_millis(5));
        }
        Ok(Sockets { card, wires })
    }
}
