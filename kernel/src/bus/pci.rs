//! PCI: which functions there are, where their registers lie, how they interrupt. Pure logic over a
//! [`Configuration`] space, so that it runs on the host against a made-up one.
//!
//! Where firmware has been, its assignments stand. Where none has (aarch64 started by `-kernel`), buses are
//! numbered and BARs placed here, those of ports on the root bus only: a bridge's window for ports stays shut.
//!
//! A device may answer anything: loops in capability lists, bridges behind bridges without end and absurd
//! BARs are bounded. [PCI] is "PCI Local Bus Specification", revision 3.0; [BRIDGE] "PCI-to-PCI Bridge
//! Architecture Specification", revision 1.2.

use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

/// Functions found are no more than this; a machine with more is not scanned to the end.
const MAX_FUNCTIONS: usize = 256;
/// Bridges above a function.
const MAX_DEPTH: u8 = 8;
/// Capabilities of a function: as many as fit into 256 bytes.
const MAX_CAPABILITIES: usize = 48;

// Configuration space. [PCI 6.1]
const ID: u8 = 0x00;
const COMMAND: u8 = 0x04;
const CLASS: u8 = 0x08;
const HEADER: u8 = 0x0c;
const BARS: u8 = 0x10;
const CAPABILITIES: u8 = 0x34;
const INTERRUPT: u8 = 0x3c;
// Of a bridge. [BRIDGE 3.2.5]
const BUS_NUMBERS: u8 = 0x18;
const MEMORY_WINDOW: u8 = 0x20;
const PREFETCHABLE_WINDOW: u8 = 0x24;

const COMMAND_IO: u32 = 1 << 0;
const COMMAND_MEMORY: u32 = 1 << 1;
const COMMAND_MASTER: u32 = 1 << 2;
const COMMAND_NO_INTX: u32 = 1 << 10;
const STATUS_CAPABILITIES: u32 = 1 << (16 + 4);

/// Capability of message-signalled interrupts with a table. [PCI 6.8.2]
const MSI_X: u8 = 0x11;
const MSI_X_ENABLE: u32 = 1 << 31;
const MSI_X_MASK_ALL: u32 = 1 << 30;

/// A bridge's memory window grows by this. [BRIDGE 3.2.5.8]
const WINDOW: u64 = 1 << 20;

/// Bus, device and function number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address {
    /// Bus.
    pub bus: u8,
    /// Device, below 32.
    pub device: u8,
    /// Function, below 8.
    pub function: u8,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02x}:{:02x}.{}", self.bus, self.device, self.function)
    }
}

/// A configuration space, by 32-bit words at offsets divisible by four.
pub trait Configuration {
    /// Reads a word; all ones where there is nothing.
    fn read(&self, address: Address, offset: u8) -> u32;
    /// Writes a word.
    fn write(&mut self, address: Address, offset: u8, value: u32);
}

/// A block of registers or ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bar {
    /// Memory. Address 0: not assigned.
    Memory {
        /// First byte, on the bus.
        address: u64,
        /// Bytes; a power of two.
        size: u64,
        /// Two BARs hold the address.
        wide: bool,
    },
    /// Ports. Address 0: not assigned.
    Io {
        /// First port.
        address: u32,
        /// Ports; a power of two.
        size: u32,
    },
}

/// A function of a device: what drivers drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Where it is.
    pub address: Address,
    /// Vendor.
    pub vendor: u16,
    /// Device, by that vendor's numbering.
    pub device: u16,
    /// Base class, subclass, programming interface.
    pub class: u32,
    /// Its BARs; the second of a wide one is `None`.
    pub bars: [Option<Bar>; 6],
    /// Its interrupt pin as the root bus sees it: device and pin (1 is INTA) there. `None`: it has none.
    pub pin: Option<(u8, u8)>,
    /// What firmware wrote of the line the pin is wired to.
    pub line: u8,
}

/// MSI-X as a function has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MsiX {
    /// Of the capability, in the configuration space.
    offset: u8,
    /// The BAR the table is in, below 6.
    pub bar: u8,
    /// Where in that BAR it starts.
    pub table: u32,
    /// Entries in it, 16 bytes each.
    pub vectors: u16,
}

/// Room for BARs on the bus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Memory below 4 GiB.
    pub memory: Range<u64>,
    /// Ports. Empty: the bridge has none.
    pub ports: Range<u64>,
}

/// Finds every function on these buses, root bus first, depth first. `place`: where to put BARs, where
/// firmware has not.
pub fn scan(
    space: &mut dyn Configuration,
    buses: Range<u16>,
    place: Option<Place>,
) -> Vec<Function> {
    let mut scan = Scan {
        space,
        last_bus: buses.end.saturating_sub(1).min(255) as u8,
        next_bus: buses.start.min(255) as u8,
        place,
        found: Vec::new(),
    };
    let root = scan.next_bus;
    scan.bus(root, 0, None);
    scan.found
}

struct Scan<'a> {
    space: &'a mut dyn Configuration,
    last_bus: u8,
    /// The highest bus number in use; the next bridge gets the one after.
    next_bus: u8,
    /// What is left of the room for BARs.
    place: Option<Place>,
    found: Vec<Function>,
}

/// Which root bus device and pin an INTx pin of a device on this bus comes out at: those of the bridges
/// above rotate by device number. [BRIDGE 9.1]
type Above = Option<(u8, u8)>;

impl Scan<'_> {
    /// `above`: the root device this bus hangs under, and how far pins are rotated by then.
    fn bus(&mut self, bus: u8, depth: u8, above: Above) {
        for device in 0..32 {
            let first = Address { bus, device, function: 0 };
            if self.space.read(first, ID) as u16 == 0xffff {
                continue;
            }
            let several = self.space.read(first, HEADER) & 1 << 23 != 0;
            for function in 0..if several { 8 } else { 1 } {
                let address = Address { bus, device, function };
                let id = self.space.read(address, ID);
                if id as u16 == 0xffff || self.found.len() == MAX_FUNCTIONS {
                    continue;
                }
                match self.space.read(address, HEADER) >> 16 & 0x7f {
                    0 => self.endpoint(address, id, above),
                    1 if depth < MAX_DEPTH => self.bridge(address, depth, above),
                    _ => {}
                }
            }
        }
    }

    fn endpoint(&mut self, address: Address, id: u32, above: Above) {
        let mut bars = read_bars(self.space, address);
        let mut index = 0;
        while index < 6 {
            match (&mut self.place, &mut bars[index]) {
                (Some(place), Some(Bar::Memory { address: at, size, .. })) => {
                    *at = take(&mut place.memory, *size, *size).unwrap_or(0);
                    write_bar(self.space, address, index, *at, bars[index]);
                }
                (Some(place), Some(Bar::Io { address: at, size })) if above.is_none() => {
                    let size = u64::from(*size);
                    let port = take(&mut place.ports, size, size).unwrap_or(0);
                    *at = u32::try_from(port).unwrap_or(0);
                    write_bar(self.space, address, index, port, bars[index]);
                }
                _ => {}
            }
            index +=
                if matches!(bars[index], Some(Bar::Memory { wide: true, .. })) { 2 } else { 1 };
        }
        let interrupt = self.space.read(address, INTERRUPT);
        let pin = match (interrupt >> 8) as u8 {
            pin @ 1..=4 => Some(match above {
                None => (address.device, pin),
                Some((root, turn)) => (root, (pin - 1 + address.device + turn) % 4 + 1),
            }),
            _ => None,
        };
        self.found.push(Function {
            address,
            vendor: id as u16,
            device: (id >> 16) as u16,
            class: self.space.read(address, CLASS) >> 8,
            bars,
            pin,
            line: interrupt as u8,
        });
    }

    fn bridge(&mut self, address: Address, depth: u8, above: Above) {
        let below = Some(match above {
            None => (address.device, 0),
            Some((root, turn)) => (root, (address.device + turn) % 4),
        });
        let latency = self.space.read(address, BUS_NUMBERS) & 0xff00_0000;
        if self.place.is_none() {
            // Firmware numbered it; one that does not count upwards would have us in circles.
            let secondary = (self.space.read(address, BUS_NUMBERS) >> 8) as u8;
            if secondary > self.next_bus && secondary <= self.last_bus {
                self.next_bus = secondary;
                self.bus(secondary, depth + 1, below);
            }
            return;
        }
        if self.next_bus == self.last_bus {
            return;
        }
        self.next_bus += 1;
        let secondary = self.next_bus;
        let numbers = |last: u8| {
            latency | u32::from(last) << 16 | u32::from(secondary) << 8 | u32::from(address.bus)
        };
        // Everything goes through while it is being scanned; then only what was found.
        self.space.write(address, BUS_NUMBERS, numbers(self.last_bus));
        let start = self.align_place();
        self.bus(secondary, depth + 1, below);
        let end = self.align_place();
        self.space.write(address, BUS_NUMBERS, numbers(self.next_bus));
        // Base in the low half, limit in the high, both without their low 20 bits; base above limit
        // closes a window. [BRIDGE 3.2.5.8]
        let window = if start < end {
            (start >> 16 & 0xfff0) as u32 | ((end - 1) & 0xfff0_0000) as u32
        } else {
            0x0000_fff0
        };
        self.space.write(address, MEMORY_WINDOW, window);
        self.space.write(address, PREFETCHABLE_WINDOW, 0x0000_fff0);
        let command = self.space.read(address, COMMAND) & 0xffff;
        self.space.write(address, COMMAND, command | COMMAND_MEMORY | COMMAND_MASTER);
    }

    /// Moves to where a bridge's window may start, and says where that is.
    fn align_place(&mut self) -> u64 {
        let Some(Place { memory, .. }) = &mut self.place else { return 0 };
        memory.start = memory.start.next_multiple_of(WINDOW).min(memory.end);
        memory.start
    }
}

/// Cuts `size` bytes from the front of `place`.
fn take(place: &mut Range<u64>, size: u64, align: u64) -> Option<u64> {
    let start = place.start.checked_next_multiple_of(align)?;
    let end = start.checked_add(size)?;
    if end > place.end {
        return None;
    }
    place.start = end;
    Some(start)
}

/// Sizes the BARs of an endpoint, with decoding off meanwhile. [PCI 6.2.5.1]
fn read_bars(space: &mut dyn Configuration, address: Address) -> [Option<Bar>; 6] {
    let command = space.read(address, COMMAND) & 0xffff;
    space.write(address, COMMAND, command & !(COMMAND_IO | COMMAND_MEMORY));
    let mut probe = |index: usize| {
        let offset = BARS + 4 * index as u8;
        let old = space.read(address, offset);
        space.write(address, offset, u32::MAX);
        let mask = space.read(address, offset);
        space.write(address, offset, old);
        (old, mask)
    };
    let mut bars = [None; 6];
    let mut index = 0;
    while index < 6 {
        let (old, mask) = probe(index);
        let at = index;
        index += 1;
        if mask == 0 || mask == u32::MAX {
            continue;
        }
        if mask & 1 != 0 {
            // The upper half may be hard-wired to zero.
            let size = (!(mask & !3) & 0xffff).wrapping_add(1);
            bars[at] = Some(Bar::Io { address: old & !3, size });
            continue;
        }
        let wide = mask >> 1 & 3 == 2;
        if wide && index == 6 {
            continue;
        }
        let (high, high_mask) = if wide { probe(index) } else { (0, u32::MAX) };
        index += usize::from(wide);
        let mask = u64::from(high_mask) << 32 | u64::from(mask & !0xf);
        let size = (!mask).wrapping_add(1);
        if size.is_power_of_two() {
            let address = u64::from(high) << 32 | u64::from(old & !0xf);
            bars[at] = Some(Bar::Memory { address, size, wide });
        }
    }
    space.write(address, COMMAND, command);
    bars
}

fn write_bar(
    space: &mut dyn Configuration,
    address: Address,
    index: usize,
    at: u64,
    bar: Option<Bar>,
) {
    let offset = BARS + 4 * index as u8;
    space.write(address, offset, at as u32);
    if matches!(bar, Some(Bar::Memory { wide: true, .. })) {
        space.write(address, offset + 4, (at >> 32) as u32);
    }
}

impl Function {
    /// The memory behind a BAR, if it is one and was given an address.
    pub fn memory(&self, bar: u8) -> Option<Range<u64>> {
        match self.bars.get(usize::from(bar))? {
            Some(Bar::Memory { address, size, .. }) if *address != 0 => {
                Some(*address..address.checked_add(*size)?)
            }
            _ => None,
        }
    }

    /// The ports behind a BAR, if it is of ports and was given an address. No machine has more than 64 Ki.
    pub fn ports(&self, bar: u8) -> Option<Range<u16>> {
        match self.bars.get(usize::from(bar))? {
            Some(Bar::Io { address, size }) if *address != 0 => {
                let end = address.checked_add(*size)?;
                Some(u16::try_from(*address).ok()?..u16::try_from(end).ok()?)
            }
            _ => None,
        }
    }

    /// Sets bits of a byte of its configuration space.
    pub fn set_bits(&self, space: &mut dyn Configuration, offset: u8, bits: u8) {
        let shift = 8 * u32::from(offset & 3);
        let word = space.read(self.address, offset & !3);
        space.write(self.address, offset & !3, word | u32::from(bits) << shift);
    }

    /// Lets it decode its addresses and master the bus, and use its INTx pin or not.
    pub fn enable(&self, space: &mut dyn Configuration, intx: bool) {
        let mut command = space.read(self.address, COMMAND) & 0xffff;
        command &= !(COMMAND_IO | COMMAND_NO_INTX);
        command |= COMMAND_MEMORY | COMMAND_MASTER;
        let ports = self
            .bars
            .iter()
            .any(|bar| matches!(bar, Some(Bar::Io { address, .. }) if *address != 0));
        if ports {
            command |= COMMAND_IO;
        }
        if !intx {
            command |= COMMAND_NO_INTX;
        }
        space.write(self.address, COMMAND, command);
    }

    /// Its capabilities, identifier and offset each. `None` if the list does not end.
    pub fn capabilities(&self, space: &dyn Configuration) -> Option<Vec<(u8, u8)>> {
        let mut list = Vec::new();
        if space.read(self.address, COMMAND) & STATUS_CAPABILITIES == 0 {
            return Some(list);
        }
        let mut offset = space.read(self.address, CAPABILITIES) as u8 & !3;
        while offset >= 0x40 {
            if list.len() == MAX_CAPABILITIES {
                return None;
            }
            let word = space.read(self.address, offset);
            list.push((word as u8, offset));
            offset = (word >> 8) as u8 & !3;
        }
        Some(list)
    }

    /// Its MSI-X capability, if it has one that makes sense.
    pub fn msi_x(&self, space: &dyn Configuration) -> Option<MsiX> {
        let (_, offset) = self.capabilities(space)?.into_iter().find(|(id, _)| *id == MSI_X)?;
        let control = space.read(self.address, offset);
        let table = space.read(self.address, offset.checked_add(4)?);
        let vectors = (control >> 16 & 0x7ff) as u16 + 1;
        let msi_x = MsiX { offset, bar: table as u8 & 7, table: table & !7, vectors };
        let memory = self.memory(msi_x.bar)?;
        let end = u64::from(msi_x.table) + 16 * u64::from(vectors);
        (end <= memory.end - memory.start).then_some(msi_x)
    }

    /// Turns MSI-X on: its table must have been filled.
    pub fn enable_msi_x(&self, space: &mut dyn Configuration, msi_x: &MsiX) {
        let control = space.read(self.address, msi_x.offset);
        space.write(self.address, msi_x.offset, (control | MSI_X_ENABLE) & !MSI_X_MASK_ALL);
    }
}

mod power;
#[cfg(test)]
mod tests;
