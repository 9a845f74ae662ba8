//! NOR flash with Intel's command set, as the Common Flash Interface describes it: asking what it is, erasing sectors,
//! programming words.
//!
//! Chips stand side by side on a bus of 32 bits, two of 16 as in QEMU's `virt`; each gets its commands in its own lane, and
//! each lane's status is looked at. Touches no machine.
//!
//! Sources: [CFI] JEDEC JESD68.01; [ICS] Intel StrataFlash P30 data sheet 306666, "Command Codes", "Status Register".
//! Run on QEMU's `pflash_cfi01`; unverified on silicon.

use core::fmt;

/// Flash on a bus of 32 bits.
pub trait Bus {
    /// Reads at a byte offset, a multiple of four.
    fn read(&self, offset: usize) -> u32;
    /// Writes there.
    fn write(&mut self, offset: usize, value: u32);
}

/// Why flash cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlashError {
    /// It does not answer the CFI query as two 16-bit chips do.
    NoAnswer(u32),
    /// Its command set is another; 1 and 3 are Intel's.
    CommandSet(u32),
    /// Sectors of several sizes, or a part of one was asked for.
    Sectors,
    /// An erasure or a word failed; the status of both lanes.
    Status(u32),
    /// It stays busy.
    Busy,
}

impl fmt::Display for FlashError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FlashError::NoAnswer(word) => write!(f, "no CFI flash of two 16-bit chips ({word:#x})"),
            FlashError::CommandSet(set) => write!(f, "command set {set}, not Intel's"),
            FlashError::Sectors => f.write_str("not whole sectors of one size"),
            FlashError::Status(status) => write!(f, "failed with status {status:#010x}"),
            FlashError::Busy => f.write_str("stays busy"),
        }
    }
}

/// A command (or a bit) in both lanes.
const fn lanes(value: u32) -> u32 {
    value | value << 16
}

/// Commands. [ICS]
mod command {
    pub(super) const READ_ARRAY: u32 = 0xff;
    pub(super) const QUERY: u32 = 0x98;
    pub(super) const CLEAR_STATUS: u32 = 0x50;
    pub(super) const LOCK_SETUP: u32 = 0x60;
    pub(super) const ERASE: u32 = 0x20;
    /// Confirms an erasure; unlocks after `LOCK_SETUP`.
    pub(super) const CONFIRM: u32 = 0xd0;
    pub(super) const PROGRAM: u32 = 0x40;
}

/// Status: ready; erasure, word, voltage or lock failed. [ICS]
const READY: u32 = lanes(0x80);
const FAILED: u32 = lanes(0x3a);

/// Looks at the status before flash is given up on. A sector takes up to 4 s [ICS]; a look 100 ns at least.
const PATIENCE: u32 = 40_000_000;

/// A flash that answered.
pub struct Flash<B> {
    bus: B,
    /// Bytes of a sector, both lanes together.
    sector: usize,
}

impl<B: Bus> Flash<B> {
    /// Asks the flash what it is.
    pub fn open(mut bus: B) -> Result<Flash<B>, FlashError> {
        // The query's addresses count words of the device, which are four bytes of the bus apart. [CFI]
        bus.write(0x55 * 4, lanes(command::QUERY));
        let mut answer = [0; 0x31];
        for (at, word) in answer.iter_mut().enumerate().skip(0x10) {
            *word = bus.read(at * 4);
        }
        bus.write(0, lanes(command::READ_ARRAY));
        if [answer[0x10], answer[0x11], answer[0x12]] != [b'Q', b'R', b'Y'].map(|c| lanes(c.into()))
        {
            return Err(FlashError::NoAnswer(answer[0x10]));
        }
        let pair = |at: usize| (answer[at] & 0xff) | (answer[at + 1] & 0xff) << 8;
        if !matches!(pair(0x13), 1 | 3) {
            return Err(FlashError::CommandSet(pair(0x13)));
        }
        // One region of sectors: their number less one, their size in 256 bytes.
        let size = pair(0x2f) as usize * 256 * 2;
        if answer[0x2c] & 0xff != 1 || size == 0 {
            return Err(FlashError::Sectors);
        }
        Ok(Flash { bus, sector: size })
    }

    /// Replaces whole sectors. If that fails, they hold anything.
    pub fn replace(&mut self, offset: usize, content: &[u8]) -> Result<(), FlashError> {
        if !offset.is_multiple_of(self.sector) || !content.len().is_multiple_of(self.sector) {
            return Err(FlashError::Sectors);
        }
        let result = self.erase_and_program(offset, content);
        self.bus.write(offset, lanes(command::CLEAR_STATUS));
        self.bus.write(offset, lanes(command::READ_ARRAY));
        result
    }

    /// Leaves the flash in status mode.
    fn erase_and_program(&mut self, offset: usize, content: &[u8]) -> Result<(), FlashError> {
        for (index, sector) in content.chunks(self.sector).enumerate() {
            let at = offset + index * self.sector;
            self.bus.write(at, lanes(command::CLEAR_STATUS));
            self.bus.write(at, lanes(command::LOCK_SETUP));
            self.bus.write(at, lanes(command::CONFIRM));
            self.wait(at)?;
            self.bus.write(at, lanes(command::ERASE));
            self.bus.write(at, lanes(command::CONFIRM));
            self.wait(at)?;
            for (word, bytes) in sector.as_chunks::<4>().0.iter().enumerate() {
                let value = u32::from_le_bytes(*bytes);
                if value != !0 {
                    self.bus.write(at + 4 * word, lanes(command::PROGRAM));
                    self.bus.write(at + 4 * word, value);
                    self.wait(at + 4 * word)?;
                }
            }
        }
        Ok(())
    }

    fn wait(&self, offset: usize) -> Result<(), FlashError> {
        for _ in 0..PATIENCE {
            let status = self.bus.read(offset);
            if status & READY == READY {
                return if status & FAILED == 0 { Ok(()) } else { Err(FlashError::Status(status)) };
            }
        }
        Err(FlashError::Busy)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;

    /// Two chips side by side, by the data sheet: they start locked, programming only clears bits, a failure stays in the
    /// status until it is cleared.
    struct Chips {
        memory: Vec<u8>,
        mode: Mode,
        status: u32,
        unlocked: Vec<bool>,
        set: u8,
        busy_looks: u32,
        /// Every programming of this word fails.
        worn_out: Option<usize>,
    }

    #[derive(Clone, Copy, PartialEq)]
    enum Mode {
        Array,
        Query,
        Status,
        Lock,
        Erase,
        Program,
    }

    const SECTOR: usize = 1024;
    const SECTORS: usize = 4;

    #[derive(Clone)]
    struct Shared(Rc<RefCell<Chips>>);

    impl Shared {
        fn new() -> Shared {
            Shared(Rc::new(RefCell::new(Chips {
                memory: vec![0x5a; SECTOR * SECTORS],
                mode: Mode::Array,
                status: 0x80,
                unlocked: vec![false; SECTORS],
                set: 1,
                busy_looks: 0,
                worn_out: None,
            })))
        }

        fn memory(&self) -> Vec<u8> {
            assert!(self.0.borrow().mode == Mode::Array, "left where U-Boot could not read it");
            self.0.borrow().memory.clone()
        }
    }

    impl Bus for Shared {
        fn read(&self, offset: usize) -> u32 {
            let mut chips = self.0.borrow_mut();
            match chips.mode {
                Mode::Array => {
                    u32::from_le_bytes(chips.memory[offset..offset + 4].try_into().unwrap())
                }
                Mode::Query => {
                    // A region of four sectors of 512 bytes in each chip.
                    let byte = match offset / 4 {
                        0x10 => b'Q',
                        0x11 => b'R',
                        0x12 => b'Y',
                        0x13 => chips.set,
                        0x2c => 1,
                        0x2d => (SECTORS - 1) as u8,
                        0x2f => (SECTOR / 2 / 256) as u8,
                        _ => 0,
                    };
                    u32::from(byte) | u32::from(byte) << 16
                }
                _ if chips.busy_looks > 0 => {
                    chips.busy_looks -= 1;
                    // The second chip is slower.
                    0x0080
                }
                _ => chips.status | chips.status << 16,
            }
        }

        fn write(&mut self, offset: usize, value: u32) {
            let mut chips = self.0.borrow_mut();
            let sector = offset / SECTOR;
            match chips.mode {
                Mode::Program => {
                    let old: [u8; 4] = chips.memory[offset..offset + 4].try_into().unwrap();
                    if !chips.unlocked[sector] {
                        chips.status |= 0x12;
                    } else if chips.worn_out == Some(offset) {
                        chips.status |= 0x10;
                    } else {
                        let new = (u32::from_le_bytes(old) & value).to_le_bytes();
                        chips.memory[offset..offset + 4].copy_from_slice(&new);
                    }
                    chips.busy_looks = 2;
                    chips.mode = Mode::Status;
                    return;
                }
                Mode::Erase => {
                    assert_eq!(value, 0x00d0_00d0);
                    if chips.unlocked[sector] {
                        chips.memory[sector * SECTOR..(sector + 1) * SECTOR].fill(0xff);
                    } else {
                        chips.status |= 0x22;
                    }
                    chips.busy_looks = 100;
                    chips.mode = Mode::Status;
                    return;
                }
                Mode::Lock => {
                    assert_eq!(value, 0x00d0_00d0);
                    chips.unlocked[sector] = true;
                    chips.mode = Mode::Status;
                    return;
                }
                _ => {}
            }
            assert_eq!(value >> 16, value & 0xffff, "a command for one chip only");
            chips.mode = match value & 0xffff {
                0xff => Mode::Array,
                0x98 => Mode::Query,
                0x50 => {
                    chips.status = 0x80;
                    chips.mode
                }
                0x60 => Mode::Lock,
                0x20 => Mode::Erase,
                0x40 => Mode::Program,
                other => panic!("no such command: {other:#x}"),
            };
        }
    }

    #[test]
    fn sector_is_replaced_and_its_neighbours_stay() {
        let chips = Shared::new();
        let mut flash = Flash::open(chips.clone()).unwrap();
        let content: Vec<u8> =
            (0..SECTOR).map(|at| if at < 100 { at as u8 } else { 0xff }).collect();
        flash.replace(SECTOR, &content).unwrap();
        let memory = chips.memory();
        assert!(memory[SECTOR..2 * SECTOR] == content);
        assert!(memory[..SECTOR].iter().chain(&memory[2 * SECTOR..]).all(|byte| *byte == 0x5a));
    }

    #[test]
    fn failed_word_is_reported_and_the_flash_can_be_read_again() {
        let chips = Shared::new();
        chips.0.borrow_mut().worn_out = Some(8);
        let mut flash = Flash::open(chips.clone()).unwrap();
        assert_eq!(flash.replace(0, &[1; SECTOR]), Err(FlashError::Status(0x0090_0090)));
        chips.memory();
        assert_eq!(chips.0.borrow().status, 0x80, "the failure was not cleared");
    }

    #[test]
    fn parts_of_sectors_are_refused_before_anything_is_erased() {
        let chips = Shared::new();
        let mut flash = Flash::open(chips.clone()).unwrap();
        assert_eq!(flash.replace(4, &[0; SECTOR]), Err(FlashError::Sectors));
        assert_eq!(flash.replace(0, &[0; 4]), Err(FlashError::Sectors));
        assert!(chips.memory().iter().all(|byte| *byte == 0x5a));
    }

    #[test]
    fn other_chips_are_left_alone() {
        let chips = Shared::new();
        chips.0.borrow_mut().set = 2;
        assert_eq!(Flash::open(chips.clone()).err(), Some(FlashError::CommandSet(2)));
        struct Nothing;
        impl Bus for Nothing {
            fn read(&self, _: usize) -> u32 {
                !0
            }
            fn write(&mut self, _: usize, _: u32) {}
        }
        assert_eq!(Flash::open(Nothing).err(), Some(FlashError::NoAnswer(!0)));
    }
}
