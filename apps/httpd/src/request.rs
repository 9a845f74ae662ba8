//! The head of a request: what httparse accepts, less what RFC 9112 tells a careful server to refuse.
//!
//! httparse splits the head into lines and checks each byte. Left to this file are the rules that need more than one byte
//! of context: line ends are CRLF only, `Host` is there once and is a host, and the length of the body is said once and in
//! one way. A front end that reads any of these differently would let one client's bytes become another's request.

use std::mem::MaybeUninit;
use std::ops::Range;

use httparse::Header;

use crate::body::Framing;
use crate::status::Status;

/// Longest head, in octets, from the request line to the empty line.
pub(crate) const HEAD_LIMIT: usize = 8192;
/// Longest request target, in octets.
const TARGET_LIMIT: usize = 4096;
/// Most header fields in a head.
pub(crate) const FIELD_LIMIT: usize = 64;

pub(crate) type Fields<'b> = [MaybeUninit<Header<'b>>; FIELD_LIMIT];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    Get,
    Head,
    Options,
    /// For the switches of the status page.
    Post,
    /// Defined by RFC 9110 or 5789, and of no use to a static server.
    NotAllowed,
    Unknown,
}

/// Fields that change the answer and are looked up only if they are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    AcceptEncoding,
    Range,
    IfRange,
    IfMatch,
    IfNoneMatch,
    IfModifiedSince,
    IfUnmodifiedSince,
    Authorization,
}

impl Field {
    const fn name(self) -> &'static str {
        match self {
            Self::AcceptEncoding => "accept-encoding",
            Self::Range => "range",
            Self::IfRange => "if-range",
            Self::IfMatch => "if-match",
            Self::IfNoneMatch => "if-none-match",
            Self::IfModifiedSince => "if-modified-since",
            Self::IfUnmodifiedSince => "if-unmodified-since",
            Self::Authorization => "authorization",
        }
    }

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// A request whose head is complete and follows the rules.
#[derive(Debug)]
pub(crate) struct Request<'h, 'b> {
    pub(crate) method: Method,
    /// The target in origin-form, or `*`.
    pub(crate) target: &'b [u8],
    /// HTTP/1.1 rather than 1.0.
    pub(crate) is_1_1: bool,
    /// The connection may carry another request.
    pub(crate) persistent: bool,
    pub(crate) body: Framing,
    /// The client waits for 100 (Continue) before it sends the body.
    pub(crate) expects_continue: bool,
    /// Length of the head, in octets.
    pub(crate) length: usize,
    present: u8,
    fields: &'h [Header<'b>],
}

/// What some received octets amount to.
#[derive(Debug)]
pub(crate) enum Parsed<'h, 'b> {
    Partial,
    Complete(Request<'h, 'b>),
    Refused(Status),
}

/// Reads a head from the start of `octets`. Empty lines before it have been taken off by [`leading_empty_lines`].
pub(crate) fn parse<'h, 'b>(octets: &'b [u8], fields: &'h mut Fields<'b>) -> Parsed<'h, 'b> {
    // httparse would pass over it, as over an empty line.
    if octets.starts_with(b"\n") {
        return Parsed::Refused(Status::BadRequest);
    }
    let mut raw = httparse::Request::new(&mut []);
    let length = match raw.parse_with_uninit_headers(octets, fields) {
        Ok(httparse::Status::Complete(length)) if length <= HEAD_LIMIT => length,
        Ok(httparse::Status::Complete(_)) => return Parsed::Refused(too_large(octets)),
        Ok(httparse::Status::Partial) if octets.len() < HEAD_LIMIT => return Parsed::Partial,
        Ok(httparse::Status::Partial) => return Parsed::Refused(too_large(octets)),
        Err(httparse::Error::TooManyHeaders) => {
            return Parsed::Refused(Status::RequestHeaderFieldsTooLarge);
        }
        Err(httparse::Error::Version) => return Parsed::Refused(unknown_version(octets)),
        Err(_) => return Parsed::Refused(Status::BadRequest),
    };
    let (Some(method), Some(target), Some(minor)) = (raw.method, raw.path, raw.version) else {
        return Parsed::Refused(Status::BadRequest);
    };
    match Request::check(&octets[..length], method, target.as_bytes(), minor == 1, raw.headers) {
        Ok(request) => Parsed::Complete(request),
        Err(status) => Parsed::Refused(status),
    }
}

/// The last head that asked for nothing special. Clients that poll, and so most requests of some machines, send the same
/// octets again and again: comparing them is a tenth of the work of reading them.
#[derive(Default)]
pub(crate) struct Recent {
    head: Vec<u8>,
    /// Where the target is in `head`.
    target: Range<usize>,
    method: Option<Method>,
}

impl Recent {
    /// Longest head that is remembered, in octets.
    const LIMIT: usize = 512;

    /// Reads a head, like [`parse`].
    pub(crate) fn parse<'h, 'b>(
        &mut self,
        octets: &'b [u8],
        fields: &'h mut Fields<'b>,
    ) -> Parsed<'h, 'b> {
        if let Some(method) = self.method
            && octets.starts_with(&self.head)
        {
            return Parsed::Complete(Request {
                method,
                target: &octets[self.target.clone()],
                is_1_1: true,
                persistent: true,
                body: Framing::None,
                expects_continue: false,
                length: self.head.len(),
                present: 0,
                fields: &[],
            });
        }
        let parsed = parse(octets, fields);
        if let Parsed::Complete(request) = &parsed {
            self.remember(request, octets);
        }
        parsed
    }

    fn remember(&mut self, request: &Request<'_, '_>, octets: &[u8]) {
        let usual = request.is_plain() && request.is_1_1 && request.persistent;
        if !usual
            || request.method == Method::Post
            || request.body != Framing::None
            || request.expects_continue
            || request.length > Self::LIMIT
        {
            return;
        }
        // The target stands behind the method and one space, unless it was an absolute one.
        let Some(before) = octets.iter().position(|&octet| octet == b' ') else { return };
        let target = before + 1..before + 1 + request.target.len();
        if octets.get(target.clone()) != Some(request.target) {
            return;
        }
        self.method = Some(request.method);
        self.target = target;
        self.head.clear();
        self.head.extend_from_slice(&octets[..request.length]);
    }
}

/// How many octets of empty lines stand before a head; they are to be ignored. [RFC 9112 2.2]
pub(crate) fn leading_empty_lines(octets: &[u8]) -> usize {
    let mut length = 0;
    while octets[length..].starts_with(b"\r\n") {
        length += 2;
    }
    length
}

impl<'h, 'b> Request<'h, 'b> {
    fn check(
        head: &[u8],
        method: &str,
        target: &'b [u8],
        is_1_1: bool,
        fields: &'h [Header<'b>],
    ) -> Result<Self, Status> {
        // httparse lets a carriage return stand only before a line feed, so counting them finds a line without. A lone
        // line feed may be accepted [RFC 9112 2.2]; what some accept and some do not is what smuggling is made of.
        if count(head, b'\r') != fields.len() + 2 {
            return Err(Status::BadRequest);
        }
        if target.len() > TARGET_LIMIT {
            return Err(Status::UriTooLong);
        }
        let method = match method {
            "GET" => Method::Get,
            "HEAD" => Method::Head,
            "OPTIONS" => Method::Options,
            "POST" => Method::Post,
            "PUT" | "DELETE" | "PATCH" | "TRACE" | "CONNECT" => Method::NotAllowed,
            _ => Method::Unknown,
        };
        let mut request = Self {
            method,
            target,
            is_1_1,
            persistent: is_1_1,
            body: Framing::None,
            expects_continue: false,
            length: head.len(),
            present: 0,
            fields,
        };
        request.read_fields()?;
        match method {
            Method::Unknown => Err(Status::NotImplemented),
            Method::NotAllowed => Err(Status::MethodNotAllowed),
            _ => {
                request.target = origin_form(target, method)?;
                Ok(request)
            }
        }
    }

    fn read_fields(&mut self) -> Result<(), Status> {
        let (mut hosts, mut lengths, mut codings) = (0, 0, 0);
        let mut close = false;
        for field in self.fields {
            let (name, value) = (field.name, field.value);
            let is = |wanted: &str| name.eq_ignore_ascii_case(wanted);
            let interesting = match name.len() {
                4 if is("host") => {
                    hosts += 1;
                    if !is_host(value) {
                        return Err(Status::BadRequest);
                    }
                    None
                }
                5 if is("range") => Some(Field::Range),
                6 if is("expect") && self.is_1_1 => {
                    if !value.eq_ignore_ascii_case(b"100-continue") {
                        return Err(Status::ExpectationFailed);
                    }
                    self.expects_continue = true;
                    None
                }
                8 if is("if-range") => Some(Field::IfRange),
                8 if is("if-match") => Some(Field::IfMatch),
                10 if is("connection") => {
                    // Nearly always it is this one word.
                    if value.eq_ignore_ascii_case(b"keep-alive") {
                        self.persistent = true;
                    } else {
                        for option in list(value) {
                            close |= option.eq_ignore_ascii_case(b"close");
                            self.persistent |= option.eq_ignore_ascii_case(b"keep-alive");
                        }
                    }
                    None
                }
                13 if is("if-none-match") => Some(Field::IfNoneMatch),
                13 if is("authorization") => Some(Field::Authorization),
                14 if is("content-length") => {
                    lengths += 1;
                    self.body = Framing::length(value)?;
                    None
                }
                15 if is("accept-encoding") => Some(Field::AcceptEncoding),
                17 if is("if-modified-since") => Some(Field::IfModifiedSince),
                17 if is("transfer-encoding") => {
                    codings += 1;
                    // Any other coding, or a list of them, is one we do not know. [RFC 9112 6.1]
                    if !value.eq_ignore_ascii_case(b"chunked") {
                        return Err(Status::NotImplemented);
                    }
                    None
                }
                19 if is("if-unmodified-since") => Some(Field::IfUnmodifiedSince),
                _ => None,
            };
            if let Some(interesting) = interesting {
                self.present |= interesting.bit();
            }
        }
        self.persistent &= !close;
        // One Host, and in 1.0 possibly none. [RFC 9112 3.2]
        if hosts > 1 || (hosts == 0 && self.is_1_1) {
            return Err(Status::BadRequest);
        }
        // One statement of the body's length. A coding in 1.0 is "faulty framing". [RFC 9112 6.1, 6.3]
        if lengths + codings > 1 || (codings == 1 && !self.is_1_1) {
            return Err(Status::BadRequest);
        }
        if codings == 1 {
            self.body = Framing::chunked();
        }
        Ok(())
    }

    /// It has none of the fields that change an answer.
    pub(crate) const fn is_plain(&self) -> bool {
        self.present == 0
    }

    pub(crate) fn has(&self, field: Field) -> bool {
        self.present & field.bit() != 0
    }

    /// The values of a field, one for each of its lines.
    pub(crate) fn values(&self, field: Field) -> impl Iterator<Item = &'b [u8]> + '_ {
        let lines = if self.has(field) { self.fields } else { &[] };
        lines
            .iter()
            .filter(move |line| line.name.eq_ignore_ascii_case(field.name()))
            .map(|line| line.value)
    }

    /// The value of a field that is no list; `None` also if it is there more than once.
    pub(crate) fn value(&self, field: Field) -> Option<&'b [u8]> {
        let mut values = self.values(field);
        values.next().filter(|_| values.next().is_none())
    }
}

/// The elements of a comma-separated list, without the white space around them. [RFC 9110 5.6.1]
pub(crate) fn list(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value
        .split(|&octet| octet == b',')
        .map(<[u8]>::trim_ascii)
        .filter(|element| !element.is_empty())
}

/// How often `wanted` occurs. Written so that it becomes vector code: it runs over every head.
fn count(octets: &[u8], wanted: u8) -> usize {
    octets
        .chunks(128)
        .map(|chunk| usize::from(chunk.iter().map(|&octet| u8::from(octet == wanted)).sum::<u8>()))
        .sum()
}

/// The status for a head beyond the limits: which line is to blame?
fn too_large(octets: &[u8]) -> Status {
    if octets[..octets.len().min(TARGET_LIMIT)].contains(&b'\n') {
        Status::RequestHeaderFieldsTooLarge
    } else {
        Status::UriTooLong
    }
}

/// The status for a request line whose last word is neither HTTP/1.0 nor HTTP/1.1.
fn unknown_version(octets: &[u8]) -> Status {
    let line = octets.split(|&octet| octet == b'\n').next().unwrap_or_default().trim_ascii_end();
    let word = line.rsplit(|&octet| octet == b' ').next().unwrap_or_default();
    match word.strip_prefix(b"HTTP/") {
        Some([major, b'.', minor]) if major.is_ascii_digit() && minor.is_ascii_digit() => {
            Status::HttpVersionNotSupported
        }
        _ => Status::BadRequest,
    }
}

/// Takes a target to its origin-form. [RFC 9112 3.2]
fn origin_form(target: &[u8], method: Method) -> Result<&[u8], Status> {
    match target {
        [b'/', ..] => Ok(target),
        b"*" if method == Method::Options => Ok(target),
        _ => {
            let (scheme, rest) = target.split_at_checked(7).ok_or(Status::BadRequest)?;
            if !scheme.eq_ignore_ascii_case(b"http://") {
                return Err(Status::BadRequest);
            }
            let end =
                rest.iter().position(|&octet| matches!(octet, b'/' | b'?')).unwrap_or(rest.len());
            let (authority, path) = rest.split_at(end);
            match path {
                _ if authority.is_empty() || !is_host(authority) => Err(Status::BadRequest),
                [b'/', ..] => Ok(path),
                _ => Ok(b"/"),
            }
        }
    }
}

/// `uri-host [ ":" port ]`, possibly empty. [RFC 9110 7.2, RFC 3986 3.2.2]
fn is_host(value: &[u8]) -> bool {
    let (host_ok, port) = if let Some(literal) = value.strip_prefix(b"[") {
        let Some(end) = literal.iter().position(|&octet| octet == b']') else { return false };
        let (address, rest) = (&literal[..end], &literal[end + 1..]);
        (
            !address.is_empty()
                && address
                    .iter()
                    .all(|octet| matches!(octet, b':' | b'.') || octet.is_ascii_hexdigit()),
            rest,
        )
    } else {
        let end = value.iter().position(|&octet| !NAME[usize::from(octet)]).unwrap_or(value.len());
        (true, &value[end..])
    };
    let port_ok = match port {
        [] => true,
        [b':', digits @ ..] => digits.len() <= 5 && digits.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    host_ok && port_ok
}

/// Unreserved characters, sub-delimiters and the percent sign. [RFC 3986 2, 3.2.2]
const NAME: [bool; 256] = {
    let mut table = [false; 256];
    let mut octet = 0;
    while octet < 128 {
        table[octet] = (octet as u8).is_ascii_alphanumeric();
        octet += 1;
    }
    let others = b"-._~%!$&'()*+,;=";
    let mut index = 0;
    while index < others.len() {
        table[others[index] as usize] = true;
        index += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(head: &str) -> Result<(Method, String, bool), Option<Status>> {
        let mut fields = [const { MaybeUninit::uninit() }; FIELD_LIMIT];
        match parse(head.as_bytes(), &mut fields) {
            Parsed::Complete(request) => Ok((
                request.method,
                String::from_utf8_lossy(request.target).into_owned(),
                request.persistent,
            )),
            Parsed::Partial => Err(None),
            Parsed::Refused(status) => Err(Some(status)),
        }
    }

    #[track_caller]
    fn refused(head: &str, status: Status) {
        assert_eq!(outcome(head).unwrap_err(), Some(status), "{head:?}");
    }

    #[track_caller]
    fn accepted(head: &str, method: Method, target: &str, persistent: bool) {
        assert_eq!(outcome(head), Ok((method, target.to_owned(), persistent)), "{head:?}");
    }

    #[test]
    fn forms_of_the_target() {
        accepted("GET / HTTP/1.1\r\nHost: a\r\n\r\n", Method::Get, "/", true);
        accepted(
            "GET http://a.example:80/b?c HTTP/1.1\r\nHost: a\r\n\r\n",
            Method::Get,
            "/b?c",
            true,
        );
        accepted("HEAD HTTP://a.example HTTP/1.1\r\nHost: a\r\n\r\n", Method::Head, "/", true);
        accepted("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", Method::Options, "*", true);
        refused("GET * HTTP/1.1\r\nHost: a\r\n\r\n", Status::BadRequest);
        refused("GET a HTTP/1.1\r\nHost: a\r\n\r\n", Status::BadRequest);
        refused("GET http:///x HTTP/1.1\r\nHost: a\r\n\r\n", Status::BadRequest);
        refused("GET https://a/x HTTP/1.1\r\nHost: a\r\n\r\n", Status::BadRequest);
    }

    #[test]
    fn persistence() {
        accepted("GET / HTTP/1.0\r\n\r\n", Method::Get, "/", false);
        accepted("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", Method::Get, "/", true);
        accepted("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", Method::Get, "/", false);
        accepted(
            "GET / HTTP/1.1\r\nHost: a\r\nConnection: x, CLOSE\r\n\r\n",
            Method::Get,
            "/",
            false,
        );
        accepted(
            "GET / HTTP/1.1\r\nHost: a\r\nConnection: close, keep-alive\r\n\r\n",
            Method::Get,
            "/",
            false,
        );
    }

    #[test]
    fn hosts() {
        for good in ["", "a", "a.example:8080", "[::1]", "[::1]:80", "192.0.2.1", "%41", "a:"] {
            accepted(&format!("GET / HTTP/1.1\r\nHost: {good}\r\n\r\n"), Method::Get, "/", true);
        }
        for bad in
            ["a b", "a/b", "u@a", "[::1", "[]", "[::1]x", "a:b", "a:123456", "\u{e9}", "a,b:1:2"]
        {
            refused(&format!("GET / HTTP/1.1\r\nHost: {bad}\r\n\r\n"), Status::BadRequest);
        }
        refused("GET / HTTP/1.1\r\n\r\n", Status::BadRequest);
        refused("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", Status::BadRequest);
        refused("GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n", Status::BadRequest);
    }

    #[test]
    fn only_crlf_ends_a_line() {
        refused("GET / HTTP/1.1\nHost: a\n\n", Status::BadRequest);
        refused("GET / HTTP/1.1\r\nHost: a\n\r\n", Status::BadRequest);
        refused("GET / HTTP/1.1\r\nHost: a\r\n\n", Status::BadRequest);
        refused("\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", Status::BadRequest);
        refused("GET / HTTP/1.1\r\nHost: a\rb\r\n\r\n", Status::BadRequest);
    }

    #[test]
    fn one_statement_of_the_length() {
        let with = |fields: &str| format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        refused(&with("Content-Length: 1\r\nTransfer-Encoding: chunked\r\n"), Status::BadRequest);
        refused(&with("Content-Length: 1\r\nContent-Length: 1\r\n"), Status::BadRequest);
        refused(&with("Content-Length: 1, 1\r\n"), Status::BadRequest);
        refused(&with("Content-Length: +1\r\n"), Status::BadRequest);
        refused(&with("Content-Length: 0x1\r\n"), Status::BadRequest);
        refused(&with("Content-Length: \r\n"), Status::BadRequest);
        refused(&with("Content-Length: 99999999999999999999\r\n"), Status::ContentTooLarge);
        refused(&with("Transfer-Encoding: gzip, chunked\r\n"), Status::NotImplemented);
        refused(&with("Transfer-Encoding: xchunked\r\n"), Status::NotImplemented);
        refused(
            &with("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"),
            Status::BadRequest,
        );
        refused("GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", Status::BadRequest);
    }

    #[test]
    fn methods_and_versions() {
        let with = |start: &str| format!("{start}\r\nHost: a\r\n\r\n");
        refused(&with("PUT / HTTP/1.1"), Status::MethodNotAllowed);
        refused(&with("get / HTTP/1.1"), Status::NotImplemented);
        refused(&with("BREW / HTTP/1.1"), Status::NotImplemented);
        refused(&with("GET / HTTP/2.0"), Status::HttpVersionNotSupported);
        refused(&with("GET / HTTP/0.9"), Status::HttpVersionNotSupported);
        refused(&with("GET / HTTP/1.1x"), Status::BadRequest);
        refused(&with("GET / FTP/1.1"), Status::BadRequest);
        refused("GET /\r\n", Status::BadRequest);
        refused(&with("GET  / HTTP/1.1"), Status::BadRequest);
    }

    #[test]
    fn malformed_fields() {
        let with = |fields: &str| format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        refused(&with("A : b\r\n"), Status::BadRequest);
        refused(&with("A: b\r\n c\r\n"), Status::BadRequest);
        refused(&with("A: b\0c\r\n"), Status::BadRequest);
        refused(&with(": b\r\n"), Status::BadRequest);
        refused(&with("A\r\n"), Status::BadRequest);
        refused(&with("Expect: 200-ok\r\n"), Status::ExpectationFailed);
        refused(&with(&"A: b\r\n".repeat(64)), Status::RequestHeaderFieldsTooLarge);
    }

    #[test]
    fn limits() {
        let long = |n: usize| "a".repeat(n);
        refused(&format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", long(4096)), Status::UriTooLong);
        refused(&format!("GET /{}", long(8192)), Status::UriTooLong);
        refused(
            &format!("GET / HTTP/1.1\r\nA: {}", long(8192)),
            Status::RequestHeaderFieldsTooLarge,
        );
        refused(
            &format!("GET / HTTP/1.1\r\nA: {}\r\n\r\n", long(8192)),
            Status::RequestHeaderFieldsTooLarge,
        );
        assert_eq!(outcome("GET / HTTP/1.1\r\nHost: a\r\n"), Err(None));
        assert_eq!(outcome(""), Err(None));
    }

    #[test]
    fn a_remembered_head_reads_as_it_did() {
        let mut recent = Recent::default();
        let plain = "GET /a HTTP/1.1\r\nHost: a\r\nUser-Agent: x\r\n\r\n";
        for head in [
            plain,
            plain,
            &format!("{plain}GET /b HTTP/1.1\r\n"),
            &plain[..plain.len() - 1],
            "GET /ab HTTP/1.1\r\nHost: a\r\n\r\n",
            "HEAD /ab HTTP/1.1\r\nHost: a\r\n\r\n",
            "HEAD /ab HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET http://x/ab HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET http://x/ab HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET /a HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n",
            "GET /a HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n",
            "GET /a HTTP/1.1\r\nHost: a\r\nRange: bytes=0-\r\n\r\n",
            "GET /a HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer b\r\n\r\n",
            "GET /a HTTP/1.1\r\nHost: a\r\nRange: bytes=0-\r\n\r\n",
            "GET /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
            "GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
            "POST /a HTTP/1.1\r\nHost: a\r\n\r\n",
            plain,
        ] {
            let mut fields = [const { MaybeUninit::uninit() }; FIELD_LIMIT];
            let mut fields_again = [const { MaybeUninit::uninit() }; FIELD_LIMIT];
            let read = recent.parse(head.as_bytes(), &mut fields);
            let expected = parse(head.as_bytes(), &mut fields_again);
            match (read, expected) {
                (Parsed::Complete(read), Parsed::Complete(expected)) => {
                    let facts = |request: Request<'_, '_>| {
                        let Request { method, is_1_1, persistent, body, length, present, .. } =
                            request;
                        (method, request.target.to_vec(), is_1_1, persistent, body, length, present)
                    };
                    assert_eq!(facts(read), facts(expected), "{head:?}");
                }
                (read, expected) => {
                    assert_eq!(format!("{read:?}"), format!("{expected:?}"), "{head:?}")
                }
            }
        }
    }

    #[test]
    fn leading_empty_lines_are_counted() {
        assert_eq!(leading_empty_lines(b"\r\n\r\nGET"), 4);
        assert_eq!(leading_empty_lines(b"\r"), 0);
        assert_eq!(leading_empty_lines(b""), 0);
    }
}
