//! The commands of `run.sh`.

pub(crate) mod bench;
pub(crate) mod image;
pub(crate) mod judge;
pub(crate) mod run;
pub(crate) mod setup;
pub(crate) mod test;
