//! The section on VIA Rhine: what transmit checksums cost, beside what was published.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::app::App;
use crate::arch::Arch;
use crate::{image, workspace};

/// Begins the section.
const HEADING: &str = "## VIA Rhine";

/// Measures, and returns the section. `when`: date and commit.
pub fn rhine(repeat: u32, when: &str) -> Result<String> {
    let image = image::build(&App::find(Some("peer"), None)?, Arch::X86_64, None)?;
    let mut script = Command::new("bash");
    script.arg(workspace::root().join("tools/bench/rhine.sh")).arg(&image.boot);
    script.env("REPEAT", repeat.to_string());
    let output = script.stderr(Stdio::inherit()).output().context("cannot start bash")?;
    ensure!(output.status.success(), "{}: {}", workspace::shown(&script), output.status);
    let table = String::from_utf8(output.stdout).context("rhine.sh prints UTF-8")?;
    Ok(format!(
        "{HEADING}\n\nWritten by `./run.sh bench rhine` on {when}. Our image `peer` sends bulk TCP on the model of a VT6105M \
         (x86_64, 16 MiB, median of {repeat} runs). Instructions are the guest's, whole stack and driver included, per \
         full-size frame; two runs differ by up to 20 %, since how acknowledgements are batched depends on the host (`on` and \
         `auto` are the same thing up to MTU 1000). The line's rate is that of a saturated 100 Mbit/s line by the model's \
         clock, frames counted with their FCS; **unverified on silicon**. Published: W. Tarreau, 2007, Linux 2.6.22 on a PC \
         Engines ALIX 3C2, saturated line ([facts](hardware/rhine.md), section 5.2).\n\n{table}"
    ))
}
