//! A configuration space made of functions that behave as [PCI] says, and some that do not.

use super::*;
use std::collections::BTreeMap;

#[derive(Clone)]
struct Model {
    words: [u32; 64],
    /// Bits that can be written.
    writable: [u32; 64],
}

impl Model {
    fn endpoint(vendor: u16, device: u16) -> Model {
        let mut model = Model { words: [0; 64], writable: [0; 64] };
        model.words[0] = u32::from(device) << 16 | u32::from(vendor);
        model.words[2] = 0x0200_0001;
        model.writable[1] = 0x0547;
        model
    }

    fn bridge() -> Model {
        let mut model = Model::endpoint(0x1b36, 0x000c);
        model.words[3] = 1 << 16;
        for (word, bits) in [(6, u32::MAX), (8, 0xfff0_fff0), (9, 0xfff0_fff0)] {
            model.writable[word] = bits;
        }
        model
    }

    fn memory(mut self, bar: usize, size: u32) -> Model {
        self.writable[4 + bar] = !(size - 1);
        self
    }

    fn wide(mut self, bar: usize, size: u64) -> Model {
        self.words[4 + bar] = 0xc;
        self.writable[4 + bar] = !(size - 1) as u32;
        self.writable[5 + bar] = (!(size - 1) >> 32) as u32;
        self
    }

    fn ports(mut self, bar: usize, size: u32) -> Model {
        self.words[4 + bar] = 1;
        self.writable[4 + bar] = !(size - 1) & 0xffff;
        self
    }

    fn pin(mut self, pin: u32, line: u32) -> Model {
        self.words[15] = pin << 8 | line;
        self
    }
}

#[derive(Default)]
struct Machine {
    functions: BTreeMap<Address, Model>,
    /// What is behind each bridge, by the bridge's place; moves with its secondary bus number.
    behind: BTreeMap<Address, Machine>,
    /// BARs must not be written while they are decoded.
    violations: usize,
}

impl Machine {
    fn with(mut self, device: u8, function: u8, model: Model) -> Machine {
        self.functions.insert(Address { bus: 0, device, function }, model);
        self
    }

    fn with_bridge(mut self, device: u8, model: Model, behind: Machine) -> Machine {
        self.behind.insert(Address { bus: 0, device, function: 0 }, behind);
        self.with(device, 0, model)
    }

    /// Follows bus numbers as bridges do.
    fn find(&mut self, own: u8, address: Address) -> Option<&mut Model> {
        if address.bus == own {
            return self.functions.get_mut(&Address { bus: 0, ..address });
        }
        for (place, machine) in &mut self.behind {
            let numbers = self.functions[place].words[6];
            let (secondary, last) = ((numbers >> 8) as u8, (numbers >> 16) as u8);
            if secondary != 0 && (secondary..=last).contains(&address.bus) {
                return machine.find(secondary, address);
            }
        }
        None
    }
}

struct Space(std::cell::RefCell<Machine>);

impl Configuration for Space {
    fn read(&self, address: Address, offset: u8) -> u32 {
        assert!(offset.is_multiple_of(4));
        let mut machine = self.0.borrow_mut();
        machine.find(0, address).map_or(u32::MAX, |model| model.words[usize::from(offset) / 4])
    }

    fn write(&mut self, address: Address, offset: u8, value: u32) {
        assert!(offset.is_multiple_of(4));
        let mut machine = self.0.borrow_mut();
        let word = usize::from(offset) / 4;
        let Some(model) = machine.find(0, address) else { return };
        let endpoint = model.words[3] >> 16 & 0x7f == 0;
        let decoded = endpoint && (4..10).contains(&word) && model.words[1] & 3 != 0;
        let bits = model.writable[word];
        model.words[word] = model.words[word] & !bits | value & bits;
        machine.violations += usize::from(decoded);
    }
}

fn space(machine: Machine) -> Space {
    Space(machine.into())
}

fn card() -> Model {
    Model::endpoint(0x1af4, 0x1041).memory(1, 4096).wide(4, 16384).pin(1, 10)
}

fn place() -> Option<Place> {
    Some(Place { memory: 0x1000_0000..0x3eff_0000, ports: 0x1000..0x1_0000 })
}

#[test]
fn empty_bus_has_no_functions() {
    assert_eq!(scan(&mut space(Machine::default()), 0..256, place()), []);
}

#[test]
fn bars_are_placed_where_there_was_no_firmware() {
    let machine = Machine::default()
        .with(0, 0, Model::endpoint(0x1b36, 8))
        .with(2, 0, card().ports(0, 32))
        .with(3, 0, card());
    let mut space = space(machine);
    let found = scan(&mut space, 0..256, place());
    assert_eq!(found.len(), 3);
    let card = &found[1];
    assert_eq!((card.vendor, card.device, card.class), (0x1af4, 0x1041, 0x02_0000));
    assert_eq!(card.pin, Some((2, 1)));
    assert_eq!(card.ports(0), Some(0x1000..0x1020));
    assert_eq!(card.memory(1), Some(0x1000_0000..0x1000_1000));
    assert_eq!(card.memory(4), Some(0x1000_4000..0x1000_8000));
    assert_eq!(card.bars[5], None, "the upper half is not a BAR of its own");
    assert_eq!(found[2].memory(1), Some(0x1000_8000..0x1000_9000));
    // What was decided stands in the registers.
    assert_eq!(space.read(card.address, 0x20), 0x1000_400c);
    assert_eq!(space.read(card.address, 0x24), 0);
    assert_eq!(space.0.borrow().violations, 0);
}

#[test]
fn ports_are_placed_on_the_root_bus_while_there_are_any() {
    let legacy = || Model::endpoint(0x1106, 0x3053).ports(0, 256).memory(1, 256);
    let machine = Machine::default()
        .with(1, 0, legacy())
        .with(2, 0, legacy())
        .with_bridge(3, Model::bridge(), Machine::default().with(0, 0, legacy()))
        .with(4, 0, Model::endpoint(1, 1).ports(0, 128));
    let mut space = space(machine);
    let room = Place { memory: 0x1000_0000..0x1100_0000, ports: 0x1000..0x1200 };
    let found = scan(&mut space, 0..256, Some(room));
    assert_eq!(found[0].ports(0), Some(0x1000..0x1100));
    assert_eq!(found[1].ports(0), Some(0x1100..0x1200));
    assert_eq!(found[2].ports(0), None, "behind a bridge");
    assert_eq!(found[3].ports(0), None, "none left");
    assert_eq!(found[0].ports(1), None, "memory");
    assert_eq!(space.read(found[1].address, 0x10), 0x1101);
    found[1].enable(&mut space, true);
    assert_eq!(space.read(found[1].address, 4) & 7, 7);
    found[3].enable(&mut space, true);
    assert_eq!(space.read(found[3].address, 4) & 7, 6);
}

#[test]
fn firmwares_assignments_stand() {
    let mut placed = card();
    placed.words[5] = 0xfebd_1000;
    placed.words[8] = 0xc00c;
    placed.words[9] = 0x8;
    placed.words[1] = 0x0010_0007;
    let mut space = space(Machine::default().with(3, 0, placed));
    let found = scan(&mut space, 0..256, None);
    assert_eq!(found[0].memory(1), Some(0xfebd_1000..0xfebd_2000));
    assert_eq!(found[0].memory(4), Some(0x8_0000_c000..0x8_0001_0000));
    assert_eq!(found[0].line, 10);
    assert_eq!(space.read(found[0].address, 4) & 0xffff, 7, "decoding is on again");
    assert_eq!(space.0.borrow().violations, 0, "and was off while BARs were sized");
}

#[test]
fn bar_without_room_stays_unassigned() {
    let machine = Machine::default()
        .with(1, 0, Model::endpoint(0x1234, 1).wide(0, 1 << 40).memory(2, 4096))
        .with(2, 0, Model::endpoint(0x1234, 2).memory(0, 1 << 31));
    let found = scan(&mut space(machine), 0..256, place());
    assert_eq!(found[0].memory(0), None);
    assert_eq!(found[0].memory(2), Some(0x1000_0000..0x1000_1000));
    assert_eq!(found[1].memory(0), None);
}

#[test]
fn functions_beyond_the_first_only_where_announced() {
    let mut first = card();
    let two = Machine::default().with(1, 0, first.clone()).with(1, 3, card());
    assert_eq!(scan(&mut space(two), 0..256, place()).len(), 1);
    first.words[3] |= 1 << 23;
    let two = Machine::default().with(1, 0, first).with(1, 3, card());
    let found = scan(&mut space(two), 0..256, place());
    assert_eq!(found[1].address, Address { bus: 0, device: 1, function: 3 });
}

#[test]
fn buses_behind_bridges_are_numbered_windowed_and_their_pins_rotated() {
    let inner = Machine::default().with(3, 0, card());
    let outer = Machine::default().with(0, 0, card()).with_bridge(2, Model::bridge(), inner);
    let machine = Machine::default()
        .with_bridge(1, Model::bridge(), outer)
        .with_bridge(4, Model::bridge(), Machine::default())
        .with(5, 0, card());
    let mut space = space(machine);
    let found = scan(&mut space, 0..256, place());
    let places: Vec<_> = found.iter().map(|f| (f.address.bus, f.address.device)).collect();
    assert_eq!(places, [(1, 0), (2, 3), (0, 5)]);
    // [BRIDGE 9.1]: device 0, INTA behind device 1 is INTA there; device 3's behind device 2 turns by
    // 3 and 2: INTB.
    assert_eq!(found[0].pin, Some((1, 1)));
    assert_eq!(found[1].pin, Some((1, 2)));
    assert_eq!(found[2].pin, Some((5, 1)));
    let bridge = |device, bus| Address { bus, device, function: 0 };
    assert_eq!(space.read(bridge(1, 0), 0x18), 0x0002_0100);
    assert_eq!(space.read(bridge(2, 1), 0x18), 0x0002_0201);
    assert_eq!(space.read(bridge(4, 0), 0x18), 0x0003_0300);
    // Both buses' BARs are inside the outer window, the inner one's inside the inner.
    assert_eq!(space.read(bridge(1, 0), 0x20), 0x1010_1000);
    assert_eq!(space.read(bridge(2, 1), 0x20), 0x1010_1010);
    assert_eq!(found[1].memory(1), Some(0x1010_0000..0x1010_1000));
    assert_eq!(space.read(bridge(4, 0), 0x20), 0x0000_fff0, "nothing behind it: closed");
    assert_eq!(space.read(bridge(1, 0), 4) & 6, 6);
}

#[test]
fn bridges_that_go_in_circles_are_left() {
    // Firmware's numbers lead back to the bus the bridge is on.
    for secondary in [0u32, 1] {
        let mut bridge = Model::bridge();
        bridge.words[6] = 0x00ff_0000 | secondary << 8;
        bridge.writable[6] = 0;
        let inner = Machine::default().with(1, 0, card());
        let machine = Machine::default().with_bridge(1, bridge, inner);
        let found = scan(&mut space(machine), 0..256, None);
        assert_eq!(found.len(), secondary as usize);
    }
    // Every bus shows the same bridges again.
    struct Mirror;
    impl Configuration for Mirror {
        fn read(&self, address: Address, offset: u8) -> u32 {
            match offset {
                0 => 0x000c_1b36,
                0xc => 0x0081_0000,
                0x18 => u32::from(address.bus + 1) << 8 | 0x00ff_0000,
                _ => 0,
            }
        }
        fn write(&mut self, _: Address, _: u8, _: u32) {}
    }
    assert_eq!(scan(&mut Mirror, 0..256, None), []);
    assert_eq!(scan(&mut Mirror, 0..4, place()), []);
}

#[test]
fn a_bus_full_of_nonsense_ends() {
    struct Noise(std::cell::Cell<u64>);
    impl Configuration for Noise {
        fn read(&self, _: Address, _: u8) -> u32 {
            let next = self.0.get().wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            self.0.set(next);
            (next >> 33) as u32
        }
        fn write(&mut self, _: Address, _: u8, _: u32) {}
    }
    for seed in 0..50 {
        for place in [None, place()] {
            let mut noise = Noise(seed.into());
            let found = scan(&mut noise, 0..8, place);
            assert!(found.len() <= MAX_FUNCTIONS);
            for function in found {
                function.msi_x(&noise);
                function.enable(&mut noise, true);
            }
        }
    }
}

#[test]
fn msi_x_is_read_where_it_fits() {
    let mut model = card();
    model.words[1] = 0x0010_0000;
    model.words[13] = 0x98;
    model.words[0x98 / 4] = 0x8002_8411; // MSI-X, next 0x84, three entries
    model.writable[0x98 / 4] = 0xc000_0000;
    model.words[0x9c / 4] = 0x0000_0801; // BAR 1, offset 0x800
    model.words[0x84 / 4] = 0x0014_0009;
    let mut space = space(Machine::default().with(2, 0, model));
    let found = scan(&mut space, 0..256, place()).remove(0);
    assert_eq!(found.capabilities(&space), Some(vec![(0x11, 0x98), (9, 0x84)]));
    let msi_x = found.msi_x(&space).unwrap();
    assert_eq!((msi_x.bar, msi_x.table, msi_x.vectors), (1, 0x800, 3));
    found.enable_msi_x(&mut space, &msi_x);
    assert_eq!(space.read(found.address, 0x98) >> 30, 2, "on, and not masked");
    found.enable(&mut space, false);
    assert_eq!(space.read(found.address, 4) & 0x407, 0x406);

    let set = |space: &Space, word: usize, value: u32| {
        space.0.borrow_mut().find(0, found.address).unwrap().words[word] = value;
    };
    set(&space, 0x9c / 4, 0x0000_0ff1);
    assert_eq!(found.msi_x(&space), None, "the table runs over the BAR's end");
    set(&space, 0x9c / 4, 0x0000_0807);
    assert_eq!(found.msi_x(&space), None, "there is no BAR 7");
    set(&space, 0x84 / 4, 0x0014_9809);
    assert_eq!(found.capabilities(&space), None, "the list bites its tail");
}

/// A function that forgets its addresses on the way from D3hot to D0.
struct Forgetful(Space);

impl Configuration for Forgetful {
    fn read(&self, address: Address, offset: u8) -> u32 {
        self.0.read(address, offset)
    }

    fn write(&mut self, address: Address, offset: u8, value: u32) {
        let asleep = self.0.read(address, 0x44) & 3 == 3;
        self.0.write(address, offset, value);
        if offset == 0x44 {
            let mut machine = self.0.0.borrow_mut();
            let model = machine.find(0, address).unwrap();
            // Status clears where a one is written.
            model.words[0x11] &= !(value & 0x8000);
            if asleep && value & 3 == 0 {
                model.words[4] = 1;
                model.words[5] = 0;
                model.words[1] &= !7;
            }
        }
    }
}

#[test]
fn a_function_is_put_to_sleep_and_woken_with_everything_it_had() {
    // As a VT6105M: 256 ports, 256 bytes, power management at 0x40.
    let mut model = Model::endpoint(0x1106, 0x3053).ports(0, 256).memory(1, 256).pin(1, 11);
    model.words[1] = 0x0210_0000;
    model.words[13] = 0x40;
    model.words[0x10] = 0xfe02_0001;
    model.writable[0x11] = 0x0000_0103;
    model.words[4] = 0x1001;
    model.words[5] = 0xe000_0000;
    let mut space = Forgetful(space(Machine::default().with(9, 0, model)));
    let found = scan(&mut space, 0..256, place()).remove(0);
    found.enable(&mut space, true);
    let read = |space: &Forgetful| [0x04, 0x10, 0x14, 0x3c].map(|at| space.read(found.address, at));
    let before = read(&space);
    let delays = std::cell::Cell::new(0);
    let delay = |us| delays.set(delays.get() + us);
    found.wake(&mut space, &delay);
    assert_eq!((read(&space), delays.get()), (before, 0), "it was awake");

    space.0.0.borrow_mut().find(0, found.address).unwrap().words[0x11] |= 0x8000;
    found.sleep(&mut space);
    assert_eq!(space.read(found.address, 0x44), 0x0103, "D3hot, PME enabled, none pending");
    space.0.0.borrow_mut().find(0, found.address).unwrap().words[0x11] |= 0x8000;
    found.wake(&mut space, &delay);
    assert_eq!(space.read(found.address, 0x44), 0);
    assert_eq!((read(&space), delays.get()), (before, 10_000));
    assert_eq!(space.0.0.borrow().violations, 0, "addresses change while they are not decoded");

    // One without the capability is left alone.
    let mut space = self::space(Machine::default().with(9, 0, card()));
    let found = scan(&mut space, 0..256, place()).remove(0);
    let before: Vec<u32> = (0..64).map(|n| space.read(found.address, n * 4)).collect();
    found.wake(&mut space, &delay);
    found.sleep(&mut space);
    assert_eq!((0..64).map(|n| space.read(found.address, n * 4)).collect::<Vec<_>>(), before);
}
