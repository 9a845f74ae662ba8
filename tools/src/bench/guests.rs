//! The guests that are measured, and how `measure.py` is asked to.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::Measurement;
use crate::app::App;
use crate::arch::Arch;
use crate::net::{GUEST_V4, HOST_V4};
use crate::qemu::{Machine, Network};
use crate::{archive, image, setup, workspace};

/// A guest, or another source of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guest {
    /// Our load program `peer`: TCP source and sink, UDP echo.
    Peer,
    /// The same with every kind of segmentation refused by the device.
    PeerWithoutSegmentation,
    /// Our web server.
    Httpd,
    /// Our web server with memory for very many connections.
    HttpdManyConnections,
    /// Our web server with less and less memory.
    HttpdLeastRam,
    /// Our web server's image file.
    ImageSize,
    /// Linux with nginx and a load program in C.
    Linux,
    /// The same without segmentation.
    LinuxWithoutSegmentation,
    /// The same with less and less memory.
    LinuxLeastRam,
    /// Its kernel.
    LinuxImageSize,
}

/// How to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// The architecture.
    pub arch: Arch,
    /// Measured runs per number, after one that is not.
    pub repeat: u32,
    /// Whether to find out where our instructions go.
    pub profile: bool,
}

/// The processor of an architecture that both guests get.
pub(super) fn cpu(arch: Arch) -> &'static str {
    match arch {
        Arch::X86_64 => "qemu64,+rdrand,+rdseed",
        Arch::Aarch64 => "cortex-a57",
        Arch::Armv4 => arch.default_cpu(),
    }
}

/// Device properties that refuse segmentation in both directions.
const SEGMENTATION: [&str; 11] = [
    "host_tso4=off",
    "host_tso6=off",
    "host_ecn=off",
    "host_ufo=off",
    "guest_tso4=off",
    "guest_tso6=off",
    "guest_ecn=off",
    "guest_ufo=off",
    "host_uso=off",
    "guest_uso4=off",
    "guest_uso6=off",
];

/// Measures the `keys` of a guest, and what every boot gives.
pub fn measure(guest: Guest, keys: &[&str], options: &Options) -> Result<Vec<Measurement>> {
    match guest {
        Guest::ImageSize => {
            size(&image::build(&App::find(Some("httpd"), None)?, options.arch, None)?.boot)
        }
        Guest::LinuxImageSize => size(&linux_guest(options.arch)?.join("vmlinuz")),
        Guest::Linux | Guest::LinuxWithoutSegmentation | Guest::LinuxLeastRam => {
            linux(guest, keys, options)
        }
        Guest::Peer
        | Guest::PeerWithoutSegmentation
        | Guest::Httpd
        | Guest::HttpdManyConnections
        | Guest::HttpdLeastRam => ours(guest, keys, options),
    }
}

fn size(file: &Path) -> Result<Vec<Measurement>> {
    let bytes = file.metadata().with_context(|| format!("{}", file.display()))?.len();
    Ok(vec![Measurement {
        metric: "image size".to_owned(),
        median: Some(bytes as f64),
        min: None,
        max: None,
        string_bytes: None,
        top: Vec::new(),
        error: None,
    }])
}

/// The folder of the Linux guest, built from Debian's packages when it is not there yet.
fn linux_guest(arch: Arch) -> Result<PathBuf> {
    let folder = workspace::cache()?.join("linux-guest");
    fs::create_dir_all(&folder)?;
    let lock = fs::File::create(folder.join("lock"))?;
    lock.lock()?;
    let guest = folder.join(arch.name());
    if !guest.join("initrd.gz").exists() {
        eprintln!("building the Linux guest for {} from Debian's packages ...", arch.name());
        let script = workspace::root().join("tools/bench/linux-guest/build.sh");
        let mut build = Command::new("bash");
        workspace::output(build.arg(script).arg(&folder).arg(arch.name()))?;
    }
    Ok(guest)
}

fn linux(guest: Guest, keys: &[&str], options: &Options) -> Result<Vec<Measurement>> {
    let mut command = measure_py();
    command.args([
        "linux",
        options.arch.name(),
        "--cpu",
        cpu(options.arch),
        "--extra=-icount shift=0",
    ]);
    command.arg("--program").arg(setup::qemu::program(options.arch)?);
    command.arg("--images").arg(linux_guest(options.arch)?);
    match guest {
        Guest::LinuxWithoutSegmentation => drop(command.args(["--offload", "csum"])),
        // What fails at 32 MiB is known; each failing boot takes the whole time-out.
        Guest::LinuxLeastRam => {
            command.args([
                "--least-ram",
                "--least-ram-from",
                "32",
                "--ram",
                "128",
                "--boot-timeout",
                "40",
            ]);
        }
        _ => {}
    }
    command.args(["--repeat", &options.repeat.to_string(), "--metrics", &keys.join(",")]);
    results(command)
}

fn ours(guest: Guest, keys: &[&str], options: &Options) -> Result<Vec<Measurement>> {
    let name = match guest {
        Guest::Peer | Guest::PeerWithoutSegmentation => "peer",
        _ => "httpd",
    };
    let image = image::build(&App::find(Some(name), None)?, options.arch, None)?;
    let mut machine = Machine::new(options.arch, &image.boot);
    machine.cpu = cpu(options.arch).to_owned();
    machine.network = Network::Tap("@TAP@".to_owned());
    machine.append = format!("ip={GUEST_V4}::{HOST_V4}:255.255.255.0:::off");
    machine.extra = vec!["-icount".into(), "shift=0".into()];
    if guest == Guest::PeerWithoutSegmentation {
        machine.nic_properties = SEGMENTATION.map(str::to_owned).to_vec();
    }
    if name == "httpd" {
        machine.initrd = Some(one_kibibyte()?);
    }
    let mut command = measure_py();
    command.arg("custom").args(["--repeat", &options.repeat.to_string()]);
    command.args(["--ports", if name == "peer" { "tx=5002,rx=5001,udp=7" } else { "http=80" }]);
    if name == "peer" {
        command.args(["--ready", "listening"]);
    }
    let mut ram = "64";
    if guest == Guest::HttpdManyConnections {
        ram = "512";
        machine.append.push_str(" -- --connections 12000 --idle-timeout 600");
    }
    command.args(["--metrics", &keys.join(","), "--boot-timeout", "20", "--ram", ram]);
    if guest == Guest::HttpdLeastRam {
        command.arg("--least-ram");
    } else if options.profile {
        command.arg("--elf").arg(&image.elf);
        command.arg(format!("--elf-offset={:#x}", load_offset(options.arch)));
    }
    command.arg("--").arg(setup::qemu::program(options.arch)?);
    let mut arguments = machine.arguments();
    if let Some(at) = arguments.iter().position(|a| a == "-m") {
        arguments[at + 1] = "@RAM@".into();
    }
    command.args(arguments);
    results(command)
}

/// Run address less link address: QEMU puts a position-independent `Image` 2 MiB into the RAM of `virt`.
pub(super) fn load_offset(arch: Arch) -> u64 {
    match arch {
        Arch::X86_64 | Arch::Armv4 => 0,
        Arch::Aarch64 => 0x4020_0000,
    }
}

/// An archive with the one file that is fetched.
fn one_kibibyte() -> Result<PathBuf> {
    let folder = workspace::target_directory().join("trireme/bench");
    fs::create_dir_all(folder.join("www"))?;
    fs::write(folder.join("www/1k"), [b'x'; 1024])?;
    let archive = folder.join("www.cpio");
    fs::write(&archive, archive::pack(&folder.join("www"))?)?;
    Ok(archive)
}

pub(super) fn measure_py() -> Command {
    let mut command = Command::new("python3");
    command.arg(workspace::root().join("tools/bench/measure.py"));
    command
}

/// Runs `measure.py`, whose lines are results; its errors pass through.
pub(super) fn results(mut command: Command) -> Result<Vec<Measurement>> {
    let output = command.stderr(Stdio::inherit()).output().context("cannot start python3")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let lines = text.lines().filter_map(|line| serde_json::from_str(line).ok());
    let measurements: Vec<Measurement> = lines.collect();
    if measurements.is_empty() {
        bail!("{} measured nothing: {}\n{text}", workspace::shown(&command), output.status);
    }
    Ok(measurements)
}
