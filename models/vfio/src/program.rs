//! What the models' programs have in common: the command line, the wires, the capture, the end.

use std::error::Error;
use std::fmt::Debug;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::process::exit;
use std::sync::{Arc, Mutex};

use trireme_wire::{Capture, Impaired, Impairment, PcapWriter, Wire};

use crate::device::Device;
use crate::server::{Options, serve};

/// Options that every model takes, behind its own.
const COMMON_USAGE: &str = "
  --wire-fault LIST        of what it sends, e.g. loss=1,corruption=0.1,reorder=1,hold=5
  --rx-wire-fault LIST     the same of what it receives
  --pcap FILE              captures both directions of the first wire
  --seed N                 for all randomness (default 1)
  --once                   ends when QEMU does";

/// A model's program.
pub struct Program {
    /// Its name, in front of what it has to say.
    pub name: &'static str,
    /// Its usage up to the options that every model takes, without a newline at the end.
    pub usage: &'static str,
}

type OpenWire = Box<dyn FnOnce() -> io::Result<Wire>>;

/// What the command line says that every model understands.
pub struct Setup {
    /// `--mac`.
    pub mac: Option<[u8; 6]>,
    /// `--seed`.
    pub seed: u64,
    socket: PathBuf,
    wires: Vec<OpenWire>,
    wire_faults: trireme_wire::Faults,
    rx_wire_faults: trireme_wire::Faults,
    pcap: Option<PathBuf>,
    once: bool,
}

impl Setup {
    /// Wires named on the command line.
    pub fn wires(&self) -> usize {
        self.wires.len()
    }
}

impl Program {
    /// Reads the command line, and starts logging. `own` is offered each long option that is not every model's, and
    /// says whether it was the model's. A command line that is no good ends the process.
    pub fn setup(
        &self,
        own: impl FnMut(&str, &mut lexopt::Parser) -> Result<bool, lexopt::Error>,
    ) -> Setup {
        env_logger::init();
        self.arguments(own).unwrap_or_else(|error| {
            eprintln!("{}: {error}\n{}{COMMON_USAGE}", self.name, self.usage);
            exit(2);
        })
    }

    fn arguments(
        &self,
        mut own: impl FnMut(&str, &mut lexopt::Parser) -> Result<bool, lexopt::Error>,
    ) -> Result<Setup, lexopt::Error> {
        use lexopt::prelude::*;
        let mut parser = lexopt::Parser::from_env();
        let mut socket = None;
        let mut setup = Setup {
            mac: None,
            seed: 1,
            socket: PathBuf::new(),
            wires: Vec::new(),
            wire_faults: trireme_wire::Faults::default(),
            rx_wire_faults: trireme_wire::Faults::default(),
            pcap: None,
            once: false,
        };
        while let Some(argument) = parser.next()? {
            match argument {
                Long("socket") => socket = Some(parser.value()?.into()),
                Long("tap") => {
                    let name = parser.value()?.string()?;
                    setup.wires.push(Box::new(move || trireme_wire::tap(&name)));
                }
                Long("connect") => {
                    let path: PathBuf = parser.value()?.into();
                    setup.wires.push(Box::new(move || trireme_wire::connect(&path)));
                }
                Long("listen") => {
                    let path: PathBuf = parser.value()?.into();
                    setup.wires.push(Box::new(move || trireme_wire::listen(&path)));
                }
                Long("mac") => setup.mac = Some(parser.value()?.parse_with(parse_mac)?),
                Long("wire-fault") => setup.wire_faults = parser.value()?.parse()?,
                Long("rx-wire-fault") => setup.rx_wire_faults = parser.value()?.parse()?,
                Long("pcap") => setup.pcap = Some(parser.value()?.into()),
                Long("seed") => setup.seed = parser.value()?.parse()?,
                Long("once") => setup.once = true,
                Long("help") | Short('h') => {
                    println!("{}{COMMON_USAGE}", self.usage);
                    exit(0);
                }
                Long(option) => {
                    let option = option.to_owned();
                    if !own(&option, &mut parser)? {
                        return Err(Long(&option).unexpected());
                    }
                }
                _ => return Err(argument.unexpected()),
            }
        }
        setup.socket = socket.ok_or("--socket is missing")?;
        if setup.wires.is_empty() {
            return Err("--tap, --connect or --listen is missing".into());
        }
        Ok(setup)
    }

    /// Serves a card with so many ports at most until QEMU is gone, and logs its counters. An error ends the process.
    pub fn serve<D: Device + 'static, C: Debug>(
        &self,
        setup: Setup,
        ports: usize,
        device: D,
        counters: impl FnOnce(&D) -> C,
    ) {
        if let Err(error) = run(setup, ports, device, counters) {
            eprintln!("{}: {error}", self.name);
            exit(1);
        }
    }
}

fn run<D: Device + 'static, C: Debug>(
    setup: Setup,
    ports: usize,
    device: D,
    counters: impl FnOnce(&D) -> C,
) -> Result<(), Box<dyn Error>> {
    if setup.wires.len() > ports {
        return Err(format!("there are {} wires for {ports} ports", setup.wires.len()).into());
    }
    let mut capture = match setup.pcap {
        Some(path) => Some(Arc::new(Mutex::new(PcapWriter::new(File::create(path)?)?))),
        None => None,
    };
    let mut wires = Vec::new();
    for (number, open) in setup.wires.into_iter().enumerate() {
        let Wire { mut sink, mut source } = open()?;
        if let Some(file) = capture.take() {
            sink = Box::new(Capture::new(sink, file.clone()));
            source = Box::new(Capture::new(source, file));
        }
        let seed = setup.seed.wrapping_add(number as u64);
        if setup.wire_faults != trireme_wire::Faults::default() {
            sink = Box::new(Impaired::new(sink, Impairment::new(setup.wire_faults, seed)));
        }
        if setup.rx_wire_faults != trireme_wire::Faults::default() {
            source = Box::new(Impaired::new(source, Impairment::new(setup.rx_wire_faults, seed)));
        }
        wires.push(Wire { sink, source });
    }
    let options = Options { socket: setup.socket, once: setup.once };
    serve(&options, device, wires, |device| log::info!("{:?}", counters(device)))?;
    Ok(())
}

fn parse_mac(text: &str) -> Result<[u8; 6], String> {
    let mut mac = [0; 6];
    let mut bytes = text.split(':').map(|byte| u8::from_str_radix(byte, 16));
    for to in &mut mac {
        *to = bytes.next().and_then(Result::ok).ok_or(format!("no MAC address: {text}"))?;
    }
    if bytes.next().is_some() { Err(format!("no MAC address: {text}")) } else { Ok(mac) }
}

#[cfg(test)]
mod tests {
    use super::parse_mac;

    #[test]
    fn addresses_have_six_bytes() {
        assert_eq!(parse_mac("00:0d:b9:00:00:01"), Ok([0, 0x0d, 0xb9, 0, 0, 1]));
        for wrong in ["", "0:0:0:0:0", "0:0:0:0:0:0:0", "0:0:0:0:0:g", "100:0:0:0:0:0"] {
            assert!(parse_mac(wrong).is_err(), "{wrong:?}");
        }
    }
}
