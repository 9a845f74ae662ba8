use super::*;

/// Tables in memory of the host, that say they are at 0x0100_0000.
struct Fixture {
    _memory: Vec<u32>,
    tables: Tables,
}

const AT: u32 = 0x0100_0000;

fn fixture(seconds: usize) -> Fixture {
    let mut memory = vec![0xffff_ffff; SECTIONS + seconds * PAGES];
    // SAFETY: the fixture's own memory, which lives as long as the tables.
    let tables = unsafe { Tables::new(memory.as_mut_ptr(), AT, memory.len()) }.unwrap();
    Fixture { _memory: memory, tables }
}

const MIB: usize = 1 << 20;

/// What a CPU makes of an address by [ARM B4.7]: where it leads, whether it can be written, whether it is cached and
/// buffered.
fn walk(tables: &Tables, address: u32) -> Option<(u32, bool, bool, bool)> {
    let word = |at: u32| tables.read(((at - AT) / 4) as usize);
    let first = word(AT + (address >> 20) * 4);
    let (base, inside, entry, access) = match first & 3 {
        0 => return None,
        2 => (first & 0xfff0_0000, address & 0xf_ffff, first, first >> 10 & 3),
        1 => {
            let second = word((first & 0xffff_fc00) + (address >> 12 & 0xff) * 4);
            match second & 3 {
                0 => return None,
                2 => {
                    let quarter = address >> 10 & 3;
                    (second & 0xffff_f000, address & 0xfff, second, second >> (4 + 2 * quarter) & 3)
                }
                kind => panic!("a second descriptor of kind {kind}"),
            }
        }
        kind => panic!("a first descriptor of kind {kind}"),
    };
    // Both kinds of first descriptor. [ARM B4.7.2; FA526]
    assert_ne!(first & 1 << 4, 0, "bit 4 must be one");
    assert_eq!(first >> 5 & 15, 0, "domain 0");
    // With S set: 00 is read-only for privileged code, else it reads and writes. [ARM B4.3]
    Some((base | inside, access != 0, entry & 8 != 0, entry & 4 != 0))
}

#[test]
fn whole_sections_need_no_table() {
    let mut f = fixture(0);
    f.tables.set(MIB..4 * MIB, Protection::ReadWrite, false).unwrap();
    assert_eq!(walk(&f.tables, 0x0021_2345), Some((0x0021_2345, true, true, true)));
    assert_eq!(walk(&f.tables, 0x0000_ffff), None);
    assert_eq!(walk(&f.tables, 0x0040_0000), None);
}

#[test]
fn kinds_of_memory() {
    let mut f = fixture(1);
    for (page, protection, expected) in [
        (0, Protection::ReadOnly, (false, true, true)),
        (1, Protection::ReadExecute, (false, true, true)),
        (2, Protection::ReadWrite, (true, true, true)),
        (3, Protection::Device, (true, false, false)),
        (4, Protection::Uncached, (true, false, true)),
    ] {
        let start = MIB + page * PAGE;
        f.tables.set(start..start + PAGE, protection, false).unwrap();
        for quarter in 0..4 {
            let address = (start + quarter * 1024 + 5) as u32;
            let (write, cached, buffered) = expected;
            assert_eq!(walk(&f.tables, address), Some((address, write, cached, buffered)));
        }
    }
    assert_eq!(walk(&f.tables, (MIB + 5 * PAGE) as u32), None);
}

#[test]
fn splitting_a_section_changes_only_what_was_asked_for() {
    let mut f = fixture(1);
    f.tables.set(0..4 * MIB, Protection::ReadWrite, false).unwrap();
    let guard = 2 * MIB + 7 * PAGE;
    f.tables.set(guard..guard + PAGE, Protection::None, false).unwrap();
    for address in (0..4 * MIB).step_by(PAGE) {
        let expected = (address != guard).then_some((address as u32, true, true, true));
        assert_eq!(walk(&f.tables, address as u32), expected, "{address:#x}");
    }
    f.tables.set(guard..guard + PAGE, Protection::ReadWrite, false).unwrap();
    assert_eq!(walk(&f.tables, guard as u32 + 1), Some((guard as u32 + 1, true, true, true)));
}

#[test]
fn table_that_is_there_stays() {
    let mut f = fixture(1);
    f.tables.set(MIB..MIB + PAGE, Protection::ReadOnly, false).unwrap();
    // No room for another, and none is needed.
    f.tables.set(MIB..2 * MIB, Protection::Device, false).unwrap();
    assert_eq!(walk(&f.tables, 0x0010_0004), Some((0x0010_0004, true, false, false)));
    assert_eq!(walk(&f.tables, 0x001f_fffc), Some((0x001f_fffc, true, false, false)));
}

#[test]
fn page_can_be_mapped_elsewhere() {
    let mut f = fixture(1);
    f.tables.set_elsewhere(0xffff_0000, 0x0001_1000).unwrap();
    assert_eq!(walk(&f.tables, 0xffff_0018), Some((0x0001_1018, false, true, true)));
    assert_eq!(walk(&f.tables, 0xffff_1000), None);
}

#[test]
fn running_out_of_tables_is_an_error() {
    let mut f = fixture(1);
    f.tables.set(MIB..MIB + PAGE, Protection::ReadOnly, false).unwrap();
    let more = f.tables.set(2 * MIB..2 * MIB + PAGE, Protection::ReadOnly, false);
    assert_eq!(more, Err(MapError::NoMemory));
    assert_eq!(f.tables.set(1..PAGE, Protection::None, false), Err(MapError::BadRange));
    let beyond = 0xffff_f000usize..0x1_0000_1000;
    assert_eq!(f.tables.set(beyond, Protection::None, false), Err(MapError::BadRange));
}

#[test]
fn every_change_is_told() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static TOLD: AtomicUsize = AtomicUsize::new(0);
    let mut f = fixture(1);
    f.tables.set(0..MIB, Protection::ReadWrite, false).unwrap();
    f.tables.tell(|entry, address| {
        assert!(entry >= AT as usize && address < MIB);
        TOLD.fetch_add(1, Ordering::Relaxed);
    });
    f.tables.set(PAGE..3 * PAGE, Protection::None, false).unwrap();
    // 256 entries of a new table, the section that leads to it, and two pages.
    assert_eq!(TOLD.load(Ordering::Relaxed), 256 + 1 + 2);
}
