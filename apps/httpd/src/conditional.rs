//! Preconditions. [RFC 9110 13]

use std::time::SystemTime;

use crate::request::{Field, Request, list};
use crate::status::Status;

/// What a representation is compared by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Validators<'v> {
    /// The entity tag with its quotes; all of ours are strong.
    pub(crate) etag: Option<&'v str>,
    /// In whole seconds.
    pub(crate) modified: Option<SystemTime>,
}

/// Evaluates the preconditions in the order of [RFC 9110 13.2.2], for a resource that exists. `Some` is the status to send
/// instead of 200 or 206.
pub(crate) fn evaluate(request: &Request<'_, '_>, validators: Validators<'_>) -> Option<Status> {
    if request.is_plain() {
        return None;
    }
    if request.has(Field::IfMatch) {
        if !any_matches(request, Field::IfMatch, validators.etag, true) {
            return Some(Status::PreconditionFailed);
        }
    } else if let (Some(limit), Some(modified)) =
        (date(request, Field::IfUnmodifiedSince), validators.modified)
        && modified > limit
    {
        return Some(Status::PreconditionFailed);
    }
    if request.has(Field::IfNoneMatch) {
        if any_matches(request, Field::IfNoneMatch, validators.etag, false) {
            return Some(Status::NotModified);
        }
    } else if let (Some(since), Some(modified)) =
        (date(request, Field::IfModifiedSince), validators.modified)
        && modified <= since
    {
        return Some(Status::NotModified);
    }
    None
}

/// Whether a Range field is to be obeyed, as far as If-Range says. [RFC 9110 13.1.5]
pub(crate) fn range_applies(request: &Request<'_, '_>, validators: Validators<'_>) -> bool {
    if !request.has(Field::IfRange) {
        return true;
    }
    let Some(value) = request.value(Field::IfRange) else { return false };
    if value.starts_with(b"\"") || value.starts_with(b"W/") {
        // A weak tag never matches here, and ours are strong.
        return validators.etag.is_some_and(|etag| etag.as_bytes() == value);
    }
    matches!((parse_date(value), validators.modified), (Some(date), Some(modified)) if date == modified)
}

/// `*` or a list of tags that has ours. The list is split at commas outside quotes only: a tag may contain one.
fn any_matches(request: &Request<'_, '_>, field: Field, etag: Option<&str>, strong: bool) -> bool {
    request.values(field).any(|value| {
        if value == b"*" {
            return true;
        }
        let Some(etag) = etag else { return false };
        let mut rest = value;
        loop {
            rest = rest.trim_ascii_start();
            while let Some(tail) = rest.strip_prefix(b",") {
                rest = tail.trim_ascii_start();
            }
            let weak = rest.starts_with(b"W/");
            let tag = if weak { &rest[2..] } else { rest };
            let Some(opened) = tag.strip_prefix(b"\"") else { return false };
            let Some(end) = opened.iter().position(|&octet| octet == b'"') else { return false };
            if &tag[..end + 2] == etag.as_bytes() && !(strong && weak) {
                return true;
            }
            rest = &tag[end + 2..];
        }
    })
}

/// The date in a field; `None` also if it is malformed, which means the field is to be ignored.
fn date(request: &Request<'_, '_>, field: Field) -> Option<SystemTime> {
    parse_date(request.value(field)?)
}

fn parse_date(value: &[u8]) -> Option<SystemTime> {
    httpdate::parse_http_date(std::str::from_utf8(value).ok()?).ok()
}

/// Whether an Accept-Encoding allows gzip, and does not prefer the plain form. [RFC 9110 12.5.3]
pub(crate) fn accepts_gzip(request: &Request<'_, '_>) -> bool {
    let (mut gzip, mut any, mut identity) = (None, None, None);
    for value in request.values(Field::AcceptEncoding) {
        for element in list(value) {
            let mut parameters = element.split(|&octet| octet == b';').map(<[u8]>::trim_ascii);
            let coding = parameters.next().unwrap_or_default();
            let Some(weight) = parameters.next().map_or(Some(1000), weight) else { continue };
            if coding.eq_ignore_ascii_case(b"gzip") || coding.eq_ignore_ascii_case(b"x-gzip") {
                gzip = Some(weight);
            } else if coding.eq_ignore_ascii_case(b"identity") {
                identity = Some(weight);
            } else if coding == b"*" {
                any = Some(weight);
            }
        }
    }
    // `identity` not named is acceptable without a wish for it: gzip then wins, whatever its weight.
    let gzip = gzip.or(any).unwrap_or(0);
    gzip > 0 && gzip >= identity.unwrap_or(0)
}

/// `q=` and a number from 0 to 1 with at most three decimals, in thousandths.
fn weight(parameter: &[u8]) -> Option<u16> {
    let value = parameter.strip_prefix(b"q=").or_else(|| parameter.strip_prefix(b"Q="))?;
    let (whole, decimals) = match value {
        [whole] | [whole, b'.'] => (whole, &[][..]),
        [whole, b'.', decimals @ ..] if decimals.len() <= 3 => (whole, decimals),
        _ => return None,
    };
    if !decimals.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let fraction = [100, 10, 1]
        .iter()
        .zip(decimals)
        .map(|(place, digit)| place * u16::from(digit - b'0'))
        .sum();
    match (whole, fraction) {
        (b'0', fraction) => Some(fraction),
        (b'1', 0) => Some(1000),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::mem::MaybeUninit;
    use std::time::Duration;

    use super::*;
    use crate::request::{FIELD_LIMIT, Parsed, parse};

    const DATE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const LATER: &str = "Sun, 06 Nov 1994 08:49:38 GMT";
    const EARLIER: &str = "Sunday, 06-Nov-94 08:49:36 GMT";

    fn with<T>(fields: &str, look: impl Fn(&Request<'_, '_>) -> T) -> T {
        let head = format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n");
        let mut storage = [const { MaybeUninit::uninit() }; FIELD_LIMIT];
        match parse(head.as_bytes(), &mut storage) {
            Parsed::Complete(request) => look(&request),
            other => panic!("{fields:?}: {other:?}"),
        }
    }

    fn validators() -> Validators<'static> {
        let modified = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        Validators { etag: Some("\"a,b\""), modified: Some(modified) }
    }

    #[track_caller]
    fn outcome(fields: &str, expected: Option<Status>) {
        assert_eq!(with(fields, |request| evaluate(request, validators())), expected, "{fields}");
    }

    #[test]
    fn if_none_match() {
        outcome("If-None-Match: \"a,b\"", Some(Status::NotModified));
        outcome("If-None-Match: W/\"a,b\"", Some(Status::NotModified));
        outcome("If-None-Match: \"x\", ,\"y\" , \"a,b\"", Some(Status::NotModified));
        outcome("If-None-Match: \"x\"\r\nIf-None-Match: \"a,b\"", Some(Status::NotModified));
        outcome("If-None-Match: *", Some(Status::NotModified));
        outcome("If-None-Match: \"a\"", None);
        outcome("If-None-Match: a,b", None);
        outcome("If-None-Match: \"a,b", None);
        // It takes the place of If-Modified-Since.
        outcome(&format!("If-None-Match: \"a\"\r\nIf-Modified-Since: {LATER}"), None);
    }

    #[test]
    fn dates() {
        outcome(&format!("If-Modified-Since: {DATE}"), Some(Status::NotModified));
        outcome(&format!("If-Modified-Since: {LATER}"), Some(Status::NotModified));
        outcome(&format!("If-Modified-Since: {EARLIER}"), None);
        outcome("If-Modified-Since: yesterday", None);
        outcome(&format!("If-Unmodified-Since: {DATE}"), None);
        outcome(&format!("If-Unmodified-Since: {EARLIER}"), Some(Status::PreconditionFailed));
    }

    #[test]
    fn if_match_is_strong() {
        outcome("If-Match: \"a,b\"", None);
        outcome("If-Match: *", None);
        outcome("If-Match: W/\"a,b\"", Some(Status::PreconditionFailed));
        outcome("If-Match: \"x\"", Some(Status::PreconditionFailed));
        outcome(&format!("If-Match: \"a,b\"\r\nIf-Unmodified-Since: {EARLIER}"), None);
    }

    #[test]
    fn if_range() {
        let applies = |fields: &str| with(fields, |request| range_applies(request, validators()));
        assert!(applies("Range: bytes=0-"));
        assert!(applies("If-Range: \"a,b\""));
        assert!(applies(&format!("If-Range: {DATE}")));
        assert!(!applies("If-Range: W/\"a,b\""));
        assert!(!applies("If-Range: \"x\""));
        assert!(!applies(&format!("If-Range: {LATER}")));
        assert!(!applies("If-Range: x"));
        assert!(!applies("If-Range: \"a,b\"\r\nIf-Range: \"a,b\""));
    }

    #[test]
    fn gzip_by_weight() {
        let accepts = |value: &str| with(&format!("Accept-Encoding: {value}"), accepts_gzip);
        for yes in [
            "gzip",
            "br, GZIP",
            "deflate, gzip;q=0.001",
            "*",
            "*;q=0.5, identity;q=0.5",
            "gzip;q=1.000",
            "x-gzip",
            "identity;q=0, gzip",
        ] {
            assert!(accepts(yes), "{yes}");
        }
        for no in [
            "",
            "br",
            "gzip;q=0",
            "gzip;q=0.000",
            "*;q=0",
            "gzip;q=0, *",
            "gzip;q=0.5, identity",
            "gzip;q=2",
            "gzip;q=1.001",
            "gzip;q=",
            "gzip;x=1",
        ] {
            assert!(!accepts(no), "{no}");
        }
        assert!(!with("Accept: gzip", accepts_gzip));
        assert!(with("Accept-Encoding: br\r\nAccept-Encoding: gzip", accepts_gzip));
    }
}
