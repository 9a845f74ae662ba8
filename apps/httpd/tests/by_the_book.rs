//! What RFC 9110 and 9112 say, with literal requests.

mod common;

use std::io::{Read, Write};

use common::*;

#[test]
fn get_and_head() {
    let server = start(|_| {});
    let answer = get(server, "/1k", "");
    assert_eq!((answer.status, answer.body.len()), (200, 1024));
    assert_eq!(answer.body, std::fs::read(www().join("1k")).unwrap());
    assert_eq!(answer.field("content-type"), Some("application/octet-stream"));
    assert_eq!(answer.field("accept-ranges"), Some("bytes"));
    assert_eq!(answer.field("connection"), None);
    httpdate(answer.field("date").unwrap());
    httpdate(answer.field("last-modified").unwrap());
    let head = exchange(server, "HEAD /1k HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(without_date(&head), without_date(&Answer { body: vec![], ..answer }));
    assert_eq!(get(server, "/1b", "").body.len(), 1);
    let index = get(server, "/", "");
    assert_eq!(index.field("content-type"), Some("text/html; charset=utf-8"));
    assert_eq!(index.body, get(server, "/index.html?x=/../", "").body);
}

fn httpdate(text: &str) {
    // IMF-fixdate [RFC 9110 5.6.7]: Sun, 06 Nov 1994 08:49:37 GMT
    assert_eq!((text.len(), &text[3..5], &text[25..]), (29, ", ", " GMT"), "{text}");
}

fn without_date(answer: &Answer) -> String {
    answer.head.lines().filter(|line| !line.starts_with("Date: ")).collect()
}

#[test]
fn what_is_not_there_or_not_allowed() {
    let server = start(|options| options.bytes = false);
    assert_eq!(get(server, "/none", "").status, 404);
    assert_eq!(get(server, "/bytes/5", "").status, 404);
    assert_eq!(get(server, "/../Cargo.toml", "").status, 400);
    assert_eq!(get(server, "/%2e%2e/Cargo.toml", "").status, 400);
    assert_eq!(get(server, "/%", "").status, 400);
    let answer = exchange(server, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc");
    assert_eq!((answer.status, answer.field("allow")), (405, Some("GET, HEAD, OPTIONS")));
    assert_eq!(exchange(server, "BREW / HTTP/1.1\r\nHost: a\r\n\r\n").status, 501);
    assert_eq!(exchange(server, "GET / HTTP/3.0\r\nHost: a\r\n\r\n").status, 505);
    assert_eq!(exchange(server, "GET / HTTP/1.1\r\n\r\n").status, 400);
    let answer = exchange(server, "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!((answer.status, answer.field("allow")), (204, Some("GET, HEAD, OPTIONS")));
    assert_eq!(answer.field("content-length"), None);
}

#[test]
fn directories() {
    let root = std::env::temp_dir().join(format!("httpd-directories-{}", std::process::id()));
    std::fs::create_dir_all(root.join("a b")).unwrap();
    std::fs::write(root.join("a b/index.html"), "inside").unwrap();
    std::fs::create_dir_all(root.join("empty")).unwrap();
    std::fs::write(root.join(".secret"), "x").unwrap();
    let server = start(|options| options.root = root);
    let answer = get(server, "/a%20b?q=1", "");
    assert_eq!((answer.status, answer.field("location")), (301, Some("/a%20b/?q=1")));
    assert_eq!(get(server, "/a%20b/", "").body, b"inside");
    assert_eq!(get(server, "/empty/", "").status, 404);
    assert_eq!(get(server, "/.secret", "").status, 404);
}

#[test]
fn conditional_requests() {
    let server = start(|_| {});
    let answer = get(server, "/1k", "");
    let (etag, date) = (answer.field("etag").unwrap(), answer.field("last-modified").unwrap());
    let status = |fields: String| get(server, "/1k", &fields).status;
    let not_modified = get(server, "/1k", &format!("If-None-Match: \"x\", {etag}\r\n"));
    assert_eq!((not_modified.status, not_modified.field("etag")), (304, Some(etag)));
    assert_eq!(not_modified.field("content-length"), None);
    assert!(not_modified.field("date").is_some());
    assert_eq!(status(format!("If-Modified-Since: {date}\r\n")), 304);
    assert_eq!(status("If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\n".to_owned()), 200);
    assert_eq!(status("If-Match: \"x\"\r\n".to_owned()), 412);
    assert_eq!(status("If-Unmodified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\n".to_owned()), 412);
}

#[test]
fn ranges() {
    let server = start(|_| {});
    let whole = get(server, "/1k", "");
    let etag = whole.field("etag").unwrap().to_owned();
    let answer = get(server, "/1k", "Range: bytes=5-9\r\n");
    assert_eq!((answer.status, answer.field("content-range")), (206, Some("bytes 5-9/1024")));
    assert_eq!(answer.body, whole.body[5..10]);
    assert_eq!(answer.field("etag"), Some(&*etag));
    assert_eq!(get(server, "/1k", "Range: bytes=-1\r\n").body, whole.body[1023..]);
    assert_eq!(
        get(server, "/1k", "Range: bytes=1000-999999999999999999999\r\n").body,
        whole.body[1000..]
    );
    let answer = get(server, "/1k", "Range: bytes=1024-\r\n");
    assert_eq!((answer.status, answer.field("content-range")), (416, Some("bytes */1024")));
    for ignored in
        ["Range: lines=1-2\r\n", "Range: bytes=9-5\r\n", "Range: bytes=0-1\r\nIf-Range: \"x\"\r\n"]
    {
        assert_eq!(get(server, "/1k", ignored).body, whole.body, "{ignored}");
    }
    let answer = get(server, "/1k", &format!("Range: bytes=0-1\r\nIf-Range: {etag}\r\n"));
    assert_eq!(answer.body, whole.body[..2]);
    let head = exchange(server, "HEAD /1k HTTP/1.1\r\nHost: a\r\nRange: bytes=0-1\r\n\r\n");
    assert_eq!((head.status, head.field("content-length")), (200, Some("1024")));
}

#[test]
fn several_ranges() {
    let server = start(|_| {});
    let whole = get(server, "/1k", "").body;
    let answer = get(server, "/1k", "Range: bytes=0-9, 20-20,-4\r\n");
    assert_eq!(answer.status, 206);
    let boundary = answer
        .field("content-type")
        .unwrap()
        .strip_prefix("multipart/byteranges; boundary=")
        .unwrap();
    let mut expected = Vec::new();
    for (first, last) in [(0, 9), (20, 20), (1020, 1023)] {
        if first > 0 {
            expected.extend_from_slice(b"\r\n");
        }
        let head = format!(
            "--{boundary}\r\nContent-Type: application/octet-stream\r\nContent-Range: bytes {first}-{last}/1024\r\n\r\n"
        );
        expected.extend_from_slice(head.as_bytes());
        expected.extend_from_slice(&whole[first..=last]);
    }
    expected.extend_from_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
    assert_eq!(String::from_utf8_lossy(&answer.body), String::from_utf8_lossy(&expected));
    // One that can be satisfied among others is a single part.
    let answer = get(server, "/1k", "Range: bytes=2000-,1-2\r\n");
    assert_eq!((answer.status, answer.field("content-range")), (206, Some("bytes 1-2/1024")));
}

#[test]
fn compression() {
    let server = start(|_| {});
    let plain = get(server, "/", "");
    let packed = get(server, "/", "Accept-Encoding: br, gzip;q=0.5\r\n");
    assert_eq!(packed.field("content-encoding"), Some("gzip"));
    assert_eq!(
        (packed.field("vary"), plain.field("vary")),
        (Some("Accept-Encoding"), Some("Accept-Encoding"))
    );
    assert_ne!(packed.field("etag"), plain.field("etag"));
    assert!(packed.body.len() < plain.body.len());
    let mut unpacked = Vec::new();
    flate2::read::GzDecoder::new(&packed.body[..]).read_to_end(&mut unpacked).unwrap();
    assert_eq!(unpacked, plain.body);
    let etag = packed.field("etag").unwrap();
    assert_eq!(
        get(server, "/", &format!("Accept-Encoding: gzip\r\nIf-None-Match: {etag}\r\n")).status,
        304
    );
    assert_eq!(
        get(server, "/", "Accept-Encoding: gzip;q=0\r\n"),
        Answer { ..get(server, "/", "") }
    );
    assert_eq!(
        get(server, "/", "Accept-Encoding: gzip\r\nRange: bytes=0-3\r\n").body,
        plain.body[..4]
    );
    assert_eq!(get(server, "/1k", "Accept-Encoding: gzip\r\n").field("content-encoding"), None);
}

#[test]
fn persistence() {
    let server = start(|_| {});
    let mut stream = connect(server);
    for _ in 0..1000 {
        stream.write_all(b"GET /1b HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        assert_eq!(read_answer(&mut stream, false).unwrap().status, 200);
    }
    stream.write_all(b"GET /1b HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
    let answers = until_closed(&mut stream);
    assert_eq!((answers.len(), answers[0].field("connection")), (1, Some("close")));

    let mut stream = connect(server);
    stream.write_all(b"GET /1b HTTP/1.0\r\n\r\n").unwrap();
    assert_eq!(until_closed(&mut stream).len(), 1);
    let mut stream = connect(server);
    stream.write_all(b"GET /1b HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").unwrap();
    assert_eq!(read_answer(&mut stream, false).unwrap().field("connection"), Some("keep-alive"));
    stream.write_all(b"GET /none HTTP/1.0\r\n\r\n").unwrap();
    assert_eq!(until_closed(&mut stream)[0].status, 404);
}

#[test]
fn pipelining() {
    let server = start(|_| {});
    let mut stream = connect(server);
    let mut requests = String::new();
    for index in 0..500 {
        let (method, target) = match index % 5 {
            0 => ("HEAD", "/1k"),
            1 => ("GET", "/none"),
            2 => ("GET", "/bytes/1000"),
            3 => ("GET", "/"),
            _ => ("GET", "/1k"),
        };
        requests +=
            &format!("{method} {target} HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "x".repeat(index));
    }
    let mut writer = stream.try_clone().unwrap();
    let thread = std::thread::spawn(move || writer.write_all(requests.as_bytes()).unwrap());
    let index_length = std::fs::read(www().join("index.html")).unwrap().len();
    for index in 0..500 {
        let answer = read_answer(&mut stream, index % 5 == 0).unwrap();
        let expected =
            [(200, 0), (404, 14), (200, 1000), (200, index_length), (200, 1024)][index % 5];
        assert_eq!((answer.status, answer.body.len()), expected, "{index}");
    }
    thread.join().unwrap();
}

#[test]
fn request_bodies_are_passed_over() {
    let server = start(|_| {});
    let answers = say_and_end(
        server,
        b"GET /1b HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nGET /\
          GET /1b HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n\
          \r\nGET /1k HTTP/1.1\r\nHost: a\r\n\r\n",
    );
    assert_eq!(answers.iter().map(|answer| answer.body.len()).collect::<Vec<_>>(), [1, 1, 1024]);
    let mut long = b"GET /1b HTTP/1.1\r\nHost: a\r\nContent-Length: 65536\r\n\r\n".to_vec();
    long.extend_from_slice(&[b'x'; 65536]);
    long.extend_from_slice(b"GET /1k HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(say_and_end(server, &long)[1].body.len(), 1024);
    assert_eq!(
        exchange(server, "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 65537\r\n\r\n").status,
        413
    );
}

#[test]
fn expectations() {
    let server = start(|_| {});
    let mut stream = connect(server);
    stream
        .write_all(
            b"GET /1b HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n",
        )
        .unwrap();
    assert_eq!(read_answer(&mut stream, false).unwrap().status, 100);
    stream.write_all(b"abcGET /1k HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    assert_eq!(read_answer(&mut stream, false).unwrap().body.len(), 1);
    assert_eq!(read_answer(&mut stream, false).unwrap().body.len(), 1024);
    let answer = get(server, "/", "Content-Length: 99999999\r\nExpect: 100-continue\r\n");
    assert_eq!((answer.status, answer.field("connection")), (413, Some("close")));
    assert_eq!(get(server, "/", "Expect: something\r\n").status, 417);
}
