//! A TCP and UDP echo server, as a Linux program and as an appliance.

fn main() {}
