//! From a request target to a path below the content root.

/// A decoded path: `/`, or names each preceded by a slash, the last possibly empty.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Path(String);

/// The target names nothing that could be served from a directory.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unusable {
    /// It is not a path, or tries to leave the root.
    Malformed,
    /// It is a path of a kind that is never served.
    Hidden,
}

impl Path {
    /// Decodes the path of a target in origin-form; the query is left off.
    ///
    /// Refused as malformed: dot segments, however they are written (a client removes them before it asks, [RFC 3986
    /// 5.2.4]), encoded slashes and NULs, empty segments, and what is no UTF-8. Names with a leading dot are hidden, except
    /// `.well-known` [RFC 8615].
    pub(crate) fn decode(target: &[u8]) -> Result<Self, Unusable> {
        let path = target.split(|&octet| octet == b'?').next().unwrap_or_default();
        let mut decoded = Vec::with_capacity(path.len());
        let mut rest = path;
        while let Some((&octet, tail)) = rest.split_first() {
            rest = tail;
            let octet = match octet {
                b'%' => {
                    let (digits, tail) = rest.split_at_checked(2).ok_or(Unusable::Malformed)?;
                    rest = tail;
                    match (hex(digits[0]), hex(digits[1])) {
                        (Some(high), Some(low)) => match high << 4 | low {
                            b'/' | b'\\' | 0 => return Err(Unusable::Malformed),
                            octet => octet,
                        },
                        _ => return Err(Unusable::Malformed),
                    }
                }
                0x80.. | b'\\' | b'#' => return Err(Unusable::Malformed),
                octet => octet,
            };
            decoded.push(octet);
        }
        let decoded = String::from_utf8(decoded).map_err(|_| Unusable::Malformed)?;
        let names = decoded.strip_prefix('/').ok_or(Unusable::Malformed)?;
        let mut names = names.split('/').peekable();
        while let Some(name) = names.next() {
            match name {
                "" if names.peek().is_some() => return Err(Unusable::Malformed),
                "." | ".." => return Err(Unusable::Malformed),
                ".well-known" => {}
                _ if name.starts_with('.') => return Err(Unusable::Hidden),
                _ => {}
            }
        }
        Ok(Self(decoded))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// The names from the root on.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.split('/').filter(|name| !name.is_empty())
    }

    /// It ends in a slash, so it means a directory.
    pub(crate) fn is_directory(&self) -> bool {
        self.0.ends_with('/')
    }
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|value| value as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_decoded_once() {
        for (target, path) in [
            ("/", "/"),
            ("/a/b.html", "/a/b.html"),
            ("/a%20b?c=%zz/../", "/a b"),
            ("/%2525", "/%25"),
            ("/%C3%A9/", "/\u{e9}/"),
            ("/.well-known/x", "/.well-known/x"),
            ("/a..b/c.", "/a..b/c."),
        ] {
            assert_eq!(Path::decode(target.as_bytes()).unwrap().as_str(), path);
        }
    }

    #[test]
    fn nothing_leaves_the_root() {
        for target in [
            "/..",
            "/../",
            "/../etc/passwd",
            "/a/../b",
            "/a/..",
            "/.",
            "/./a",
            "/%2e%2e/etc/passwd",
            "/%2E./x",
            "/.%2e/x",
            "/a%2f..%2fb",
            "/a%2Fb",
            "/..%5cx",
            "/a\\b",
            "/a%00b",
            "//etc/passwd",
            "/a//b",
            "/%",
            "/%4",
            "/%g0",
            "/%ff",
            "/\u{e9}",
            "/a#b",
            "",
            "*",
        ] {
            assert_eq!(Path::decode(target.as_bytes()), Err(Unusable::Malformed), "{target}");
        }
    }

    #[test]
    fn dot_files_are_hidden() {
        for target in ["/.git/config", "/a/.htaccess", "/%2egit", "/...", "/..."] {
            assert_eq!(Path::decode(target.as_bytes()), Err(Unusable::Hidden), "{target}");
        }
    }
}
