//! Media types by file name. A table of our own: the crates for it carry a thousand types, and the image has a budget.

/// The type of a file, and whether gzip is likely to make it smaller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MediaType {
    pub(crate) name: &'static str,
    pub(crate) compressible: bool,
}

/// Extension, type as registered with IANA, compressible. Text is declared UTF-8: it is what people store today.
const TABLE: &[(&str, &str, bool)] = &[
    ("avif", "image/avif", false),
    ("bin", "application/octet-stream", false),
    ("bmp", "image/bmp", true),
    ("css", "text/css; charset=utf-8", true),
    ("csv", "text/csv; charset=utf-8", true),
    ("gif", "image/gif", false),
    ("gz", "application/gzip", false),
    ("htm", "text/html; charset=utf-8", true),
    ("html", "text/html; charset=utf-8", true),
    ("ico", "image/vnd.microsoft.icon", true),
    ("jpeg", "image/jpeg", false),
    ("jpg", "image/jpeg", false),
    ("js", "text/javascript; charset=utf-8", true),
    ("json", "application/json", true),
    ("map", "application/json", true),
    ("md", "text/markdown; charset=utf-8", true),
    ("mjs", "text/javascript; charset=utf-8", true),
    ("mp3", "audio/mpeg", false),
    ("mp4", "video/mp4", false),
    ("ogg", "audio/ogg", false),
    ("otf", "font/otf", true),
    ("pdf", "application/pdf", false),
    ("png", "image/png", false),
    ("svg", "image/svg+xml", true),
    ("tar", "application/x-tar", true),
    ("ttf", "font/ttf", true),
    ("txt", "text/plain; charset=utf-8", true),
    ("wasm", "application/wasm", true),
    ("webm", "video/webm", false),
    ("webmanifest", "application/manifest+json", true),
    ("webp", "image/webp", false),
    ("woff", "font/woff", false),
    ("woff2", "font/woff2", false),
    ("xhtml", "application/xhtml+xml", true),
    ("xml", "application/xml", true),
    ("zip", "application/zip", false),
];

impl MediaType {
    pub(crate) const UNKNOWN: Self = Self { name: "application/octet-stream", compressible: false };

    /// By the extension of `name`, whatever its case.
    pub(crate) fn of(name: &str) -> Self {
        let Some((_, extension)) = name.rsplit_once('.') else { return Self::UNKNOWN };
        TABLE
            .iter()
            .find(|(known, ..)| extension.eq_ignore_ascii_case(known))
            .map_or(Self::UNKNOWN, |&(_, name, compressible)| Self { name, compressible })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_extension() {
        for (name, expected) in [
            ("index.html", "text/html; charset=utf-8"),
            ("A.JPG", "image/jpeg"),
            ("a.tar.gz", "application/gzip"),
            ("1k", "application/octet-stream"),
            ("a.", "application/octet-stream"),
            ("a.unknown", "application/octet-stream"),
        ] {
            assert_eq!(MediaType::of(name).name, expected, "{name}");
        }
    }
}
