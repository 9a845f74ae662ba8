//! One run: namespace, peer, model, QEMU, and what the guest said.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use nix::sched::{CloneFlags, unshare};

use super::{Case, peer};
use crate::arch::Arch;
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

/// A child that does not outlive us.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The folder with kernel and initial RAM disk, built from Debian's packages when it is not there or the scripts are newer.
fn images() -> Result<PathBuf> {
    let folder = cache()?.join("judge/rhine");
    fs::create_dir_all(&folder)?;
    let lock = fs::File::create(folder.join("lock"))?;
    lock.lock()?;
    let scripts = ["build.sh", "init"].map(|name| root().join("tools/judge").join(name));
    let built = folder.join("initrd.gz").metadata().and_then(|m| m.modified()).ok();
    let newest = scripts.iter().filter_map(|s| s.metadata().and_then(|m| m.modified()).ok()).max();
    if built.is_none() || built < newest {
        eprintln!("building the judge's guest from Debian's packages ...");
        workspace::output(Command::new("bash").arg(&scripts[0]).arg(&folder))?;
    }
    Ok(folder)
}

/// The model's program, built.
fn model() -> Result<PathBuf> {
    check(cargo().args(["build", "--quiet", "--release", "-p", "trireme-rhine-model"]))?;
    Ok(target_directory().join("release/rhine-model"))
}

/// Runs one case in a network namespace of its own; this thread is left in it.
pub fn judge(case: &Case, options: &Options) -> Result<Judgement> {
    let (images, model) = (images()?, model()?);
    unshare(CloneFlags::CLONE_NEWNET).context("a network namespace needs root")?;
    for words in [
        "link set lo up".to_owned(),
        format!("tuntap add dev {TAP} mode tap"),
        format!("addr add {HOST_V4}/24 dev {TAP}"),
        format!("addr add {HOST_V6}/64 dev {TAP} nodad"),
        format!("link set {TAP} up"),
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
    if let Some(pcap) = &options.pcap {
        command.arg("--pcap").arg(pcap);
    }
    if let Some(log) = &options.log {
        command.env("RUST_LOG", log);
    }
    if !options.verbose && options.log.is_none() {
        command.stderr(Stdio::null());
    }
    let mut model = Killed(command.spawn().context("cannot start the model")?);
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
    Ok(judgement)
}

fn qemu(case: &Case, options: &Options, images: &Path, socket: &Path) -> Result<Command> {
    let mut append = format!("console=ttyS0 quiet panic=-1 judge.mb={}", options.megabytes);
    if !case.tests.is_empty() {
        append.push_str(&format!(" judge.tests={}", case.tests));
    }
    if !case.is_healthy() {
        append.push_str(" judge.errors=1");
    }
    let device = serde_json::json!({
        "driver": "vfio-user-pci",
        "socket": { "type": "unix", "path": socket },
    });
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "TERM", "--"]).arg(setup::qemu::program(Arch::X86_64)?);
    command.args(["-accel", "tcg", "-machine", "pc,memory-backend=ram", "-cpu", "qemu64"]);
    command.args(["-m", "384", "-nodefaults", "-display", "none", "-serial", "stdio"]);
    command.args(["-object", "memory-backend-memfd,id=ram,size=384M,share=on", "-no-reboot"]);
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
    fn an_empty_guest_is_not_good() {
        assert!(!Judgement { ended: true, ..Judgement::default() }.is_good());
    }
}
