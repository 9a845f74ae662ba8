//! From the entry to the common code: memory map, page tables, tables of descriptors.

use core::cell::UnsafeCell;
use core::ops::Range;

use super::linux::{self, BootParameters, Region};
use super::{apic, clock, console, descriptors, paging};
use crate::boot::{BootInformation, Image, give_up};
use crate::memory;

core::arch::global_asm!(include_str!("boot.s"), main = sym main);
core::arch::global_asm!(include_str!("setup.s"));

/// `struct hvm_start_info` of Xen's public header `arch-x86/hvm/start_info.h`, version 1.
#[repr(C)]
struct StartInfo {
    magic: u32,
    version: u32,
    flags: u32,
    module_count: u32,
    modules: u64,
    command_line: u64,
    rsdp: u64,
    memory_map: u64,
    memory_map_entries: u32,
    reserved: u32,
}

/// `struct hvm_modlist_entry`.
#[repr(C)]
struct Module {
    address: u64,
    size: u64,
    command_line: u64,
    reserved: u64,
}

/// `struct hvm_memmap_table_entry`; types are those of the E820 map.
#[repr(C)]
struct MapEntry {
    address: u64,
    size: u64,
    kind: u32,
    reserved: u32,
}

/// The protocols' numbers in `boot.s`.
const PVH: u32 = 0;
/// What a PVH loader leaves in ebx points at this.
const MAGIC: u32 = 0x336e_c578;
/// Memory map entries looked at; PCs have some twenty.
const MAP_ENTRIES: usize = 64;
const RAM: u32 = 1;
const ACPI: u32 = 3;
const ACPI_NVS: u32 = 4;
/// What `boot.s` has mapped.
const FIRST_MAP: usize = 1 << 30;
/// Firmware and loader leave things below; it is not worth sorting out.
const LOW_MEMORY: usize = 1 << 20;
/// Longer boot arguments are cut.
const COMMAND_LINE: usize = 4096;

struct CommandLine(UnsafeCell<[u8; COMMAND_LINE]>);

// SAFETY: written once, on the boot path, before anything else runs.
unsafe impl Sync for CommandLine {}

static COMMAND_LINE_COPY: CommandLine = CommandLine(UnsafeCell::new([0; COMMAND_LINE]));

/// Copies a NUL-terminated string at a physical address, out of the way of the heap.
fn copy_command_line(address: usize) -> &'static str {
    if address == 0 || address >= FIRST_MAP - COMMAND_LINE {
        return "";
    }
    // SAFETY: called once, before anything else runs, so the buffer has no other user; the source is in
    // mapped memory, where the loader put a string.
    unsafe {
        let buffer: &'static mut [u8; COMMAND_LINE] = &mut *COMMAND_LINE_COPY.0.get();
        let mut len = 0;
        while len < COMMAND_LINE {
            let byte = (address as *const u8).add(len).read();
            if byte == 0 {
                break;
            }
            buffer[len] = byte;
            len += 1;
        }
        core::str::from_utf8(&buffer[..len]).unwrap_or("")
    }
}

/// What the loader said, whichever protocol it speaks.
struct Loaded {
    /// Physical address of the boot arguments; 0 if there are none.
    command_line: u64,
    initrd: Option<Range<usize>>,
    /// Copied, because loaders like to put it into the page that will be the unmapped null page. Entries beyond what
    /// there is room for are left out: that RAM is not used.
    map: [Region; MAP_ENTRIES],
    map_entries: usize,
}

impl Loaded {
    fn new(
        command_line: u64,
        initrd: Option<Range<usize>>,
        map: impl Iterator<Item = Region>,
    ) -> Loaded {
        let mut loaded =
            Loaded { command_line, initrd, map: [Region::default(); MAP_ENTRIES], map_entries: 0 };
        for (place, region) in loaded.map.iter_mut().zip(map) {
            *place = region;
            loaded.map_entries += 1;
        }
        loaded
    }

    fn by_pvh(start_info: usize) -> Loaded {
        // SAFETY: the PVH protocol: the address is of this structure, and `boot.s` has mapped it.
        let info = unsafe { &*(start_info as *const StartInfo) };
        if info.magic != MAGIC || info.version < 1 {
            give_up(format_args!(
                "the loader's start info has magic {:#x}, version {}: PVH with a memory map is needed",
                info.magic, info.version
            ));
        }
        let count = (info.memory_map_entries as usize).min(MAP_ENTRIES);
        // SAFETY: the protocol says there are at least so many entries; below 1 GiB with every loader known.
        let map = unsafe { core::slice::from_raw_parts(info.memory_map as *const MapEntry, count) };
        let map = map.iter().map(|entry| Region {
            address: entry.address,
            size: entry.size,
            kind: entry.kind,
        });
        Loaded::new(info.command_line, initrd(info), map)
    }

    fn by_linux(boot_params: usize) -> Loaded {
        // SAFETY: the Linux/x86 boot protocol: the address is of a page with this structure, below 1 MiB with every
        // loader known, and `boot.s` has mapped it.
        let parameters = BootParameters(unsafe { &*(boot_params as *const [u8; linux::SIZE]) });
        if !parameters.is_valid() {
            give_up(format_args!("the loader's boot_params at {boot_params:#x} have no header"));
        }
        Loaded::new(parameters.command_line(), parameters.initrd(), parameters.map())
    }
}

extern "C" fn main(protocol: u32, handed_over: usize) -> ! {
    console::initialize();
    clock::begin();
    descriptors::initialize();
    let loaded = match protocol {
        PVH => Loaded::by_pvh(handed_over),
        _ => Loaded::by_linux(handed_over),
    };
    let command_line = copy_command_line(loaded.command_line as usize);
    let initrd = loaded.initrd;
    let map = &loaded.map[..loaded.map_entries];
    let memory_bytes = map.iter().filter(|entry| entry.kind == RAM).map(|entry| entry.size).sum();

    let reserved = [0..LOW_MEMORY, pages(Image::whole()), initrd.clone().map_or(0..0, pages)];
    // Page tables come from the heap, so what the first map covers is given to it before the rest.
    give(map, &reserved, 0..FIRST_MAP);
    if memory::total() < 1 << 20 {
        give_up(format_args!(
            "not enough memory: {} KiB of RAM, {} KiB left beside the image",
            memory_bytes / 1024,
            memory::total() / 1024
        ));
    }
    let mapped = paging::initialize(
        map.iter()
            .filter(|entry| matches!(entry.kind, RAM | ACPI | ACPI_NVS))
            .map(|entry| entry.address as usize..entry.address.saturating_add(entry.size) as usize),
    );
    if let Err(error) = mapped {
        give_up(format_args!("page tables: {error}"));
    }
    give(map, &reserved, FIRST_MAP..usize::MAX);
    apic::initialize();
    clock::calibrate();

    crate::start::start(BootInformation {
        command_line,
        fdt: None,
        // SAFETY: the loader put it there, it is RAM, mapped, and kept out of the heap.
        initrd: initrd
            .map(|at| unsafe { core::slice::from_raw_parts(at.start as *const u8, at.len()) }),
        memory_bytes,
    })
}

fn initrd(info: &StartInfo) -> Option<Range<usize>> {
    if info.module_count == 0 || info.modules == 0 {
        return None;
    }
    // SAFETY: the protocol says there is at least one entry at this address.
    let module = unsafe { &*(info.modules as *const Module) };
    let end = module.address.checked_add(module.size)?;
    (module.address != 0 && module.size != 0).then_some(module.address as usize..end as usize)
}

/// Rounds outwards to pages.
fn pages(range: Range<usize>) -> Range<usize> {
    range.start & !(memory::PAGE - 1)..range.end.next_multiple_of(memory::PAGE)
}

/// Gives the RAM within `window` to the heap, less what is reserved.
fn give(map: &[Region], reserved: &[Range<usize>], window: Range<usize>) {
    for entry in map.iter().filter(|entry| entry.kind == RAM) {
        let start = (entry.address as usize).max(window.start).next_multiple_of(memory::PAGE);
        let end = (entry.address.saturating_add(entry.size) as usize).min(window.end)
            & !(memory::PAGE - 1);
        give_less(start..end, reserved);
    }
}

fn give_less(range: Range<usize>, reserved: &[Range<usize>]) {
    if range.is_empty() {
        return;
    }
    let Some((first, others)) = reserved.split_first() else {
        // SAFETY: RAM by the loader's map, mapped, and none of what is in use.
        unsafe { memory::donate(range) };
        return;
    };
    if first.end <= range.start || range.end <= first.start {
        give_less(range, others);
    } else {
        give_less(range.start..first.start.min(range.end), others);
        give_less(first.end.max(range.start)..range.end, others);
    }
}
