//! FIT, U-Boot's own image format: kernel and device tree with hashes, and a signature if there is a key.
//!
//! mkimage makes it from a description in device tree syntax. [U-Boot, doc/uImage.FIT/source_file_format.txt,
//! signature.txt, x86-fit-boot.txt]

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use super::package::Part;
use super::{Board, Processor};
use crate::workspace::output;

/// The name of the one configuration in a FIT.
pub const CONFIGURATION: &str = "trireme";

/// A key to sign with: `FOLDER/NAME.key`, a private key in PEM, and beside it `NAME.crt`, its certificate.
#[derive(Clone, Debug)]
pub struct Key {
    folder: PathBuf,
    name: String,
    /// What mkimage calls the signature's algorithm, with the key's length.
    algorithm: String,
}

impl Key {
    /// The key in a `.key` file.
    pub fn open(file: &Path) -> Result<Key> {
        let name = file.file_stem().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        let is_key = file.extension().is_some_and(|extension| extension == "key");
        let plain = !name.is_empty()
            && name.bytes().all(|c| c.is_ascii_alphanumeric() || b"-_".contains(&c));
        ensure!(
            is_key && plain,
            "{}: a key is a file NAME.key of letters, digits, - and _",
            file.display()
        );
        ensure!(file.is_file(), "no key at {}", file.display());
        let certificate = file.with_extension("crt");
        ensure!(
            certificate.is_file(),
            "the certificate {c} is missing; one is made by: openssl req -batch -new -x509 -key {k} -out {c}",
            c = certificate.display(),
            k = file.display()
        );
        let shown =
            output(Command::new("openssl").args(["rsa", "-noout", "-text", "-in"]).arg(file))
                .with_context(|| format!("{} is no RSA key", file.display()))?;
        let bits = shown.split('(').nth(1).and_then(|rest| rest.split_whitespace().next());
        let algorithm = match bits {
            Some(bits @ ("2048" | "3072" | "4096")) => format!("sha256,rsa{bits}"),
            other => bail!("U-Boot verifies keys of 2048, 3072 and 4096 bits, not {other:?}"),
        };
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
        Ok(Key { folder: folder.unwrap_or(Path::new(".")).to_owned(), name, algorithm })
    }

    /// Adds the public key to a device tree, U-Boot's own, so that U-Boot boots nothing else from a FIT.
    ///
    /// `fit` is signed with the key; it does not change.
    pub fn add_public_key(&self, fit: &Path, tree: &Path) -> Result<()> {
        // mkimage adds a key only while it signs.
        let copy = fit.with_extension("signing");
        fs::copy(fit, &copy)?;
        let mut mkimage = mkimage();
        mkimage.args(["-F", "-r", "-k"]).arg(&self.folder).arg("-K").arg(tree).arg(&copy);
        let result = output(&mut mkimage);
        fs::remove_file(&copy)?;
        result.map(drop).with_context(|| format!("{} took no key", tree.display()))
    }
}

/// mkimage with a fixed time, so that the same image makes the same files.
pub(super) fn mkimage() -> Command {
    let mut mkimage = Command::new("mkimage");
    if std::env::var_os("SOURCE_DATE_EPOCH").is_none() {
        mkimage.env("SOURCE_DATE_EPOCH", super::sd::EPOCH);
    }
    mkimage
}

/// Writes the FIT `file` of these parts.
pub(super) fn write(
    board: &Board,
    what: &str,
    parts: &[Part],
    key: Option<&Key>,
    file: &Path,
) -> Result<()> {
    let source = file.with_extension("its");
    super::write(&source, describe(board, what, parts, key)?.as_bytes())?;
    let mut mkimage = mkimage();
    mkimage.arg("-f").arg(&source);
    if let Some(key) = key {
        mkimage.arg("-k").arg(&key.folder).arg("-r");
    }
    output(mkimage.arg(file)).map(drop)
}

/// The description mkimage works from.
fn describe(board: &Board, what: &str, parts: &[Part], key: Option<&Key>) -> Result<String> {
    let arch = match board.arch {
        Processor::Aarch64 => "arm64",
        Processor::X86_64 => "x86_64",
        Processor::Armv4 => "arm",
    };
    let mut text = format!(
        "/dts-v1/;\n/ {{\n\tdescription = \"{what}\";\n\t#address-cells = <1>;\n\timages {{\n"
    );
    let mut configuration = String::new();
    for part in parts {
        let data = part.file.canonicalize()?;
        let data = data
            .to_str()
            .filter(|path| !path.contains('"'))
            .context("a path mkimage cannot take")?;
        let name = part.role;
        write!(
            text,
            "\t\t{name} {{\n\t\t\tdata = /incbin/(\"{data}\");\n\t\t\ttype = \"{}\";\n\t\t\tarch = \"{arch}\";\n\t\t\tcompression = \"none\";\n",
            part.kind
        )?;
        if let Some(load) = part.load {
            let load = u32::try_from(load).context("a load address above 4 GiB")?;
            writeln!(
                text,
                "\t\t\tos = \"linux\";\n\t\t\tload = <{load:#x}>;\n\t\t\tentry = <{load:#x}>;"
            )?;
        }
        text.push_str("\t\t\thash-1 { algo = \"sha256\"; };\n\t\t};\n");
        writeln!(configuration, "\t\t\t{name} = \"{name}\";")?;
    }
    write!(
        text,
        "\t}};\n\tconfigurations {{\n\t\tdefault = \"{CONFIGURATION}\";\n\t\t{CONFIGURATION} {{\n\t\t\tdescription = \"{}\";\n{configuration}",
        board.description
    )?;
    if let Some(Key { name, algorithm, .. }) = key {
        let signed: Vec<_> = parts.iter().map(|part| format!("\"{}\"", part.role)).collect();
        writeln!(
            text,
            "\t\t\tsignature-1 {{\n\t\t\t\talgo = \"{algorithm}\";\n\t\t\t\tkey-name-hint = \"{name}\";\n\t\t\t\tsign-images = {};\n\t\t\t}};",
            signed.join(", ")
        )?;
    }
    text.push_str("\t\t};\n\t};\n};\n");
    Ok(text)
}
