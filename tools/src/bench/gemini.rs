//! The section on Cortina's Gemini: what a byte costs on an ARMv4 processor with the card's engine and without, beside what was
//! published.

use std::fmt::Write;

use anyhow::{Context, Result, bail};

use super::Measurement;
use super::card::{Card, measure};
use super::report::number;
use crate::arch::Arch;
use crate::model::Model;

/// Begins the section.
const HEADING: &str = "## Cortina Gemini";
/// The slowest and the fastest core that a chip's straps can ask for, in MHz: an AHB of 130 to 200, and once to twice that.
/// docs/hardware/gemini.md, 1.1 and 1.6.
const CORES: [f64; 2] = [130.0, 400.0];

/// What the card does.
struct Setting {
    name: &'static str,
    append: &'static str,
    /// TCP sent by Linux on a DIR-685, in Mbit/s. docs/hardware/gemini.md, 8.
    published: &'static str,
}

const SETTINGS: [Setting; 3] = [
    Setting { name: "segments and sums by the card", append: "", published: "175" },
    Setting {
        name: "sums by the card",
        append: "eth0.tcp-segmentation-offload=off eth0.tcp6-segmentation=off",
        published: "15.5",
    },
    Setting {
        name: "all in software",
        append: "eth0.tx-checksumming=off eth0.rx-checksumming=off",
        published: "",
    },
];

/// What one setting cost.
struct Row<'a> {
    setting: &'a Setting,
    sent: Measurement,
    received: Measurement,
    echo: Measurement,
}

/// Measures, and returns the section. `when`: date and commit.
pub fn gemini(repeat: u32, when: &str) -> Result<String> {
    let mut rows = Vec::new();
    for setting in &SETTINGS {
        eprintln!("== Gemini, {} ...", setting.name);
        let arch = Arch::Armv4;
        let card = Card {
            model: Model::gemini(""),
            arch,
            cpu: arch.default_cpu(),
            append: setting.append.to_owned(),
            bytes: 8 << 20,
            // The machine's device tree says so already.
            noncoherent: false,
        };
        let measured = measure(&card, "rx,tx,udp", repeat)?;
        let find = |metric: &str| -> Result<Measurement> {
            let found = measured.iter().find(|m| m.metric == metric).cloned();
            let found = found.with_context(|| format!("{}: no {metric}", setting.name))?;
            match &found.error {
                Some(error) => bail!("{}: {metric}: {error}", setting.name),
                None => Ok(found),
            }
        };
        rows.push(Row {
            setting,
            sent: find("TCP guest to host")?,
            received: find("TCP host to guest")?,
            echo: find("UDP echo 1472")?,
        });
    }
    Ok(format!(
        "{HEADING}\n\nWritten by `./run.sh bench gemini` on {when}. Our image `peer` on our model of the card, by a carrier in \
         QEMU's `versatilepb` with an sa1110, which is ARMv4 without Thumb as the FA526 is (8 MiB of TCP each way, 500 datagrams one \
         after the other, medians of {repeat} runs). Instructions are the guest's, whole stack, program and driver included, \
         cleaning and invalidating caches and draining the write buffer too. Received frames are not merged by this card.\n\n{}",
        table(&rows)
    ))
}

fn table(rows: &[Row]) -> String {
    let [slow, fast] = CORES;
    let mut text = format!(
        "| | byte sent | spread | byte received | spread | 1472 bytes echoed | spread |\n|---|---|---|---|---|---|---|\n{}\n\
         Were an instruction a cycle (misses, bus and register accesses make it more: **unverified on silicon**), a core of {slow:.0} \
         to {fast:.0} MHz, as the straps have it, would come to so many Mbit/s of TCP; the line takes 949. Published: Linux on a \
         DIR-685, iperf3 ([facts](hardware/gemini.md), section 8).\n\n\
         | | sent | received | published, sent |\n|---|---|---|---|\n",
        rows.iter().map(costs).collect::<String>()
    );
    for row in rows {
        let limits = |measured: &Measurement| {
            let limit = |clock: f64| {
                measured.median.map_or("–".to_owned(), |byte| number(clock * 8.0 / byte))
            };
            format!("{} – {}", limit(slow), limit(fast))
        };
        writeln!(
            text,
            "| {} | {} | {} | {} |",
            row.setting.name,
            limits(&row.sent),
            limits(&row.received),
            row.setting.published
        )
        .expect("a String takes everything");
    }
    text
}

fn costs(row: &Row) -> String {
    let mut text = format!("| {} |", row.setting.name);
    for measured in [&row.sent, &row.received, &row.echo] {
        let shown = |value: Option<f64>| value.map_or("–".to_owned(), number);
        let (median, least, most) =
            (shown(measured.median), shown(measured.min), shown(measured.max));
        write!(text, " {median} | {least} – {most} |").expect("a String takes everything");
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_become_throughput_at_both_ends_of_the_clock() {
        let measured = |median: f64| -> Measurement {
            let json = format!(
                r#"{{"metric":"x","median":{median},"min":{median},"max":{median},"top":[]}}"#
            );
            serde_json::from_str(&json).unwrap()
        };
        let row = Row {
            setting: &SETTINGS[0],
            sent: measured(2.0),
            received: measured(4.0),
            echo: measured(7000.0),
        };
        let text = table(&[row]);
        assert!(text.contains("| 2 | 2 – 2 | 4 | 4 – 4 | 7,000 | 7,000 – 7,000 |"), "{text}");
        // 130 MHz at two instructions a byte: 65 MB/s.
        assert!(text.contains("| 520 – 1,600 | 260 – 800 | 175 |"), "{text}");
    }
}
