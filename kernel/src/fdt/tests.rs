use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use dtoolkit::fdt::Fdt;
use proptest::prelude::*;

use super::machine::{Conduit, Machine, UartKind, read, usable};
use super::{Interrupt, Place, Sense, armv4, find, gemini, open, pci, ravb, walk};
use trireme_ravb::{Delays, Variant, cpg};

/// As QEMU 11.1 makes them for `-M virt -cpu cortex-a57` (`dumpdtb`, padding removed).
const VIRT_V2: &[u8] = include_bytes!("testdata/qemu-virt-gicv2.dtb");
const VIRT_V3: &[u8] = include_bytes!("testdata/qemu-virt-gicv3.dtb");
/// `dtc -O dtb -o board.dtb board.dts`
const BOARD: &[u8] = include_bytes!("testdata/board.dtb");

/// The same of `gemini.dts`.
const GEMINI: &[u8] = include_bytes!("testdata/gemini.dtb");
/// The same of `targets/boards/dir-685.dts`.
const DIR_685: &[u8] = include_bytes!("testdata/dir-685.dtb");
/// The same of `ravb.dts`.
const RAVB: &[u8] = include_bytes!("testdata/ravb.dtb");

/// The blob at an address divisible by eight, as loaders place it.
fn aligned(blob: &[u8]) -> Vec<u64> {
    let mut words = vec![0u64; blob.len().div_ceil(8)];
    for (word, bytes) in words.iter_mut().zip(blob.chunks(8)) {
        let mut eight = [0; 8];
        eight[..bytes.len()].copy_from_slice(bytes);
        *word = u64::from_ne_bytes(eight);
    }
    words
}

fn with<R>(blob: &[u8], use_tree: impl FnOnce(Fdt<'static>) -> R) -> Option<R> {
    let words = aligned(blob);
    // SAFETY: `open` checks the length in the header against the limit, which is what there is. The
    // tree does not outlive this function: results borrow nothing from it.
    unsafe { open(words.as_ptr().cast(), blob.len()) }.map(use_tree)
}

fn range(start: u64, size: u64) -> Range<u64> {
    start..start + size
}

#[test]
fn qemu_machine_with_gicv2() {
    with(VIRT_V2, |tree| {
        let machine = read(tree);
        assert_eq!(machine.memory.as_slice(), [range(0x4000_0000, 128 << 20)]);
        assert!(machine.reserved.is_empty());
        assert_eq!(machine.psci, Some(Conduit::Hvc));
        assert_eq!(machine.rtc, Some(range(0x901_0000, 0x1000)));
        assert_eq!(machine.timer, Some(Interrupt { line: 27, sense: Sense::Level }));
        let gic = machine.gic.unwrap();
        assert_eq!(gic.version, 2);
        assert_eq!(gic.distributor, range(0x800_0000, 0x1_0000));
        assert_eq!(gic.others.as_slice(), [range(0x801_0000, 0x1_0000)]);
        assert_eq!(gic.messages, Some(range(0x802_0000, 0x1000)));
        assert_eq!(gic.translation, None);
        let uart = machine.console.unwrap();
        assert_eq!((uart.kind, uart.registers), (UartKind::Pl011, range(0x900_0000, 0x1000)));
        assert_eq!(uart.interrupt, Some(Interrupt { line: 33, sense: Sense::Level }));
    })
    .unwrap();
}

#[test]
fn qemu_machine_with_gicv3() {
    with(VIRT_V3, |tree| {
        let gic = read(tree).gic.unwrap();
        assert_eq!(gic.version, 3);
        assert_eq!(gic.others.as_slice(), [range(0x80a_0000, 0xf6_0000)]);
        assert_eq!(gic.translation, Some(range(0x808_0000, 0x2_0000)));
        assert_eq!(gic.messages, None);
    })
    .unwrap();
}

#[test]
fn board_with_a_bus() {
    with(BOARD, |tree| {
        let machine = read(tree);
        assert_eq!(
            machine.memory.as_slice(),
            [range(0x4800_0000, 0x7800_0000), range(0x6_0000_0000, 0x8000_0000)]
        );
        assert_eq!(
            machine.reserved.as_slice(),
            [range(0x4400_0000, 0x1000), range(0x5700_0000, 0x100_0000)]
        );
        assert_eq!(machine.arguments, "ip=dhcp panic=5");
        assert_eq!(machine.initrd, Some(range(0x4a00_0000, 0x1234)));
        assert_eq!(machine.rng_seed, [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(machine.psci, Some(Conduit::Smc));
        let gic = machine.gic.unwrap();
        assert_eq!(gic.distributor, range(0xf101_0000, 0x1000));
        assert_eq!(gic.others[0], range(0xf102_0000, 0x2_0000));
        let uart = machine.console.unwrap();
        assert_eq!((uart.kind, uart.registers), (UartKind::Scif, range(0xe6e8_8000, 64)));
        assert_eq!(uart.interrupt, Some(Interrupt { line: 164 + 32, sense: Sense::Level }));
    })
    .unwrap();
}

static VERSATILE: LazyLock<Vec<u8>> = LazyLock::new(|| dtc(&in_targets("versatilepb.dts")));

/// A tree of ours, compiled.
fn of_board(name: &str) -> Vec<u8> {
    dtc(&in_targets(&format!("boards/{name}.dts")))
}

fn in_targets(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../targets").join(name)
}

/// A source, compiled with symbols, as `run.sh image` and distributions do.
fn dtc(source: &Path) -> Vec<u8> {
    let dtc = Command::new("dtc").args(["-q", "-@", "-O", "dtb"]).arg(source).output().unwrap();
    assert!(dtc.status.success(), "{}", String::from_utf8_lossy(&dtc.stderr));
    dtc.stdout
}

/// A tree written down in a test.
fn compiled(source: &str) -> Vec<u8> {
    let name = std::thread::current().name().unwrap_or_default().replace("::", "-");
    let file = std::env::temp_dir().join(format!("trireme-{}-{name}.dts", std::process::id()));
    std::fs::write(&file, source).unwrap();
    let blob = dtc(&file);
    std::fs::remove_file(file).unwrap();
    blob
}

/// Labels and nodes of any length, and node names the specification does not allow.
#[test]
fn tree_with_long_names_is_taken() {
    let blob = compiled(
        r#"/dts-v1/;
        / {
            #address-cells = <1>;
            #size-cells = <1>;
            chosen {
                bootargs = "ip=dhcp";
                stdout-path = "/a-bus-whose-name-is-longer-than-thirty-one-characters/serial@9000000";
            };
            a-bus-whose-name-is-longer-than-thirty-one-characters {
                #address-cells = <1>;
                #size-cells = <1>;
                ranges;
                vendor,property-whose-name-is-longer-than-thirty-one-characters = <1>;
                the_console_of_the_module_on_the_carrier_board: serial@9000000 {
                    compatible = "arm,pl011";
                    reg = <0x9000000 0x1000>;
                };
            };
        };"#,
    );
    assert!(Fdt::new(&blob).is_err(), "dtoolkit takes long names now: use its own check");
    with(&blob, |tree| {
        let machine = read(tree);
        assert_eq!(machine.arguments, "ip=dhcp");
        assert_eq!(machine.console.unwrap().registers, range(0x900_0000, 0x1000));
        assert!(find(tree, "/__symbols__", |_| ()).is_some());
    })
    .unwrap();
}

#[test]
fn coherence_is_of_a_node_and_what_is_below_it() {
    let blob = compiled(
        r#"/dts-v1/;
        / {
            plain { };
            device { dma-coherent; };
            bus { dma-coherent; below { }; };
        };"#,
    );
    with(&blob, |tree| {
        let coherent = |path| find(tree, path, |place| place.dma_coherent()).unwrap();
        assert!(!coherent("/") && !coherent("/plain"));
        assert!(coherent("/device") && coherent("/bus") && coherent("/bus/below"));
    })
    .unwrap();
}

/// Each part of a tree that is not what the specification says. [DT 5]
#[test]
fn broken_structure_is_refused() {
    let sound = compiled("/dts-v1/; /memreserve/ 0x1000 0x1000; / { a = <1>; b { c = <2>; }; };");
    assert!(with(&sound, |_| ()).is_some());
    let word = |at: usize| u32::from_be_bytes(sound[at..at + 4].try_into().unwrap()) as usize;
    let (structure, reservations) = (word(8), word(16));
    let refused = |what: &str, at: usize, value: u32| {
        let mut blob = sound.clone();
        blob[at..at + 4].copy_from_slice(&value.to_be_bytes());
        assert!(with(&blob, |_| ()).is_none(), "{what}");
    };
    refused("version too new", 24, 18);
    refused("structure outside", 8, 1 << 20);
    refused("structure not aligned", 8, structure as u32 + 2);
    refused("strings outside", 12, 1 << 20);
    refused("strings too long", 32, 1 << 20);
    refused("structure too long", 36, 1 << 20);
    refused("reservations in the header", 16, 8);
    // The first reservation and the end, which becomes another.
    refused("reservations without an end", reservations + 16 + 8, 0x1000);
    // Token, name; token, length, name, value.
    refused("no root", structure, 9);
    refused("root with a name", structure + 4, 0x6100_0000);
    refused("value longer than the tree", structure + 12, 0xffff_fff0);
    refused("name outside of the strings", structure + 16, 1 << 20);
    refused("unknown token", structure + 24, 7);
    refused("property behind a child", sound.len() - word(32) - 8, 3);
    refused("no end", sound.len() - word(32) - 4, 2);
}

/// docs/hardware/ravb.md 7.2 to 7.4.
#[test]
fn salvator_x_is_understood() {
    with(&of_board("salvator-x"), |tree| {
        let machine = read(tree);
        assert_eq!(machine.memory.as_slice(), [range(0x4800_0000, 0x3800_0000)]);
        assert_eq!(machine.psci, Some(Conduit::Smc));
        assert_eq!(machine.timer, Some(Interrupt { line: 16 + 11, sense: Sense::Level }));
        let gic = machine.gic.unwrap();
        assert_eq!((gic.version, gic.distributor.start), (2, 0xf101_0000));
        assert_eq!(gic.others[0].start, 0xf102_0000);
        let uart = machine.console.unwrap();
        assert_eq!((uart.kind, uart.registers.start), (UartKind::Scif, 0xe6e8_8000));
        assert_eq!(uart.interrupt, Some(Interrupt { line: 32 + 164, sense: Sense::Level }));
    })
    .unwrap();
}

#[test]
fn rzg2l_smarc_is_understood() {
    with(&of_board("rzg2l-smarc"), |tree| {
        let machine = read(tree);
        assert_eq!(machine.memory.as_slice(), [range(0x4800_0000, 0x7800_0000)]);
        assert_eq!(machine.psci, Some(Conduit::Smc));
        let gic = machine.gic.unwrap();
        assert_eq!((gic.version, gic.distributor.start), (3, 0x1190_0000));
        assert_eq!(gic.others.as_slice(), [range(0x1194_0000, 0x4_0000)]);
        let uart = machine.console.unwrap();
        assert_eq!((uart.kind, uart.registers.start), (UartKind::ScifDense, 0x1004_b800));
        assert_eq!(uart.interrupt, Some(Interrupt { line: 32 + 382, sense: Sense::Level }));
    })
    .unwrap();
}

/// Addresses and lines as in QEMU's hw/arm/versatilepb.c.
#[test]
fn versatilepb_is_understood() {
    with(&VERSATILE, |tree| {
        let machine = read(tree);
        assert_eq!(machine.rtc, Some(range(0x101e_8000, 0x1000)));
        let uart = machine.console.unwrap();
        assert_eq!((uart.kind, uart.registers.start), (UartKind::Pl011, 0x101f_1000));
        assert_eq!(uart.interrupt, Some(Interrupt { line: 12, sense: Sense::Level }));
        let soc = armv4::read(tree);
        let controller = soc.controller.unwrap();
        assert_eq!(controller.kind, armv4::ControllerKind::Vic);
        assert_eq!(controller.registers, range(0x1014_0000, 0x1000));
        assert_eq!(controller.second, Some(range(0x1000_3000, 0x1000)));
        let timer = soc.timer.unwrap();
        assert_eq!((timer.kind, timer.registers.start), (armv4::TimerKind::Sp804, 0x101e_2000));
        assert_eq!(timer.interrupt, Interrupt { line: 4, sense: Sense::Level });
        assert_eq!(timer.rate, armv4::Rate::Hertz(1_000_000));
        let system = soc.system.unwrap();
        assert_eq!(
            (system.kind, system.registers.start),
            (armv4::SystemKind::Versatile, 0x1000_0000)
        );

        let host = bridge(tree).unwrap();
        assert_eq!((host.configuration.start, host.bus_shift), (0x4200_0000, 16));
        assert_eq!(host.windows_at, Some(range(0x1000_1000, 0x1000)));
        // Rows of QEMU's table: slots B (30) and A (31), pins A to D. [hw/pci-host/versatile.c]
        for (device, lines) in
            [(30, [27, 28, 29, 30]), (31, [28, 29, 30, 27]), (29, [30, 27, 28, 29])]
        {
            for (pin, line) in (1..).zip(lines) {
                let interrupt = host.interrupt(0, device, 0, pin);
                assert_eq!(
                    interrupt,
                    Some(Interrupt { line, sense: Sense::Level }),
                    "{device} {pin}"
                );
            }
        }
    })
    .unwrap();
}

/// docs/hardware/gemini.md 1.5 to 1.9.
#[test]
fn gemini_boards_are_understood() {
    for name in ["dir-685", "nas4220b"] {
        with(&of_board(name), |tree| {
            let machine = read(tree);
            assert_eq!(machine.memory.as_slice(), [range(0, 128 << 20)]);
            let uart = machine.console.unwrap();
            assert_eq!((uart.kind, uart.registers.start), (UartKind::Ns16550, 0x4200_0000));
            assert_eq!(uart.shift, 2);
            assert_eq!(uart.interrupt, Some(Interrupt { line: 18, sense: Sense::Level }));
            let soc = armv4::read(tree);
            let controller = soc.controller.unwrap();
            assert_eq!(controller.kind, armv4::ControllerKind::Ftintc010);
            assert_eq!(controller.registers, range(0x4800_0000, 0x1000));
            assert_eq!(controller.second, None);
            let timer = soc.timer.unwrap();
            assert_eq!(
                (timer.kind, timer.registers.start),
                (armv4::TimerKind::Fttmr010, 0x4300_0000)
            );
            assert_eq!(timer.interrupt, Interrupt { line: 14, sense: Sense::FallingEdge });
            assert_eq!(timer.rate, armv4::Rate::Gemini(range(0x4000_0000, 0x1000)));
            let system = soc.system.unwrap();
            assert_eq!(
                (system.kind, system.registers.start),
                (armv4::SystemKind::Gemini, 0x4000_0000)
            );
        })
        .unwrap();
    }
}

#[test]
fn address_outside_every_range_is_none() {
    with(BOARD, |tree| {
        assert_eq!(find(tree, "/soc/unreachable", |place| place.reg(0)), Some(None));
        assert_eq!(find(tree, "/soc/serial@6e60000", |place| place.enabled()), Some(false));
        assert_eq!(find(tree, "/soc//serial@6e88000/", |place| place.enabled()), Some(true));
        assert!(find(tree, "/soc/nothing", |_| ()).is_none());
        assert!(find(tree, "no-alias:115200", |_| ()).is_none());
    })
    .unwrap();
}

/// Facts of `docs/hardware/ravb.md` 1.4 and 1.5: SPI n is line 32 + n.
#[test]
fn ravb_cards_are_read_as_their_boards_have_them() {
    let mut cards = Vec::new();
    let mut generators = Vec::new();
    with(RAVB, |tree| {
        walk(tree, &mut |place: &Place<'_, '_>| {
            cards.extend(ravb::card(place));
            generators.extend(ravb::generator(place));
        });
    })
    .unwrap();
    assert_eq!(generators, [(cpg::Kind::RcarGen3, range(0xe615_0000, 0x1000))]);
    let line = |spi: u32| Interrupt { line: 32 + spi, sense: Sense::Level };
    let salvator = ravb::Card {
        variant: Variant::Gen3,
        registers: range(0xe680_0000, 0x800),
        lines: [39, 40, 57, 58, 61, 63].map(line).to_vec(),
        mac: Some([0x2e, 0x09, 0x0a, 1, 2, 3]),
        phy: Some(0),
        delays: Delays { mac_transmit: true, receive_skew_ps: Some(1500), ..Delays::default() },
        link_pin: true,
        dma_coherent: false,
    };
    // Before the properties of the MAC's delays the mode meant the MAC.
    let older = ravb::Card {
        variant: Variant::Gen3,
        registers: range(0xe681_0000, 0x800),
        lines: [39, 63].map(line).to_vec(),
        mac: None,
        phy: None,
        delays: Delays { mac_transmit: true, ..Delays::default() },
        link_pin: false,
        dma_coherent: false,
    };
    let smarc = ravb::Card {
        variant: Variant::Gbeth,
        registers: range(0x11c3_0000, 0x1_0000),
        lines: vec![line(87)],
        mac: None,
        phy: Some(7),
        delays: Delays {
            phy_receive: true,
            phy_transmit: true,
            receive_skew_ps: Some(2400),
            transmit_skew_ps: Some(-300),
            ..Delays::default()
        },
        link_pin: true,
        dma_coherent: false,
    };
    let gen2 = ravb::Card {
        variant: Variant::Gen2,
        registers: range(0xe680_0000, 0x800),
        lines: vec![line(163)],
        mac: None,
        phy: None,
        delays: Delays::default(),
        link_pin: true,
        dma_coherent: false,
    };
    // The disabled one and the one without an interrupt are not there.
    assert_eq!(cards, [salvator, older, smarc, gen2]);
}

#[test]
fn virtio_mmio_nodes_have_registers_and_edges() {
    with(VIRT_V2, |tree| {
        let mut found = Vec::new();
        walk(tree, &mut |place: &Place<'_, '_>| {
            if place.is("virtio,mmio") {
                found.push((place.reg(0).unwrap().start, place.interrupt(0).unwrap().line));
                assert_eq!(place.interrupt(0).unwrap().sense, Sense::Edge);
                assert!(place.dma_coherent());
            }
        });
        found.sort_unstable();
        // QEMU's virt: 32 transports from 0xa000000, 512 bytes apart, SPIs 16 and up.
        let expected: Vec<_> = (0..32).map(|n| (0xa00_0000 + n * 0x200, 48 + n as u32)).collect();
        assert_eq!(found, expected);
    })
    .unwrap();
}

#[test]
fn pci_host_and_its_interrupts() {
    with(VIRT_V2, |tree| {
        let host = bridge(tree).unwrap();
        assert_eq!(host.configuration, range(0x40_1000_0000, 256 << 20));
        assert_eq!(host.buses, 0..256);
        let windows: Vec<_> =
            host.windows.iter().map(|w| (w.space, w.bus, w.cpu.clone())).collect();
        assert_eq!(
            windows,
            [
                (pci::Space::Io, 0, range(0x3eff_0000, 0x1_0000)),
                (pci::Space::Memory32, 0x1000_0000, range(0x1000_0000, 0x2eff_0000)),
                (pci::Space::Memory64, 0x80_0000_0000, range(0x80_0000_0000, 0x80_0000_0000)),
            ]
        );
        // QEMU swizzles four SPIs from 3 on: line = (device + pin - 1) % 4.
        for device in 0..8u8 {
            for pin in 1..=4u8 {
                let line = 32 + 3 + u32::from((device + pin - 1) % 4);
                let expected = Interrupt { line, sense: Sense::Level };
                assert_eq!(host.interrupt(0, device, 0, pin), Some(expected));
            }
        }
        assert_eq!(host.interrupt(0, 0, 0, 5), None);
    })
    .unwrap();
}

#[test]
fn free_memory_leaves_out_what_is_taken() {
    let memory = [range(0x1000, 0x9000), range(0x2_0000, 0x1800)];
    let taken = [range(0x2000, 0x1000), range(0x2800, 0x1000), range(0x9000, 0x1_0000), 0..0x10];
    let free = usable::<4>(&memory, &taken, 0x1000);
    // 0x3800 is rounded up to a page, the last page of the second range is incomplete.
    assert_eq!(free.as_slice(), [0x1000..0x2000, 0x4000..0x9000, 0x2_0000..0x2_1000]);
    assert_eq!(usable::<1>(&memory, &taken, 0x1000).as_slice(), [range(0x4000, 0x5000)]);
    assert!(usable::<4>(&[range(u64::MAX - 10, 10)], &[], 0x1000).is_empty());
}

#[test]
fn not_a_tree() {
    // SAFETY: null is refused before it is read.
    assert!(unsafe { open(std::ptr::null(), 1 << 20) }.is_none());
    assert!(with(&[0xff; 64], |_| ()).is_none());
    assert!(with(&VIRT_V2[..VIRT_V2.len() - 8], |_| ()).is_none(), "longer than allowed");
}

/// Everything that is asked of a tree, for its effect of not panicking.
fn ask_everything(tree: Fdt<'_>) {
    let Machine { memory, reserved, .. } = read(tree);
    usable::<16>(&memory, &reserved, 4096);
    armv4::read(tree);
    walk(tree, &mut |place| {
        for index in 0..8 {
            place.reg(index);
            place.interrupt(index);
        }
        place.dma_coherent();
        super::machine::uart(place);
        ravb::card(place);
        ravb::generator(place);
    });
    if let Some(host) = bridge(tree) {
        for pin in 0..6 {
            host.interrupt(0, 31, 7, pin);
        }
    }
    find(tree, "serial0/x:y", |_| ());
}

fn bridge(tree: Fdt<'_>) -> Option<pci::Host<'_>> {
    let mut found = None;
    walk(tree, &mut |place| found = found.take().or_else(|| pci::host(tree, place)));
    found
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn damaged_trees_do_no_harm(
        which in 0..5usize,
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..24),
    ) {
        let mut blob = [VIRT_V2, VIRT_V3, BOARD, RAVB, &VERSATILE][which].to_vec();
        let len = blob.len();
        for (at, value) in damage {
            // The header's length is kept: it is checked by itself above.
            blob[8 + at.index(len - 8)] = value;
        }
        with(&blob, ask_everything);
    }

    #[test]
    fn damaged_cells_do_no_harm(
        which in 0..5usize,
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u32>()), 1..8),
    ) {
        let mut blob = [VIRT_V2, VIRT_V3, BOARD, RAVB, &VERSATILE][which].to_vec();
        let len = blob.len();
        for (at, value) in damage {
            let at = 8 + 4 * at.index((len - 8) / 4);
            blob[at..at + 4].copy_from_slice(&value.to_be_bytes());
        }
        with(&blob, ask_everything);
    }
}

/// Facts of `docs/hardware/gemini.md` 1.5, 1.10 and 2.
#[test]
fn ports_of_a_gemini_are_read_as_their_board_has_them() {
    use trireme_gemini::{Attached, Lines};
    let mut card = gemini::Gemini::default();
    with(GEMINI, |tree| walk(tree, &mut |place: &Place<'_, '_>| card.look(place))).unwrap();
    assert_eq!(card.ethernet, Some(0x6000_0000));
    assert_eq!(card.global, Some(range(0x4000_0000, 0x1000)));
    assert_eq!(card.management(), Some((range(0x4d00_0000, 0x100), Lines::REFERENCE)));
    assert_eq!(card.lines.iter().map(|line| line.line).collect::<Vec<_>>(), [1, 2]);
    assert!(card.lines.iter().all(|line| line.sense == Sense::Level));
    let [first, second] = card.ports.map(|port| port.unwrap());
    assert_eq!(card.attached(&first), Some(Attached::Phy { address: 1 }));
    assert_eq!(card.attached(&second), Some(Attached::Fixed { pause: true }));
    assert_eq!((first.mac, second.mac), (Some([2, 0, 0x5e, 0x10, 0, 1]), None));
}

/// A DIR-685, by the tree its images carry: one port, at a switch on the lines in the other order.
#[test]
fn the_switch_of_a_dir_685_is_found() {
    use trireme_gemini::{Attached, Lines};
    let mut card = gemini::Gemini::default();
    with(DIR_685, |tree| walk(tree, &mut |place: &Place<'_, '_>| card.look(place))).unwrap();
    assert_eq!(card.management(), Some((range(0x4d00_0000, 0x100), Lines::REALTEK)));
    let [port, none] = card.ports;
    assert_eq!(none, None);
    assert_eq!(card.attached(&port.unwrap()), Some(Attached::Switch { pause: true }));
}

/// A board that is no Gemini has no such card.
#[test]
fn other_boards_have_no_gemini() {
    let mut card = gemini::Gemini::default();
    with(RAVB, |tree| walk(tree, &mut |place: &Place<'_, '_>| card.look(place))).unwrap();
    assert_eq!(card, gemini::Gemini::default());
}
