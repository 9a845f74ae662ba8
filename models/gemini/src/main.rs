//! `gemini-model`: the Ethernet block of a Gemini for QEMU's `-device vfio-user-pci`.

use std::error::Error;
use std::fs::File;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use trireme_gemini_model::{Board, BoardKind, Faults, Gemini};
use trireme_vfio::{Options, serve};
use trireme_wire::{Capture, Impaired, Impairment, PcapWriter, Wire};

const USAGE: &str = "\
usage: gemini-model --socket PATH WIRE [WIRE...] [options]
  --tap NAME | --connect PATH | --listen PATH
                           a wire, as often as the board has them: port 0 and port 1, or the
                           switch's sockets; those left out have no cable
  --chip BOARD             fixed (default: two ports, fixed links), dns313, wbd222 or dir685
  --mac ADDRESS            port 0's station address as the boot loader leaves it (default
                           00:50:c2:00:00:10); port 1's differs in the last bit
  --fault LIST             of the card, e.g. tx-hang=1000,paced,link-flap=2000
  --wire-fault LIST        of what it sends, e.g. loss=1,corruption=0.1,reorder=1,hold=5
  --pcap FILE              captures both directions of the first wire
  --seed N                 for all randomness (default 1)
  --once                   ends when QEMU does";

type OpenWire = Box<dyn FnOnce() -> std::io::Result<Wire>>;

struct Arguments {
    socket: PathBuf,
    wires: Vec<OpenWire>,
    board: BoardKind,
    mac: [u8; 6],
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
    let mut rest = Arguments {
        socket: PathBuf::new(),
        wires: Vec::new(),
        board: BoardKind::Fixed,
        mac: [0x00, 0x50, 0xc2, 0, 0, 0x10],
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
                rest.wires.push(Box::new(move || trireme_wire::tap(&name)));
            }
            Long("connect") => {
                let path: PathBuf = parser.value()?.into();
                rest.wires.push(Box::new(move || trireme_wire::connect(&path)));
            }
            Long("listen") => {
                let path: PathBuf = parser.value()?.into();
                rest.wires.push(Box::new(move || trireme_wire::listen(&path)));
            }
            Long("chip") => rest.board = parser.value()?.parse()?,
            Long("mac") => rest.mac = parser.value()?.parse_with(parse_mac)?,
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
    if rest.wires.is_empty() {
        return Err("--tap, --connect or --listen is missing".into());
    }
    Ok(rest)
}

fn run(arguments: Arguments) -> Result<(), Box<dyn Error>> {
    let mut board = Board::new(arguments.board);
    if arguments.wires.len() > board.wires() {
        return Err(format!("the board has {} wires", board.wires()).into());
    }
    let mut capture = match arguments.pcap {
        Some(path) => Some(Arc::new(Mutex::new(PcapWriter::new(File::create(path)?)?))),
        None => None,
    };
    let mut wires = Vec::new();
    for (number, open) in arguments.wires.into_iter().enumerate() {
        let Wire { mut sink, mut source } = open()?;
        if let Some(file) = capture.take() {
            sink = Box::new(Capture::new(sink, file.clone()));
            source = Box::new(Capture::new(source, file));
        }
        if arguments.wire_faults != trireme_wire::Faults::default() {
            let seed = arguments.seed.wrapping_add(number as u64);
            let impairment = Impairment::new(arguments.wire_faults, seed);
            sink = Box::new(Impaired::new(sink, impairment));
        }
        wires.push(Wire { sink, source });
    }
    for unplugged in wires.len()..board.wires() {
        board.set_cable(unplugged, false);
    }
    let gemini = Gemini::new(board, arguments.mac, arguments.faults, arguments.seed);
    let options = Options { socket: arguments.socket, once: arguments.once };
    serve(&options, gemini, wires, |gemini| {
        log::info!("{:?}", gemini.counters());
    })?;
    Ok(())
}

fn main() {
    env_logger::init();
    let arguments = arguments().unwrap_or_else(|error| {
        eprintln!("gemini-model: {error}\n{USAGE}");
        std::process::exit(2);
    });
    if let Err(error) = run(arguments) {
        eprintln!("gemini-model: {error}");
        std::process::exit(1);
    }
}
