//! What has to be true of a linked image, and the forms machines boot it in.

use anyhow::{Context, Result, bail, ensure};
use object::elf::{FileHeader64, PF_X, PT_LOAD, PT_NOTE};
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, Object, ObjectSection, ObjectSymbol};

use crate::arch::Arch;

type Header = FileHeader64<Endianness>;

/// `XEN_ELFNOTE_PHYS32_ENTRY`: the note by which QEMU and others find the PVH entry point. [Xen, elfnote.h]
const PVH_ENTRY_NOTE: u32 = 18;
/// `ARM\x64` at offset 56 of an arm64 `Image`. [Linux, Documentation/arch/arm64/booting.rst]
const ARM64_MAGIC: &[u8] = b"ARM\x64";
const ARM64_MAGIC_OFFSET: usize = 56;
/// A raw image larger than this means two segments that are far apart, not a program.
const RAW_IMAGE_LIMIT: u64 = 1 << 30;

/// Refuses an ELF file that linked without error but holds no program.
///
/// Without an entry symbol `rust-lld` only warns, drops everything as unreachable and succeeds with 4 KB of headers.
pub fn verify(elf: &[u8], arch: Arch) -> Result<()> {
    let header = Header::parse(elf).context("not a 64-bit ELF file")?;
    let endian = header.endian()?;
    let entry = header.e_entry(endian);
    let segments = header.program_headers(endian, elf)?;
    let entered = segments.iter().find(|s| {
        s.p_type(endian) == PT_LOAD
            && s.p_flags(endian) & PF_X != 0
            && (s.p_vaddr(endian)..s.p_vaddr(endian) + s.p_filesz(endian)).contains(&entry)
    });
    ensure!(
        entered.is_some(),
        "the linked image is empty: its entry point {entry:#x} is in no executable segment (is `use trireme as _;` in \
         the program?)"
    );
    let file = object::File::parse(elf)?;
    ensure!(
        file.symbols().any(|s| s.name() == Ok("runtime_entry") && s.is_definition()),
        "the linked image has no `runtime_entry`: the standard library was dropped by the linker"
    );
    if arch == Arch::X86_64 {
        let mut notes = segments.iter().filter(|s| s.p_type(endian) == PT_NOTE);
        let found = notes.any(|segment| {
            let Ok(Some(mut notes)) = segment.notes(endian, elf) else { return false };
            while let Ok(Some(note)) = notes.next() {
                if note.name() == b"Xen" && note.n_type(endian) == PVH_ENTRY_NOTE {
                    return true;
                }
            }
            false
        });
        ensure!(found, "the linked image has no PVH note, so QEMU cannot enter it");
    }
    Ok(())
}

/// The ELF file without sections: symbols and debug information stay behind, what is loaded stays.
pub fn stripped(elf: &[u8]) -> Result<Vec<u8>> {
    let header = Header::parse(elf).context("not a 64-bit ELF file")?;
    let endian = header.endian()?;
    let segments = header.program_headers(endian, elf)?;
    let end = segments.iter().map(|s| s.p_offset(endian) + s.p_filesz(endian)).max();
    let end = usize::try_from(end.context("no segments")?)?;
    let mut stripped = elf.get(..end).context("a segment lies past the end of the file")?.to_vec();
    // e_shoff, then e_shnum and e_shstrndx; e_shentsize between may stay. [ELF-64 object file format 1.5, figure 2]
    stripped[0x28..0x30].fill(0);
    stripped[0x3c..0x40].fill(0);
    Ok(stripped)
}

/// The memory image from the lowest loaded address on, as `objcopy -O binary` makes it; memory that is only zeroes
/// at the end is left to the loader and the entry code.
pub fn flattened(elf: &[u8]) -> Result<Vec<u8>> {
    let header = Header::parse(elf).context("not a 64-bit ELF file")?;
    let endian = header.endian()?;
    let segments = header.program_headers(endian, elf)?;
    let loaded =
        || segments.iter().filter(|s| s.p_type(endian) == PT_LOAD && s.p_filesz(endian) > 0);
    let start = loaded().map(|s| s.p_paddr(endian)).min().context("nothing is loaded")?;
    let mut image = Vec::new();
    for segment in loaded() {
        let at = segment.p_paddr(endian) - start;
        if at + segment.p_filesz(endian) > RAW_IMAGE_LIMIT {
            bail!("segments are more than {RAW_IMAGE_LIMIT} bytes apart");
        }
        let at = usize::try_from(at)?;
        let data =
            segment.data(endian, elf).ok().context("a segment lies past the end of the file")?;
        if image.len() < at + data.len() {
            image.resize(at + data.len(), 0);
        }
        image[at..at + data.len()].copy_from_slice(data);
    }
    Ok(image)
}

/// The arm64 boot image of an ELF file: its memory, beginning with the header Linux defines.
pub fn arm64_image(elf: &[u8]) -> Result<Vec<u8>> {
    let image = flattened(elf)?;
    ensure!(
        image.get(ARM64_MAGIC_OFFSET..ARM64_MAGIC_OFFSET + 4) == Some(ARM64_MAGIC),
        "the linked image does not begin with an arm64 Image header"
    );
    Ok(image)
}

/// The Linux/x86 boot image (`bzImage`) of an ELF file in its two parts: the setup sectors with the header, and what
/// is loaded at 1 MiB. [Linux, Documentation/arch/x86/boot.rst]
pub fn bzimage(elf: &[u8]) -> Result<(Vec<u8>, Vec<u8>)> {
    let file = object::File::parse(elf).context("not an ELF file")?;
    let setup = file.section_by_name(".setup").context("the linked image has no setup sectors")?;
    let setup = setup.data()?.to_vec();
    ensure!(
        setup.get(0x202..0x206) == Some(b"HdrS")
            && setup.len() == 512 * (usize::from(setup[0x1f1]) + 1),
        "the setup sectors do not begin with a bzImage header"
    );
    Ok((setup, flattened(elf)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The test program itself: a real ELF file with every section it was linked with.
    fn own() -> Vec<u8> {
        std::fs::read(std::env::current_exe().unwrap()).unwrap()
    }

    /// 64 bytes of header and nothing else: what the linker leaves of a program without an entry.
    fn empty() -> Vec<u8> {
        let mut elf = own()[..64].to_vec();
        elf[0x18..0x20].fill(0);
        elf[0x20..0x30].fill(0);
        elf[0x38..0x40].fill(0);
        elf
    }

    #[test]
    fn empty_link_result_is_refused() {
        let error = verify(&empty(), Arch::X86_64).unwrap_err().to_string();
        assert!(error.contains("empty"), "{error}");
    }

    #[test]
    fn program_without_pvh_note_is_refused() {
        let error = verify(&own(), Arch::X86_64).unwrap_err().to_string();
        assert!(error.contains("runtime_entry") || error.contains("PVH"), "{error}");
    }

    #[test]
    fn stripping_keeps_what_is_loaded() {
        let elf = own();
        let stripped = stripped(&elf).unwrap();
        assert!(stripped.len() < elf.len());
        // The first segment begins with the ELF header itself, where the sections are struck out.
        let (ours, whole) = (flattened(&stripped).unwrap(), flattened(&elf).unwrap());
        assert!(ours[64..] == whole[64..], "the loaded bytes differ");
        assert_eq!(object::File::parse(&*stripped).unwrap().sections().count(), 0);
    }

    #[test]
    fn image_without_arm64_header_is_refused() {
        let error = arm64_image(&own()).unwrap_err().to_string();
        assert!(error.contains("Image header"), "{error}");
    }

    #[test]
    fn truncated_files_are_errors() {
        let elf = own();
        for length in [0, 1, 63, 64, 200] {
            assert!(verify(&elf[..length], Arch::X86_64).is_err());
            assert!(flattened(&elf[..length]).is_err());
        }
    }
}
