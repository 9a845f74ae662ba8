//! A server on loopback and a client that says exactly what it is told to.

// Each test program uses a part of this.
#![allow(dead_code)]

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::Duration;

use httpd::Server;
use httpd::options::Options;

/// Starts a server that lives as long as the test program.
pub(crate) fn start(change: impl FnOnce(&mut Options)) -> SocketAddr {
    let mut options = Options {
        root: www(),
        listen: vec!["127.0.0.1:0".parse().unwrap()],
        listen_is_default: false,
        bytes: true,
        ..Options::default()
    };
    change(&mut options);
    let (bound, is_bound) = mpsc::channel();
    std::thread::spawn(move || {
        let server = Server::bind(&options).unwrap();
        bound.send(server.addresses().next().unwrap().unwrap()).unwrap();
        panic!("{}", server.run());
    });
    is_bound.recv().unwrap()
}

/// The content that is packed into the image.
pub(crate) fn www() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("www")
}

pub(crate) fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// An answer, taken apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// The value of a field, which is there once or not at all.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let mut values = self.head.lines().skip(1).filter_map(|line| {
            let (found, value) = line.split_once(": ").unwrap();
            found.eq_ignore_ascii_case(name).then_some(value)
        });
        let value = values.next();
        assert_eq!(values.next(), None, "{name} is there twice:\n{}", self.head);
        value
    }
}

/// Reads one answer. `None`: the connection ended, or was reset, before the first octet of one.
pub(crate) fn read_answer(stream: &mut impl Read, to_head: bool) -> Option<Answer> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut octet = [0];
        match stream.read(&mut octet) {
            Ok(0) if head.is_empty() => return None,
            Err(error) if error.kind() == ErrorKind::ConnectionReset && head.is_empty() => {
                return None;
            }
            Ok(0) => panic!("ended in a head: {}", String::from_utf8_lossy(&head)),
            result => result.map(|_| head.push(octet[0])).unwrap(),
        }
    }
    let head = String::from_utf8(head).unwrap();
    let status = head[9..12].parse().unwrap();
    let mut answer = Answer { status, head: head.trim_end().to_owned(), body: Vec::new() };
    if !to_head && !matches!(status, 100 | 204 | 304) {
        let length: usize = answer.field("content-length").expect("a length").parse().unwrap();
        answer.body = vec![0; length];
        stream.read_exact(&mut answer.body).unwrap();
    }
    Some(answer)
}

/// Sends a request and reads the answer, on a connection of its own.
pub(crate) fn exchange(address: SocketAddr, request: &str) -> Answer {
    let mut stream = connect(address);
    stream.write_all(request.as_bytes()).unwrap();
    read_answer(&mut stream, request.starts_with("HEAD ")).expect("an answer")
}

/// GET with more fields, each ending in CRLF.
pub(crate) fn get(address: SocketAddr, target: &str, fields: &str) -> Answer {
    exchange(address, &format!("GET {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"))
}

/// All answers until the server closes.
pub(crate) fn until_closed(stream: &mut TcpStream) -> Vec<Answer> {
    std::iter::from_fn(|| read_answer(stream, false)).collect()
}

/// Sends octets and then the end, which must not prevent the answers, and reads these until the server closes.
pub(crate) fn say_and_end(address: SocketAddr, octets: &[u8]) -> Vec<Answer> {
    let mut stream = connect(address);
    // The server may have refused and closed before everything is sent.
    let _ = stream.write_all(octets);
    let _ = stream.shutdown(Shutdown::Write);
    until_closed(&mut stream)
}
