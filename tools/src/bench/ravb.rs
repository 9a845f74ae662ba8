//! The section on Renesas RAVB: what a frame costs with its sums by the card and in software, beside what was published.

use std::fmt::Write;

use anyhow::{Context, Result};

use super::Measurement;
use super::card::{Card, SEGMENT, measure};
use super::report::number;
use crate::arch::Arch;
use crate::model::Model;

/// Begins the section.
const HEADING: &str = "## Renesas RAVB";
/// Payload that TCP without options gets out of a saturated line of 1000 Mbit/s at MTU 1500, in Mbit/s: 1460 of 1538 bytes.
const LINE: f64 = 949.3;
/// The function that sums in software.
const SUM: &str = "checksum::sum";

/// A block, the core it is measured on, and what is known of the boards.
struct Block {
    chip: &'static str,
    name: &'static str,
    cpu: &'static str,
    /// MHz of that core on a board; `None` where the board's core is another.
    clock: Option<f64>,
    /// TCP in Mbit/s, received and sent, each with checksums by the card and in software.
    published: [[&'static str; 2]; 2],
}

/// docs/hardware/ravb.md, 1.6 and 8.
const BLOCKS: [Block; 3] = [
    Block {
        chip: "gen2",
        name: "R-Car Gen2",
        cpu: "cortex-a57",
        clock: None,
        published: [["", ""], ["", ""]],
    },
    Block {
        chip: "gen3",
        name: "R-Car Gen3",
        cpu: "cortex-a57",
        clock: Some(1500.0),
        published: [["939; `do_csum` not seen", "941; `do_csum` 6.95 % of the profile"], ["", ""]],
    },
    Block {
        chip: "gbeth",
        name: "RZ/G2L GbEth",
        cpu: "cortex-a55",
        clock: Some(1200.0),
        published: [["932 to 936", "612 to 626"], ["920 to 927", "867 to 889"]],
    },
];

/// What one block did with one setting.
struct Row<'a> {
    block: &'a Block,
    by_card: bool,
    received: Measurement,
    sent: Measurement,
    echo: Measurement,
}

/// Measures, and returns the section. `when`: date and commit.
pub fn ravb(repeat: u32, when: &str) -> Result<String> {
    let mut rows = Vec::new();
    for block in &BLOCKS {
        for by_card in [true, false] {
            eprintln!("== {}, sums {} ...", block.name, sums(by_card));
            let on = if by_card { "on" } else { "off" };
            let mut append = format!("eth0.rx-checksumming={on}");
            if block.chip == "gbeth" {
                append += &format!(" eth0.tx-checksumming={on}");
            }
            let card = Card {
                model: Model::ravb(block.chip),
                arch: Arch::Aarch64,
                cpu: block.cpu,
                append,
                bytes: 8 << 20,
                noncoherent: true,
            };
            let measured = measure(&card, "rx,tx,udp", repeat)?;
            let find = |metric: &str| -> Result<Measurement> {
                let found = measured.iter().find(|m| m.metric == metric).cloned();
                found.with_context(|| format!("{}: no {metric}", block.name))
            };
            rows.push(Row {
                block,
                by_card,
                received: find("TCP host to guest")?,
                sent: find("TCP guest to host")?,
                echo: find("UDP echo 1472")?,
            });
        }
    }
    Ok(format!(
        "{HEADING}\n\nWritten by `./run.sh bench ravb` on {when}. Our image `peer` on our model of the cards (aarch64 `virt`; 8 MiB \
         of TCP each way, 500 datagrams one after the other, medians of {repeat} runs). Instructions are the guest's, whole stack, \
         program and driver included; DMA goes past the caches, as on the boards, and cleaning and invalidating them is in it. A frame of TCP carries 1460 bytes; its cost hangs on how frames and acknowledgements come \
         in batches, which is the host's doing, so the spread stands beside it. An echoed datagram is one frame received and one \
         sent with an interrupt for each; runs differ by less than 1 %. R-Car sums received frames only: what it sends is summed in \
         software in either case.\n\n{}\n{}",
        costs(&rows),
        meaning(&rows)
    ))
}

fn sums(by_card: bool) -> &'static str {
    if by_card { "card" } else { "software" }
}

fn costs(rows: &[Row]) -> String {
    let mut text = "| card | QEMU's core | sums by | frame received | spread | byte received | frame sent | spread | byte sent | \
                    1472 bytes echoed | spread |\n|---|---|---|---|---|---|---|---|---|---|---|\n"
        .to_owned();
    for row in rows {
        let (block, by) = (row.block, sums(row.by_card));
        write!(text, "| {} | {} | {by} |", block.name, block.cpu)
            .expect("a String takes everything");
        for (measured, unit) in [(&row.received, SEGMENT), (&row.sent, SEGMENT), (&row.echo, 1.0)] {
            let shown = |value: Option<f64>, unit: f64| {
                value.map_or("–".to_owned(), |value| number(value * unit))
            };
            let (least, most) = (shown(measured.min, unit), shown(measured.max, unit));
            write!(text, " {} | {least} – {most} |", shown(measured.median, unit))
                .expect("as above");
            if unit == SEGMENT {
                write!(text, " {} |", shown(measured.median, 1.0)).expect("as above");
            }
        }
        text.push('\n');
    }
    text
}

/// What the counts mean on the boards.
fn meaning(rows: &[Row]) -> String {
    let mut text = format!(
        "What that means on a board, were an instruction a cycle (misses, bus and register accesses make it more: **unverified \
         on silicon**), at the clock of its core ([facts](hardware/ravb.md), section 1.6); {LINE:.0} Mbit/s are what TCP gets out \
         of the line. Published: the same page, section 8; Linux, on the boards (RZ/G2L, RZ/G2LC and RZ/V2L; Salvator-X).\n\n\
         | card | TCP | sums by | core, MHz | core's limit, Mbit/s | of the core at {LINE:.0} Mbit/s | sums' share of instructions \
         | published, Mbit/s |\n|---|---|---|---|---|---|---|---|\n"
    );
    for row in rows {
        let Some(clock) = row.block.clock else { continue };
        let directions = [("received", &row.received), ("sent", &row.sent)];
        for ((direction, measured), published) in directions.into_iter().zip(row.block.published) {
            let Some(per_byte) = measured.median else { continue };
            let summing = measured.top.iter().filter(|(function, _)| function.contains(SUM));
            let summed = summing.fold(0.0, |sum, (_, instructions)| sum + instructions);
            writeln!(
                text,
                "| {} | {direction} | {} | {clock:.0} | {} | {:.1} % | {:.1} % | {} |",
                row.block.name,
                sums(row.by_card),
                number(clock * 8.0 / per_byte),
                LINE / 8.0 * per_byte / clock * 100.0,
                summed / per_byte * 100.0,
                published[usize::from(!row.by_card)],
            )
            .expect("a String takes everything");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(median: f64, top: f64) -> Measurement {
        let json = format!(
            r#"{{"metric":"x","median":{median},"min":{median},"max":{median},"top":[["a::checksum::sum",{top}],["memcpy",9]]}}"#
        );
        serde_json::from_str(&json).unwrap()
    }

    #[test]
    fn counts_become_frames_and_throughput() {
        let rows = [Row {
            block: &BLOCKS[2],
            by_card: false,
            received: measured(2.0, 0.5),
            sent: measured(3.0, 0.0),
            echo: measured(7000.0, 0.0),
        }];
        assert!(
            costs(&rows)
                .contains("| 2,920 | 2,920 – 2,920 | 2 | 4,380 | 4,380 – 4,380 | 3 | 7,000 |")
        );
        // 1.2 GHz at two instructions a byte: 600 MB/s; the line brings 118.7 MB/s.
        assert!(
            meaning(&rows).contains("| 1200 | 4,800 | 19.8 % | 25.0 % | 612 to 626 |"),
            "{}",
            meaning(&rows)
        );
    }

    #[test]
    fn no_board_no_throughput() {
        let rows = [Row {
            block: &BLOCKS[0],
            by_card: true,
            received: measured(2.0, 0.0),
            sent: measured(2.0, 0.0),
            echo: measured(2.0, 0.0),
        }];
        assert!(!meaning(&rows).contains("Gen2"));
    }
}
