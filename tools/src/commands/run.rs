//! `run.sh run`: build an application, boot it in QEMU, show its console.

use std::io;
use std::path::PathBuf;
use std::process::{Child, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use trireme_tools::app::{App, Features};
use trireme_tools::arch::Arch;
use trireme_tools::net::{Forward, GUEST_V4, HOST_V4, Tap};
use trireme_tools::qemu::{Machine, Network, Nic};
use trireme_tools::setup::{self, Need};
use trireme_tools::symbols::Symbols;
use trireme_tools::{console, image};

/// Exit status of a program ended by SIGINT, as shells report it.
const INTERRUPTED: u8 = 130;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Net {
    /// QEMU's user networking: no privileges needed; ports are forwarded from 127.0.0.1
    User,
    /// A TAP device made for the run: a network of its own with IPv4 and IPv6 (needs root)
    Tap,
}

#[derive(Args)]
pub(crate) struct Arguments {
    /// The application: a package or binary of this repository, or of the one named by --manifest-path
    app: Option<String>,
    /// The architecture
    #[arg(long, default_value = "x86_64")]
    arch: Arch,
    /// QEMU's machine type and its options: q35, pc, microvm; virt, virt,gic-version=3, …; versatilepb
    #[arg(long, value_name = "TYPE")]
    machine: Option<String>,
    /// QEMU's processor model instead of the architecture's usual one
    #[arg(long, value_name = "MODEL")]
    cpu: Option<String>,
    /// The network card: virtio, virtio-mmio, none, or a model of ours: rhine[:CHIP],
    /// ravb[:gen2|:gen3], gbeth, gemini[:BOARD]
    #[arg(long, default_value = "virtio")]
    nic: Nic,
    /// What the card is connected to
    #[arg(long, default_value = "user")]
    net: Net,
    /// With --net user: forward a port of 127.0.0.1 to the guest, `udp:` in front for UDP; replaces the
    /// application's own list
    #[arg(long, value_name = "HOST:GUEST")]
    forward: Vec<Forward>,
    /// More boot arguments
    #[arg(long, value_name = "ARGS", default_value = "", allow_hyphen_values = true)]
    append: String,
    /// RAM
    #[arg(long, value_name = "MIB", default_value_t = 128)]
    memory: u32,
    /// Record every frame the card sends or receives
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
    /// An application outside this repository: its folder or Cargo.toml
    #[arg(long, value_name = "PATH")]
    manifest_path: Option<PathBuf>,
    /// An application from crates.io, as it is; it need not know of Trireme
    #[arg(long = "crate", value_name = "NAME[@VERSION]", conflicts_with = "manifest_path")]
    from_registry: Option<String>,
    #[command(flatten)]
    features: Features,
    /// A folder to pack into the image instead of the application's own
    #[arg(long, value_name = "DIR")]
    files: Option<PathBuf>,
    /// Arguments for the application itself
    #[arg(last = true, value_name = "APP ARGS")]
    arguments: Vec<String>,
}

impl Arguments {
    /// What `run APP` without options means.
    pub(crate) fn of(app: &str) -> Arguments {
        #[derive(clap::Parser)]
        struct Parser {
            #[command(flatten)]
            arguments: Arguments,
        }
        <Parser as clap::Parser>::parse_from(["run", app]).arguments
    }
}

pub(crate) fn run(arguments: Arguments) -> Result<ExitCode> {
    setup::ensure(&[Need::Image, Need::Qemu])?;
    if arguments.net == Net::Tap {
        setup::ensure(&[Need::Tap])?;
    }
    let mut app = match &arguments.from_registry {
        Some(package) => App::from_registry(arguments.app.as_deref(), package)?,
        None => App::find(arguments.app.as_deref(), arguments.manifest_path.as_deref())?,
    };
    app.features = arguments.features.clone();
    let image = image::build(&app, arguments.arch, arguments.files.as_deref())?;
    let mut machine = Machine::new(arguments.arch, &image.boot);
    machine.machine = arguments.machine.clone();
    if let Some(cpu) = &arguments.cpu {
        machine.cpu.clone_from(cpu);
    }
    machine.memory = arguments.memory;
    machine.nic = arguments.nic.clone();
    machine.pcap = arguments.pcap.clone();
    machine.append = arguments.append.clone();

    // Removed when this function ends, whichever way.
    let mut _tap = None;
    let host;
    let reached: Vec<Forward>;
    match arguments.net {
        Net::User => {
            reached = forwards(&arguments, &app)?;
            machine.network = Network::User(reached.clone());
            host = "127.0.0.1";
        }
        Net::Tap => {
            let tap = Tap::create(&format!("trireme{}", std::process::id() % 10_000))?;
            machine.network = Network::Tap(tap.name().to_owned());
            if !machine.append.contains("ip=") {
                let address = format!("ip={GUEST_V4}::{HOST_V4}:255.255.255.0::eth0:off");
                machine.append = format!("{address} {}", machine.append);
            }
            _tap = Some(tap);
            reached = app.forwards.iter().map(|f| Forward { host: f.guest, ..*f }).collect();
            host = GUEST_V4;
        }
    }
    if !arguments.arguments.is_empty() {
        machine.append = format!("{} -- {}", machine.append, quoted(&arguments.arguments)?);
    }
    if machine.nic != Nic::None {
        announce(&app, host, &reached);
    }
    let symbols = Symbols::load(&image.elf).ok();
    let mut command = machine.command()?;
    let child = command.stdout(Stdio::piped()).spawn().context("cannot start QEMU")?;
    attend(child, symbols.as_ref(), arguments.arch)
}

/// The forwards asked for, which must be free, or the application's own, moved where a port is taken.
fn forwards(arguments: &Arguments, app: &App) -> Result<Vec<Forward>> {
    if arguments.forward.is_empty() {
        return app.forwards.iter().map(|f| f.moved_to_free_port()).collect();
    }
    match arguments.forward.iter().find(|f| !f.is_free()) {
        Some(taken) => bail!("{} port {} of this machine is taken", taken.protocol, taken.host),
        None => Ok(arguments.forward.clone()),
    }
}

/// Says where the guest's services can be reached.
fn announce(app: &App, host: &str, reached: &[Forward]) {
    if let Some(open) = &app.open {
        let mut text = open.clone();
        for forward in reached {
            let address = match (forward.host, open.contains("http://")) {
                (80, true) => host.to_owned(),
                (port, _) => format!("{host}:{port}"),
            };
            text = text.replace(&format!("{{{}}}", forward.guest), &address);
        }
        if !text.contains('{') {
            eprintln!("{} will answer at {text}   (Ctrl-C ends it)", app.binary);
            return;
        }
    }
    for Forward { protocol, host: port, guest } in reached {
        eprintln!("{}: {protocol} port {guest} is {host}:{port}   (Ctrl-C ends it)", app.binary);
    }
}

/// Arguments as the boot command line takes them: words, with double quotes around those that have spaces.
fn quoted(arguments: &[String]) -> Result<String> {
    let mut words = Vec::new();
    for argument in arguments {
        if argument.contains('"') {
            bail!("an application's argument cannot hold a double quote: {argument}");
        }
        let plain = !argument.is_empty() && !argument.contains(char::is_whitespace);
        words.push(if plain { argument.clone() } else { format!("\"{argument}\"") });
    }
    Ok(words.join(" "))
}

/// Shows the console until QEMU ends; its guest's exit status becomes ours.
fn attend(mut child: Child, symbols: Option<&Symbols>, arch: Arch) -> Result<ExitCode> {
    let console = child.stdout.take().context("QEMU has no console")?;
    let interrupted = Arc::new(AtomicBool::new(false));
    let child = Arc::new(Mutex::new(child));
    {
        let (interrupted, child) = (interrupted.clone(), child.clone());
        ctrlc::set_handler(move || {
            interrupted.store(true, Ordering::SeqCst);
            // Not SIGKILL: QEMU has a terminal to restore. That it may have ended already is no error worth telling.
            let id = child.lock().expect("nobody panics with the lock held").id();
            let _ = kill(Pid::from_raw(id.cast_signed()), Signal::SIGTERM);
        })?;
    }
    console::copy(console, io::stdout().lock(), symbols).context("cannot show the console")?;
    let status = child.lock().expect("nobody panics with the lock held").wait()?;
    if interrupted.load(Ordering::SeqCst) {
        return Ok(ExitCode::from(INTERRUPTED));
    }
    match status.code() {
        Some(code) => Ok(ExitCode::from(u8::try_from(arch.guest_status(code)).unwrap_or(u8::MAX))),
        None => bail!("QEMU was ended: {status}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn application_arguments_keep_their_words() {
        let arguments = ["-v", "two words", ""].map(str::to_owned);
        assert_eq!(quoted(&arguments).unwrap(), "-v \"two words\" \"\"");
        assert!(quoted(&["a\"b".to_owned()]).is_err());
    }
}
