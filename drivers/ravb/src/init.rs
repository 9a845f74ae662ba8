//! Bring-up, in the order of [RV 3.2], and the E-MAC's and TOE's settings. E n is row n of [RV 6].

use crate::Timeout;
use crate::phy::Delays;
use crate::regs::{self, Apsr, Ccc, Csr0, Ecmr, Ecsr, Errors, Gccr, Sums, Tccr};
use crate::variant::Variant;
use trireme_nic::{MacAddress, Registers};
use trireme_phy::LinkState;
use trireme_registers::wait_until;

/// Longest time until a gate of the TOE is seen shut. [RV 5.4]
const GATE_US: u32 = 100_000;

/// Entries of the descriptor base address table: four transmit queues, eighteen receive queues. GbEth
/// has one of each, and its receive queue is entry 4 as well. [RV 3.4, E10]
pub(crate) const TABLE: usize = 22;
/// The first receive queue's.
pub(crate) const TABLE_RECEIVE: usize = 4;

/// CXR35: RGMII, with the clock switch at 1000 half cycles, which RGMII wants too. [RV E36]
const CXR35_RGMII: u32 = 0x03e8_0000;
/// CXR31: link state in band.
const CXR31_RGMII: u32 = 1;
/// RTC of GbEth: frames are cut off at 8 KiB.
const RTC_GBETH: u32 = 0x7ffc_2000;
const TGC_AVB: u32 = 0x0011_2210;
const TGC_GBETH: u32 = 0x0022_2200;

/// From reset to a state in which PHY and address can be asked.
pub(crate) fn open<R: Registers>(
    bar: &R,
    variant: Variant,
    delays: &Delays,
    delay: &dyn Fn(u32),
) -> Result<(), Timeout> {
    crate::mode::configure(bar, variant, delay)?;
    if variant == Variant::Gbeth {
        // The kind of MII is recognised by this write, which no other of the E-MAC may precede. [E35]
        regs::CXR35.write(bar, CXR35_RGMII);
        regs::CXR31.write(bar, CXR31_RGMII);
    }
    if variant.is_gen3() {
        let mut clocks = Apsr::empty();
        clocks.set(Apsr::RDM, delays.mac_receive);
        clocks.set(Apsr::TDM, delays.mac_transmit);
        regs::APSR.write(bar, clocks);
    }
    Ok(())
}

/// The address a boot loader has left, unless it is none. [RV 2.7]
pub(crate) fn read_address<R: Registers>(bar: &R) -> Option<MacAddress> {
    let [a, b, c, d] = regs::MAHR.read(bar).to_be_bytes();
    let [_, _, e, f] = regs::MALR.read(bar).to_be_bytes();
    let address = [a, b, c, d, e, f];
    (address != [0; 6] && a & 1 == 0).then_some(address)
}

/// The DMAC, in configuration mode. Interrupts of frames stay off. [RV 3.2 A 8 to 12, B 5 to 9]
pub(crate) fn dmac<R: Registers>(bar: &R, variant: Variant, table: u32) {
    // Some say that reset mode leaves registers as they are [RV 10 item 11]: then these are as another has
    // left them.
    regs::DIC.write(bar, 0);
    if variant != Variant::Gen2 {
        regs::RIC3.write(bar, 0);
    }
    if variant.is_avb() {
        for queues in regs::RQC {
            queues.write(bar, 0);
        }
        regs::UFCS.write(bar, 0);
    }
    regs::DBAT.write(bar, table);
    regs::RCR.write(bar, variant.rcr());
    if variant.is_avb() {
        regs::TGC.write(bar, TGC_AVB);
        regs::GIC.write(bar, 0);
    } else {
        regs::RTC.write(bar, RTC_GBETH);
        regs::TGC.write(bar, TGC_GBETH);
    }
    regs::TCCR.write(bar, tccr(variant));
    if variant.is_gen3() {
        regs::DIL.write(bar, 0);
        regs::CIE.write(bar, regs::CIE_LINES);
    }
    regs::RIC0.write(bar, 0);
    regs::RIC1.write(bar, 0);
    regs::RIC2.write(bar, regs::RIC2_FIFO | queue_mask(variant));
    regs::TIC.write(bar, 0);
    regs::EIC.write(bar, Errors::QE);
}

/// No interrupts at all.
pub(crate) fn silence<R: Registers>(bar: &R) {
    for enables in [&regs::RIC0, &regs::RIC2, &regs::TIC] {
        enables.write(bar, 0);
    }
    regs::EIC.write(bar, Errors::empty());
    regs::ECSIPR.write(bar, Ecsr::empty());
}

/// A bit for each queue in use.
pub(crate) fn queue_mask(variant: Variant) -> u32 {
    (1 << variant.queues()) - 1
}

/// TCCR without a start request.
pub(crate) fn tccr(variant: Variant) -> Tccr {
    if variant.is_avb() { Tccr::TFEN } else { Tccr::empty() }
}

/// What the E-MAC is to be like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    pub(crate) address: MacAddress,
    pub(crate) promiscuous: bool,
    pub(crate) receive_checksums: bool,
    pub(crate) transmit_checksums: bool,
    pub(crate) link: LinkState,
}

impl Setting {
    /// ECMR. Without a link nothing is sent or received.
    pub(crate) fn ecmr(&self, variant: Variant) -> Ecmr {
        let mut mode = Ecmr::ZPF;
        let LinkState { link, pause } = self.link;
        mode.set(Ecmr::DM, link.full_duplex || variant.is_avb());
        mode.set(Ecmr::PRM, self.promiscuous);
        mode.set(Ecmr::TE | Ecmr::RE, link.up);
        if variant.is_avb() {
            mode.set(Ecmr::RCSC, self.receive_checksums);
        } else {
            mode |= Ecmr::RCPT;
            mode.set(Ecmr::TXF | Ecmr::RXF, pause);
        }
        mode
    }
}

/// GECMR for a speed. R-Car knows two. [RV 2.7]
fn gecmr(variant: Variant, speed_mbps: u32) -> u32 {
    match (variant.is_avb(), speed_mbps) {
        (true, speed) => u32::from(speed == 1000),
        (false, 10) => 0,
        (false, 100) => 1 << 4,
        (false, _) => 2 << 4,
    }
}

/// The E-MAC, in operation. [RV 3.2 A 15 to 19, B 11 to 18]
pub(crate) fn emac<R: Registers>(
    bar: &R,
    variant: Variant,
    setting: &Setting,
    delay: &dyn Fn(u32),
) -> Result<(), Timeout> {
    regs::RFLR.write(bar, variant.max_receive());
    regs::ECMR.write(bar, setting.ecmr(variant) - (Ecmr::TE | Ecmr::RE));
    regs::GECMR.write(bar, gecmr(variant, setting.link.link.speed_mbps));
    let [a, b, c, d, e, f] = setting.address;
    regs::MAHR.write(bar, u32::from_be_bytes([a, b, c, d]));
    regs::MALR.write(bar, u32::from_be_bytes([0, 0, e, f]));
    regs::ECSR.ack(bar, Ecsr::all());
    if variant.is_avb() {
        regs::ECSIPR.write(bar, Ecsr::ICD | Ecsr::LCHNG);
    } else {
        shut(bar, Csr0::TPE | Csr0::RPE, delay)?;
        write_transmit_sums(bar, variant, setting);
        write_receive_sums(bar, variant, setting);
        // Also without sums: the gates are in the way of everything. [E37]
        regs::CSR0.write(bar, Csr0::TPE | Csr0::RPE);
        regs::ECSIPR.write(bar, Ecsr::ICD);
    }
    regs::ECMR.write(bar, setting.ecmr(variant));
    Ok(())
}

/// Writes what the TOE is to sum of frames to send. Its gate for them must be shut. [RV 2.9]
pub(crate) fn write_transmit_sums<R: Registers>(bar: &R, variant: Variant, setting: &Setting) {
    let on = setting.transmit_checksums;
    regs::CSR1.write(bar, if on { variant.transmit_sums() } else { Sums::empty() });
}

/// The same for received ones.
pub(crate) fn write_receive_sums<R: Registers>(bar: &R, variant: Variant, setting: &Setting) {
    let on = setting.receive_checksums;
    regs::CSR2.write(bar, if on { variant.receive_sums() } else { Sums::empty() });
}

/// Shuts gates of the TOE and waits until they are. [RV 5.4]
pub(crate) fn shut<R: Registers>(bar: &R, gates: Csr0, delay: &dyn Fn(u32)) -> Result<(), Timeout> {
    regs::CSR0.write(bar, (Csr0::TPE | Csr0::RPE) - gates);
    wait_until(delay, "gates of the checksum engine shut", GATE_US, || {
        !regs::CSR0.read(bar).intersects(gates)
    })
}

/// Has the MAC follow the link: stopped, set, started. [RV 3.9]
pub(crate) fn follow_link<R: Registers>(bar: &R, variant: Variant, setting: &Setting) {
    let mode = setting.ecmr(variant);
    regs::ECMR.write(bar, mode - (Ecmr::TE | Ecmr::RE));
    if setting.link.link.up {
        regs::GECMR.write(bar, gecmr(variant, setting.link.link.speed_mbps));
        regs::ECMR.write(bar, mode);
    }
}

/// Starts the clock of gPTP. [RV 3.2 A 20, 21]
pub(crate) fn gptp<R: Registers>(bar: &R, increment: u32) {
    regs::GTI.write(bar, increment);
    regs::GCCR.modify(bar, |bits| bits | Gccr::LTI | Gccr::TCSS_CORRECTED);
}

/// Which mode the card was found in, for the log.
pub(crate) fn left_in<R: Registers>(bar: &R) -> u32 {
    (regs::CCC.read(bar) & Ccc::OPC).bits()
}

#[cfg(test)]
mod tests {
    use super::*;
    use trireme_nic::Link;

    fn setting(receive_checksums: bool, full_duplex: bool, pause: bool) -> Setting {
        let link = Link { up: true, speed_mbps: 1000, full_duplex };
        Setting {
            address: [0; 6],
            promiscuous: false,
            receive_checksums,
            transmit_checksums: true,
            link: LinkState { link, pause },
        }
    }

    #[test]
    fn ecmr_is_linuxs() {
        // [RV 3.2 A 16, B 14]
        assert_eq!(setting(true, true, false).ecmr(Variant::Gen3).bits(), 0x0088_0062);
        assert_eq!(setting(false, true, false).ecmr(Variant::Gen2).bits(), 0x0008_0062);
        assert_eq!(setting(true, true, true).ecmr(Variant::Gbeth).bits(), 0x020b_0062);
        // Linux has PAUSE on regardless; here it follows what was negotiated, and half duplex never has it.
        assert_eq!(setting(true, false, false).ecmr(Variant::Gbeth).bits(), 0x0208_0060);
    }

    #[test]
    fn speed_codes_are_those_of_the_sheet() {
        assert_eq!([100, 1000].map(|speed| gecmr(Variant::Gen3, speed)), [0, 1]);
        assert_eq!([10, 100, 1000].map(|speed| gecmr(Variant::Gbeth, speed)), [0, 0x10, 0x20]);
    }
}
