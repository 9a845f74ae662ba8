//! A wire that loses, doubles, reorders and delays frames: between a TAP of the host and a card of the guest.

use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use trireme_tools::qemu::Network;
use trireme_wire::{Faults, FrameSink, FrameSource, Impairment};

/// Frames on their way in one direction at most; more are dropped, as a full queue does.
const IN_FLIGHT: usize = 4096;

/// Joins a TAP (not opened by anybody else) and a QEMU stream socket at `socket`, with the faults and a delay in
/// each direction. Returns what the machine's card is to be connected to. Runs until the test process ends.
pub fn relay(tap: &str, socket: &Path, faults: Faults, delay: Duration, seed: u64) -> Network {
    let host = trireme_wire::tap(tap).expect("the TAP is ours");
    let path = PathBuf::from(socket);
    thread::spawn(move || {
        // Waits for QEMU, which connects when it starts.
        let guest = trireme_wire::listen(&path).expect("QEMU connects");
        direction(host.source, guest.sink, Impairment::new(faults, seed), delay);
        direction(guest.source, host.sink, Impairment::new(faults, seed ^ 0xffff), delay);
    });
    while !socket.exists() {
        thread::sleep(Duration::from_millis(5));
    }
    Network::Other(format!("stream,server=off,addr.type=unix,addr.path={}", socket.display()))
}

fn direction(
    mut from: Box<dyn FrameSource>,
    mut to: Box<dyn FrameSink>,
    mut impairment: Impairment,
    delay: Duration,
) {
    let (sender, receiver) = mpsc::sync_channel::<(Instant, Vec<u8>)>(IN_FLIGHT);
    thread::spawn(move || {
        let mut frame = Vec::new();
        while from.receive(&mut frame).is_ok_and(|more| more) {
            let due = Instant::now() + delay;
            if sender
                .try_send((due, frame.clone()))
                .is_err_and(|e| matches!(e, mpsc::TrySendError::Disconnected(_)))
            {
                return;
            }
        }
    });
    thread::spawn(move || {
        let start = Instant::now();
        let mut failed = false;
        loop {
            // Held-back frames are let go by time as well as by the frames behind them.
            let next = receiver.recv_timeout(Duration::from_millis(5));
            let mut out = |frame: &[u8]| {
                failed |= to.send(frame).is_err_and(|e| e.kind() == std::io::ErrorKind::BrokenPipe)
            };
            match next {
                Ok((due, frame)) => {
                    thread::sleep(due.saturating_duration_since(Instant::now()));
                    impairment.pass(start.elapsed(), &frame, &mut out);
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    impairment.release(start.elapsed(), &mut out)
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => return,
            }
            if failed {
                return;
            }
        }
    });
}
