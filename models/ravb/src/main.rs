//! `ravb-model`: a Renesas RAVB for QEMU's `-device vfio-user-pci`.

use std::error::Error;
use std::fs::File;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use trireme_ravb_model::{Faults, Ravb, Variant};
use trireme_vfio::{Options, serve};
use trireme_wire::{Capture, Impaired, Impairment, PcapWriter, Wire};

const USAGE: &str = "\
usage: ravb-model --socket PATH --tap NAME | --connect PATH | --listen PATH [options]
  --chip NAME              gen2, gen3 (default) or gbeth
  --mac ADDRESS            as a boot loader leaves it (default 2e:09:0a:00:00:01)
  --phy ADDRESS            of the PHY on its MDIO (default 0)
  --fault LIST             of the card, e.g. rx-crc=100,dts-never,link-flap=2000
  --wire-fault LIST        of what it sends, e.g. loss=1,corruption=0.1,reorder=1,hold=5
  --pcap FILE              captures both directions
  --seed N                 for all randomness (default 1)
  --once                   ends when QEMU does";

struct Arguments {
    socket: PathBuf,
    wire: Box<dyn FnOnce() -> std::io::Result<Wire>>,
    chip: Variant,
    mac: [u8; 6],
    phy: u8,
    faults: Faults,
    wire_faults: trireme_wire::Faults,
    pcap: Option<PathBuf>,
    seed: u64,
    once: bool,
}

fn parse_mac(text: &str) -> Result<[u8; 6], String> {
    let mut mac = [0; 6];
    let mut bytes = text.split(':').map(|byte| u8::from_str_radix(byte, 16));
    for to in &mut mac {
        *to = bytes.next().and_then(Result::ok).ok_or(format!("no MAC address: {text}"))?;
    }
    if bytes.next().is_some() { Err(format!("no MAC address: {text}")) } else { Ok(mac) }
}

fn arguments() -> Result<Arguments, lexopt::Error> {
    use lexopt::prelude::*;
    let mut parser = lexopt::Parser::from_env();
    let mut socket = None;
    let mut wire: Option<Box<dyn FnOnce() -> std::io::Result<Wire>>> = None;
    let mut rest = Arguments {
        socket: PathBuf::new(),
        wire: Box::new(|| Err(std::io::ErrorKind::NotFound.into())),
        chip: Variant::Gen3,
        mac: [0x2e, 0x09, 0x0a, 0, 0, 1],
        phy: 0,
        faults: Faults::default(),
        wire_faults: trireme_wire::Faults::default(),
        pcap: None,
        seed: 1,
        once: false,
    };
    while let Some(argument) = parser.next()? {
        match argument {
            Long("socket") => socket = Some(parser.value()?.into()),
            Long("tap") => {
                let name = parser.value()?.string()?;
                wire = Some(Box::new(move || trireme_wire::tap(&name)));
            }
            Long("connect") => {
                let path: PathBuf = parser.value()?.into();
                wire = Some(Box::new(move || trireme_wire::connect(&path)));
            }
            Long("listen") => {
                let path: PathBuf = parser.value()?.into();
                wire = Some(Box::new(move || trireme_wire::listen(&path)));
            }
            Long("chip") => rest.chip = parser.value()?.parse()?,
            Long("mac") => rest.mac = parser.value()?.parse_with(parse_mac)?,
            Long("phy") => rest.phy = parser.value()?.parse()?,
            Long("fault") => rest.faults = parser.value()?.parse()?,
            Long("wire-fault") => rest.wire_faults = parser.value()?.parse()?,
            Long("pcap") => rest.pcap = Some(parser.value()?.into()),
            Long("seed") => rest.seed = parser.value()?.parse()?,
            Long("once") => rest.once = true,
            Long("help") | Short('h') => {
                println!("{USAGE}");
                std::process::exit(0);
            }
            _ => return Err(argument.unexpected()),
        }
    }
    rest.socket = socket.ok_or("--socket is missing")?;
    rest.wire = wire.ok_or("--tap, --connect or --listen is missing")?;
    Ok(rest)
}

fn run(arguments: Arguments) -> Result<(), Box<dyn Error>> {
    let Wire { mut sink, mut source } = (arguments.wire)()?;
    if let Some(path) = arguments.pcap {
        let file = Arc::new(Mutex::new(PcapWriter::new(File::create(path)?)?));
        sink = Box::new(Capture::new(sink, file.clone()));
        source = Box::new(Capture::new(source, file));
    }
    if arguments.wire_faults != trireme_wire::Faults::default() {
        let impairment = Impairment::new(arguments.wire_faults, arguments.seed);
        sink = Box::new(Impaired::new(sink, impairment));
    }
    let Arguments { chip, mac, phy, faults, seed, .. } = arguments;
    let ravb = Ravb::with_phy(chip, mac, phy, faults, seed);
    let options = Options { socket: arguments.socket, once: arguments.once };
    serve(&options, ravb, Wire { sink, source }, |ravb| {
        log::info!("{:?}", ravb.counters());
    })?;
    Ok(())
}

fn main() {
    env_logger::init();
    let arguments = arguments().unwrap_or_else(|error| {
        eprintln!("ravb-model: {error}\n{USAGE}");
        std::process::exit(2);
    });
    if let Err(error) = run(arguments) {
        eprintln!("ravb-model: {error}");
        std::process::exit(1);
    }
}
