//! Answers PTP messages with what the card's clock says of them: each message received is sent back to its sender with
//! twenty bytes in front, when it arrived and, from the second on, when the answer before left.

use std::time::Duration;

use trireme_test_programs as _;

#[cfg(target_os = "hermit")]
use trireme::ptp::{NEAREST_BRIDGE, Port, PtpTime};

#[cfg(not(target_os = "hermit"))]
fn main() {
    let _ = Duration::ZERO;
    println!("no appliance, no clock");
}

#[cfg(target_os = "hermit")]
fn bytes(time: Option<PtpTime>) -> [u8; 10] {
    let PtpTime { seconds, nanoseconds } = time.unwrap_or_default();
    let mut bytes = [0; 10];
    bytes[..6].copy_from_slice(&seconds.to_be_bytes()[2..]);
    bytes[6..].copy_from_slice(&nanoseconds.to_be_bytes());
    bytes
}

#[cfg(target_os = "hermit")]
fn main() {
    let mut port = Port::open("eth0").expect("a card with a clock");
    assert!(Port::open("eth0").is_err(), "one at a time");
    assert!(port.receive(Duration::from_millis(10)).is_none());
    port.set(PtpTime { seconds: 1 << 33, nanoseconds: 500_000_000 }).expect("it can be set");
    let before = port.now().expect("it can be read");
    std::thread::sleep(Duration::from_millis(100));
    let after = port.now().expect("it can be read");
    let ns = |time: PtpTime| time.seconds * 1_000_000_000 + u64::from(time.nanoseconds);
    println!("clock: {} s, {} ms in 100", before.seconds, (ns(after) - ns(before)) / 1_000_000);
    let mut left = None;
    println!("listening");
    loop {
        let Some(message) = port.receive(Duration::from_secs(60)) else { return };
        if message.destination != NEAREST_BRIDGE {
            continue;
        }
        let answer = [&bytes(message.received_at), &bytes(left), &message.bytes[..]].concat();
        left = port.send(message.source, &answer).inspect_err(|e| println!("{e}")).ok();
    }
}
