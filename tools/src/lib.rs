//! What `run.sh` calls: set-up, images, QEMU, tests, benches. A library too, for the end-to-end tests.

pub mod app;
pub mod arch;
pub mod archive;
mod armv4;
pub mod bench;
pub mod board;
pub mod console;
pub mod elf;
pub mod image;
pub mod judge;
pub mod model;
pub mod net;
pub mod qemu;
pub mod setup;
pub mod symbols;
pub mod workspace;
