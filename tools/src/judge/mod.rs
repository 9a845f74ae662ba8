//! Foreign drivers against our device models: a Linux guest whose stock driver runs on the model.

mod cases;
mod guest;
mod peer;

pub use cases::{CASES, Card, Case, GEMINI_CASES, RAVB_CASES};
pub use guest::{Judgement, Options, judge, prepare};
