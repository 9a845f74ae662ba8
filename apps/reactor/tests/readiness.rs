//! The contract of [`reactor::Poller`], on real sockets.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use reactor::{Event, Poller};

const LONG: Option<Duration> = Some(Duration::from_secs(5));
const SHORT: Option<Duration> = Some(Duration::from_millis(20));

fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (server, _) = listener.accept().unwrap();
    server.set_nonblocking(true).unwrap();
    (client, server)
}

/// Waits until an event satisfies `wanted`, for five seconds at most.
fn wait_for(poller: &mut Poller, wanted: impl Fn(&Event) -> bool) -> Event {
    let give_up = Instant::now() + Duration::from_secs(5);
    let mut events = Vec::new();
    while Instant::now() < give_up {
        poller.wait(LONG, &mut events).unwrap();
        if let Some(event) = events.iter().find(|event| wanted(event)) {
            return *event;
        }
    }
    panic!("no such event within five seconds, last seen {events:?}");
}

#[test]
fn nothing_ready_waits_for_the_timeout() {
    let mut poller = Poller::new(8).unwrap();
    let mut events =
        vec![Event { key: 1, readable: true, writable: true, read_closed: true, crowded: false }];
    let start = Instant::now();
    poller.wait(SHORT, &mut events).unwrap();
    assert!(events.is_empty());
    assert!(start.elapsed() >= Duration::from_millis(19));
}

#[test]
fn readiness_from_before_add_is_reported() {
    let (mut client, server) = pair();
    client.write_all(b"x").unwrap();
    std::thread::sleep(Duration::from_millis(20));
    let mut poller = Poller::new(8).unwrap();
    poller.add(&server, 7).unwrap();
    let event = wait_for(&mut poller, |event| event.readable);
    assert_eq!((event.key, event.read_closed), (7, false));
}

#[test]
fn each_arrival_is_reported_after_a_short_read() {
    let (mut client, mut server) = pair();
    let mut poller = Poller::new(8).unwrap();
    poller.add(&server, 3).unwrap();
    for _ in 0..3 {
        client.write_all(b"abc").unwrap();
        wait_for(&mut poller, |event| event.readable);
        assert_eq!(server.read(&mut [0; 16]).unwrap(), 3);
    }
}

#[test]
fn the_peers_last_byte_is_announced() {
    let (client, server) = pair();
    let mut poller = Poller::new(8).unwrap();
    poller.add(&server, 3).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    assert!(wait_for(&mut poller, |event| event.read_closed).readable);
}

#[test]
fn room_is_reported_after_a_full_socket_drains() {
    let (mut client, mut server) = pair();
    let mut poller = Poller::new(8).unwrap();
    poller.add(&server, 3).unwrap();
    let block = vec![0; 65536];
    let mut sent = 0;
    while let Ok(n) = server.write(&block) {
        sent += n;
    }
    let mut events = Vec::new();
    poller.wait(Some(Duration::ZERO), &mut events).unwrap();
    std::thread::spawn(move || {
        let mut sink = vec![0; 65536];
        while sent > 0 {
            sent -= client.read(&mut sink).unwrap();
        }
        std::thread::sleep(Duration::from_secs(5));
    });
    wait_for(&mut poller, |event| event.writable);
    server.write_all(b"more").unwrap();
}

#[test]
fn removed_sources_are_silent() {
    let (mut client, server) = pair();
    let mut poller = Poller::new(8).unwrap();
    poller.add(&server, 3).unwrap();
    poller.remove(&server).unwrap();
    client.write_all(b"x").unwrap();
    let mut events = Vec::new();
    poller.wait(SHORT, &mut events).unwrap();
    assert!(events.is_empty());
}
