//! A VLAN on the test's TAP, with the host in it.

use std::path::Path;
use std::time::Duration;

use crate::network::{TAP, ip, isolate_with_tap, static_address};
use crate::program::succeed;

/// The host's address in the VLAN.
pub const HOST: &str = "10.85.0.1";
/// The guest's address in the VLAN.
pub const GUEST: &str = "10.85.0.2";

/// A namespace with a TAP as [`isolate_with_tap`] makes it, and behind VLAN 5 of that TAP the interface `office`. Returns
/// the boot arguments of a guest that is on both.
pub fn isolate_with_vlan() -> String {
    isolate_with_tap();
    ip("link add access type veth peer name office");
    ip(&format!("addr add {HOST}/24 dev office"));
    for device in ["access", "office"] {
        ip(&format!("link set {device} up"));
    }
    let join = Path::new(env!("CARGO_MANIFEST_DIR")).join("vlan/join.py");
    let join = join.to_str().expect("a UTF-8 path");
    succeed("/usr/bin/python3", &[join, TAP, "access", "5"], Duration::from_secs(20));
    format!("{} vlan=eth0.5:eth0 ip={GUEST}:::255.255.255.0::eth0.5:off", static_address())
}
