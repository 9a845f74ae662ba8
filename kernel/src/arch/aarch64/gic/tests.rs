//! The code against a model of the controllers by [V2] and [V3]: one CPU's view, interrupts of one priority.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use std::sync::{Mutex, PoisonError};

use super::{GicError, acknowledge, end, init, irq_enable, irq_mask, irq_unmask, system};
use crate::arch::Trigger;
use crate::arch::aarch64::mmio;
use crate::fdt::machine::Gic;

const DISTRIBUTOR: usize = 0x800_0000;
/// Its registers behind the first.
const FIRST: usize = DISTRIBUTOR + 4;
/// Version 2: the CPU interface; version 3: the redistributors.
const OTHER: usize = 0x900_0000;
const LINES: usize = 256;
/// This CPU: bit 2 of the targets in version 2, 0.0.1.3 in version 3.
const CPU: u8 = 1 << 2;
const AFFINITY: u64 = 0x8000_0103;

/// A redistributor: its affinity, whether it has the frames of virtual LPIs, whether it wakes up.
#[derive(Clone, Copy)]
struct Redistributor {
    affinity: u32,
    virtual_frames: bool,
    wakes: bool,
    awake: bool,
}

#[derive(Clone)]
struct Model(Rc<RefCell<State>>);

struct State {
    version: u8,
    control: u32,
    cpu_control: u32,
    mask: u32,
    enabled: [bool; LINES],
    latched: [bool; LINES],
    level: [bool; LINES],
    active: [bool; LINES],
    edge: [bool; LINES],
    group: [bool; LINES],
    priority: [u8; LINES],
    target: [u8; LINES],
    router: [u64; LINES],
    redistributors: Vec<Redistributor>,
    system_registers: bool,
}

impl State {
    /// The line that would be taken: the lowest, since all have one priority.
    fn best(&self) -> Option<usize> {
        let on = match self.version {
            2 => self.control & 1 != 0 && self.cpu_control & 1 != 0,
            _ => self.control & 1 << 1 != 0,
        };
        (0..LINES).find(|&line| {
            let here = match (self.version, line) {
                (_, ..32) => true,
                (2, _) => self.target[line] & CPU != 0,
                // Aff3.Aff2.Aff1.Aff0, without the bit that is always one. [V3 12.9.22]
                (_, _) => self.router[line] == 0x103,
            };
            let grouped = self.version == 2 || self.group[line];
            let pending = self.latched[line] || !self.edge[line] && self.level[line];
            let loud = u32::from(self.priority[line]) < self.mask;
            on && here && grouped && pending && loud && self.enabled[line] && !self.active[line]
        })
    }

    fn take(&mut self) -> u32 {
        let Some(line) = self.best() else { return 1023 };
        self.active[line] = true;
        self.latched[line] = false;
        line as u32
    }

    /// Registers that distributor and private frame have in common, for the lines that are theirs.
    fn write(&mut self, offset: usize, value: u32, lines: Range<usize>) {
        let first = |per_word: usize, base: usize| (offset - base) / 4 * per_word;
        let bits = |first: usize| {
            (first..first + 32)
                .filter(move |line| value >> (line - first) & 1 != 0)
                .filter(|line| lines.contains(line))
        };
        match offset {
            0x080..0x100 => {
                let first = first(32, 0x080);
                for line in (first..first + 32).filter(|line| lines.contains(line)) {
                    self.group[line] = value >> (line - first) & 1 != 0;
                }
            }
            0x100..0x180 => bits(first(32, 0x100)).for_each(|line| self.enabled[line] = true),
            0x180..0x200 => bits(first(32, 0x180)).for_each(|line| self.enabled[line] = false),
            0x280..0x300 => bits(first(32, 0x280)).for_each(|line| self.latched[line] = false),
            0x400..0xc00 => {
                let base = offset & !0x3ff;
                for (index, byte) in value.to_le_bytes().into_iter().enumerate() {
                    let line = first(4, base) + index;
                    if lines.contains(&line) {
                        match base {
                            0x400 => self.priority[line] = byte,
                            // Those of private lines are read-only. [V2 4.3.12]
                            _ if line >= 32 => self.target[line] = byte,
                            _ => {}
                        }
                    }
                }
            }
            0xc00..0xd00 => {
                let first = first(16, 0xc00);
                for line in (first..first + 16).filter(|line| lines.contains(line) && *line >= 16) {
                    let edge = value >> (2 * (line - first) + 1) & 1 != 0;
                    // [V2 4.3.13]: changed while enabled, it is unpredictable.
                    assert!(edge == self.edge[line] || !self.enabled[line], "line {line}");
                    self.edge[line] = edge;
                }
            }
            other => panic!("write to {other:#x}"),
        }
    }

    fn read(&self, offset: usize, lines: Range<usize>) -> u32 {
        let bit = |on: bool, at: usize| u32::from(on) << at;
        let first = |per_word: usize, base: usize| (offset - base) / 4 * per_word;
        let all =
            |first: usize, count: usize| (first..first + count).filter(|line| lines.contains(line));
        match offset {
            0x080..0x100 => {
                all(first(32, 0x80), 32).map(|line| bit(self.group[line], line % 32)).sum()
            }
            0x400..0xc00 => {
                let base = offset & !0x3ff;
                let byte = |line: usize| match base {
                    0x400 => self.priority[line],
                    _ if line < 32 => CPU,
                    _ => self.target[line],
                };
                all(first(4, base), 4).map(|line| u32::from(byte(line)) << (8 * (line % 4))).sum()
            }
            0xc00..0xd00 => all(first(16, 0xc00), 16)
                .map(|line| bit(self.edge[line], 2 * (line % 16) + 1))
                .sum(),
            other => panic!("read of {other:#x}"),
        }
    }

    /// The redistributor at an address, and the offset in it.
    fn redistributor(&mut self, address: usize) -> (usize, usize, bool) {
        let mut at = OTHER;
        let count = self.redistributors.len();
        for (index, one) in self.redistributors.iter().enumerate() {
            let size = if one.virtual_frames { 0x4_0000 } else { 0x2_0000 };
            if (at..at + size).contains(&address) {
                return (index, address - at, index + 1 == count);
            }
            at += size;
        }
        panic!("no redistributor at {address:#x}");
    }
}

impl mmio::Registers for Model {
    fn read32(&mut self, address: usize) -> u32 {
        let mut state = self.0.borrow_mut();
        match address {
            DISTRIBUTOR => state.control,
            at if at == DISTRIBUTOR + 4 => (LINES / 32 - 1) as u32,
            FIRST..OTHER => {
                let lines = if state.version == 2 { 0..LINES } else { 32..LINES };
                state.read(address - DISTRIBUTOR, lines)
            }
            _ if state.version == 2 => match address - OTHER {
                0x0c => state.take(),
                other => panic!("read of the CPU interface's {other:#x}"),
            },
            _ => {
                let (index, offset, last) = state.redistributor(address);
                let one = state.redistributors[index];
                match offset {
                    0x008 => u32::from(last) << 4 | u32::from(one.virtual_frames) << 1,
                    0x00c => one.affinity,
                    0x014 => {
                        if one.awake {
                            0
                        } else {
                            1 << 2 | 1 << 1
                        }
                    }
                    0x1_0000.. if u64::from(one.affinity) == 0x103 => {
                        state.read(offset - 0x1_0000, 0..32)
                    }
                    other => panic!("read of redistributor {index}, {other:#x}"),
                }
            }
        }
    }

    fn write32(&mut self, address: usize, value: u32) {
        let mut state = self.0.borrow_mut();
        match address {
            DISTRIBUTOR => state.control = value,
            FIRST..OTHER if state.version == 3 && address - DISTRIBUTOR >= 0x6000 => {
                let (line, high) = ((address - DISTRIBUTOR - 0x6000) / 8, address % 8 / 4);
                let shift = 32 * high;
                state.router[line] =
                    state.router[line] & !(0xffff_ffff << shift) | u64::from(value) << shift;
            }
            FIRST..OTHER => {
                let lines = if state.version == 2 { 0..LINES } else { 32..LINES };
                state.write(address - DISTRIBUTOR, value, lines);
            }
            _ if state.version == 2 => match address - OTHER {
                0x00 => state.cpu_control = value,
                0x04 => state.mask = value,
                0x10 => {
                    assert!(
                        state.active[value as usize],
                        "the end of {value}, which is not active"
                    );
                    state.active[value as usize] = false;
                }
                other => panic!("write to the CPU interface's {other:#x}"),
            },
            _ => {
                let (index, offset, _) = state.redistributor(address);
                match offset {
                    0x014 => {
                        let one = &mut state.redistributors[index];
                        one.awake = one.wakes && value & 1 << 1 == 0;
                    }
                    0x1_0000.. => {
                        let one = state.redistributors[index];
                        assert!(
                            one.awake && one.affinity == 0x103,
                            "private lines of redistributor {index}"
                        );
                        state.write(offset - 0x1_0000, value, 0..32);
                    }
                    other => panic!("write to redistributor {index}, {other:#x}"),
                }
            }
        }
    }
}

impl system::Interface for Model {
    fn affinity(&self) -> u64 {
        AFFINITY
    }

    fn enable(&mut self) -> bool {
        let mut state = self.0.borrow_mut();
        state.mask = 0xff;
        state.system_registers
    }

    fn acknowledge(&mut self) -> u32 {
        self.0.borrow_mut().take()
    }

    fn end(&mut self, line: u32) {
        let active = &mut self.0.borrow_mut().active[line as usize];
        assert!(*active, "the end of {line}, which is not active");
        *active = false;
    }
}

/// A controller as firmware leaves it: everything on, lines enabled and pending, targets elsewhere.
fn model(version: u8) -> Model {
    let other = |affinity, virtual_frames| Redistributor {
        affinity,
        virtual_frames,
        wakes: true,
        awake: false,
    };
    let state = State {
        version,
        control: 1,
        cpu_control: 1,
        mask: 0,
        enabled: [true; LINES],
        latched: [true; LINES],
        level: [false; LINES],
        active: [false; LINES],
        edge: [false; LINES],
        group: [false; LINES],
        priority: [0; LINES],
        target: [1; LINES],
        router: [0; LINES],
        redistributors: vec![
            other(0x100, false),
            other(0x102, true),
            other(0x103, true),
            other(0x104, false),
        ],
        system_registers: true,
    };
    let model = Model(Rc::new(RefCell::new(state)));
    mmio::install(Box::new(model.clone()));
    system::install(Box::new(model.clone()));
    model
}

fn start(version: u8) -> Result<(), GicError> {
    let block = |start: usize, size: usize| start as u64..(start + size) as u64;
    init(&Gic {
        version,
        distributor: block(DISTRIBUTOR, 0x1_0000),
        others: [block(OTHER, if version == 2 { 0x2000 } else { 0x10_0000 })].into_iter().collect(),
        messages: None,
        translation: None,
    })
}

/// The code has its state in statics: one test at a time.
static TURN: Mutex<()> = Mutex::new(());

fn each(test: impl Fn(&Model)) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    for version in [2, 3] {
        let model = model(version);
        start(version).unwrap();
        test(&model);
    }
}

#[test]
fn what_firmware_left_enabled_is_silent() {
    each(|model| {
        assert_eq!(acknowledge(), None);
        assert!(model.0.borrow().enabled.iter().all(|on| !on));
    });
}

#[test]
fn level_line_comes_until_the_device_is_satisfied() {
    each(|model| {
        for line in [27, 40, 196] {
            irq_enable(line, Trigger::Level);
            assert_eq!(acknowledge(), None, "{line} was pending before it was enabled");
            model.0.borrow_mut().level[line as usize] = true;
            assert_eq!(acknowledge(), Some(line));
            assert_eq!(acknowledge(), None, "{line} is active");
            end(line);
            assert_eq!(acknowledge(), Some(line));
            irq_mask(line);
            end(line);
            assert_eq!(acknowledge(), None, "{line} is masked");
            irq_unmask(line);
            assert_eq!(acknowledge(), Some(line));
            model.0.borrow_mut().level[line as usize] = false;
            end(line);
            assert_eq!(acknowledge(), None);
        }
    });
}

#[test]
fn edge_comes_once_even_if_the_line_is_masked_meanwhile() {
    each(|model| {
        irq_enable(77, Trigger::Edge);
        model.0.borrow_mut().latched[77] = true;
        assert_eq!(acknowledge(), Some(77));
        end(77);
        assert_eq!(acknowledge(), None);
        irq_mask(77);
        model.0.borrow_mut().latched[77] = true;
        assert_eq!(acknowledge(), None);
        irq_unmask(77);
        assert_eq!(acknowledge(), Some(77));
        end(77);
        // From edge to level and back, as a driver that takes over may want.
        irq_enable(77, Trigger::Level);
        irq_enable(77, Trigger::Edge);
    });
}

#[test]
fn lines_there_are_not_stay_silent() {
    each(|_| {
        for line in [256, 1019, 5000] {
            irq_enable(line, Trigger::Level);
            irq_mask(line);
            irq_unmask(line);
        }
        assert_eq!(acknowledge(), None);
    });
}

#[test]
fn version_3_that_cannot_be_used_says_why() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let model = model(3);
    model.0.borrow_mut().system_registers = false;
    assert!(matches!(start(3), Err(GicError::NoSystemRegisters)));
    model.0.borrow_mut().redistributors[2].wakes = false;
    model.0.borrow_mut().redistributors[2].awake = false;
    assert!(matches!(start(3), Err(GicError::Asleep)));
    model.0.borrow_mut().redistributors.truncate(2);
    assert!(matches!(start(3), Err(GicError::NoRedistributor)));
}
