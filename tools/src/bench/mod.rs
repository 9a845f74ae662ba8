//! Measures what the design promises, in executed guest instructions, beside a Linux guest on the same QEMU.
//!
//! `tools/bench/measure.py` does the counting; here is which guests it boots, which of its numbers make which row,
//! and the report.

mod boards;
mod card;
mod gemini;
mod guests;
mod ravb;
mod report;
mod rhine;
mod rows;
mod section;

pub use boards::boards;
pub use gemini::gemini;
pub use guests::{Guest, Options, measure};
pub use ravb::ravb;
pub use report::{Measured, report};
pub use rhine::rhine;
pub use rows::{ROWS, Row, row};
pub use section::{with_preamble, with_section};

use serde::Deserialize;

/// One number that was measured.
#[derive(Clone, Debug, Deserialize)]
pub struct Measurement {
    /// `measure.py`'s name of it.
    pub metric: String,
    /// The median over the repetitions.
    #[serde(default)]
    pub median: Option<f64>,
    /// The least.
    #[serde(default)]
    pub min: Option<f64>,
    /// The most.
    #[serde(default)]
    pub max: Option<f64>,
    /// Bytes stored by x86 string instructions per unit, which are in no instruction count.
    #[serde(default)]
    pub string_bytes: Option<f64>,
    /// Where the instructions went: functions and instructions per unit, most first.
    #[serde(default)]
    pub top: Vec<(String, f64)>,
    /// Why there is no number.
    #[serde(default)]
    pub error: Option<String>,
}
