//! Puts the page together: one document with its style and script in it, compressed, and the content security policy that
//! allows exactly those two, by their hashes.

use std::io::Write;
use std::path::PathBuf;
use std::{env, fs};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha256};

fn main() {
    println!("cargo::rerun-if-changed=page");
    let read = |name: &str| {
        let text = fs::read_to_string(format!("page/{name}"));
        // Indentation is for people who edit it; no line of the three depends on it.
        let text = text.unwrap_or_else(|error| panic!("page/{name}: {error}"));
        text.lines().map(str::trim_start).filter(|line| !line.is_empty()).fold(
            String::new(),
            |mut page, line| {
                page.push_str(line);
                page.push('\n');
                page
            },
        )
    };
    let (style, script) = (read("page.css"), read("page.js"));
    let page = read("page.html")
        .replace("<style></style>", &format!("<style>{style}</style>"))
        .replace("<script></script>", &format!("<script>{script}</script>"));
    assert!(page.contains(&style) && page.contains(&script), "page.html has no place for them");
    let hash = |text: &str| STANDARD.encode(Sha256::digest(text));
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{}'; script-src 'sha256-{}'; connect-src 'self'; img-src data:; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        hash(&style),
        hash(&script)
    );
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    gzip.write_all(page.as_bytes()).expect("memory can be written");
    let gzip = gzip.finish().expect("memory can be written");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    fs::write(out.join("page.html.gz"), gzip).expect("OUT_DIR is writable");
    fs::write(out.join("policy.txt"), policy).expect("OUT_DIR is writable");
}
