//! Packs a folder into a newc cpio archive, the form in which an image carries its files.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use anyhow::{Context, Result};
use cpio::newc::{Builder, ModeFileType, trailer};

/// The archive of everything under `folder`, names relative to it, in sorted order and with the files' modification
/// times (a web server's `Last-Modified`). Symbolic links are followed; devices and the like end in an error.
pub fn pack(folder: &Path) -> Result<Vec<u8>> {
    let mut names = Vec::new();
    walk(folder, Path::new(""), &mut names)?;
    names.sort();
    let mut archive = Vec::new();
    for (index, name) in names.iter().enumerate() {
        archive = append(archive, folder, name, index)
            .with_context(|| format!("cannot pack {}", folder.join(name).display()))?;
    }
    Ok(trailer(archive)?)
}

fn walk(folder: &Path, inside: &Path, names: &mut Vec<PathBuf>) -> Result<()> {
    let here = folder.join(inside);
    for entry in fs::read_dir(&here).with_context(|| format!("cannot list {}", here.display()))? {
        let name = inside.join(entry?.file_name());
        if folder.join(&name).is_dir() {
            walk(folder, &name, names)?;
        }
        names.push(name);
    }
    Ok(())
}

fn append(archive: Vec<u8>, folder: &Path, name: &Path, index: usize) -> Result<Vec<u8>> {
    let path = folder.join(name);
    let metadata = fs::metadata(&path)?;
    let modified = metadata.modified()?.duration_since(UNIX_EPOCH);
    let entry = Builder::new(name.to_str().context("the name is not UTF-8")?)
        .ino(u32::try_from(index + 1)?)
        .mtime(modified.map_or(0, |d| u32::try_from(d.as_secs()).unwrap_or(u32::MAX)));
    let (entry, content) = if metadata.is_dir() {
        (entry.mode(0o755).set_mode_file_type(ModeFileType::Directory), Vec::new())
    } else if metadata.is_file() {
        (entry.mode(0o644).set_mode_file_type(ModeFileType::Regular), fs::read(&path)?)
    } else {
        anyhow::bail!("neither a file nor a folder");
    };
    let size =
        u32::try_from(content.len()).context("4 GiB is the most an archive's file can have")?;
    let mut writer = entry.write(archive, size);
    writer.write_all(&content)?;
    Ok(writer.finish()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// Debian's `cpio` must read what we write: another implementation, and the one initramfs users have.
    #[test]
    fn foreign_cpio_unpacks_the_same_tree() {
        let folder = std::env::temp_dir().join(format!("trireme-archive-{}", std::process::id()));
        let (from, to) = (folder.join("from"), folder.join("to"));
        fs::create_dir_all(from.join("a/b")).unwrap();
        fs::create_dir_all(&to).unwrap();
        for (name, size) in [("empty", 0), ("a/one", 1), ("a/b/odd", 4097), ("z", 70_000)] {
            let content: Vec<u8> = (0..size).map(|i| (i % 251) as u8).collect();
            fs::write(from.join(name), content).unwrap();
        }
        fs::write(folder.join("archive"), pack(&from).unwrap()).unwrap();
        let archive = fs::File::open(folder.join("archive")).unwrap();
        let status = Command::new("cpio")
            .args(["-i", "-d", "--quiet"])
            .current_dir(&to)
            .stdin(archive)
            .status();
        assert!(status.expect("cpio is one of the packages set-up installs").success());
        let diff = Command::new("diff").arg("-r").arg(&from).arg(&to).status().unwrap();
        fs::remove_dir_all(&folder).unwrap();
        assert!(diff.success());
    }

    #[test]
    fn missing_folder_is_named() {
        let error = format!("{:#}", pack(Path::new("/nonexistent/www")).unwrap_err());
        assert!(error.contains("/nonexistent/www"), "{error}");
    }
}
