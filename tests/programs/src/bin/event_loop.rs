//! An echo server on mio: its selector for this target is `poll`, its waker an `eventfd`, its sockets made by the C
//! interface. It prints what its waker brings, from another thread.

use std::collections::HashMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use mio::net::{TcpListener, TcpStream, UdpSocket};
use mio::{Events, Interest, Poll, Token, Waker};
#[cfg(target_os = "hermit")]
use trireme as _;

const LISTENER: Token = Token(0);
const DATAGRAMS: Token = Token(1);
const WAKER: Token = Token(2);
const FIRST_CONNECTION: usize = 3;

fn main() -> io::Result<()> {
    let address = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 7));
    let mut poll = Poll::new()?;
    let mut events = Events::with_capacity(64);
    let mut listener = TcpListener::bind(address)?;
    let mut datagrams = UdpSocket::bind(address)?;
    poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
    poll.registry().register(&mut datagrams, DATAGRAMS, Interest::READABLE)?;
    let waker = Waker::new(poll.registry(), WAKER)?;
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        waker.wake()
    });
    let mut connections = HashMap::new();
    let mut next = FIRST_CONNECTION;
    println!("listening");
    loop {
        poll.poll(&mut events, None)?;
        for event in events.iter() {
            match event.token() {
                WAKER => println!("woken"),
                LISTENER => {
                    while let Some((mut stream, _)) = unless_blocked(listener.accept())? {
                        let interest = Interest::READABLE | Interest::WRITABLE;
                        poll.registry().register(&mut stream, Token(next), interest)?;
                        connections.insert(Token(next), Connection { stream, held: Vec::new() });
                        next += 1;
                    }
                }
                DATAGRAMS => {
                    let mut buffer = [0; 2048];
                    while let Some((n, peer)) = unless_blocked(datagrams.recv_from(&mut buffer))? {
                        datagrams.send_to(&buffer[..n], peer)?;
                    }
                }
                token => {
                    let over =
                        connections.get_mut(&token).is_some_and(|connection| !connection.turn());
                    if over && let Some(mut connection) = connections.remove(&token) {
                        poll.registry().deregister(&mut connection.stream)?;
                    }
                }
            }
        }
    }
}

struct Connection {
    stream: TcpStream,
    /// Read and not sent back yet.
    held: Vec<u8>,
}

impl Connection {
    /// False when it is over.
    fn turn(&mut self) -> bool {
        let mut buffer = [0; 4096];
        loop {
            match unless_blocked(self.stream.read(&mut buffer)) {
                Ok(Some(0)) | Err(_) => return false,
                Ok(Some(n)) => self.held.extend_from_slice(&buffer[..n]),
                Ok(None) => break,
            }
        }
        while !self.held.is_empty() {
            match unless_blocked(self.stream.write(&self.held)) {
                Ok(Some(n)) => drop(self.held.drain(..n)),
                Ok(None) => break,
                Err(_) => return false,
            }
        }
        true
    }
}

/// `None` instead of `WouldBlock`.
fn unless_blocked<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}
