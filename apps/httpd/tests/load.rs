//! Many connections and large bodies, against the program itself, so that its memory can be looked at.

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use common::*;

/// A server in a process of its own. Ends with the value.
struct Process {
    child: Child,
    address: SocketAddr,
}

impl Process {
    fn start(arguments: &[&str]) -> Self {
        // Sockets for both ends of thousands of connections.
        let limit = "ulimit -n $(ulimit -Hn) && exec \"$0\" \"$@\"";
        let mut child = Command::new("sh")
            .args([
                "-c",
                limit,
                env!("CARGO_BIN_EXE_httpd"),
                "--listen",
                "127.0.0.1:0",
                "--bytes",
                "--root",
            ])
            .arg(www())
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address =
            line.split(['/', ',']).nth(2).unwrap_or_else(|| panic!("{line}")).parse().unwrap();
        Self { child, address }
    }

    /// Memory of the process, in KiB.
    fn resident(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What `/bytes/N` is documented to be.
fn expected(octets: &[u8]) -> bool {
    octets
        .iter()
        .enumerate()
        .all(|(index, &octet)| octet == ((index as u64 % 65_521 * 2_654_435_761) >> 24) as u8)
}

#[test]
fn two_thousand_connections_in_a_megabyte() {
    let server = Process::start(&[]);
    assert_eq!(get(server.address, "/1k", "").status, 200);
    let before = server.resident();
    let mut streams: Vec<_> = (0..2000).map(|_| connect(server.address)).collect();
    for stream in &mut streams {
        stream.write_all(b"GET /1k HTTP/1.1\r\nHost: a\r\n\r\nGET /1b HT").unwrap();
    }
    for stream in &mut streams {
        assert_eq!(read_answer(stream, false).unwrap().body.len(), 1024);
    }
    let grown = server.resident() - before;
    assert!(grown < 1024, "{grown} KiB");
    for stream in streams.iter_mut().rev() {
        stream.write_all(b"TP/1.1\r\nHost: a\r\n\r\n").unwrap();
        assert_eq!(read_answer(stream, false).unwrap().body.len(), 1);
    }
}

#[test]
fn large_bodies_need_no_memory() {
    let server = Process::start(&[]);
    assert_eq!(get(server.address, "/bytes/1", "").body, [0]);
    let before = server.resident();
    let mut streams: Vec<_> = (0..20).map(|_| connect(server.address)).collect();
    for stream in &mut streams {
        stream.write_all(b"GET /bytes/1073741824 HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    }
    for stream in &mut streams {
        stream.read_exact(&mut vec![0; 1 << 20]).unwrap();
    }
    let grown = server.resident().saturating_sub(before);
    assert!(grown < 1024, "{grown} KiB");
    let answer = get(server.address, "/bytes/10000000", "");
    assert!(expected(&answer.body));
    let part = get(server.address, "/bytes/10000000", "Range: bytes=9000000-9999998\r\n");
    assert_eq!(part.body, answer.body[9_000_000..9_999_999]);
}

#[test]
fn large_files_are_read_as_they_are_sent() {
    let root = std::env::temp_dir().join(format!("httpd-large-{}", std::process::id()));
    std::fs::create_dir_all(&root).unwrap();
    let content: Vec<u8> =
        (0..30_000_000u32).map(|index| (index.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    std::fs::write(root.join("large.bin"), &content).unwrap();
    let server = Process::start(&["--root", root.to_str().unwrap()]);
    let answer = get(server.address, "/large.bin", "");
    assert!(answer.body == content);
    let part = get(server.address, "/large.bin", "Range: bytes=-1000000\r\n");
    assert!(part.body == content[29_000_000..]);
    let parts = get(server.address, "/large.bin", "Range: bytes=0-999,20000000-20099999\r\n");
    assert_eq!(parts.status, 206);
    assert!(parts.body.windows(1000).any(|window| window == &content[20_000_000..20_001_000]));
    assert_eq!(
        get(
            server.address,
            "/large.bin",
            &format!("If-None-Match: {}\r\n", answer.field("etag").unwrap())
        )
        .status,
        304
    );
    std::fs::remove_dir_all(root).unwrap();
}

#[test]
fn the_access_log_goes_to_the_console() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_httpd"))
        .args(["--listen", "127.0.0.1:0", "--access-log", "--root"])
        .arg(www())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let line = lines.next().unwrap().unwrap();
    let address = line.split(['/', ',']).nth(2).unwrap().parse().unwrap();
    get(address, "/1k", "");
    get(address, "/\"none\"", "");
    let line = lines.next().unwrap().unwrap();
    assert!(
        line.starts_with("127.0.0.1 - - [")
            && line.ends_with("+0000] \"GET /1k HTTP/1.1\" 200 1024"),
        "{line}"
    );
    let line = lines.next().unwrap().unwrap();
    assert!(line.ends_with("\"GET /\\\"none\\\" HTTP/1.1\" 404 14"), "{line}");
    child.kill().unwrap();
    child.wait().unwrap();
}

/// curl is the judge here; it is in every distribution.
#[test]
fn curl_agrees() {
    let server = Process::start(&[]);
    let curl = |arguments: &[&str], target: &str| {
        let output = Command::new("curl")
            .args(["--silent", "--show-error", "--fail", "--max-time", "20"])
            .args(arguments)
            .arg(format!("http://{}{target}", server.address))
            .output()
            .expect("curl");
        assert!(
            output.status.success(),
            "{arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        output.stdout
    };
    assert!(expected(&curl(&[], "/bytes/50000000")));
    assert!(expected(&curl(&["--http1.0"], "/bytes/100000")));
    assert_eq!(curl(&["--compressed"], "/"), std::fs::read(www().join("index.html")).unwrap());
    assert_eq!(curl(&["--range", "1000-"], "/1k").len(), 24);
    assert_eq!(curl(&["--request", "GET", "--data", "some body"], "/1b").len(), 1);
    let data = format!("@{}", www().join("index.html").display());
    assert_eq!(
        curl(
            &["--request", "GET", "--header", "Expect: 100-continue", "--data-binary", &data],
            "/1b"
        )
        .len(),
        1
    );
    assert_eq!(
        curl(
            &["--request", "GET", "--header", "Transfer-Encoding: chunked", "--data-binary", &data],
            "/1b"
        )
        .len(),
        1
    );
    assert!(curl(&["--head"], "/1k").starts_with(b"HTTP/1.1 200 OK\r\n"));
}
