//! A small HTTP server for programs that have none.
//!
//! Two threads, a request a connection, everything bounded: what a stranger can take is two threads for some seconds.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::status::{Request, Response, Status};

/// Threads, and so requests at a time.
const THREADS: usize = 2;
/// Their stacks, in bytes.
const STACK: usize = 64 * 1024;
/// Longest head of a request, in bytes.
const HEAD_LIMIT: usize = 4096;
/// Most fields in it.
const FIELD_LIMIT: usize = 48;
/// For a request to arrive and its answer to be taken.
const PATIENCE: Duration = Duration::from_secs(5);
/// For the peer to close after it, and how much it may send meanwhile.
const LINGER: (Duration, usize) = (Duration::from_secs(1), 64 * 1024);

/// Serves the page at `/` and the metrics at `/metrics` of `address`, from threads of its own, until the program ends.
/// Returns once it listens. The token is that of the environment, see [`TOKEN`](crate::TOKEN).
pub fn serve(address: impl ToSocketAddrs) -> io::Result<()> {
    serve_with(TcpListener::bind(address)?, Status::from_environment())
}

fn serve_with(listener: TcpListener, status: Status) -> io::Result<()> {
    let shared = Arc::new((listener, Mutex::new(status)));
    for _ in 0..THREADS {
        let shared = Arc::clone(&shared);
        let thread = thread::Builder::new().name("status".to_owned()).stack_size(STACK);
        thread.spawn(move || work(&shared.0, &shared.1))?;
    }
    Ok(())
}

fn work(listener: &TcpListener, status: &Mutex<Status>) {
    loop {
        match listener.accept() {
            // A peer that is gone or too slow is not worth a word.
            Ok((stream, _)) => drop(converse(&stream, status)),
            // Out of memory or descriptors: others may give some back.
            Err(_) => thread::sleep(Duration::from_millis(100)),
        }
    }
}

/// One request, one answer.
fn converse(mut stream: &TcpStream, status: &Mutex<Status>) -> io::Result<()> {
    let end = Instant::now() + PATIENCE;
    stream.set_nodelay(true)?;
    let mut head = Vec::new();
    let answer = loop {
        if let Some(answer) = answer(&head, status) {
            break answer;
        }
        let mut piece = [0; 1024];
        stream.set_read_timeout(Some(left(end)?))?;
        match stream.read(&mut piece)? {
            0 => return Ok(()),
            length => head.extend_from_slice(&piece[..length]),
        }
    };
    let mut rest = &answer[..];
    while !rest.is_empty() {
        stream.set_write_timeout(Some(left(end)?))?;
        rest = &rest[stream.write(rest)?..];
    }
    // What it still sends is thrown away, or a reset might take the answer with it. [RFC 9112 9.6]
    stream.shutdown(Shutdown::Write)?;
    let (end, mut allowance) = (Instant::now() + LINGER.0, LINGER.1);
    let mut unread = [0; 1024];
    while allowance > 0 {
        stream.set_read_timeout(Some(left(end)?))?;
        match stream.read(&mut unread)? {
            0 => break,
            length => allowance = allowance.saturating_sub(length),
        }
    }
    Ok(())
}

/// The time until `end`, which is not zero: that would mean for ever.
fn left(end: Instant) -> io::Result<Duration> {
    let left = end.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

/// The answer to what has arrived, once that is a whole head or can become none.
fn answer(octets: &[u8], status: &Mutex<Status>) -> Option<Vec<u8>> {
    let mut fields = [httparse::EMPTY_HEADER; FIELD_LIMIT];
    let mut request = httparse::Request::new(&mut fields);
    let parsed = match request.parse(octets) {
        Ok(httparse::Status::Partial) if octets.len() < HEAD_LIMIT => return None,
        Ok(httparse::Status::Complete(length)) if length <= HEAD_LIMIT => Ok(()),
        Ok(_) | Err(httparse::Error::TooManyHeaders) => Err(431),
        Err(_) => Err(400),
    };
    let (method, target) = (request.method.unwrap_or_default(), request.path.unwrap_or_default());
    let response = match (parsed, target.strip_prefix('/')) {
        (Err(status), _) => empty(status),
        (Ok(()), None) => empty(400),
        (Ok(()), Some(path)) => {
            let values = |name: &'static str| {
                let named = move |f: &&httparse::Header<'_>| f.name.eq_ignore_ascii_case(name);
                request.headers.iter().filter(named).map(|field| field.value)
            };
            let request = Request {
                method,
                path: path.split('?').next().unwrap_or_default(),
                // Two of them are none: somebody in between would read another than we do.
                authorization: values("authorization")
                    .next()
                    .filter(|_| values("authorization").count() == 1),
                accepts_gzip: values("accept-encoding").any(lists_gzip),
            };
            let mut status = status.lock().unwrap_or_else(PoisonError::into_inner);
            status.answer(&request, Instant::now())
        }
    };
    Some(written(&response, method == "HEAD"))
}

fn empty(status: u16) -> Response {
    Response { status, fields: "".into(), body: [][..].into() }
}

/// Does an Accept-Encoding list gzip, and not with a weight of nothing? [RFC 9110 12.5.3]
fn lists_gzip(value: &[u8]) -> bool {
    value.split(|&octet| octet == b',').any(|item| {
        let mut parts = item.split(|&octet| octet == b';').map(<[u8]>::trim_ascii);
        let named = parts.next().is_some_and(|coding| coding.eq_ignore_ascii_case(b"gzip"));
        let refused = parts.any(|weight| {
            weight.strip_prefix(b"q=").is_some_and(|q| q.iter().all(|c| matches!(c, b'0' | b'.')))
        });
        named && !refused
    })
}

fn written(response: &Response, without_body: bool) -> Vec<u8> {
    let Response { status, fields, body } = response;
    // The phrase is for people, and may be left out. [RFC 9112 4]
    let mut answer = format!(
        "HTTP/1.1 {status} \r\nConnection: close\r\nContent-Length: {}\r\n{fields}\r\n",
        body.len()
    )
    .into_bytes();
    if !without_body {
        answer.extend_from_slice(body);
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::Gate;

    fn serving() -> std::net::SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let gate = Gate::new(Some("correct-horse".to_owned()), Instant::now()).unwrap();
        serve_with(listener, Status::with(gate)).unwrap();
        address
    }

    fn ask(address: std::net::SocketAddr, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(request).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    }

    #[test]
    fn answers_over_a_socket() {
        let address = serving();
        for (request, status) in [
            ("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n", "200"),
            ("GET /metrics?x=y HTTP/1.0\r\n\r\n", "200"),
            ("GET / HTTP/1.1\r\nAccept-Encoding: br, GZIP;q=0.5\r\n\r\n", "200"),
            ("GET / HTTP/1.1\r\nAccept-Encoding: gzip;q=0.0\r\n\r\n", "406"),
            ("GET / HTTP/1.1\r\n\r\n", "406"),
            ("POST /metrics HTTP/1.1\r\n\r\n", "405"),
            ("GET /feature/eth0/tx/off HTTP/1.1\r\n\r\n", "405"),
            ("POST /feature/eth0/tx/off HTTP/1.1\r\n\r\n", "401"),
            (
                "POST /feature/eth0/tx/off HTTP/1.1\r\nAuthorization: Bearer correct-horse\r\n\r\n",
                "404",
            ),
            (
                "POST /feature/eth0/tx/off HTTP/1.1\r\nAuthorization: Bearer correct-horse\r\n\
                 Authorization: Bearer correct-horse\r\n\r\n",
                "401",
            ),
            ("GET /nothing HTTP/1.1\r\n\r\n", "404"),
            ("GET metrics HTTP/1.1\r\n\r\n", "400"),
            ("\x16\x03\x01\x02\r\n\r\n", "400"),
        ] {
            let answer = ask(address, request.as_bytes());
            assert!(
                answer.starts_with(&format!("HTTP/1.1 {status} \r\n")),
                "{request:?}: {answer}"
            );
        }
        let head = ask(address, b"HEAD /metrics HTTP/1.1\r\n\r\n");
        assert!(head.contains("version=0.0.4") && head.ends_with("\r\n\r\n"), "{head}");
        let long = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(HEAD_LIMIT));
        assert!(ask(address, long.as_bytes()).starts_with("HTTP/1.1 431 "));
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(FIELD_LIMIT + 1));
        assert!(ask(address, many.as_bytes()).starts_with("HTTP/1.1 431 "));
        let with_body = b"POST /metrics HTTP/1.1\r\nContent-Length: 9000\r\n\r\n";
        assert!(
            ask(address, &[&with_body[..], &[b'x'; 9000]].concat()).starts_with("HTTP/1.1 405 ")
        );
    }

    #[test]
    fn silent_peers_keep_nobody_out_for_long() {
        let address = serving();
        let silent: Vec<_> = (0..THREADS).map(|_| TcpStream::connect(address).unwrap()).collect();
        (&silent[0]).write_all(b"GET / HT").unwrap();
        let answer = ask(address, b"GET /metrics HTTP/1.1\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }
}
