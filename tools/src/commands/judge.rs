//! `run.sh judge`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};
use clap::Args;
use trireme_tools::judge::{Card, Case, Judgement, Options, judge};
use trireme_tools::setup::{self, Need};

#[derive(Args)]
pub(crate) struct Arguments {
    /// The model: rhine (judged by Linux's via-rhine, as Debian ships it), gemini, ravb, or gbeth, which is one of ravb's chips (by
    /// Linux's own, from Debian's source)
    model: String,
    /// Only the cases of this chip
    #[arg(long)]
    chip: Option<String>,
    /// Only cases whose faults contain this text; `none` for the healthy ones
    #[arg(long)]
    fault: Option<String>,
    /// The guest's tests, comma separated, instead of the usual ones; `shell` for a look around
    #[arg(long)]
    tests: Option<String>,
    /// MiB sent each way; without faults 50 (gemini, ravb: 16), with faults 8
    #[arg(long)]
    megabytes: Option<u64>,
    /// Show the guest's console
    #[arg(long, short)]
    verbose: bool,
    /// Capture the model's frames
    #[arg(long)]
    pcap: Option<PathBuf>,
    /// `RUST_LOG` of the model
    #[arg(long)]
    log: Option<String>,
}

fn wanted(case: &Case, arguments: &Arguments) -> bool {
    let chip = arguments.chip.as_ref().is_none_or(|chip| chip == case.chip);
    let fault = match arguments.fault.as_deref() {
        None => true,
        Some("none") => case.is_healthy(),
        Some(text) => case.fault.contains(text) || case.wire_fault.contains(text),
    };
    chip && fault
}

pub(crate) fn run(mut arguments: Arguments) -> Result<ExitCode> {
    let card = match arguments.model.as_str() {
        "rhine" => Card::Rhine,
        "gemini" => Card::Gemini,
        "ravb" => Card::Ravb,
        "gbeth" => {
            arguments.chip = Some("gbeth".to_owned());
            Card::Ravb
        }
        other => bail!("no judge for {other:?}; there is one for: rhine, gemini, ravb, gbeth"),
    };
    setup::ensure(&[Need::Qemu, Need::Judge])?;
    let cases: Vec<&Case> = card.cases().iter().filter(|case| wanted(case, &arguments)).collect();
    if cases.is_empty() {
        bail!("no case is that");
    }
    let mut bad = 0;
    for case in cases {
        let tests = arguments.tests.clone().map(|tests| &*tests.leak());
        let case = Case { tests: tests.unwrap_or(case.tests), ..*case };
        let options = Options {
            megabytes: arguments.megabytes.unwrap_or(match case.card {
                Card::Rhine if case.is_healthy() => 50,
                Card::Gemini | Card::Ravb if case.is_healthy() => 16,
                _ => 8,
            }),
            limit: Duration::from_secs(300),
            verbose: arguments.verbose,
            pcap: arguments.pcap.clone(),
            log: arguments.log.clone(),
        };
        let start = Instant::now();
        // A thread of its own, since judging leaves it in another network namespace.
        let judgement = thread::spawn(move || judge(&case, &options)).join();
        let judgement = judgement.map_err(|_| anyhow!("the judge panicked"))??;
        report(&case, &judgement, start.elapsed());
        bad += usize::from(!judgement.is_good());
    }
    if bad > 0 {
        bail!("{bad} cases failed");
    }
    Ok(ExitCode::SUCCESS)
}

fn report(case: &Case, judgement: &Judgement, took: Duration) {
    let verdict = if judgement.is_good() { "ok  " } else { "FAIL" };
    let (name, passed) = (case.name(), judgement.passed.len());
    println!("{verdict} {name}: {passed} passed, {:.0} s", took.as_secs_f64());
    if !judgement.ended {
        println!("     the guest did not come to its end");
    }
    for name in &judgement.failed {
        println!("     failed: {name}");
    }
    for note in judgement.notes.iter().filter(|n| n.contains(" MiB in ") || !judgement.is_good()) {
        println!("     {note}");
    }
}
