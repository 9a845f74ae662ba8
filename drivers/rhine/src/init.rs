//! Reset and bring-up, in the order of [RH 10].

use crate::chip::Chip;
use crate::filter::Filter;
use crate::regs::{self, Bcr1, Cause, Cr0, Cr1, Eecsr, Rcr, Tcr};
use crate::vlan::{self, Vlans};
use crate::{Error, Timeout};
use trireme_nic::{MacAddress, Registers};
use trireme_registers::wait_until;

/// Longest reset. Normally 5 µs; 105 µs has been seen. [RH 3.1]
const RESET_US: u32 = 10_000;
/// Longest EEPROM reload.
const RELOAD_US: u32 = 10_000;
/// Longest time the engines take to stop.
const STOP_US: u32 = 10_000;
/// After a forced reset the link is up but nothing passes for a while [RH E10]: FreeBSD waits 2 ms.
const AFTER_FORCE_US: u32 = 2_000;
/// A Rhine-I asked for its EEPROM sooner gives a wrong address. [RH E11]
const RHINE_I_SETTLE_US: u32 = 5_000;
/// From whatever state the card was left in to one with its EEPROM loaded. [RH 10.2, 10.3]
pub(crate) fn wake<R: Registers>(bar: &R, chip: Chip, delay: &dyn Fn(u32)) -> Result<(), Error> {
    if regs::ISR.read(bar).bits() == 0xffff && regs::CR1.read(bar).bits() == 0xff {
        return Err(Error::Absent);
    }
    awaken(bar, chip);
    reset(bar, chip, delay)?;
    if chip.is_rhine_i() {
        delay(RHINE_I_SETTLE_US);
    }
    regs::EECSR.modify(bar, |bits| bits | Eecsr::AUTOLD);
    wait_until(delay, "EEPROM reload", RELOAD_US, || {
        !regs::EECSR.read(bar).contains(Eecsr::AUTOLD)
    })?;
    // The reload switched memory decoding off and may have armed wake-up. [RH E12]
    if chip.is_rhine_i() {
        regs::CFGA.modify(bar, |bits| bits | 1 << 5);
    } else {
        regs::CFGD.modify(bar, |bits| bits | 1 << 7);
    }
    if chip.has_power_management() {
        regs::CFGA.modify(bar, |bits| bits & !3);
    }
    Ok(())
}

/// Ends the sleep a card may have been left in, and whatever would wake it again. Asleep it has
/// neither address nor PHY [RH E13]. Must come before a reset [RH E15, E16].
pub(crate) fn awaken<R: Registers>(bar: &R, chip: Chip) {
    if chip.has_power_management() {
        regs::STICKHW.modify(bar, |bits| bits & !3);
        regs::WOLCG_CLEAR.act(bar, 0x80);
        regs::WOLCR_CLEAR.act(bar, 0xff);
        if chip.has_six_patterns() {
            regs::TSTREG_CLEAR.act(bar, 0x03);
        }
        log::debug!("rhine: woken by {:#04x}", regs::PWRCSR.read(bar));
        regs::PWRCSR_CLEAR.act(bar, 0xff);
        if chip.has_six_patterns() {
            regs::PWRCSR1_CLEAR.act(bar, 0x03);
        }
    }
}

/// Software reset, by force if it does not end. [RH 3.1, E9]
pub(crate) fn reset<R: Registers>(bar: &R, chip: Chip, delay: &dyn Fn(u32)) -> Result<(), Timeout> {
    let over = || !regs::CR1.read(bar).contains(Cr1::SFRST);
    regs::CR1.write(bar, Cr1::SFRST);
    let first = wait_until(delay, "software reset", RESET_US, over);
    if first.is_ok() || !chip.has_power_management() {
        return first;
    }
    regs::MISC_CR1.modify(bar, |bits| bits | 1 << 6);
    delay(AFTER_FORCE_US);
    wait_until(delay, "forced reset", RESET_US, over)
}

/// The address in PAR, unless it is none.
pub(crate) fn read_address<R: Registers>(bar: &R) -> Option<MacAddress> {
    let mut address = [0; 6];
    for (n, byte) in address.iter_mut().enumerate() {
        *byte = regs::par(n).read(bar);
    }
    (address != [0; 6] && address[0] & 1 == 0).then_some(address)
}

/// What [`start`] sets up.
pub(crate) struct Setting<'a> {
    pub(crate) address: MacAddress,
    pub(crate) filter: Filter,
    /// All of TCR.
    pub(crate) transmitter: Tcr,
    pub(crate) vlans: &'a Vlans,
    pub(crate) full_duplex: bool,
    /// Bus addresses of the descriptors to begin with.
    pub(crate) receive: u32,
    pub(crate) transmit: u32,
}

/// From reset to running. Interrupts stay off. [RH 10.6 to 10.9]
pub(crate) fn start<R: Registers>(bar: &R, chip: Chip, setting: &Setting<'_>, delay: &dyn Fn(u32)) {
    for (n, byte) in setting.address.into_iter().enumerate() {
        regs::par(n).write(bar, byte);
    }
    // DMA bursts of any length; thresholds are those of RCR and TCR, not the EEPROM's overrides.
    regs::BCR0.write(bar, 0x07);
    regs::BCR1.write(bar, Bcr1::empty());
    // Written whole: loopback may have been left on. [RH E40]
    regs::TCR.write(bar, setting.transmitter);
    queueing(bar, chip, setting.full_duplex);
    vlan::filter(bar, chip, setting.vlans, setting.filter.mode.contains(Rcr::PROM), delay);
    filter(bar, setting.filter);
    regs::CURR_RX_DESC.write(bar, setting.receive);
    regs::CURR_TX_DESC.write(bar, setting.transmit);
    regs::IMR.write(bar, Cause::empty());
    regs::ISR.ack(bar, Cause::all());
    if chip.has_power_management() {
        regs::MIMR.write(bar, 0);
    }
    regs::CR1.write(bar, command1(setting.full_duplex));
    regs::CR0.write(bar, Cr0::STRT | Cr0::RXON | Cr0::TXON | Cr0::RDMD);
}

/// CR1 while running.
pub(crate) fn command1(full_duplex: bool) -> Cr1 {
    if full_duplex { Cr1::DPOLL | Cr1::FDX } else { Cr1::DPOLL }
}

/// No transmit queueing below revision 0x40 [RH E30], nor with half duplex, where an abort would wedge
/// the MAC. [RH 3.6]
pub(crate) fn queueing<R: Registers>(bar: &R, chip: Chip, full_duplex: bool) {
    let disabled = chip.revision < 0x40 || !full_duplex;
    regs::CFGB.modify(bar, |bits| if disabled { bits | 1 << 7 } else { bits & !(1 << 7) });
}

/// Writes all of the receive filter. [RH E33]
pub(crate) fn filter<R: Registers>(bar: &R, filter: Filter) {
    regs::MAR0.write(bar, filter.hash as u32);
    regs::MAR1.write(bar, (filter.hash >> 32) as u32);
    regs::RCR.write(bar, filter.mode | regs::Rcr::RFT_128);
}

/// Stops both engines. [RH 10.13]
pub(crate) fn stop<R: Registers>(bar: &R, delay: &dyn Fn(u32)) -> Result<(), Timeout> {
    regs::TCR.write(bar, Tcr::RTSF | Tcr::LB0);
    regs::IMR.write(bar, Cause::empty());
    regs::CR0.write(bar, Cr0::STOP);
    let stopped = wait_until(delay, "engines stop", STOP_US, || {
        !regs::CR0.read(bar).intersects(Cr0::RXON | Cr0::TXON)
    });
    regs::ISR.ack(bar, Cause::all());
    regs::CURR_RX_DESC.write(bar, 0);
    regs::CURR_TX_DESC.write(bar, 0);
    stopped
}
