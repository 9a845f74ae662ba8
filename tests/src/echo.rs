//! A client of the `echo` appliance.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::thread;
use std::time::Duration;

use trireme_tools::net::GUEST_V4;

use crate::files::noise;

/// Sends `size` bytes of noise through the guest's TCP echo, once it answers, and compares what comes back. `limit`:
/// the longest stall that is allowed.
pub fn echo(size: usize, limit: Duration) {
    echo_at(GUEST_V4, size, limit);
}

/// The same at another of the guest's addresses, which may name a scope.
pub fn echo_at<A: Copy>(address: A, size: usize, limit: Duration)
where
    (A, u16): ToSocketAddrs,
{
    let mut stream = (0..200)
        .find_map(|_| {
            let stream = TcpStream::connect((address, 7)).ok();
            if stream.is_none() {
                thread::sleep(Duration::from_millis(100));
            }
            stream
        })
        .expect("the guest answers");
    stream.set_read_timeout(Some(limit)).unwrap();
    let sent = noise(5, size);
    let mut writer = stream.try_clone().unwrap();
    let writing = {
        let sent = sent.clone();
        thread::spawn(move || writer.write_all(&sent).unwrap())
    };
    let mut got = vec![0; size];
    stream.read_exact(&mut got).expect("no stall beyond the limit");
    writing.join().unwrap();
    assert!(got == sent, "the echo differs");
}
