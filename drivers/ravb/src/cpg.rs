//! Clocks and resets of the block on the boards, by the SoC's clock pulse generator. [RV 1.4]
//!
//! No register of the card may be touched before [`start`]: without its clock an access never ends, and GbEth
//! wants its reset released as well. Boot loaders stop unused modules when they hand over. The carrier in QEMU
//! has no such thing.

use crate::Timeout;
use trireme_nic::Registers;
use trireme_registers::wait_until;

/// How many bytes of the generator's registers are touched.
pub const REGISTERS: usize = 0xa00;

/// Longest time a module takes to start. Clocks start within a few bus cycles.
const START_US: u32 = 10_000;
/// How long a reset is held.
const RESET_US: u32 = 40;

/// Kinds of clock pulse generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// R-Car Gen3 and RZ/G2: a stop bit a module.
    RcarGen3,
    /// RZ/G2L and relatives: an on bit a clock.
    Rzg2l,
}

impl Kind {
    /// The device tree's names of generators whose registers are known.
    pub const COMPATIBLE: [(&'static str, Kind); 9] = [
        ("renesas,r8a7795-cpg-mssr", Kind::RcarGen3),
        ("renesas,r8a7796-cpg-mssr", Kind::RcarGen3),
        ("renesas,r8a77961-cpg-mssr", Kind::RcarGen3),
        ("renesas,r8a77965-cpg-mssr", Kind::RcarGen3),
        ("renesas,r8a774a1-cpg-mssr", Kind::RcarGen3),
        ("renesas,r8a774b1-cpg-mssr", Kind::RcarGen3),
        ("renesas,r9a07g043-cpg", Kind::Rzg2l),
        ("renesas,r9a07g044-cpg", Kind::Rzg2l),
        ("renesas,r9a07g054-cpg", Kind::Rzg2l),
    ];

    /// The kind of a node with this entry in `compatible`.
    pub fn by_compatible(name: &str) -> Option<Kind> {
        Kind::COMPATIBLE.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind)
    }
}

/// Bit of EtherAVB in the registers of module 8 of R-Car Gen3: module 812.
const AVB: u32 = 1 << 12;

mod rcar {
    use trireme_registers::{Reg, Ro, Rw, W1s, Wo};

    /// Write protection: the complement of what is written next.
    pub(super) const CPGWPR: Reg<u32, Wo> = Reg::at(0x900);
    pub(super) const SRCR8: Reg<u32, W1s> = Reg::at(0x920);
    pub(super) const SRSTCLR8: Reg<u32, W1s> = Reg::at(0x960);
    pub(super) const SMSTPCR8: Reg<u32, Rw> = Reg::at(0x990);
    pub(super) const MSTPSR8: Reg<u32, Ro> = Reg::at(0x9a0);
}

mod rzg2l {
    use trireme_registers::{Reg, Ro, Wo};

    /// Bits 16 up select those of 0 up that are written.
    pub(super) const CLK_ON: Reg<u32, Wo> = Reg::at(0x57c);
    pub(super) const CLK_MON: Reg<u32, Ro> = Reg::at(0x6fc);
    pub(super) const RST: Reg<u32, Wo> = Reg::at(0x87c);
    pub(super) const RST_MON: Reg<u32, Ro> = Reg::at(0x9fc);
}

/// The number of a GbEth port by the address of its registers, on the SoCs of [`Kind::Rzg2l`].
pub fn gbeth_port(base: u64) -> Option<u32> {
    match base {
        0x11c2_0000 => Some(0),
        0x11c3_0000 => Some(1),
        _ => None,
    }
}

/// Starts the block's clocks and puts it through a reset. `port`: which one, of GbEth.
pub fn start<R: Registers>(
    cpg: &R,
    kind: Kind,
    port: u32,
    delay: &dyn Fn(u32),
) -> Result<(), Timeout> {
    match kind {
        Kind::RcarGen3 => {
            let unlocked = |value: u32| {
                rcar::CPGWPR.write(cpg, !value);
                value
            };
            let running = rcar::SMSTPCR8.read(cpg) & !AVB;
            rcar::SMSTPCR8.write(cpg, unlocked(running));
            wait_until(delay, "module clock", START_US, || rcar::MSTPSR8.read(cpg) & AVB == 0)?;
            rcar::SRCR8.act(cpg, unlocked(AVB));
            delay(RESET_US);
            rcar::SRSTCLR8.act(cpg, unlocked(AVB));
            delay(RESET_US);
            Ok(())
        }
        Kind::Rzg2l => {
            let bit = 1 << port;
            rzg2l::CLK_ON.write(cpg, bit << 16 | bit);
            wait_until(delay, "module clocks", START_US, || rzg2l::CLK_MON.read(cpg) & bit != 0)?;
            rzg2l::RST.write(cpg, bit << 16);
            delay(RESET_US);
            rzg2l::RST.write(cpg, bit << 16 | bit);
            wait_until(delay, "module reset released", START_US, || {
                rzg2l::RST_MON.read(cpg) & bit == 0
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::sync::Mutex;

    /// Registers that note writes and answer with what the sheet says of them.
    #[derive(Default)]
    struct Generator {
        written: Mutex<Vec<(usize, u32)>>,
        values: Mutex<BTreeMap<usize, u32>>,
        stuck: bool,
    }

    impl Registers for Generator {
        fn read32(&self, offset: usize) -> u32 {
            self.values.lock().unwrap().get(&offset).copied().unwrap_or(0)
        }
        fn write32(&self, offset: usize, value: u32) {
            self.written.lock().unwrap().push((offset, value));
            let mut values = self.values.lock().unwrap();
            match offset {
                0x990 => {
                    values.insert(0x990, value);
                    if !self.stuck {
                        values.insert(0x9a0, value);
                    }
                }
                0x57c | 0x87c => {
                    let (select, bits) = (value >> 16, value & 0xffff);
                    let monitor = values.entry(offset + 0x180).or_default();
                    let shown = if offset == 0x57c { bits } else { !bits };
                    *monitor = *monitor & !select | shown & select;
                }
                _ => {}
            }
        }
        fn read8(&self, _: usize) -> u8 {
            panic!("words only")
        }
        fn read16(&self, _: usize) -> u16 {
            panic!("words only")
        }
        fn write8(&self, _: usize, _: u8) {
            panic!("words only")
        }
        fn write16(&self, _: usize, _: u16) {
            panic!("words only")
        }
    }

    #[test]
    fn rcar_module_812_is_started_and_its_neighbours_left_alone() {
        let cpg = Generator::default();
        cpg.values.lock().unwrap().extend([(0x990, 0xffff_ffff), (0x9a0, 0xffff_ffff)]);
        start(&cpg, Kind::RcarGen3, 0, &|_| ()).unwrap();
        let expected = [
            (0x900, 0x0000_1000),
            (0x990, 0xffff_efff),
            (0x900, 0xffff_efff),
            (0x920, 0x0000_1000),
            (0x900, 0xffff_efff),
            (0x960, 0x0000_1000),
        ];
        assert_eq!(*cpg.written.lock().unwrap(), expected);
    }

    #[test]
    fn gbeth_ports_are_bits_with_a_mask() {
        for (base, port) in [(0x11c2_0000, 0), (0x11c3_0000, 1)] {
            let cpg = Generator::default();
            assert_eq!(gbeth_port(base), Some(port));
            start(&cpg, Kind::Rzg2l, port, &|_| ()).unwrap();
            let bit = 1 << port;
            let expected = [(0x57c, bit << 16 | bit), (0x87c, bit << 16), (0x87c, bit << 16 | bit)];
            assert_eq!(*cpg.written.lock().unwrap(), expected);
        }
    }

    #[test]
    fn a_clock_that_does_not_start_is_named() {
        let cpg = Generator { stuck: true, ..Generator::default() };
        cpg.values.lock().unwrap().insert(0x9a0, 0x1000);
        let error = start(&cpg, Kind::RcarGen3, 0, &|_| ()).unwrap_err();
        assert_eq!(error, Timeout { what: "module clock", waited_us: 10_000 });
    }
}
