//! The flattened device tree a boot loader hands over: what the boot code and the drivers ask of it.
//!
//! The whole structure is checked once, when the tree is opened; parsing is `dtoolkit`'s, which never
//! reads outside of a blob that is sound. This module adds what the machine needs on top: addresses
//! translated to the CPU's (`ranges`), interrupts translated to GIC numbers, and the few nodes that
//! are looked up by name. Trees come from outside, so nothing here may panic on one: what cannot be
//! made sense of is left out. Depth, counts and lengths are bounded.
//!
//! Sources: [DT] Devicetree Specification 0.4; [GIC] Linux `Documentation/devicetree/bindings/
//! interrupt-controller/arm,gic.yaml`, [VIC] `arm,vic.yaml`, [FTINTC010] `faraday,ftintc010.yaml`; [PCI] "PCI Bus Binding to IEEE 1275", revision 2.1.

#[cfg(any(target_arch = "arm", test))]
pub(crate) mod armv4;
mod check;
#[cfg(any(target_arch = "arm", test))]
pub(crate) mod gemini;
pub(crate) mod machine;
pub(crate) mod pci;
#[cfg(any(target_arch = "aarch64", test))]
pub(crate) mod ravb;

use core::ops::Range;

use dtoolkit::fdt::{Fdt, FdtNode};
use dtoolkit::{Node, Property};

/// Nodes nested deeper than this are not looked at; real trees reach six or seven.
const MAX_DEPTH: usize = 12;

/// How an interrupt line signals, as the tree says it. [GIC: third cell]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sense {
    /// Rising edge.
    Edge,
    /// Falling edge. A GIC has none: where a tree says so, the chip inverts the line.
    FallingEdge,
    /// High level.
    Level,
}

impl From<Sense> for crate::arch::Trigger {
    fn from(sense: Sense) -> crate::arch::Trigger {
        match sense {
            Sense::Edge => crate::arch::Trigger::Edge,
            // A GIC tells by the rising edge of what the chip makes of it.
            Sense::FallingEdge if cfg!(target_arch = "aarch64") => crate::arch::Trigger::Edge,
            Sense::FallingEdge => crate::arch::Trigger::FallingEdge,
            Sense::Level => crate::arch::Trigger::Level,
        }
    }
}

/// An interrupt of the machine's controller, as the tree names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interrupt {
    /// GIC: the INTID, 16..32 for the private ones, from 32 for the shared ones. Others: the input.
    pub line: u32,
    /// Edge or level.
    pub sense: Sense,
}

/// A node together with the buses above it.
///
/// The properties that nearly every question needs are looked up once: a property is found by reading
/// all before it, names included, so boot would otherwise spend most of its time here.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a, 'p> {
    /// The node itself.
    pub node: FdtNode<'a>,
    parent: Option<&'p Place<'a, 'p>>,
    depth: usize,
    compatible: &'a [u8],
    device_type: &'a [u8],
    reg: &'a [u8],
    interrupts: &'a [u8],
    /// `None`: the bus is not part of its parent's address space.
    ranges: Option<&'a [u8]>,
    /// `#address-cells` and `#size-cells`, for its children.
    cells: (usize, usize),
    /// Cells of an interrupt specifier.
    specifier: usize,
    enabled: bool,
    dma_coherent: bool,
}

/// Opens the blob at `address`; `None` if nothing there is a device tree or its structure is broken.
///
/// # Safety
/// `address` is null, or readable for eight bytes and, if these are a device tree's header, for the
/// length the header gives (which is refused above `limit` bytes).
pub(crate) unsafe fn open(address: *const u8, limit: usize) -> Option<Fdt<'static>> {
    if address.is_null() || !address.cast::<u32>().is_aligned() {
        return None;
    }
    // SAFETY: aligned, not null, and the caller vouches for eight bytes.
    let (magic, total) =
        unsafe { (address.cast::<u32>().read(), address.cast::<u32>().add(1).read()) };
    let total = u32::from_be(total) as usize;
    if u32::from_be(magic) != 0xd00d_feed || total > limit {
        return None;
    }
    // SAFETY: the caller vouches for as many bytes as the header says; nobody writes them.
    let blob = unsafe { core::slice::from_raw_parts(address, total) };
    check::checked(blob)
}

/// Calls `visit` for each node, parents before children.
pub(crate) fn walk<'a>(tree: Fdt<'a>, visit: &mut dyn FnMut(&Place<'a, '_>)) {
    descend(&Place::root(tree), visit);
}

fn descend<'a>(place: &Place<'a, '_>, visit: &mut dyn FnMut(&Place<'a, '_>)) {
    visit(place);
    if place.depth + 1 == MAX_DEPTH {
        return;
    }
    for child in place.node.children() {
        descend(&Place::new(child, Some(place)), visit);
    }
}

/// Calls `use_place` with the node at `path`, which may start with an alias and end in options
/// (`serial0:115200n8`).
pub(crate) fn find<'a, R>(
    tree: Fdt<'a>,
    path: &str,
    use_place: impl FnOnce(&Place<'a, '_>) -> R,
) -> Option<R> {
    let path = path.split(':').next().unwrap_or(path);
    let full = if path.starts_with('/') {
        path
    } else {
        let alias = path.split('/').next().unwrap_or(path);
        text(&tree.root().child("aliases")?, alias)?
    };
    follow(&Place::root(tree), full, use_place)
}

fn follow<'a, R>(
    place: &Place<'a, '_>,
    path: &str,
    use_place: impl FnOnce(&Place<'a, '_>) -> R,
) -> Option<R> {
    let path = path.trim_start_matches('/');
    if path.is_empty() {
        return Some(use_place(place));
    }
    if place.depth + 1 == MAX_DEPTH {
        return None;
    }
    let (first, rest) = path.split_once('/').unwrap_or((path, ""));
    follow(&Place::new(place.node.child(first)?, Some(place)), rest, use_place)
}

/// A property that is one string.
pub(crate) fn text<'a>(node: &FdtNode<'a>, name: &str) -> Option<&'a str> {
    let value = value(node, name)?;
    core::str::from_utf8(value.strip_suffix(&[0])?).ok()
}

/// A property's bytes, with the life of the tree.
pub(crate) fn value<'a>(node: &FdtNode<'a>, name: &str) -> Option<&'a [u8]> {
    node.properties()
        .find(|property| property.name() == name)
        .map(|property| property.value_as::<&'a [u8]>().unwrap_or_default())
}

/// A property that is one 32-bit cell.
pub(crate) fn cell(node: &FdtNode<'_>, name: &str) -> Option<u32> {
    Some(u32::from_be_bytes(value(node, name)?.try_into().ok()?))
}

/// The cell at `index` of a property's bytes.
pub(crate) fn cell_at(bytes: &[u8], index: usize) -> Option<u32> {
    let bytes = bytes.get(index.checked_mul(4)?..)?.first_chunk::<4>()?;
    Some(u32::from_be_bytes(*bytes))
}

/// `count` cells from `index` as one number; `None` if they are missing or hold more than 64 bits.
pub(crate) fn number_at(bytes: &[u8], index: usize, count: usize) -> Option<u64> {
    let mut number = 0u64;
    for at in index..index.checked_add(count)? {
        if number >> 32 != 0 {
            return None;
        }
        number = number << 32 | u64::from(cell_at(bytes, at)?);
    }
    Some(number)
}

/// Cells of the machine's interrupt specifiers: the root names the controller, which says how many it has. With
/// several controllers that is the one that counts; what hangs on another, a GPIO block say, is not looked at.
fn specifier_cells(tree: Fdt<'_>) -> usize {
    // A GIC, always, and it takes as long to find as all the rest.
    if cfg!(target_arch = "aarch64") {
        return GIC_CELLS;
    }
    let find = |phandle| find_cells(tree.root(), phandle, 0);
    cell(&tree.root(), "interrupt-parent").and_then(find).unwrap_or(GIC_CELLS)
}

fn find_cells(node: FdtNode<'_>, phandle: u32, depth: usize) -> Option<usize> {
    if cell(&node, "phandle") == Some(phandle) {
        return cell(&node, "#interrupt-cells").map(|cells| cells as usize);
    }
    if depth + 1 == MAX_DEPTH {
        return None;
    }
    node.children().find_map(|child| find_cells(child, phandle, depth + 1))
}

/// The Ethernet address of a card, if the tree or the boot loader that edited it says one.
pub(crate) fn mac_address(node: &FdtNode<'_>) -> Option<[u8; 6]> {
    ["mac-address", "local-mac-address"].into_iter().find_map(|name| {
        let mac: [u8; 6] = value(node, name)?.try_into().ok()?;
        (mac != [0; 6] && mac[0] & 1 == 0).then_some(mac)
    })
}

impl<'a, 'p> Place<'a, 'p> {
    fn root(tree: Fdt<'a>) -> Place<'a, 'p> {
        Place { specifier: specifier_cells(tree), ..Place::new(tree.root(), None) }
    }

    fn new(node: FdtNode<'a>, parent: Option<&'p Place<'a, 'p>>) -> Place<'a, 'p> {
        let mut place = Place {
            node,
            parent,
            depth: parent.map_or(0, |parent| parent.depth + 1),
            compatible: &[],
            device_type: &[],
            reg: &[],
            interrupts: &[],
            ranges: None,
            cells: (2, 1), // [DT 2.3.5]
            specifier: parent.map_or(GIC_CELLS, |parent| parent.specifier),
            enabled: true,
            dma_coherent: parent.is_some_and(|parent| parent.dma_coherent),
        };
        for property in node.properties() {
            let Ok(value) = property.value_as::<&'a [u8]>() else { continue };
            // A bus with absurd numbers of cells yields no addresses: see `reg` and `translate`.
            let number = || cell_at(value, 0).map_or(usize::MAX, |number| number as usize);
            match property.name() {
                "compatible" => place.compatible = value,
                "device_type" => place.device_type = value,
                "reg" => place.reg = value,
                "interrupts" => place.interrupts = value,
                "ranges" => place.ranges = Some(value),
                "#address-cells" => place.cells.0 = number(),
                "#size-cells" => place.cells.1 = number(),
                "status" => place.enabled = matches!(value, b"okay\0" | b"ok\0"), // [DT 2.3.4]
                "dma-coherent" => place.dma_coherent = true, // [DT 2.3.10]: for all below, too
                _ => {}
            }
        }
        place
    }

    /// The bus this node sits on.
    pub(crate) fn parent(&self) -> Option<&'p Place<'a, 'p>> {
        self.parent
    }

    /// Whether `compatible` lists `name`.
    pub(crate) fn is(&self, name: &str) -> bool {
        self.compatible().any(|entry| entry == name)
    }

    /// The entries of `compatible`, the most specific first.
    pub(crate) fn compatible(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.compatible
            .split(|&byte| byte == 0)
            .filter_map(|entry| core::str::from_utf8(entry).ok())
            .filter(|entry| !entry.is_empty())
    }

    /// Whether it is memory. [DT 3.4]
    pub(crate) fn is_memory(&self) -> bool {
        self.device_type == b"memory\0"
    }

    /// False if `status` says that the node is not to be used.
    pub(crate) fn enabled(&self) -> bool {
        self.enabled
    }

    /// The register block (or memory range) at `index` of `reg`, as the CPU sees it.
    pub(crate) fn reg(&self, index: usize) -> Option<Range<u64>> {
        let bus = self.parent?;
        let (addresses, sizes) = bus.cells;
        if addresses == 0 || addresses > 4 || sizes > 4 {
            return None;
        }
        let at = index.checked_mul(addresses + sizes)?;
        let address = number_at(self.reg, at, addresses)?;
        let size = number_at(self.reg, at + addresses, sizes)?;
        let start = bus.translate(address)?;
        Some(start..start.checked_add(size)?)
    }

    /// Takes an address on this bus up to the root. [DT 2.3.8]
    fn translate(&self, address: u64) -> Option<u64> {
        let Some(outer) = self.parent else {
            return Some(address);
        };
        let ranges = self.ranges?;
        if ranges.is_empty() {
            return outer.translate(address);
        }
        let ((inner_cells, sizes), (outer_cells, _)) = (self.cells, outer.cells);
        if inner_cells > 2 || outer_cells > 2 || sizes > 2 || inner_cells * outer_cells == 0 {
            return None;
        }
        let step = inner_cells + outer_cells + sizes;
        let address = (0..ranges.len() / (4 * step)).find_map(|entry| {
            let at = entry * step;
            let from = number_at(ranges, at, inner_cells)?;
            let to = number_at(ranges, at + inner_cells, outer_cells)?;
            let length = number_at(ranges, at + inner_cells + outer_cells, sizes)?;
            let offset = address.checked_sub(from)?;
            (offset < length).then(|| to.checked_add(offset)).flatten()
        })?;
        outer.translate(address)
    }

    /// The interrupt at `index` of `interrupts`, if the node's controller is the machine's.
    pub(crate) fn interrupt(&self, index: usize) -> Option<Interrupt> {
        // A node with a number of cells that the machine's controller's does not divide belongs to some other.
        if self.specifier == 0 || !self.interrupts.len().is_multiple_of(4 * self.specifier) {
            return None;
        }
        interrupt_at(self.interrupts, index.checked_mul(self.specifier)?, self.specifier)
    }

    /// Whether the device's DMA is coherent with the CPU's caches: the property is the device's own
    /// or that of a bus above it.
    pub(crate) fn dma_coherent(&self) -> bool {
        self.dma_coherent
    }
}

const GIC_CELLS: usize = 3;
/// Inputs of a controller that is no GIC.
const INPUTS: u32 = 32;

/// Decodes an interrupt specifier of so many cells: three are a GIC's; one is a VIC's input, of level type; two are an
/// input and its flags, as an FTINTC010 has them. [GIC] [VIC] [FTINTC010]
pub(crate) fn interrupt_at(cells: &[u8], index: usize, count: usize) -> Option<Interrupt> {
    let flags = match count {
        GIC_CELLS => return gic_interrupt_at(cells, index),
        2 => cell_at(cells, index + 1)?,
        1 => 0,
        _ => return None,
    };
    let line = cell_at(cells, index)?;
    let sense = match flags & 0xf {
        1 => Sense::Edge,
        2 => Sense::FallingEdge,
        // Active low is not told apart: none of the boards has such a line.
        _ => Sense::Level,
    };
    (line < INPUTS).then_some(Interrupt { line, sense })
}

fn gic_interrupt_at(cells: &[u8], index: usize) -> Option<Interrupt> {
    let number = cell_at(cells, index + 1)?;
    let line = match cell_at(cells, index)? {
        0 if number < 988 => number + 32,
        1 if number < 16 => number + 16,
        _ => return None,
    };
    // The low four bits are the flags: 1 rising, 2 falling, 4 high, 8 low; 0 is "leave it".
    let sense = match cell_at(cells, index + 2)? & 0xf {
        1 | 2 => Sense::Edge,
        _ => Sense::Level,
    };
    Some(Interrupt { line, sense })
}

#[cfg(test)]
mod tests;
