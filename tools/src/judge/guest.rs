//! One run: namespace, peer, model, QEMU, and what the guest said.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use nix::sched::{CloneFlags, unshare};

use super::{Card, Case, peer};
use crate::net::{HOST_V4, HOST_V6};
use crate::workspace::{cache, cargo, check, output, root, target_directory};
use crate::{setup, workspace};

const TAP: &str = "judge0";

/// How to judge.
#[derive(Clone, Debug)]
pub struct Options {
    /// MiB sent in each direction.
    pub megabytes: u64,
    /// Longest run of one guest.
    pub limit: Duration,
    /// Pass the guest's console on.
    pub verbose: bool,
    /// Where to capture the model's frames.
    pub pcap: Option<PathBuf>,
    /// More for QEMU's trace or the model's log: `RUST_LOG` of the model.
    pub log: Option<String>,
}

/// What a guest said.
#[derive(Clone, Debug, Default)]
pub struct Judgement {
    /// Names of tests passed.
    pub passed: Vec<String>,
    /// Names of tests failed.
    pub failed: Vec<String>,
    /// Everything else on lines of its own, e.g. how long transfers took.
    pub notes: Vec<String>,
    /// The guest came to its end.
    pub ended: bool,
}

impl Judgement {
    /// All passed, and the guest came to its end.
    pub fn is_good(&self) -> bool {
        self.ended && self.failed.is_empty() && !self.passed.is_empty()
    }

    /// Looks at the model's counters, which know what the guest cannot tell.
    fn compare(&mut self, case: &Case, counted: &str) {
        let moved =
            [case.moved].into_iter().filter(|name| !name.is_empty()).map(|name| (name, true));
        for (name, wanted) in moved.chain(case.unmoved.iter().map(|name| (*name, false))) {
            match counter(counted, name) {
                Some(value) if (value > 0) == wanted => self.passed.push(format!("model's {name}")),
                value => self.failed.push(format!("model's {name} is {value:?}")),
            }
        }
    }

    fn line(&mut self, line: &str) {
        let Some((_, said)) = line.split_once("JUDGE ") else { return };
        match said.trim().split_once(' ') {
            Some(("PASS", name)) => self.passed.push(name.to_owned()),
            Some(("FAIL", name)) => self.failed.push(name.to_owned()),
            None if said.trim() == "end" => self.ended = true,
            _ => self.notes.push(said.trim().to_owned()),
        }
    }
}

/// What a model counted under this name, over all its ports.
fn counter(counted: &str, name: &str) -> Option<u64> {
    let label = format!("{name}: ");
    let digits = |text: &str| text.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok();
    // A name can be the end of a longer one.
    let starts =
        |at: usize| at == 0 || !counted[..at].ends_with(|c: char| c == '_' || c.is_alphanumeric());
    let found = counted.match_indices(&label).filter(|(at, _)| starts(*at));
    let numbers: Option<Vec<u64>> =
        found.map(|(at, _)| digits(&counted[at + label.len()..])).collect();
    numbers.filter(|numbers| !numbers.is_empty()).map(|numbers| numbers.iter().sum())
}

/// A child that does not outlive us.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The folder with kernel and initial RAM disk, built from Debian's packages when it is not there or the scripts are newer.
fn images(card: Card) -> Result<PathBuf> {
    let folder = cache()?.join("judge").join(card.name());
    fs::create_dir_all(&folder)?;
    let lock = fs::File::create(folder.join("lock"))?;
    lock.lock()?;
    let scripts: &[&str] = match card {
        Card::Rhine => &["build.sh", "init"],
        Card::Gemini => &["build-gemini.sh", "init", "common.sh"],
        Card::Ravb => &["build-ravb.sh", "init", "common.sh", "fanout.c"],
    };
    let scripts: Vec<PathBuf> =
        scripts.iter().map(|name| root().join("tools/judge").join(name)).collect();
    let built = folder.join("initrd.gz").metadata().and_then(|m| m.modified()).ok();
    let newest = scripts.iter().filter_map(|s| s.metadata().and_then(|m| m.modified()).ok()).max();
    if built.is_none() || built < newest {
        eprintln!("building the judge's guest from Debian's packages ...");
        let mut command = Command::new("bash");
        command.arg(&scripts[0]).arg(&folder);
        match card {
            Card::Rhine => {}
            Card::Gemini => drop(command.arg(setup::qemu::emulator("arm")?)),
            Card::Ravb => drop(command.arg(setup::qemu::emulator("aarch64")?)),
        }
        workspace::output(&mut command)?;
    }
    Ok(folder)
}

/// Builds every guest that is not there or older than its scripts.
pub fn prepare() -> Result<()> {
    Card::ALL.into_iter().try_for_each(|card| images(card).map(drop))
}

/// The model's program, built.
fn model(card: Card) -> Result<PathBuf> {
    let package = format!("trireme-{}-model", card.name());
    check(cargo().args(["build", "--quiet", "--release", "-p", &package]))?;
    Ok(target_directory().join("release").join(format!("{}-model", card.name())))
}

/// Runs one case in a network namespace of its own; this thread is left in it.
pub fn judge(case: &Case, options: &Options) -> Result<Judgement> {
    let (images, model) = (images(case.card)?, model(case.card)?);
    unshare(CloneFlags::CLONE_NEWNET).context("a network namespace needs root")?;
    for words in [
        "link set lo up".to_owned(),
        format!("tuntap add dev {TAP} mode tap"),
        format!("addr add {HOST_V4}/24 dev {TAP}"),
        format!("addr add {HOST_V6}/64 dev {TAP} nodad"),
        format!("link set {TAP} mtu {} up", case.peer_mtu()),
    ] {
        output(Command::new("ip").args(words.split_whitespace()))?;
    }
    peer::serve(options.megabytes << 20)?;

    let folder = std::env::temp_dir().join(format!("trireme-judge-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let socket = folder.join("model.sock");
    let _ = fs::remove_file(&socket);
    let result = run(case, options, &images, &model, &socket);
    let _ = fs::remove_dir_all(&folder);
    result
}

fn run(
    case: &Case,
    options: &Options,
    images: &Path,
    model: &Path,
    socket: &Path,
) -> Result<Judgement> {
    let mut command = Command::new(model);
    command.arg("--socket").arg(socket).args(["--tap", TAP, "--chip", case.chip, "--once"]);
    command.args(["--fault", case.fault, "--wire-fault", case.wire_fault]);
    if case.chip == "gbeth" {
        // As on the SMARC boards, and in the guest's device tree.
        command.args(["--phy", "7"]);
    }
    if let Some(pcap) = &options.pcap {
        command.arg("--pcap").arg(pcap);
    }
    // At its end the model says what it counted.
    command.env("RUST_LOG", options.log.as_deref().unwrap_or("info")).stderr(Stdio::piped());
    let mut model = Killed(command.spawn().context("cannot start the model")?);
    let errors = model.0.stderr.take().context("the model has no standard error")?;
    let aloud = options.verbose || options.log.is_some();
    let counted = thread::spawn(move || {
        let mut counted = String::new();
        for line in BufReader::new(errors).lines().map_while(Result::ok) {
            if aloud {
                eprintln!("{line}");
            }
            if line.contains("Counters {") {
                counted = line;
            }
        }
        counted
    });
    let start = Instant::now();
    while !socket.exists() {
        ensure!(model.0.try_wait()?.is_none(), "the model ended at once");
        ensure!(start.elapsed() < Duration::from_secs(5), "the model made no socket");
        thread::sleep(Duration::from_millis(10));
    }
    let mut qemu = Killed(qemu(case, options, images, socket)?.spawn()?);
    let console = qemu.0.stdout.take().context("QEMU has no console")?;
    let (lines, console_lines) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(console).split(b'\n').map_while(Result::ok) {
            if lines.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                break;
            }
        }
    });
    let mut judgement = Judgement::default();
    let deadline = start + options.limit;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match console_lines.recv_timeout(left) {
            Ok(line) => {
                if options.verbose {
                    println!("{}", line.trim_end());
                }
                judgement.line(&line);
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                judgement.notes.push(format!("not done after {} s", options.limit.as_secs()));
                break;
            }
        }
    }
    drop(qemu);
    // `--once`: the model ends with QEMU. One that panicked must not pass.
    let patience = Instant::now() + Duration::from_secs(3);
    let status = loop {
        match model.0.try_wait()? {
            Some(status) => break status,
            None if Instant::now() > patience => bail!("the model did not end with QEMU"),
            None => thread::sleep(Duration::from_millis(20)),
        }
    };
    ensure!(status.success(), "the model failed: {status}");
    let counted = counted.join().map_err(|_| anyhow!("the model's log could not be read"))?;
    judgement.compare(case, &counted);
    Ok(judgement)
}

fn qemu(case: &Case, options: &Options, images: &Path, socket: &Path) -> Result<Command> {
    let (console, memory) = match case.card {
        Card::Rhine => ("ttyS0", 384),
        Card::Gemini | Card::Ravb => ("ttyAMA0 noirqdebug", 256),
    };
    let mut append = format!("console={console} quiet panic=-1 judge.mb={}", options.megabytes);
    if !case.tests.is_empty() {
        append.push_str(&format!(" judge.tests={}", case.tests));
    }
    if !case.is_healthy() {
        append.push_str(" judge.errors=1");
    }
    let mut device = serde_json::json!({
        "driver": "vfio-user-pci",
        "socket": { "type": "unix", "path": socket },
    });
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "TERM", "--"]);
    match case.card {
        Card::Rhine => {
            command.arg(setup::qemu::emulator("x86_64")?);
            command.args(["-machine", "pc,memory-backend=ram", "-cpu", "qemu64"]);
        }
        Card::Gemini => {
            command.arg(setup::qemu::emulator("arm")?);
            // Debian's armmp kernel reaches nothing above 4 GiB; the device tree names slot 1.
            command.args(["-machine", "virt,gic-version=2,highmem=off,memory-backend=ram"]);
            command.args(["-cpu", "cortex-a15"]).arg("-dtb").arg(images.join("dtb"));
            device["addr"] = "1".into();
        }
        Card::Ravb => {
            command.arg(setup::qemu::emulator("aarch64")?);
            command.args(["-machine", "virt,gic-version=2,memory-backend=ram"]);
            let tree = images.join(case.chip).with_extension("dtb");
            command.args(["-cpu", "cortex-a57"]).arg("-dtb").arg(tree);
            device["addr"] = "1".into();
        }
    }
    let memory_object = format!("memory-backend-memfd,id=ram,size={memory}M,share=on");
    command.args(["-accel", "tcg", "-m", &memory.to_string(), "-nodefaults"]);
    command.args(["-display", "none", "-serial", "stdio", "-no-reboot"]);
    command.args(["-object", &memory_object]);
    command.arg("-kernel").arg(images.join("vmlinuz"));
    command.arg("-initrd").arg(images.join("initrd.gz"));
    command.args(["-append", &append, "-device", &device.to_string()]);
    let errors = if options.verbose { Stdio::inherit() } else { Stdio::null() };
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors);
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_that_stops_halfway_is_not_good() {
        let mut judgement = Judgement::default();
        judgement.line("JUDGE PASS probe\r");
        judgement.line("[ 1.0] something else");
        assert!(!judgement.is_good());
        judgement.line("JUDGE receive: 50 MiB in 9.1 s");
        judgement.line("JUDGE end\r");
        assert!(judgement.is_good());
        assert_eq!(judgement.notes, ["receive: 50 MiB in 9.1 s"]);
        judgement.line("JUDGE FAIL ping sizes");
        assert!(!judgement.is_good());
        assert_eq!(judgement.failed, ["ping sizes"]);
    }

    #[test]
    fn counters_of_all_ports_count_and_missing_ones_fail() {
        let counted = "[INFO] Counters { port: [P { tx_frames: 5, rx: 0 }, P { tx_frames: 7, rx: 0 }], x_tx_frames: 9 }";
        assert_eq!(counter(counted, "tx_frames"), Some(12));
        assert_eq!(counter(counted, "rx"), Some(0));
        assert_eq!(counter(counted, "frames"), None);
        let case = Case { moved: "tx_frames", unmoved: &["rx"], ..super::super::GEMINI_CASES[0] };
        let mut judgement = Judgement::default();
        judgement.compare(&case, counted);
        assert_eq!((judgement.passed.len(), judgement.failed.len()), (2, 0));
        judgement.compare(&case, "");
        assert_eq!(judgement.failed.len(), 2);
        judgement.compare(&Case { moved: "rx", ..case }, counted);
        assert_eq!(judgement.failed.len(), 3);
    }

    #[test]
    fn an_empty_guest_is_not_good() {
        assert!(!Judgement { ended: true, ..Judgement::default() }.is_good());
    }
}
