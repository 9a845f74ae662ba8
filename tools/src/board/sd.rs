//! The raw image of an SD card (or any disk): a partition table and one FAT32 file system.

use std::fs::OpenOptions;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use mbrman::{BOOT_ACTIVE, CHS, MBR, MBRPartitionEntry};

use crate::workspace::output;

/// 1980-01-01, the first day FAT knows: the time of everything on the card, so that the same image makes the same card.
pub(super) const EPOCH: &str = "315532800";
/// Where partitions begin on cards: erase blocks are this large at most.
const START: u64 = 1 << 20;
/// FAT32 begins at 65,525 clusters; with clusters of 512 bytes that is 33 MiB.
const LEAST: u64 = 64 << 20;
/// The serial number of the file system and of the partition table: "TRIR".
const SERIAL: u32 = 0x5452_4952;
const SECTOR: u32 = 512;
/// FAT32, addressed by block numbers.
const FAT32_LBA: u8 = 0x0c;

/// Makes the image `card` with `files`, each under its name in the root folder.
pub(super) fn write(card: &Path, files: &[(String, &Path)]) -> Result<()> {
    let mut content = 0;
    for (_, file) in files {
        content += file.metadata().with_context(|| file.display().to_string())?.len();
    }
    // Room for another pair of slots as large: updates are written beside what they replace.
    let size = LEAST.max((START + 4 * content).next_multiple_of(1 << 20));
    let mut disk =
        OpenOptions::new().read(true).write(true).create(true).truncate(true).open(card)?;
    disk.set_len(size)?;
    let mut table = MBR::new_from(&mut disk, SECTOR, SERIAL.to_be_bytes())?;
    table[1] = MBRPartitionEntry {
        // U-Boot looks for scripts on the partition marked bootable. [U-Boot, config_distro_bootcmd.h]
        boot: BOOT_ACTIVE,
        first_chs: CHS::empty(),
        sys: FAT32_LBA,
        last_chs: CHS::empty(),
        starting_lba: (START / u64::from(SECTOR)) as u32,
        sectors: ((size - START) / u64::from(SECTOR)) as u32,
    };
    table.write_into(&mut disk)?;
    drop(disk);

    let place = format!("{}@@{START}", card.display());
    let sectors = ((size - START) / u64::from(SECTOR)).to_string();
    let serial = format!("{SERIAL:08x}");
    mtool("mformat", &place)
        .args([
            "-F",
            "-T",
            &sectors,
            "-h",
            "16",
            "-s",
            "63",
            "-H",
            &(START / u64::from(SECTOR)).to_string(),
        ])
        .args(["-c", "1", "-N", &serial, "-v", "TRIREME", "::"])
        .run()?;
    for (name, file) in files {
        mtool("mcopy", &place).arg(file).arg(format!("::{name}")).run()?;
    }
    Ok(())
}

/// Bytes of code in the first sector; behind them are the disk's serial number and the partition table.
const CODE: usize = 440;

/// Puts a PC's boot loader on the card: `first` into the first sector, `core` into those behind it.
pub(super) fn add_loader(card: &Path, first: &[u8], core: &[u8]) -> Result<()> {
    let room = START - u64::from(SECTOR);
    ensure!(core.len() as u64 <= room, "a boot loader of {} bytes, for {room}", core.len());
    let mut disk = OpenOptions::new().write(true).open(card)?;
    disk.write_all(first.get(..CODE).context("a boot sector cut short")?)?;
    disk.seek(SeekFrom::Start(SECTOR.into()))?;
    disk.write_all(core)?;
    Ok(())
}

/// One of the mtools, working on the file system at `place`.
fn mtool(name: &str, place: &str) -> Command {
    let mut command = Command::new(name);
    command.args(["-i", place]).env("MTOOLS_SKIP_CHECK", "1");
    if std::env::var_os("SOURCE_DATE_EPOCH").is_none() {
        command.env("SOURCE_DATE_EPOCH", EPOCH);
    }
    command
}

trait Run {
    fn run(&mut self) -> Result<()>;
}

impl Run for Command {
    fn run(&mut self) -> Result<()> {
        output(self).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn card_has_a_bootable_partition_that_holds_the_files() {
        let folder = std::env::temp_dir().join(format!("trireme-card-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (one, card, back) = (folder.join("one"), folder.join("card"), folder.join("back"));
        fs::write(&one, [0x5a; 100_000]).unwrap();
        write(&card, &[("boot.scr".to_owned(), &one)]).unwrap();
        let bytes = fs::read(&card).unwrap();
        // Entry 1 at 446: active, type 0c, from sector 2048; signature 55 aa.
        assert_eq!(bytes[446], 0x80);
        assert_eq!(bytes[450], 0x0c);
        assert_eq!(bytes[454..458], 2048u32.to_le_bytes());
        assert_eq!(bytes[458..462], (bytes.len() as u32 / 512 - 2048).to_le_bytes());
        assert_eq!(bytes[510..512], [0x55, 0xaa]);
        let place = format!("{}@@1M", card.display());
        output(Command::new("mcopy").args(["-i", &place, "::boot.scr"]).arg(&back)).unwrap();
        assert!(fs::read(&back).unwrap() == fs::read(&one).unwrap());
        let again = folder.join("again");
        write(&again, &[("boot.scr".to_owned(), &one)]).unwrap();
        assert!(fs::read(&again).unwrap() == bytes, "the same files made another card");
        fs::remove_dir_all(&folder).unwrap();
    }
}
