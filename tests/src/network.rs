//! A network of the test's own.
//!
//! The test's thread moves into a fresh network namespace; its children and the threads it starts are in it too.
//! Ports are therefore the same in every run and never taken, tests can run beside one another, and nothing is left
//! behind: the namespace goes with its last process. Needs root.

use std::process::Command;

use nix::sched::{CloneFlags, unshare};
use trireme_tools::net::{GUEST_MAC, GUEST_V4, HOST_V4, HOST_V6};
use trireme_tools::workspace::output;

/// The TAP's name in a test's namespace.
pub const TAP: &str = "tap0";
/// The boot argument that gives the guest its address on the TAP.
pub fn static_address() -> String {
    format!("ip={GUEST_V4}::{HOST_V4}:255.255.255.0:trireme:eth0:off")
}

/// Moves this thread into a network namespace with nothing but loopback.
pub fn isolate() {
    unshare(CloneFlags::CLONE_NEWNET)
        .expect("a network namespace of the test's own; these tests need root");
    ip("link set lo up");
}

/// The same, with a TAP that passes virtio-net headers, 10.77.0.1/24 and fd77::1/64 on the host's side.
pub fn isolate_with_tap() {
    isolate();
    tap(TAP);
    ip(&format!("addr add {HOST_V4}/24 dev {TAP}"));
    ip(&format!("addr add {HOST_V6}/64 dev {TAP} nodad"));
    ip(&format!("link set {TAP} up"));
}

/// Adds a TAP that passes virtio-net headers, without addresses and down.
pub fn tap(name: &str) {
    ip(&format!("tuntap add dev {name} mode tap vnet_hdr"));
}

/// Tells the host the guest's hardware address, so that a test of something else does not depend on ARP.
pub fn pin_neighbour() {
    ip(&format!("neigh replace {GUEST_V4} lladdr {GUEST_MAC} dev {TAP} nud permanent"));
}

/// Runs `ip` with the words of `arguments`.
pub fn ip(arguments: &str) -> String {
    let result = output(Command::new("ip").args(arguments.split_whitespace()));
    result.unwrap_or_else(|e| panic!("{e:#}"))
}
