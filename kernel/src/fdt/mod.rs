//! The flattened device tree a boot loader hands over: what the boot code and the drivers ask of it.
//!
//! Parsing is `dtoolkit`'s: it checks the whole structure once, when the tree is opened, and never
//! reads outside the blob after that. This module adds what the machine needs on top: addresses
//! translated to the CPU's (`ranges`), interrupts translated to GIC numbers, and the few nodes that
//! are looked up by name. Trees come from outside, so nothing here may panic on one: what cannot be
//! made sense of is left out. Depth, counts and lengths are bounded.
//!
//! Sources: [DT] Devicetree Specification 0.4; [GIC] Linux `Documentation/devicetree/bindings/
//! interrupt-controller/arm,gic.yaml`; [PCI] "PCI Bus Binding to IEEE 1275", revision 2.1.

pub(crate) mod machine;
pub(crate) mod pci;

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
    /// High level.
    Level,
}

/// An interrupt of a GIC, as the tree names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interrupt {
    /// INTID: 16..32 for the private ones, from 32 for the shared ones.
    pub line: u32,
    /// Edge or level.
    pub sense: Sense,
}

/// A node together with the buses above it.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    /// The node itself.
    pub node: FdtNode<'a>,
    /// Its ancestors, the root first; `depth` of them.
    above: [Option<FdtNode<'a>>; MAX_DEPTH],
    depth: usize,
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
    Fdt::new(blob).ok()
}

/// Calls `visit` for each node, parents before children.
pub(crate) fn walk<'a>(tree: Fdt<'a>, visit: &mut dyn FnMut(&Place<'a>)) {
    let root = Place { node: tree.root(), above: [None; MAX_DEPTH], depth: 0 };
    descend(&root, visit);
}

fn descend<'a>(place: &Place<'a>, visit: &mut dyn FnMut(&Place<'a>)) {
    visit(place);
    if place.depth + 1 == MAX_DEPTH {
        return;
    }
    for child in place.node.children() {
        descend(&place.child(child), visit);
    }
}

/// The node at `path`, which may start with an alias and end in options (`serial0:115200n8`).
pub(crate) fn find<'a>(tree: Fdt<'a>, path: &str) -> Option<Place<'a>> {
    let path = path.split(':').next().unwrap_or(path);
    let full = if path.starts_with('/') {
        path
    } else {
        let alias = path.split('/').next().unwrap_or(path);
        text(&tree.root().child("aliases")?, alias)?
    };
    let mut place = Place { node: tree.root(), above: [None; MAX_DEPTH], depth: 0 };
    for part in full.split('/').filter(|part| !part.is_empty()) {
        if place.depth + 1 == MAX_DEPTH {
            return None;
        }
        place = place.child(place.node.child(part)?);
    }
    Some(place)
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

/// `#address-cells` and `#size-cells` of a bus; beyond four cells no bus is known, and such a one
/// yields no addresses. [DT 2.3.5]
pub(crate) fn cells(bus: &FdtNode<'_>) -> (usize, usize) {
    let read = |name, default| cell(bus, name).unwrap_or(default) as usize;
    (read("#address-cells", 2), read("#size-cells", 1))
}

impl<'a> Place<'a> {
    fn child(&self, node: FdtNode<'a>) -> Place<'a> {
        let mut above = self.above;
        above[self.depth] = Some(self.node);
        Place { node, above, depth: self.depth + 1 }
    }

    /// The bus this node sits on.
    pub(crate) fn parent(&self) -> Option<FdtNode<'a>> {
        self.above[self.depth.checked_sub(1)?]
    }

    /// Whether `compatible` lists `name`.
    pub(crate) fn is(&self, name: &str) -> bool {
        self.compatible().any(|entry| entry == name)
    }

    /// The entries of `compatible`, the most specific first.
    pub(crate) fn compatible(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        value(&self.node, "compatible")
            .unwrap_or_default()
            .split(|&byte| byte == 0)
            .filter_map(|entry| core::str::from_utf8(entry).ok())
            .filter(|entry| !entry.is_empty())
    }

    /// False if `status` says that the node is not to be used. [DT 2.3.4]
    pub(crate) fn enabled(&self) -> bool {
        matches!(text(&self.node, "status"), None | Some("okay" | "ok"))
    }

    /// The register block (or memory range) at `index` of `reg`, as the CPU sees it.
    pub(crate) fn reg(&self, index: usize) -> Option<Range<u64>> {
        let (addresses, sizes) = cells(&self.parent()?);
        let both = addresses.checked_add(sizes)?;
        if addresses == 0 || addresses > 4 || sizes > 4 {
            return None;
        }
        let reg = value(&self.node, "reg")?;
        let at = index.checked_mul(both)?;
        let address = number_at(reg, at, addresses)?;
        let size = number_at(reg, at + addresses, sizes)?;
        let start = self.translate(address, self.depth - 1)?;
        Some(start..start.checked_add(size)?)
    }

    /// Takes an address on the bus `above[level]` up to the root. [DT 2.3.8]
    fn translate(&self, mut address: u64, level: usize) -> Option<u64> {
        for at in (1..=level).rev() {
            let (bus, outer) = (self.above[at]?, self.above[at - 1]?);
            let ranges = value(&bus, "ranges")?;
            if ranges.is_empty() {
                continue;
            }
            let (inner_cells, sizes) = cells(&bus);
            let (outer_cells, _) = cells(&outer);
            if inner_cells > 2 || outer_cells > 2 || sizes > 2 || inner_cells * outer_cells == 0 {
                return None;
            }
            let step = inner_cells + outer_cells + sizes;
            address = (0..ranges.len() / (4 * step)).find_map(|entry| {
                let at = entry * step;
                let from = number_at(ranges, at, inner_cells)?;
                let to = number_at(ranges, at + inner_cells, outer_cells)?;
                let length = number_at(ranges, at + inner_cells + outer_cells, sizes)?;
                let offset = address.checked_sub(from)?;
                (offset < length).then(|| to.checked_add(offset)).flatten()
            })?;
        }
        Some(address)
    }

    /// The interrupt at `index` of `interrupts`, if the node's parent controller is a GIC (three
    /// cells, or four with partitions): others are not known here.
    pub(crate) fn interrupt(&self, index: usize) -> Option<Interrupt> {
        let interrupts = value(&self.node, "interrupts")?;
        // One entry's length is the controller's to say; for the GIC it is three cells. A node with
        // a number of cells that three does not divide belongs to some other controller.
        if !interrupts.len().is_multiple_of(12) {
            return None;
        }
        interrupt_at(interrupts, index * 3)
    }

    /// Whether the device's DMA is coherent with the CPU's caches: the property is the device's own
    /// or that of a bus above it. [DT 2.3.10]
    pub(crate) fn dma_coherent(&self) -> bool {
        self.above[..self.depth]
            .iter()
            .flatten()
            .chain([&self.node])
            .any(|node| value(node, "dma-coherent").is_some())
    }
}

/// Decodes the three cells of a GIC interrupt specifier. [GIC]
pub(crate) fn interrupt_at(cells: &[u8], index: usize) -> Option<Interrupt> {
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
