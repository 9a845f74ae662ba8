//! The facts of a machine that boot needs before there is a heap, collected in one pass.

use core::ops::Range;

use arrayvec::ArrayVec;
use dtoolkit::Node;
use dtoolkit::fdt::Fdt;

use super::{Interrupt, Place, cell, find, number_at, text, value, walk};

/// Ranges of memory kept; what is beyond them is left unused (or, if reserved, is the last to be
/// protected by giving up the memory above it).
pub(crate) const MAX_RANGES: usize = 32;

/// Which kind of console UART.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UartKind {
    /// Arm PrimeCell.
    Pl011,
    /// Renesas SCIF, as in R-Car Gen3.
    Scif,
    /// The same with its registers half as far apart, as in RZ/G2L.
    ScifDense,
    /// Anything that looks like a 16550.
    Ns16550,
}

/// `compatible` values of the UARTs that can be a console, and how each is driven.
pub(crate) const UARTS: &[(&str, UartKind)] = &[
    ("arm,pl011", UartKind::Pl011),
    ("renesas,scif", UartKind::Scif),
    ("renesas,rcar-gen3-scif", UartKind::Scif),
    ("renesas,scif-r9a07g044", UartKind::ScifDense),
    ("ns16550a", UartKind::Ns16550),
    ("ns16550", UartKind::Ns16550),
    ("snps,dw-apb-uart", UartKind::Ns16550),
];

/// A console UART.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Uart {
    /// How it is driven.
    pub kind: UartKind,
    /// Its registers.
    pub registers: Range<u64>,
    /// Registers are `1 << shift` bytes apart (16550 only).
    pub shift: u32,
    /// Bytes an access has: 1 or 4 (16550 only).
    pub width: u32,
    /// Its (receive) interrupt.
    pub interrupt: Option<Interrupt>,
}

/// An interrupt controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Gic {
    /// 2 or 3.
    pub version: u8,
    /// The distributor.
    pub distributor: Range<u64>,
    /// Version 2: the CPU interface. Version 3: the redistributors.
    pub others: ArrayVec<Range<u64>, 4>,
    /// The message-signalled interrupt frame (GICv2m).
    pub messages: Option<Range<u64>>,
    /// The interrupt translation service (GICv3).
    pub translation: Option<Range<u64>>,
}

/// How PSCI is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conduit {
    /// Hypervisor call.
    Hvc,
    /// Secure monitor call.
    Smc,
}

/// What the tree says of the machine.
#[derive(Clone, Debug, Default)]
pub(crate) struct Machine<'a> {
    /// RAM.
    pub memory: ArrayVec<Range<u64>, MAX_RANGES>,
    /// RAM not to be touched.
    pub reserved: ArrayVec<Range<u64>, MAX_RANGES>,
    /// More was reserved than could be kept: RAM from here up must be left alone.
    pub reserved_beyond: Option<u64>,
    /// Boot arguments.
    pub arguments: &'a str,
    /// The initial RAM disk.
    pub initrd: Option<Range<u64>>,
    /// Entropy from the loader.
    pub rng_seed: &'a [u8],
    /// The console.
    pub console: Option<Uart>,
    /// The interrupt controller.
    pub gic: Option<Gic>,
    /// The virtual timer's interrupt.
    pub timer: Option<Interrupt>,
    /// PSCI, if there.
    pub psci: Option<Conduit>,
    /// A PL031 real-time clock.
    pub rtc: Option<Range<u64>>,
}

/// Reads the tree.
pub(crate) fn read(tree: Fdt<'_>) -> Machine<'_> {
    let mut machine = Machine::default();
    for entry in tree.memory_reservations() {
        machine.reserve(entry.address(), entry.size());
    }
    walk(tree, &mut |place| machine.see(place));
    if let Some(chosen) = tree.root().child("chosen") {
        machine.chosen(tree, &chosen);
    }
    machine
}

impl<'a> Machine<'a> {
    /// The initial RAM disk, which the loader put into memory.
    #[cfg(target_os = "hermit")]
    pub(crate) fn initrd_bytes(&self) -> Option<&'static [u8]> {
        let range = self.initrd.as_ref()?;
        let (start, len) = (range.start as *const u8, (range.end - range.start) as usize);
        // SAFETY: the loader put it there, it is kept from the heap, and nobody writes it.
        Some(unsafe { core::slice::from_raw_parts(start, len) })
    }

    fn reserve(&mut self, start: u64, size: u64) {
        let end = start.saturating_add(size);
        if size != 0 && self.reserved.try_push(start..end).is_err() {
            let beyond = self.reserved_beyond.get_or_insert(start);
            *beyond = start.min(*beyond);
        }
    }

    fn see(&mut self, place: &Place<'a, '_>) {
        if !place.enabled() {
            return;
        }
        if place.is_memory() {
            for range in (0..MAX_RANGES).map_while(|index| place.reg(index)) {
                if !range.is_empty() {
                    let _ = self.memory.try_push(range);
                }
            }
        }
        if place.parent().is_some_and(|bus| bus.node.name() == "reserved-memory") {
            // A node with `size` but no `reg` asks for memory to be found; nothing here needs it.
            for range in (0..MAX_RANGES).map_while(|index| place.reg(index)) {
                self.reserve(range.start, range.end - range.start);
            }
            return;
        }
        for compatible in place.compatible() {
            match compatible {
                "arm,cortex-a15-gic" | "arm,gic-400" | "arm,cortex-a7-gic" => self.gic(place, 2),
                "arm,gic-v3" => self.gic(place, 3),
                "arm,gic-v2m-frame" => {
                    if let Some(gic) = &mut self.gic {
                        gic.messages = gic.messages.take().or(place.reg(0));
                    }
                }
                "arm,gic-v3-its" => {
                    if let Some(gic) = &mut self.gic {
                        gic.translation = gic.translation.take().or(place.reg(0));
                    }
                }
                // Secure physical, non-secure physical, virtual, hypervisor: in this order.
                "arm,armv8-timer" => self.timer = place.interrupt(2),
                "arm,psci" | "arm,psci-0.2" | "arm,psci-1.0" => {
                    self.psci = match text(&place.node, "method") {
                        Some("hvc") => Some(Conduit::Hvc),
                        Some("smc") => Some(Conduit::Smc),
                        _ => None,
                    }
                }
                "arm,pl031" => self.rtc = place.reg(0),
                _ => continue,
            }
            break;
        }
    }

    fn gic(&mut self, place: &Place<'a, '_>, version: u8) {
        let Some(distributor) = place.reg(0) else {
            return;
        };
        if self.gic.is_none() {
            self.gic = Some(Gic {
                version,
                distributor,
                others: (1..5).map_while(|index| place.reg(index)).collect(),
                messages: None,
                translation: None,
            });
        }
    }

    fn chosen(&mut self, tree: Fdt<'a>, chosen: &dtoolkit::fdt::FdtNode<'a>) {
        self.arguments = text(chosen, "bootargs").unwrap_or_default();
        self.rng_seed = value(chosen, "rng-seed").unwrap_or_default();
        let address = |name| {
            let bytes = value(chosen, name)?;
            number_at(bytes, 0, bytes.len() / 4)
        };
        if let (Some(start), Some(end)) =
            (address("linux,initrd-start"), address("linux,initrd-end"))
            && start < end
        {
            self.initrd = Some(start..end);
        }
        self.console =
            text(chosen, "stdout-path").and_then(|path| find(tree, path, uart)).flatten();
    }
}

/// The console UART a node describes, if it is one that can be driven.
pub(crate) fn uart(place: &Place<'_, '_>) -> Option<Uart> {
    let kind =
        place.compatible().find_map(|name| UARTS.iter().find(|(known, _)| *known == name))?.1;
    Some(Uart {
        kind,
        registers: place.reg(0)?,
        shift: cell(&place.node, "reg-shift").unwrap_or(0).min(4),
        width: cell(&place.node, "reg-io-width").unwrap_or(1),
        // RZ/G2L's has a line for each cause: ERI, RXI, TXI, BRI, DRI, TEI; R-Car's one for all.
        interrupt: place.interrupt(if kind == UartKind::ScifDense { 1 } else { 0 }),
    })
}

/// Free memory: `memory` without `taken`, whole pages only, at most `N` ranges in ascending order.
/// When it would be more than `N`, the smallest are left out.
pub(crate) fn usable<const N: usize>(
    memory: &[Range<u64>],
    taken: &[Range<u64>],
    page: u64,
) -> ArrayVec<Range<u64>, N> {
    let mut free: ArrayVec<Range<u64>, N> = ArrayVec::new();
    for range in memory {
        let mut at = range.start;
        while at < range.end {
            // The taken range that covers `at`, or else the next one above.
            let cover = taken.iter().filter(|hole| hole.start <= at && at < hole.end);
            if let Some(end) = cover.map(|hole| hole.end).max() {
                at = end;
                continue;
            }
            let next = taken
                .iter()
                .filter(|hole| hole.start > at && !hole.is_empty())
                .map(|hole| hole.start)
                .min()
                .unwrap_or(range.end)
                .min(range.end);
            insert(&mut free, at, next, page);
            at = next;
        }
    }
    // Few, and the standard library's sort is 3 KiB of image.
    for end in 1..free.len() {
        for at in (0..end).rev() {
            if free[at + 1].start < free[at].start {
                free.swap(at, at + 1);
            }
        }
    }
    free
}

fn insert<const N: usize>(free: &mut ArrayVec<Range<u64>, N>, start: u64, end: u64, page: u64) {
    let Some(start) = start.checked_next_multiple_of(page) else {
        return;
    };
    let range = start..end / page * page;
    if range.is_empty() {
        return;
    }
    let Err(full) = free.try_push(range) else {
        return;
    };
    let range = full.element();
    let size = |range: &Range<u64>| range.end - range.start;
    if let Some(least) = free.iter_mut().min_by_key(|range| size(range))
        && size(least) < size(&range)
    {
        *least = range;
    }
}
