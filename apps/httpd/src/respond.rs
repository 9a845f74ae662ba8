//! From a request to the answer.

use std::fmt::Write as _;
use std::ops::Range;
use std::rc::Rc;
use std::time::Instant;

use crate::clock::Clock;
use crate::conditional::{accepts_gzip, evaluate, range_applies};
use crate::content::{Entry, Miss, Site};
use crate::output::Output;
use crate::range::Ranges;
use crate::request::{Field, Method, Request};
use crate::status::Status;

/// Where the status page is mounted: a name that no file served here can have.
#[cfg(feature = "status")]
const STATUS: &[u8] = b"/.status";

/// Separates the parts of a multipart body. It must not occur in them, so nobody may know it beforehand.
pub(crate) struct Boundary(String);

impl Boundary {
    pub(crate) fn random() -> Self {
        use std::hash::{BuildHasher, RandomState};
        Self(format!(
            "trireme-{:016x}{:016x}",
            RandomState::new().hash_one(0),
            RandomState::new().hash_one(1)
        ))
    }
}

/// What was answered.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: Status,
    /// Length of the body, in octets.
    pub(crate) length: u64,
    /// No further request is taken on this connection.
    pub(crate) close: bool,
}

/// Everything that answers are made from.
pub(crate) struct Responder {
    pub(crate) site: Site,
    pub(crate) clock: Clock,
    pub(crate) boundary: Boundary,
    /// What is served below `/.status`, if it is.
    #[cfg(feature = "status")]
    pub(crate) status: Option<trireme_status::Status>,
}

impl Responder {
    /// Appends the answer to `request` to `out`. A small file's answer is made without allocating.
    pub(crate) fn answer(
        &mut self,
        request: &Request<'_, '_>,
        now: Instant,
        out: &mut Output,
    ) -> Answer {
        let framing = Connection::of(request);
        let page = self.page(request);
        if request.method == Method::Post && page.is_none() {
            return self.refuse(Status::MethodNotAllowed, out);
        }
        if request.body.is_too_long() {
            return self.refuse(Status::ContentTooLarge, out);
        }
        if request.expects_continue && request.body != crate::body::Framing::None {
            out.head(|head| head.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n"));
        }
        if request.method == Method::Options {
            self.start(out, Status::NoContent, framing, "Allow: GET, HEAD, OPTIONS\r\n\r\n");
            return Answer { status: Status::NoContent, length: 0, close: !request.persistent };
        }
        let without_body = request.method == Method::Head;
        #[cfg(feature = "status")]
        if let Some(below) = page {
            return self.report(request, below, now, out);
        }
        let (status, length) = match self.site.find(request.target, now) {
            Ok(entry) => self.represent(request, entry, without_body, out),
            Err(Miss::Malformed) => {
                self.message(out, Status::BadRequest, framing, "", without_body)
            }
            Err(Miss::NotFound) => self.message(out, Status::NotFound, framing, "", without_body),
            Err(Miss::Unreadable) => {
                self.message(out, Status::InternalServerError, framing, "", without_body)
            }
            Err(Miss::Directory) => {
                // The path as it was asked for, so still encoded; a query goes along.
                let split = request
                    .target
                    .iter()
                    .position(|&octet| octet == b'?')
                    .unwrap_or(request.target.len());
                let (path, query) = request.target.split_at(split);
                let (path, query) = (String::from_utf8_lossy(path), String::from_utf8_lossy(query));
                let location = format!("Location: {path}/{query}\r\n");
                self.message(out, Status::MovedPermanently, framing, &location, without_body)
            }
        };
        Answer { status, length, close: !request.persistent }
    }

    /// Appends the answer to what is no proper request, or one that can't be served now. The connection ends with it: where
    /// the next request would begin is not certain.
    pub(crate) fn refuse(&mut self, status: Status, out: &mut Output) -> Answer {
        let fields = match status {
            Status::MethodNotAllowed => "Allow: GET, HEAD, OPTIONS\r\n",
            Status::ServiceUnavailable => "Retry-After: 1\r\n",
            _ => "",
        };
        let (status, length) = self.message(out, status, Connection::Close, fields, false);
        Answer { status, length, close: true }
    }

    /// What follows the status page's place in the path, if the page is served and is what is asked for.
    #[cfg(feature = "status")]
    fn page<'b>(&self, request: &Request<'_, 'b>) -> Option<&'b str> {
        self.status.as_ref()?;
        let path = request.target.split(|&octet| octet == b'?').next()?;
        let below = std::str::from_utf8(path.strip_prefix(STATUS)?).ok()?;
        (below.is_empty() || below.starts_with('/')).then_some(below)
    }

    #[cfg(not(feature = "status"))]
    fn page<'b>(&self, _: &Request<'_, 'b>) -> Option<&'b str> {
        None
    }

    #[cfg(feature = "status")]
    fn report(
        &mut self,
        request: &Request<'_, '_>,
        below: &str,
        now: Instant,
        out: &mut Output,
    ) -> Answer {
        let framing = Connection::of(request);
        let without_body = request.method == Method::Head;
        let close = !request.persistent;
        let (Some(path), Some(page)) = (below.strip_prefix('/'), &mut self.status) else {
            let location = "Location: /.status/\r\n";
            let (status, length) =
                self.message(out, Status::MovedPermanently, framing, location, without_body);
            return Answer { status, length, close };
        };
        let asked = trireme_status::Request {
            method: match request.method {
                Method::Head => "HEAD",
                Method::Post => "POST",
                _ => "GET",
            },
            path,
            authorization: request.value(Field::Authorization),
            accepts_gzip: request.has(Field::AcceptEncoding) && accepts_gzip(request),
        };
        let response = page.answer(&asked, now);
        let (status, length) = (Status::of_page(response.status), response.body.len());
        self.start(out, status, framing, &response.fields);
        out.head(|head| {
            head.extend_from_slice(format!("Content-Length: {length}\r\n\r\n").as_bytes());
            if !without_body {
                head.extend_from_slice(&response.body);
            }
        });
        Answer { status, length: if without_body { 0 } else { length as u64 }, close }
    }

    fn represent(
        &mut self,
        request: &Request<'_, '_>,
        mut entry: Rc<Entry>,
        without_body: bool,
        out: &mut Output,
    ) -> (Status, u64) {
        let framing = Connection::of(request);
        // A range is a range of the plain form: a client resuming a download means that. HEAD has no ranges. [RFC 9110 14.2]
        let ranged = request.has(Field::Range) && !without_body;
        if !ranged
            && request.has(Field::AcceptEncoding)
            && accepts_gzip(request)
            && let Some(compressed) = self.site.gzip(&entry)
        {
            entry = compressed;
        }
        match evaluate(request, entry.validators()) {
            Some(Status::NotModified) => {
                self.start(out, Status::NotModified, framing, &entry.common_fields);
                out.head(|head| head.extend_from_slice(b"\r\n"));
                return (Status::NotModified, 0);
            }
            Some(status) => return self.message(out, status, framing, "", without_body),
            None => {}
        }
        if ranged
            && range_applies(request, entry.validators())
            && let Some(value) = request.value(Field::Range)
        {
            match Ranges::parse(value, entry.length) {
                Ranges::Ignore => {}
                Ranges::Unsatisfiable => {
                    let field = format!("Content-Range: bytes */{}\r\n", entry.length);
                    return self.message(
                        out,
                        Status::RangeNotSatisfiable,
                        framing,
                        &field,
                        without_body,
                    );
                }
                Ranges::Parts(parts) => {
                    let length = match &parts[..] {
                        [part] => self.single(out, framing, &entry, part.clone()),
                        parts => self.multipart(out, framing, &entry, parts),
                    };
                    return (Status::PartialContent, length);
                }
            }
        }
        self.start(out, Status::Ok, framing, "");
        out.entry(&entry, without_body);
        (Status::Ok, if without_body { 0 } else { entry.length })
    }

    fn single(
        &self,
        out: &mut Output,
        framing: Connection,
        entry: &Rc<Entry>,
        part: Range<u64>,
    ) -> u64 {
        let length = part.end - part.start;
        let fields = format!(
            "Content-Type: {}\r\n{}Content-Length: {length}\r\n{}\r\n",
            entry.media_type,
            content_range(&part, entry.length),
            entry.common_fields
        );
        self.start(out, Status::PartialContent, framing, &fields);
        out.body(entry, part);
        length
    }

    /// [RFC 9110 15.3.7.2]
    fn multipart(
        &self,
        out: &mut Output,
        framing: Connection,
        entry: &Rc<Entry>,
        parts: &[Range<u64>],
    ) -> u64 {
        let boundary = &self.boundary.0;
        let mut delimiter = "--";
        let heads: Vec<String> = parts
            .iter()
            .map(|part| {
                let range = content_range(part, entry.length);
                let head = format!(
                    "{delimiter}{boundary}\r\nContent-Type: {}\r\n{range}\r\n",
                    entry.media_type
                );
                delimiter = "\r\n--";
                head
            })
            .collect();
        let end = format!("\r\n--{boundary}--\r\n");
        let length = heads.iter().map(|head| head.len() as u64).sum::<u64>()
            + parts.iter().map(|part| part.end - part.start).sum::<u64>()
            + end.len() as u64;
        let fields = format!(
            "Content-Type: multipart/byteranges; boundary={boundary}\r\nContent-Length: {length}\r\n{}\r\n",
            entry.common_fields
        );
        self.start(out, Status::PartialContent, framing, &fields);
        for (head, part) in heads.iter().zip(parts) {
            out.head(|scratch| scratch.extend_from_slice(head.as_bytes()));
            out.body(entry, part.clone());
        }
        out.head(|scratch| scratch.extend_from_slice(end.as_bytes()));
        length
    }

    /// A status with a line of text as its body.
    fn message(
        &self,
        out: &mut Output,
        status: Status,
        framing: Connection,
        fields: &str,
        without_body: bool,
    ) -> (Status, u64) {
        let phrase = status.phrase();
        let length = phrase.len() + 1;
        self.start(out, status, framing, fields);
        let mut rest = String::new();
        // Writing to a String can't fail.
        let _ = write!(
            rest,
            "Content-Type: text/plain; charset=utf-8\r\nContent-Length: {length}\r\n\r\n"
        );
        if !without_body {
            let _ = writeln!(rest, "{phrase}");
        }
        out.head(|head| head.extend_from_slice(rest.as_bytes()));
        (status, if without_body { 0 } else { length as u64 })
    }

    fn start(&self, out: &mut Output, status: Status, framing: Connection, fields: &str) {
        out.head(|head| {
            self.clock.start(head, status);
            match framing {
                Connection::Persistent => {}
                Connection::KeepAlive => head.extend_from_slice(b"Connection: keep-alive\r\n"),
                Connection::Close => head.extend_from_slice(b"Connection: close\r\n"),
            }
            head.extend_from_slice(fields.as_bytes());
        });
    }
}

/// What the Connection field of an answer says. [RFC 9112 9.3]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Connection {
    /// Nothing: in HTTP/1.1 a connection stays.
    Persistent,
    /// Said to clients of HTTP/1.0, where it must be.
    KeepAlive,
    Close,
}

impl Connection {
    const fn of(request: &Request<'_, '_>) -> Self {
        match (request.persistent, request.is_1_1) {
            (false, _) => Self::Close,
            (true, true) => Self::Persistent,
            (true, false) => Self::KeepAlive,
        }
    }
}

fn content_range(part: &Range<u64>, length: u64) -> String {
    format!("Content-Range: bytes {}-{}/{length}\r\n", part.start, part.end - 1)
}
