//! Requests nobody should send: each has an answer or an end, and the server goes on.

mod common;

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use common::*;

fn alive(server: SocketAddr) {
    assert_eq!(get(server, "/1b", "").status, 200);
}

#[test]
fn a_table_of_bad_requests() {
    let server = start(|_| {});
    let host = "Host: a\r\n";
    let large = "x".repeat(9000);
    for (request, status) in [
        ("\0\0\0\0\r\n\r\n".to_owned(), 400),
        ("\x16\x03\x01\x02\0\x01\0\x01\r\n".to_owned(), 400),
        ("GET / HTTP/1.1\nHost: a\n\n".to_owned(), 400),
        ("\nGET / HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), 400),
        (format!("GET / HTTP/1.1\r\n{host}A: b\n\r\n"), 400),
        (format!("GET / HTTP/1.1\r\n{host}A: b\r\n folded\r\n\r\n"), 400),
        (format!("GET / HTTP/1.1\r\n{host}A: b\0\r\n\r\n"), 400),
        (format!("GET / HTTP/1.1\r\n{host}A : b\r\n\r\n"), 400),
        (format!("GET /\0 HTTP/1.1\r\n{host}\r\n"), 400),
        (format!("GET / HTTP/1.1\r\n{host}{host}\r\n"), 400),
        (format!("GET / HTTP/1.1\r\n{host}Content-Length: 1\r\nContent-Length: 2\r\n\r\n"), 400),
        (
            format!(
                "GET / HTTP/1.1\r\n{host}Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"
            ),
            400,
        ),
        (format!("GET / HTTP/1.1\r\n{host}Content-Length: -1\r\n\r\n"), 400),
        (format!("GET / HTTP/1.1\r\n{host}Content-Length: 18446744073709551616\r\n\r\n"), 413),
        (format!("GET / HTTP/1.1\r\n{host}Transfer-Encoding: chunked, chunked\r\n\r\n"), 501),
        (format!("GET / HTTP/1.1\r\n{host}Transfer-Encoding:\x0bchunked\r\n\r\n"), 400),
        (format!("GET /{large} HTTP/1.1\r\n{host}\r\n"), 414),
        (format!("{large} / HTTP/1.1\r\n{host}\r\n"), 414),
        (format!("GET / HTTP/1.1\r\n{host}A: {large}\r\n\r\n"), 431),
        (format!("GET / HTTP/1.1\r\n{host}{}\r\n", "A: b\r\n".repeat(100)), 431),
        (format!("GET / HTTP/1.1\r\n{host}{}\r\n", ":\r\n".repeat(100)), 400),
        ("GET http:// HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), 400),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(), 505),
    ] {
        let answers = say_and_end(server, request.as_bytes());
        assert_eq!(
            answers.iter().map(|answer| answer.status).collect::<Vec<_>>(),
            [status],
            "{request:?}"
        );
        assert_eq!(answers[0].field("connection"), Some("close"), "{request:?}");
    }
    alive(server);
}

#[test]
fn bad_chunks_end_the_connection_after_the_answer() {
    let server = start(|_| {});
    for chunks in ["x\r\n", "1\r\nabc", "ffffffffffffffff1\r\n", "1\r\na\r\n0\r\n\0", "1;\n"] {
        let request =
            format!("GET /1b HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}");
        let answers = say_and_end(server, request.as_bytes());
        let status: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
        assert!(status == [200, 400] || status == [200, 413], "{chunks:?}: {status:?}");
    }
    alive(server);
}

#[test]
fn a_request_may_be_cut_anywhere() {
    let server = start(|_| {});
    let request = b"GET /1k HTTP/1.1\r\nHost: a\r\nRange: bytes=0-3\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nabcd\r\n0\r\n\r\n";
    let requests = [&request[..], request].concat();
    for cut in 1..requests.len() {
        let mut stream = connect(server);
        stream.write_all(&requests[..cut]).unwrap();
        // Long enough for the server to have seen it, most of the time: either way the outcome is the same.
        std::thread::sleep(Duration::from_millis(1));
        stream.write_all(&requests[cut..]).unwrap();
        for _ in 0..2 {
            assert_eq!(read_answer(&mut stream, false).unwrap().body, b"Thre", "cut at {cut}");
        }
    }
    let mut stream = connect(server);
    for octet in requests {
        stream.write_all(&[octet]).unwrap();
    }
    assert_eq!(read_answer(&mut stream, false).unwrap().status, 206);
    assert_eq!(read_answer(&mut stream, false).unwrap().status, 206);
    // Cut off for good.
    for cut in 1..request.len() {
        let answers = say_and_end(server, &request[..cut]);
        assert!(answers.iter().all(|answer| answer.status == 206), "cut off at {cut}: {answers:?}");
    }
    alive(server);
}

#[test]
fn slow_clients_are_not_waited_for() {
    let limit = Duration::from_millis(400);
    let server = start(|options| {
        (options.request_timeout, options.idle_timeout, options.write_timeout) =
            (limit, limit, limit);
    });
    let in_time = |start: Instant| {
        let waited = start.elapsed();
        assert!((limit..4 * limit + Duration::from_secs(1)).contains(&waited), "after {waited:?}");
    };
    // Nothing at all: the end, and not a word.
    let start = Instant::now();
    assert_eq!(until_closed(&mut connect(server)), []);
    in_time(start);
    // A head that grows by an octet now and then: progress does not help.
    let mut stream = connect(server);
    let start = Instant::now();
    let mut dripping = stream.try_clone().unwrap();
    std::thread::spawn(move || {
        let mut head = b"GET / HTTP/1.1\r\nHost: a\r\nX: ".to_vec();
        head.resize(1000, b'x');
        for octet in head {
            if dripping.write_all(&[octet]).is_err() {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    assert_eq!(read_answer(&mut stream, false).unwrap().status, 408);
    in_time(start);
    // A body that does not come.
    let mut stream = connect(server);
    stream.write_all(b"GET /1b HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n").unwrap();
    let start = Instant::now();
    let status: Vec<u16> = until_closed(&mut stream).iter().map(|answer| answer.status).collect();
    assert_eq!(status, [200, 408]);
    in_time(start);
    // Idle between requests: the end.
    let mut stream = connect(server);
    stream.write_all(b"GET /1b HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let start = Instant::now();
    assert_eq!(until_closed(&mut stream).len(), 1);
    in_time(start);
    // An answer that nobody takes: a reset in the middle of it.
    let mut stream = connect(server);
    stream.write_all(b"GET /bytes/1000000000 HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    std::thread::sleep(6 * limit);
    let mut received = 0;
    let mut buffer = vec![0; 1 << 20];
    while let Ok(n @ 1..) = stream.read(&mut buffer) {
        received += n;
    }
    assert!(received < 1_000_000_000);
    // One that is taken slowly is sent for as long as it is taken.
    let mut stream = connect(server);
    stream
        .write_all(b"GET /bytes/20000000 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut received = 0;
    while let n @ 1.. = stream.read(&mut buffer).unwrap() {
        received += n;
        std::thread::sleep(limit / 4);
    }
    assert!(received > 20_000_000);
    alive(server);
}

#[test]
fn pipelining_without_reading_stops_the_reading() {
    let server = start(|_| {});
    let mut stream = connect(server);
    stream.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    let requests = b"GET /bytes/100000 HTTP/1.1\r\nHost: a\r\n\r\n".repeat(1000);
    let mut sent = 0;
    // Ends when the server has stopped reading, and the sockets between are full.
    while let Ok(n) = stream.write(&requests[sent % requests.len()..]) {
        sent += n;
        assert!(sent < 100_000_000, "the server takes everything");
    }
    // What it has taken, it answers.
    for _ in 0..100 {
        assert_eq!(read_answer(&mut stream, false).unwrap().body.len(), 100_000);
    }
    drop(stream);
    alive(server);
}

#[test]
fn no_room_is_said() {
    let server = start(|options| options.connections = 2);
    // Two in the middle of a request can't be sent away; a third is.
    let mut busy = [connect(server), connect(server)];
    for stream in &mut busy {
        stream.write_all(b"GET").unwrap();
    }
    std::thread::sleep(Duration::from_millis(50));
    let answer = read_answer(&mut connect(server), false).unwrap();
    assert_eq!((answer.status, answer.field("retry-after")), (503, Some("1")));
    // One between requests has to make room for one that may have something to say.
    busy[0].write_all(b" /1b HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    assert_eq!(read_answer(&mut busy[0], false).unwrap().status, 200);
    alive(server);
    assert_eq!(read_answer(&mut busy[0], false), None);
    busy[1].write_all(b" /1b HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    assert_eq!(read_answer(&mut busy[1], false).unwrap().status, 200);
}

#[test]
fn unfinished_requests_share_a_bound() {
    let server = start(|options| options.cache = 64 << 10);
    let mut streams: Vec<_> = (0..40).map(|_| connect(server)).collect();
    for stream in &mut streams {
        stream
            .write_all(format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}", "x".repeat(2000)).as_bytes())
            .unwrap();
    }
    // Half of 64 KiB holds sixteen of them. The others are told to come back.
    std::thread::sleep(Duration::from_millis(100));
    alive(server);
    let mut refused = 0;
    for stream in &mut streams {
        stream.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
        let mut octets = [0; 12];
        if stream.read(&mut octets).is_ok() {
            assert_eq!(&octets, b"HTTP/1.1 503");
            refused += 1;
        }
    }
    assert_eq!(refused, 40 - 16);
}
