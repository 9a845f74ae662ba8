//! PCI host bridges with a memory-mapped configuration space, as a tree describes them.
//!
//! [VERSATILE] Linux `Documentation/devicetree/bindings/pci/versatile.yaml`.

use core::ops::Range;

use arrayvec::ArrayVec;
use dtoolkit::fdt::{Fdt, FdtNode};

use super::{Interrupt, Place, cell_at, interrupt_at, number_at, value, walk};

/// What a window of a bridge carries. [PCI 2.2.1.1: phys.hi]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Space {
    /// Port I/O.
    Io,
    /// Memory below 4 GiB on the bus.
    Memory32,
    /// Memory anywhere on the bus.
    Memory64,
}

/// A window through which the CPU reaches a bus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    /// What it carries.
    pub space: Space,
    /// Its first address on the PCI bus.
    pub bus: u64,
    /// Its addresses for the CPU.
    pub cpu: Range<u64>,
}

/// A host bridge.
#[derive(Clone)]
pub(crate) struct Host<'a> {
    node: FdtNode<'a>,
    tree: Fdt<'a>,
    /// The configuration space, for the CPU.
    pub configuration: Range<u64>,
    /// A bus has this many bytes of it, as a power of two: 20 in an ECAM, 16 in the older layout of 256 bytes a function.
    pub bus_shift: u8,
    /// Registers that say which memory of the bus the windows show.
    pub windows_at: Option<Range<u64>>,
    /// The bus numbers behind it.
    pub buses: Range<u16>,
    /// Its windows.
    pub windows: ArrayVec<Window, 8>,
    /// What is behind it sees the CPU's caches.
    pub dma_coherent: bool,
}

/// The node at `place`, if it is an enabled host bridge. Not a search: whoever walks the tree asks.
pub(crate) fn host<'a>(tree: Fdt<'a>, place: &Place<'a, '_>) -> Option<Host<'a>> {
    if !place.enabled() {
        None
    } else if place.is("pci-host-ecam-generic") {
        read(tree, place, (place.reg(0)?, 20), None)
    } else if place.is("arm,versatile-pci") {
        // Control registers, the bridge's own configuration space, everybody's. [VERSATILE]
        read(tree, place, (place.reg(2)?, 16), place.reg(0))
    } else {
        None
    }
}

fn read<'a>(
    tree: Fdt<'a>,
    place: &Place<'a, '_>,
    (configuration, bus_shift): (Range<u64>, u8),
    windows_at: Option<Range<u64>>,
) -> Option<Host<'a>> {
    let range = value(&place.node, "bus-range").unwrap_or_default();
    let last = u16::try_from(cell_at(range, 1).unwrap_or(255)).ok()?.min(255);
    let first = u16::try_from(cell_at(range, 0).unwrap_or(0)).ok()?;
    let mut host = Host {
        node: place.node,
        tree,
        configuration,
        bus_shift,
        windows_at,
        buses: first..last + 1,
        windows: ArrayVec::new(),
        dma_coherent: place.dma_coherent(),
    };
    // PCI addresses have three cells and sizes two; the parent's addresses are its own affair.
    let (outer, _) = place.parent()?.cells;
    if place.cells != (3, 2) || outer == 0 || outer > 2 {
        return None;
    }
    let ranges = place.ranges.unwrap_or_default();
    let step = 3 + outer + 2;
    for at in (0..ranges.len() / (4 * step)).map(|entry| entry * step) {
        let space = match cell_at(ranges, at)? >> 24 & 3 {
            1 => Space::Io,
            2 => Space::Memory32,
            3 => Space::Memory64,
            _ => continue,
        };
        let (Some(bus), Some(cpu), Some(size)) = (
            number_at(ranges, at + 1, 2),
            number_at(ranges, at + 3, outer),
            number_at(ranges, at + 3 + outer, 2),
        ) else {
            continue;
        };
        if let Some(end) = cpu.checked_add(size) {
            let cpu = cpu..end;
            let _ = host.windows.try_push(Window { space, bus, cpu });
        }
    }
    Some(host)
}

impl Host<'_> {
    /// The line that `pin` (1 = INTA) of a device raises, by `interrupt-map`. [DT 2.4.3]
    ///
    /// Each entry is a PCI address (three cells), a pin, the controller's phandle, as many address
    /// cells as that controller has, and its interrupt specifier.
    pub(crate) fn interrupt(
        &self,
        bus: u8,
        device: u8,
        function: u8,
        pin: u8,
    ) -> Option<Interrupt> {
        let map = value(&self.node, "interrupt-map")?;
        let mask = value(&self.node, "interrupt-map-mask")?;
        let mask = [cell_at(mask, 0)?, cell_at(mask, 3)?];
        let address = u32::from(bus) << 16 | u32::from(device) << 11 | u32::from(function) << 8;
        let wanted = [address & mask[0], u32::from(pin) & mask[1]];
        // (phandle, cells between it and the specifier, cells of the specifier): one controller
        // serves all entries, as a rule.
        let mut known: Option<(u32, usize, usize)> = None;
        let mut at = 0;
        while let Some(phandle) = cell_at(map, at + 4) {
            if known.is_none_or(|(seen, ..)| seen != phandle) {
                let (addresses, interrupts) = self.controller(phandle)?;
                known = Some((phandle, addresses, interrupts));
            }
            let (_, addresses, interrupts) = known?;
            let entry = [cell_at(map, at)? & mask[0], cell_at(map, at + 3)? & mask[1]];
            if entry == wanted {
                return interrupt_at(map, at + 5 + addresses, interrupts);
            }
            at += 5 + addresses + interrupts;
        }
        None
    }

    /// `#address-cells` and `#interrupt-cells` of the controller with this phandle.
    fn controller(&self, phandle: u32) -> Option<(usize, usize)> {
        let mut found = None;
        walk(self.tree, &mut |place| {
            if found.is_none() && super::cell(&place.node, "phandle") == Some(phandle) {
                // Absent `#address-cells` means none here, unlike on a bus. [DT 2.4.3.1]
                let addresses = super::cell(&place.node, "#address-cells").unwrap_or(0);
                let interrupts = super::cell(&place.node, "#interrupt-cells").unwrap_or(0);
                found = Some((addresses as usize, interrupts as usize));
            }
        });
        found.filter(|&(addresses, interrupts)| addresses <= 4 && (1..=4).contains(&interrupts))
    }
}
