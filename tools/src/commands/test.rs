//! `run.sh test`: every check, cheapest first. CI runs this and nothing else.

use std::process::{Command, ExitCode};
use std::time::Instant;

use anyhow::{Result, bail};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use trireme_tools::app::{App, THIRD_PARTY};
use trireme_tools::arch::Arch;
use trireme_tools::image::{self, PREBUILT};
use trireme_tools::judge;
use trireme_tools::setup::{self, Need};
use trireme_tools::workspace::{cargo, root, shown};

#[derive(Args)]
pub(crate) struct Arguments {
    /// Run only the tests whose names contain this; leaves out the checks of form
    filter: Option<String>,
    /// Leave out the tests that boot images
    #[arg(long)]
    host_only: bool,
    /// Only the rings and DMA buffers of the drivers, under Miri; needs the nightly toolchain with its component miri
    #[arg(long, conflicts_with_all = ["filter", "host_only"])]
    miri: bool,
}

pub(crate) fn run(arguments: Arguments) -> Result<ExitCode> {
    if arguments.miri {
        return miri();
    }
    setup::ensure(&[Need::Image, Need::Board, Need::Grub, Need::Tests])?;
    if !arguments.host_only {
        setup::ensure(&[Need::Qemu, Need::Tap, Need::Judge])?;
    }
    if arguments.filter.is_none() {
        form()?;
    }
    let mut tests = cargo();
    tests.args(["nextest", "run", "--workspace", "--no-fail-fast"]);
    if arguments.host_only {
        tests.args(["--exclude", "trireme-tests"]);
    }
    tests.args(&arguments.filter);
    if !arguments.host_only {
        // Fetching what Linux guests are made of must not count as a test's time.
        judge::prepare()?;
        images()?;
        tests.env(PREBUILT, "1");
    }
    stage("tests", &mut tests)?;
    Ok(ExitCode::SUCCESS)
}

/// The tests under Miri: what holds `unsafe` code or keeps buffers for a device, as far as an interpreter gets through it
/// in minutes.
const UNDER_MIRI: &str = "test(ring::) | test(scribbled_over) | test(dma::) | test(a_full_transmit_ring) | test(arm_reports) | \
                          test(a_tagged_frame_that_failed)";

fn miri() -> Result<ExitCode> {
    let mut cargo = Command::new("cargo");
    cargo.current_dir(root()).env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO");
    // The two memories reach coherent memory by an address, and DMA memory is never freed.
    cargo.env("MIRIFLAGS", "-Zmiri-permissive-provenance -Zmiri-ignore-leaks");
    cargo.args(["+nightly", "miri", "nextest", "run", "--target-dir", "target/miri"]);
    for package in
        ["trireme-nic", "trireme-rhine", "trireme-ravb", "trireme-gemini", "trireme-virtio-net"]
    {
        cargo.args(["-p", package]);
    }
    stage("Miri", cargo.args(["-E", UNDER_MIRI])).inspect_err(|_| {
        eprintln!(
            "where Miri is missing: rustup toolchain install nightly --component miri,rust-src"
        );
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Format, lints, documentation and the examples in it.
fn form() -> Result<()> {
    stage("format", cargo().args(["fmt", "--all", "--check"]))?;
    let deny = ["--", "-D", "warnings"];
    stage("lints", cargo().args(["clippy", "--workspace", "--all-targets"]).args(deny))?;
    for arch in Arch::ALL {
        let mut clippy = cargo();
        clippy.args(["clippy", "-Zbuild-std=std,panic_abort"]);
        clippy.args(arch.target_arguments(&root()));
        clippy.env("RUSTC_BOOTSTRAP", "1");
        stage(
            &format!("lints on {}", arch.target()),
            clippy.args(["-p", "httpd", "-p", "echo", "-p", "trireme"]).args(deny),
        )?;
    }
    // An image with as little as can be chosen.
    let mut clippy = cargo();
    clippy.args(["clippy", "-Zbuild-std=std,panic_abort", "--no-default-features"]);
    clippy.args(Arch::Aarch64.target_arguments(&root()));
    clippy.env("RUSTC_BOOTSTRAP", "1");
    stage("lints without features", clippy.args(["-p", "httpd"]).args(deny))?;
    let documentation = |what: &str, arguments: &[&str]| {
        let mut doc = cargo();
        doc.env("RUSTDOCFLAGS", "-D warnings").env("RUSTC_BOOTSTRAP", "1");
        stage(what, doc.args(["doc", "--no-deps", "--document-private-items"]).args(arguments))
    };
    documentation("documentation", &["--workspace", "--exclude", "trireme"])?;
    // Most of the kernel is there on its own targets only.
    let target = Arch::X86_64.target();
    documentation(
        "documentation of the kernel",
        &["-p", "trireme", "-Zbuild-std=std,panic_abort", "--target", target],
    )?;
    stage("documentation tests", cargo().args(["test", "--workspace", "--doc", "--quiet"]))
}

/// The programs that tests boot on ARMv4; on the other architectures it is all of them.
const ON_ARMV4: [&str; 6] = ["copies", "echo", "faults", "httpd", "iperf3", "threads"];

/// Builds every image and the same programs for this machine, so that no test has to.
fn images() -> Result<()> {
    let mut apps = App::all()?;
    apps.push(App::from_registry(None, THIRD_PARTY)?);
    // The kernel is compiled anew whenever the packed files change: first those that have none.
    apps.sort_by_key(|app| app.files.is_some());
    let bar = ProgressBar::new((apps.len() * Arch::ALL.len()) as u64);
    bar.set_style(ProgressStyle::with_template("images [{bar:30}] {pos}/{len} {msg}")?);
    let wanted = |app: &App, arch| arch != Arch::Armv4 || ON_ARMV4.contains(&app.binary.as_str());
    for arch in Arch::ALL {
        let together = |app: &&App| {
            app.package == "trireme-test-programs" && app.files.is_none() && wanted(app, arch)
        };
        let programs: Vec<&App> = apps.iter().filter(together).collect();
        bar.suspend(|| image::compile(&programs, arch))?;
        for app in &apps {
            if !wanted(app, arch) {
                bar.inc(1);
                continue;
            }
            let what = format!("{} for {}", app.binary, arch.name());
            bar.set_message(what.clone());
            if bar.is_hidden() {
                eprintln!("== image: {what}");
            }
            bar.suspend(|| image::build(app, arch, None))?;
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    let programs = ["build", "--quiet", "--package", "trireme-test-programs"];
    stage("test programs for this machine", cargo().args(programs))
}

/// Runs one stage, saying which and how long it took.
fn stage(name: &str, command: &mut Command) -> Result<()> {
    eprintln!("== {name}: {}", shown(command));
    let start = Instant::now();
    let status = command.current_dir(root()).status()?;
    if !status.success() {
        bail!("{name} failed: {status}");
    }
    eprintln!("== {name}: passed in {:.0} s", start.elapsed().as_secs_f32());
    Ok(())
}
