//! The body of a request, which this server has no use for: measured and thrown away, within a bound.
//!
//! GET and HEAD may carry a body [RFC 9110 9.3.1]. Its end must be found, or its octets would be read as a request.

use crate::status::Status;

/// Longest body that is read to keep the connection, in octets, chunk framing included.
pub(crate) const BODY_LIMIT: u64 = 65536;
/// Longest line of chunk framing or trailer, in octets.
const LINE_LIMIT: u16 = 1024;

/// How far the body of the request just answered reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    None,
    /// So many octets are still to come.
    Length(u64),
    Chunked(Chunked),
}

/// Where in a chunked body [RFC 9112 7.1] the next octet stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chunked {
    at: At,
    /// Size of the chunk, or what is left of it.
    size: u64,
    /// Octets in the current line.
    line: u16,
    /// Octets of the whole body that may still come.
    allowance: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Size,
    Extension,
    SizeLineFeed,
    Data,
    DataCarriageReturn,
    DataLineFeed,
    /// In a trailer line, or in the empty line that ends the body.
    Trailer,
    TrailerLineFeed,
}

impl Framing {
    /// Reads a Content-Length.
    pub(crate) fn length(value: &[u8]) -> Result<Self, Status> {
        if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
            return Err(Status::BadRequest);
        }
        let length = value
            .iter()
            .try_fold(0u64, |sum, digit| sum.checked_mul(10)?.checked_add(u64::from(digit - b'0')));
        match length {
            Some(0) => Ok(Self::None),
            Some(length) => Ok(Self::Length(length)),
            None => Err(Status::ContentTooLarge),
        }
    }

    pub(crate) const fn chunked() -> Self {
        Self::Chunked(Chunked { at: At::Size, size: 0, line: 0, allowance: BODY_LIMIT })
    }

    /// It is known beforehand that the body is too long to be read.
    pub(crate) const fn is_too_long(&self) -> bool {
        matches!(self, Self::Length(length) if *length > BODY_LIMIT)
    }

    /// Passes over as much of the body as `octets` holds. Returns how many octets that was; becomes `None` at the end.
    pub(crate) fn skip(&mut self, octets: &[u8]) -> Result<usize, Status> {
        match self {
            Self::None => Ok(0),
            Self::Length(left) => {
                let skipped = usize::try_from(*left).unwrap_or(usize::MAX).min(octets.len());
                *left -= skipped as u64;
                if *left == 0 {
                    *self = Self::None;
                }
                Ok(skipped)
            }
            Self::Chunked(chunked) => {
                let (skipped, ended) = chunked.skip(octets)?;
                if ended {
                    *self = Self::None;
                }
                Ok(skipped)
            }
        }
    }
}

impl Chunked {
    fn skip(&mut self, octets: &[u8]) -> Result<(usize, bool), Status> {
        let mut index = 0;
        while index < octets.len() {
            if self.at == At::Data {
                let skipped =
                    usize::try_from(self.size).unwrap_or(usize::MAX).min(octets.len() - index);
                self.spend(skipped as u64)?;
                self.size -= skipped as u64;
                index += skipped;
                if self.size == 0 {
                    self.at = At::DataCarriageReturn;
                }
                continue;
            }
            self.spend(1)?;
            let ended = self.step(octets[index])?;
            index += 1;
            if ended {
                return Ok((index, true));
            }
        }
        Ok((index, false))
    }

    /// Takes one octet of framing. True at the end of the body.
    fn step(&mut self, octet: u8) -> Result<bool, Status> {
        let first = self.line == 0;
        self.line += 1;
        if self.line > LINE_LIMIT {
            return Err(Status::BadRequest);
        }
        let next = match (self.at, octet) {
            (At::Size, _) if octet.is_ascii_hexdigit() => {
                if self.size >> 60 != 0 {
                    return Err(Status::ContentTooLarge);
                }
                let digit = char::from(octet).to_digit(16).unwrap_or_default();
                self.size = self.size << 4 | u64::from(digit);
                At::Size
            }
            (At::Size, b'\r') if !first => At::SizeLineFeed,
            (At::Size, b';' | b' ' | b'\t') if !first => At::Extension,
            (At::Extension, b'\r') => At::SizeLineFeed,
            (At::Extension, b'\t' | b' '..=b'~' | 0x80..) => At::Extension,
            (At::SizeLineFeed, b'\n') if self.size == 0 => At::Trailer,
            (At::SizeLineFeed, b'\n') => At::Data,
            (At::DataCarriageReturn, b'\r') => At::DataLineFeed,
            (At::DataLineFeed, b'\n') => At::Size,
            // An empty line is a carriage return at the very beginning; `line` tells it from the end of a trailer.
            (At::Trailer, b'\r') => {
                self.size = u64::from(first);
                At::TrailerLineFeed
            }
            (At::Trailer, b'\t' | b' '..=b'~' | 0x80..) => At::Trailer,
            (At::TrailerLineFeed, b'\n') if self.size == 1 => return Ok(true),
            (At::TrailerLineFeed, b'\n') => At::Trailer,
            _ => return Err(Status::BadRequest),
        };
        if octet == b'\n' {
            self.line = 0;
        }
        self.at = next;
        Ok(false)
    }

    fn spend(&mut self, octets: u64) -> Result<(), Status> {
        self.allowance = self.allowance.checked_sub(octets).ok_or(Status::ContentTooLarge)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Skips a whole chunked body, fed in pieces of `piece` octets. Returns how much was taken, `None` if it did not end.
    fn chunked(octets: &[u8], piece: usize) -> Result<Option<usize>, Status> {
        let mut framing = Framing::chunked();
        let mut taken = 0;
        for piece in octets.chunks(piece) {
            let n = framing.skip(piece)?;
            taken += n;
            if framing == Framing::None {
                return Ok(Some(taken));
            }
            assert_eq!(n, piece.len());
        }
        Ok(None)
    }

    #[test]
    fn chunked_bodies_end_where_they_should() {
        for piece in 1..40 {
            for (body, end) in [
                ("0\r\n\r\nGET", Some(5)),
                ("4\r\nWiki\r\n5;a=b\r\npedia\r\n0\r\n\r\nrest", Some(28)),
                ("a\r\n0123456789\r\n000\r\nT: x\r\nU: y\r\n\r\n", Some(34)),
                ("1\r\nx\r\n", None),
            ] {
                assert_eq!(chunked(body.as_bytes(), piece), Ok(end), "{body:?} by {piece}");
            }
        }
    }

    #[test]
    fn malformed_chunks_are_refused() {
        for body in [
            "\r\n",
            "x\r\n",
            "1\nx\r\n",
            "1\r\nxx\r\n",
            "-1\r\n",
            "0x1\r\n",
            ";\r\n",
            "1\r\r\n",
            "0\r\n\n",
            "0\r\na\nb",
            "0\r\nA\0: b\r\n\r\n",
        ] {
            assert_eq!(chunked(body.as_bytes(), 100), Err(Status::BadRequest), "{body:?}");
        }
        let long = format!("1;{}\r\nx\r\n0\r\n\r\n", "e".repeat(2000));
        assert_eq!(chunked(long.as_bytes(), 100), Err(Status::BadRequest));
    }

    #[test]
    fn large_bodies_are_refused() {
        assert_eq!(chunked(b"11111111111111111\r\n", 100), Err(Status::ContentTooLarge));
        let many = "1\r\nx\r\n".repeat(20_000);
        assert_eq!(chunked(many.as_bytes(), 100), Err(Status::ContentTooLarge));
        assert_eq!(Framing::length(b"18446744073709551616"), Err(Status::ContentTooLarge));
        assert!(Framing::length(b"65537").unwrap().is_too_long());
        assert!(!Framing::length(b"65536").unwrap().is_too_long());
    }

    #[test]
    fn lengths_count_down() {
        let mut framing = Framing::length(b"10").unwrap();
        assert_eq!(framing.skip(b"123456"), Ok(6));
        assert_eq!(framing.skip(b"123456"), Ok(4));
        assert_eq!(framing, Framing::None);
        assert_eq!(Framing::length(b"000"), Ok(Framing::None));
    }
}
