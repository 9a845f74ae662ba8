//! The status page below `/.status`: there when asked for, and nowhere else. What it says and does is tested with its own
//! crate and end to end; this machine owns no cards.

mod common;

use std::io::Write;

use common::{connect, exchange, get, read_answer, start};

#[test]
fn it_is_there_only_when_asked_for() {
    let server = start(|_| {});
    for target in ["/.status", "/.status/", "/.status/metrics"] {
        assert_eq!(get(server, target, "Accept-Encoding: gzip\r\n").status, 404, "{target}");
        let post = format!("POST {target} HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(exchange(server, &post).status, 405, "{target}");
    }
}

#[test]
fn page_and_metrics_are_below_their_place() {
    let server = start(|options| options.status = true);
    let moved = get(server, "/.status?x", "");
    assert_eq!((moved.status, moved.field("location")), (301, Some("/.status/")));
    let page = get(server, "/.status/", "Accept-Encoding: gzip\r\n");
    assert_eq!((page.status, page.field("content-encoding")), (200, Some("gzip")));
    assert!(page.field("content-security-policy").unwrap().starts_with("default-src 'none';"));
    let mut text = String::new();
    let mut gzip = flate2::read::GzDecoder::new(&page.body[..]);
    std::io::Read::read_to_string(&mut gzip, &mut text).unwrap();
    assert!(text.starts_with("<!DOCTYPE html>"), "{text}");
    // Nothing is fetched from elsewhere; the one URL in it is the name of SVG.
    let elsewhere = text.matches("//www.w3.org/2000/svg").count();
    assert_eq!(text.matches("http://").count() + text.matches("https://").count(), elsewhere);
    assert_eq!(get(server, "/.status/", "").status, 406);
    let metrics = get(server, "/.status/metrics", "");
    let media_type = metrics.field("content-type");
    assert_eq!(media_type, Some("text/plain; version=0.0.4; charset=utf-8"));
    assert!(metrics.body.starts_with(b"# HELP "));
    let head = exchange(server, "HEAD /.status/metrics HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!((head.status, &head.body[..]), (200, &b""[..]));
    for other in ["/.statusx", "/.status//", "/.status/%6detrics", "/.status/.."] {
        assert!(matches!(get(server, other, "").status, 400 | 404), "{other}");
    }
    assert_eq!(get(server, "/1k", "").body.len(), 1024);
}

#[test]
fn posts_go_to_the_switches_and_keep_the_connection() {
    let server = start(|options| options.status = true);
    let mut stream = connect(server);
    let order = "POST /.status/feature/eth0/tx/off HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer 12345678\r\n";
    // Twice the same head, then one with a body in front of another request: no token, so nothing can be switched.
    let requests = format!(
        "{order}\r\n{order}\r\n{order}Content-Length: 4\r\n\r\nbodyGET /1b HTTP/1.1\r\nHost: a\r\n\r\n"
    );
    stream.write_all(requests.as_bytes()).unwrap();
    let statuses: Vec<_> =
        (0..4).map(|_| read_answer(&mut stream, false).unwrap().status).collect();
    assert_eq!(statuses, [403, 403, 403, 200]);
    assert_eq!(exchange(server, "POST / HTTP/1.1\r\nHost: a\r\n\r\n").status, 405);
    let put = "PUT /.status/feature/eth0/tx/off HTTP/1.1\r\nHost: a\r\n\r\n";
    assert_eq!(exchange(server, put).status, 405);
}
