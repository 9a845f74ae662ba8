//! `run.sh bench`.

use std::fs;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};
use clap::Args;
use trireme_tools::arch::Arch;
use trireme_tools::bench::{
    Guest, Measurement, Options, ROWS, Row, boards, gemini, measure, ravb, report, rhine, row,
    with_preamble, with_section,
};
use trireme_tools::setup::{self, Need};
use trireme_tools::workspace::{output, root};

/// A section of docs/measurements.md that is measured by itself.
struct Section {
    /// Its name on the command line.
    name: &'static str,
    needs: &'static [Need],
    /// Measures: runs per number, and when this is.
    write: fn(u32, &str) -> Result<String>,
}

const SECTIONS: [Section; 4] = [
    Section {
        name: "boards",
        needs: &[Need::Image, Need::Qemu, Need::Board, Need::Grub, Need::Bench],
        write: |_, when| boards(when),
    },
    Section { name: "rhine", needs: &[Need::Image, Need::Qemu, Need::Bench], write: rhine },
    Section { name: "ravb", needs: &[Need::Image, Need::Qemu, Need::Bench], write: ravb },
    Section { name: "gemini", needs: &[Need::Image, Need::Qemu, Need::Bench], write: gemini },
];

impl Section {
    /// Puts what it measures into docs/measurements.md.
    fn run(&self, repeat: u32) -> Result<()> {
        setup::ensure(self.needs)?;
        let section = (self.write)(repeat, &when()?)?;
        println!("\n{section}");
        rewrite(|document| with_section(document, &section))
    }
}

/// Changes docs/measurements.md.
fn rewrite(change: impl FnOnce(&str) -> String) -> Result<()> {
    let file = root().join("docs/measurements.md");
    let document = fs::read_to_string(&file).with_context(|| format!("{}", file.display()))?;
    fs::write(&file, change(&document))?;
    println!("written to {}", file.display());
    Ok(())
}

#[derive(Args)]
pub(crate) struct Arguments {
    /// One row: tx, tx-csum, rx, udp, http, http-idle, http-close, boot, idle, ram, size; or boards, rhine, ravb or gemini, the
    /// sections on board images and on cards; everything if left out. A section, and everything, go to docs/measurements.md too
    name: Option<String>,
    /// The architecture; every one if left out
    #[arg(long)]
    arch: Option<Arch>,
    /// Measured runs per number
    #[arg(long, default_value_t = 5)]
    repeat: u32,
    /// Measure our images only
    #[arg(long)]
    no_linux: bool,
    /// Do not look where the instructions of our images go (faster)
    #[arg(long)]
    no_profile: bool,
}

pub(crate) fn run(arguments: Arguments) -> Result<ExitCode> {
    if let Some(name) = &arguments.name
        && let Some(section) = SECTIONS.iter().find(|section| section.name == name)
    {
        section.run(arguments.repeat)?;
        return Ok(ExitCode::SUCCESS);
    }
    let rows: Vec<Row> = match &arguments.name {
        None => ROWS.to_vec(),
        Some(name) => match row(name) {
            Some(row) => vec![*row],
            None => {
                let sections = SECTIONS.map(|section| section.name).join(", ");
                bail!("no row {name}; there are: {}, {sections}", ROWS.map(|r| r.name).join(", "))
            }
        },
    };
    setup::ensure(&[Need::Image, Need::Qemu, Need::Bench])?;
    let mut tables = Vec::new();
    for arch in arguments.arch.map_or(Arch::BENCHED.to_vec(), |arch| vec![arch]) {
        let options = Options { arch, repeat: arguments.repeat, profile: !arguments.no_profile };
        let text = architecture(&rows, &options, !arguments.no_linux)?;
        println!("\n{text}");
        tables.push(format!("## {}\n\n{text}", arch.name()));
    }
    if arguments.name.is_none() && arguments.arch.is_none() && !arguments.no_linux {
        let heading = heading()?;
        rewrite(|document| {
            let document = with_preamble(document, &heading);
            tables.iter().fold(document, |document, table| with_section(&document, table))
        })?;
        for section in &SECTIONS {
            section.run(arguments.repeat)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Measures the rows, each guest once for all of its rows.
fn architecture(rows: &[Row], options: &Options, with_linux: bool) -> Result<String> {
    let mut measured: Vec<(Guest, Vec<Measurement>)> = Vec::new();
    let mut wanted = Vec::new();
    for row in rows {
        for guest in [Some(row.ours), row.linux.filter(|_| with_linux)].into_iter().flatten() {
            if !wanted.contains(&guest) {
                wanted.push(guest);
            }
        }
    }
    for guest in wanted {
        let of_guest = rows.iter().filter(|r| r.ours == guest || r.linux == Some(guest));
        let keys: Vec<&str> = of_guest.filter_map(|r| r.key).collect();
        eprintln!("== {} {guest:?}: {} ...", options.arch.name(), keys.join(", "));
        match measure(guest, &keys, options) {
            Ok(measurements) => measured.push((guest, measurements)),
            // One guest that does not run must not hide the others' numbers; its rows say that they have none.
            Err(error) => eprintln!("== {guest:?}: {error:#}"),
        }
    }
    let find = |guest: Guest, metric: &str| -> Option<Measurement> {
        let (_, measurements) = measured.iter().find(|(g, _)| *g == guest)?;
        measurements.iter().find(|m| m.metric == metric).cloned()
    };
    let alone = find(Guest::Httpd, "HTTP keep-alive").and_then(|m| m.median);
    let goal = |row: &Row| match alone {
        Some(alone) if row.name == "http-idle" => Row { goal: alone * 1.05, ..*row },
        _ => *row,
    };
    let rows: Vec<_> = rows
        .iter()
        .map(|row| {
            (goal(row), find(row.ours, row.metric), row.linux.and_then(|g| find(g, row.metric)))
        })
        .collect();
    Ok(report(options.arch, &rows))
}

/// Date, commit and QEMU.
fn when() -> Result<String> {
    let date = output(Command::new("date").arg("+%Y-%m-%d"))?;
    let program = setup::qemu::program(Arch::X86_64)?;
    let qemu = setup::qemu::version(&program)?;
    let commit =
        output(Command::new("git").current_dir(root()).args(["rev-parse", "--short", "HEAD"]))
            .context("the measured commit has no name")?;
    Ok(format!(
        "{} at commit {}, QEMU {qemu} (TCG, one vCPU, `-icount shift=0`)",
        date.trim(),
        commit.trim()
    ))
}

fn heading() -> Result<String> {
    Ok(format!(
        "# Measurements\n\nWritten by `./run.sh bench` on {}. Executed \
         guest instructions, counted by tools/bench/insncount.c; medians. aarch64: `virt`, cortex-a57; x86_64: `q35`, \
         qemu64 with rdrand, where string instructions (copies) are not in the count. virtio-net on a TAP for both guests, the \
         same host, the same run. The method is in tools/bench/README.md.\n",
        when()?,
    ))
}
