//! What has to be true of a linked image, and the forms machines boot it in.

use anyhow::{Context, Result, bail, ensure};
use object::elf::{FileHeader64, PF_X, PT_NOTE};
use object::read::elf::{FileHeader, ProgramHeader};
use object::{
    Endianness, Object, ObjectSection, ObjectSegment, ObjectSymbol, SectionKind, SegmentFlags,
};

use crate::arch::Arch;
use crate::armv4;

type Header = FileHeader64<Endianness>;

/// `XEN_ELFNOTE_PHYS32_ENTRY`: the note by which QEMU and others find the PVH entry point. [Xen, elfnote.h]
const PVH_ENTRY_NOTE: u32 = 18;
/// `ARM\x64` at offset 56 of an arm64 `Image`. [Linux, Documentation/arch/arm64/booting.rst]
const ARM64_MAGIC: &[u8] = b"ARM\x64";
const ARM64_MAGIC_OFFSET: usize = 56;
/// The magic number at offset 0x24 of a zImage; the addresses of its beginning and end follow. [Linux,
/// arch/arm/boot/compressed/head.S]
const ZIMAGE_MAGIC: u32 = 0x016f_2818;
const ZIMAGE_MAGIC_OFFSET: usize = 0x24;
/// A raw image larger than this means two segments that are far apart, not a program.
const RAW_IMAGE_LIMIT: u64 = 1 << 30;

/// Refuses an ELF file that linked without error but holds no program.
///
/// Without an entry symbol `rust-lld` only warns, drops everything as unreachable and succeeds with 4 KB of headers.
pub fn verify(elf: &[u8], arch: Arch) -> Result<()> {
    let file = object::File::parse(elf).context("not an ELF file")?;
    let entry = file.entry();
    let entered = file.segments().find(|segment| {
        let executable =
            matches!(segment.flags(), SegmentFlags::Elf { p_flags } if p_flags & PF_X != 0);
        let start = segment.address();
        executable && (start..start + segment.file_range().1).contains(&entry)
    });
    ensure!(
        entered.is_some(),
        "the linked image is empty: its entry point {entry:#x} is in no executable segment (is `use trireme as _;` in \
         the program?)"
    );
    ensure!(
        file.symbols().any(|s| s.name() == Ok("runtime_entry") && s.is_definition()),
        "the linked image has no `runtime_entry`: the standard library was dropped by the linker"
    );
    if arch == Arch::Armv4 {
        only_armv4(&file)?;
    }
    if arch == Arch::X86_64 {
        let header = Header::parse(elf).context("not a 64-bit ELF file")?;
        let endian = header.endian()?;
        let segments = header.program_headers(endian, elf)?;
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

/// Refuses code that an ARMv4 processor could not execute, wherever it comes from: a routine written in assembly, or a
/// compiler with a different idea of the target. The linker's mapping symbols tell code from constants between it.
/// [ELF for the Arm Architecture, 5.5.5]
fn only_armv4(file: &object::File<'_>) -> Result<()> {
    for section in file.sections().filter(|section| section.kind() == SectionKind::Text) {
        let mut marks: Vec<(u64, &str)> = file
            .symbols()
            .filter(|symbol| symbol.section_index() == Some(section.index()))
            .filter_map(|symbol| Some((symbol.address(), symbol.name().ok()?)))
            .filter(|(_, name)| name.starts_with('$'))
            .collect();
        marks.sort_unstable();
        ensure!(!marks.is_empty(), "the linked image does not tell code from constants");
        let data = section.data()?;
        let end = section.address() + section.size();
        let ends = marks.iter().skip(1).map(|mark| mark.0).chain([end]);
        for (&(start, kind), end) in marks.iter().zip(ends) {
            ensure!(!kind.starts_with("$t"), "Thumb code at {start:#x}");
            if !kind.starts_with("$a") {
                continue;
            }
            let words = usize::try_from(start - section.address())?
                ..usize::try_from(end - section.address())?;
            let words = data.get(words).context("a mapping symbol outside of its section")?;
            for (index, word) in words.as_chunks::<4>().0.iter().enumerate() {
                let word = u32::from_le_bytes(*word);
                ensure!(
                    armv4::is_instruction(word),
                    "{word:#010x} at {:#x}, in {}, is no instruction of ARMv4",
                    start + 4 * index as u64,
                    function_at(file, start + 4 * index as u64)
                );
            }
        }
    }
    Ok(())
}

/// The function an address is in.
fn function_at(file: &object::File<'_>, address: u64) -> String {
    let functions = file.symbols().filter(|symbol| symbol.kind() == object::SymbolKind::Text);
    let before = functions.filter(|symbol| symbol.address() <= address);
    let nearest = before.max_by_key(|symbol| symbol.address());
    let name = nearest.and_then(|symbol| symbol.name().ok().map(str::to_owned));
    name.map_or_else(
        || "nowhere".to_owned(),
        |name| addr2line::demangle_auto(name.into(), None).into_owned(),
    )
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
    let file = object::File::parse(elf).context("not an ELF file")?;
    let loaded = || file.segments().filter(|segment| segment.file_range().1 > 0);
    let start = loaded().map(|segment| segment.address()).min().context("nothing is loaded")?;
    let mut image = Vec::new();
    for segment in loaded() {
        let at = segment.address() - start;
        if at + segment.file_range().1 > RAW_IMAGE_LIMIT {
            bail!("segments are more than {RAW_IMAGE_LIMIT} bytes apart");
        }
        let at = usize::try_from(at)?;
        let data = segment.data().context("a segment lies past the end of the file")?;
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

/// The zImage of an ELF file: its memory, beginning with the header.
pub fn zimage(elf: &[u8]) -> Result<Vec<u8>> {
    let image = flattened(elf)?;
    check_zimage(&image)?;
    Ok(image)
}

/// Refuses what loaders would not take for a zImage, or would look for a device tree at the wrong end of.
pub fn check_zimage(image: &[u8]) -> Result<()> {
    let word = |at: usize| {
        let bytes = image.get(at..at + 4)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?))
    };
    let [magic, start, end] = [0, 4, 8].map(|at| word(ZIMAGE_MAGIC_OFFSET + at));
    ensure!(magic == Some(ZIMAGE_MAGIC), "the linked image does not begin with a zImage header");
    ensure!(
        start == Some(0) && end.is_some_and(|end| end as usize == image.len()),
        "the zImage header says {end:?} of a length of {}",
        image.len()
    );
    Ok(())
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
    fn zimage_of_another_length_is_refused() {
        let mut image = vec![0; 0x100];
        assert!(check_zimage(&image).unwrap_err().to_string().contains("header"));
        image[0x24..0x28].copy_from_slice(&ZIMAGE_MAGIC.to_le_bytes());
        image[0x2c..0x30].copy_from_slice(&0x100u32.to_le_bytes());
        assert!(check_zimage(&image).is_ok());
        image.push(0);
        assert!(check_zimage(&image).unwrap_err().to_string().contains("length"));
        assert!(check_zimage(&image[..0x28]).is_err());
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
