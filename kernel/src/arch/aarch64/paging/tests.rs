use super::*;

/// Tables in memory of the host; entries changed are counted.
struct Fixture {
    _memory: Vec<[u64; 512]>,
    tables: Tables,
}

unsafe fn write(entry: *mut u64, value: u64, _address: usize) {
    // SAFETY: the tables pass their own entries.
    unsafe { entry.write_volatile(value) };
}

fn fixture(pages: usize) -> Fixture {
    // One page more, to align in.
    let mut memory = vec![[0u64; 512]; pages + 1];
    let start = (memory.as_mut_ptr() as usize).next_multiple_of(PAGE);
    // SAFETY: the pool is the fixture's own memory, which lives as long as the tables.
    let tables = unsafe { Tables::new(start..start + pages * PAGE, write) }.unwrap();
    Fixture { _memory: memory, tables }
}

const MIB2: usize = 2 << 20;
const GIB: usize = 1 << 30;

fn used(fixture: &Fixture, pages: usize) -> usize {
    pages - fixture.tables.pool.len() / PAGE
}

#[test]
fn whole_gigabytes_are_single_blocks() {
    let mut f = fixture(8);
    f.tables.set(GIB..3 * GIB, Protection::ReadWrite, usize::MAX).unwrap();
    assert_eq!(used(&f, 8), 2, "a root and one table of gigabytes");
    let (entry, level) = f.tables.lookup(2 * GIB + 12345).unwrap();
    assert_eq!(level, 1);
    // Block (01), attributes 1, inner shareable, accessed, never executable. [ARM D8.3.2]
    assert_eq!(entry, 2 << 30 | 1 << 54 | 1 << 53 | 1 << 10 | 3 << 8 | 1 << 2 | 0b01);
    assert!(f.tables.lookup(3 * GIB).is_none());
    assert!(f.tables.lookup(GIB - 1).is_none());
}

#[test]
fn edges_get_smaller_blocks() {
    let mut f = fixture(8);
    f.tables.set(MIB2 - PAGE..3 * MIB2 + PAGE, Protection::ReadExecute, usize::MAX).unwrap();
    let level = |address| f.tables.lookup(address).map(|(_, level)| level);
    assert_eq!(level(MIB2 - PAGE), Some(3));
    assert_eq!(level(MIB2), Some(2));
    assert_eq!(level(3 * MIB2 - 1), Some(2));
    assert_eq!(level(3 * MIB2), Some(3));
    assert_eq!(level(3 * MIB2 + PAGE), None);
    let (page, _) = f.tables.lookup(MIB2 - 1).unwrap();
    // Page (11), attributes 1, read-only, executable at EL1 only.
    assert_eq!(page, (MIB2 - PAGE) as u64 | 1 << 54 | 1 << 10 | 3 << 8 | 1 << 7 | 1 << 2 | 0b11);
}

#[test]
fn guard_page_splits_a_block_and_keeps_its_neighbours() {
    let mut f = fixture(8);
    f.tables.set(0..4 * GIB, Protection::ReadWrite, usize::MAX).unwrap();
    let guard = GIB + 5 * MIB2 + 7 * PAGE;
    f.tables.set(guard..guard + PAGE, Protection::None, usize::MAX).unwrap();
    assert!(!f.tables.is_mapped(guard));
    for neighbour in [guard - 1, guard + PAGE, GIB, 2 * GIB - 1, guard - MIB2] {
        let (entry, level) = f.tables.lookup(neighbour).unwrap();
        let size = span(level);
        assert_eq!(entry & ADDRESS, (neighbour / size * size) as u64, "at {neighbour:#x}");
        assert_eq!(entry & !ADDRESS & !TABLE_OR_PAGE, attributes(Protection::ReadWrite));
    }
    // Back again: the tables stay, the page is as its neighbours.
    f.tables.set(guard..guard + PAGE, Protection::ReadWrite, usize::MAX).unwrap();
    assert!(f.tables.is_mapped(guard));
    assert_eq!(used(&f, 8), 4);
}

#[test]
fn limit_on_block_size_is_kept() {
    let mut f = fixture(8);
    f.tables.set(0..MIB2, Protection::ReadWrite, PAGE).unwrap();
    assert_eq!(f.tables.lookup(MIB2 / 2).unwrap().1, 3);
}

#[test]
fn addresses_above_512_gib_are_mapped() {
    let mut f = fixture(8);
    let high = 0x80_0000_0000;
    f.tables.set(high..high + PAGE, Protection::Device, usize::MAX).unwrap();
    let (entry, _) = f.tables.lookup(high).unwrap();
    assert_eq!(entry, high as u64 | 1 << 54 | 1 << 53 | 1 << 10 | 0b11);
}

#[test]
fn bad_ranges_are_refused() {
    let mut f = fixture(4);
    for range in [1..PAGE, 0..PAGE + 1, 1 << 48..(1 << 48) + PAGE] {
        assert_eq!(f.tables.set(range, Protection::ReadWrite, usize::MAX), Err(MapError::BadRange));
    }
}

#[test]
fn running_out_of_tables_is_an_error() {
    let mut f = fixture(2);
    assert_eq!(f.tables.set(0..PAGE, Protection::ReadWrite, usize::MAX), Err(MapError::NoMemory));
    // SAFETY: an empty pool gives nothing to write to.
    assert!(unsafe { Tables::new(0..0, write) }.is_err());
}

#[test]
fn unmapping_nothing_makes_no_tables() {
    let mut f = fixture(1);
    f.tables.set(PAGE..2 * PAGE, Protection::None, usize::MAX).unwrap();
    assert_eq!(used(&f, 1), 1);
}
