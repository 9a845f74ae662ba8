//! What run.sh calls: set-up, images, QEMU, tests, benches.

fn main() {}
