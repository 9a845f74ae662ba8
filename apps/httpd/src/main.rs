//! A static web server, as a Linux program and as an appliance.

fn main() {}
