//! Which memory is whose, when the final translation tables are made.

use core::ops::Range;

use arrayvec::ArrayVec;

use super::mmu;
use super::paging::PAGE;
use crate::boot::{Image, give_up};
use crate::fdt::machine::{self, Machine};

/// Makes the final tables live and returns the free memory, largest pieces kept.
pub(super) fn set_up(machine: &Machine<'_>, tree: Range<u64>) -> ArrayVec<Range<u64>, 16> {
    let page = PAGE as u64;
    let image = Image::whole();
    let mut taken: ArrayVec<Range<u64>, { machine::MAX_RANGES + 5 }> =
        machine.reserved.iter().map(|range| range.start / page * page..range.end).collect();
    taken.push(0..page);
    taken.push(image.start as u64..image.end as u64);
    taken.push(tree.start / page * page..tree.end);
    if let Some(range) = &machine.initrd {
        taken.push(range.start / page * page..range.end);
    }
    if let Some(beyond) = machine.reserved_beyond {
        taken.push(beyond..u64::MAX);
    }
    let mut free: ArrayVec<Range<u64>, 16> = machine::usable(&machine.memory, &taken, page);

    // Tables come off the top of the largest piece.
    let total: u64 = machine.memory.iter().map(|range| range.end - range.start).sum();
    let size = mmu::pool_size(total, machine.memory.len()) as u64;
    let Some(largest) = free.iter_mut().max_by_key(|range| range.end - range.start) else {
        give_up(format_args!("no free memory in the device tree"));
    };
    if largest.end - largest.start < 2 * size {
        give_up(format_args!("only {} bytes of memory free", largest.end - largest.start));
    }
    largest.end -= size;
    let pool = largest.end as usize..(largest.end + size) as usize;

    // What the loader left in memory (tree, RAM disk) is mapped along with the rest; what is
    // reserved is not: not even speculatively may the CPU touch some of it.
    let mut mapped: ArrayVec<Range<usize>, { machine::MAX_RANGES }> = ArrayVec::new();
    for range in
        machine::usable::<{ machine::MAX_RANGES }>(&machine.memory, &machine.reserved, page)
    {
        mapped.push(range.start as usize..range.end as usize);
    }
    // SAFETY: called once, with free RAM for the tables and RAM as the tree has it.
    if let Err(why) = unsafe { mmu::init(&mapped, pool) } {
        give_up(format_args!("page tables: {why}"));
    }
    free
}
