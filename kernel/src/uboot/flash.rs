//! The environment in the machine's flash.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::{self, Write};
use core::ops::Range;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::cfi::{Bus, Flash, FlashError};
use super::environment::{Environment, EnvironmentError};
use crate::arch::MapError;
use crate::arguments::Arguments;
use crate::boot::BootInformation;
use crate::bus::registers::MappedRegisters;

/// First and last byte of the environment, and the first byte of the flash it is in; all zero: none.
static START: AtomicUsize = AtomicUsize::new(0);
static END: AtomicUsize = AtomicUsize::new(0);
static BANK: AtomicUsize = AtomicUsize::new(0);
/// One at a time.
static IN_USE: AtomicBool = AtomicBool::new(false);

/// Why the environment cannot be read or changed.
#[derive(Clone, Copy, Debug)]
pub enum Error {
    /// No boot argument says where it is, or there is no flash.
    None,
    /// Somebody else is at it.
    InUse,
    /// The flash cannot be mapped.
    Map(MapError),
    /// The flash refuses.
    Flash(FlashError),
    /// What is in it is no environment, or the change is none it can hold.
    Environment(EnvironmentError),
    /// What was written does not read back.
    Verify,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::None => f.write_str("U-Boot's environment is not in flash here"),
            Error::InUse => f.write_str("U-Boot's environment is being written"),
            Error::Map(why) => write!(f, "flash cannot be mapped: {why}"),
            Error::Flash(why) => write!(f, "flash: {why}"),
            Error::Environment(why) => write!(f, "U-Boot's environment: {why}"),
            Error::Verify => f.write_str("flash does not hold what was written"),
        }
    }
}

impl Bus for MappedRegisters {
    fn read(&self, offset: usize) -> u32 {
        trireme_nic::Registers::read32(self, offset)
    }

    fn write(&mut self, offset: usize, value: u32) {
        trireme_nic::Registers::write32(self, offset, value);
    }
}

/// Looks whether the flash that the boot arguments name is there.
pub fn initialize(boot: &BootInformation, arguments: &Arguments<'_>) {
    let Some(text) = arguments.uboot_environment else { return };
    let Some(place) = super::parse_place(text) else {
        log::warn!("boot argument not understood: uboot.env={text}");
        return;
    };
    let bank = bank(boot, &place);
    let Some(bank) = bank else {
        log::warn!("uboot.env={text}: the device tree has no flash of 32 bits there");
        return;
    };
    BANK.store(bank.start as usize, Ordering::Relaxed);
    START.store(place.start as usize, Ordering::Relaxed);
    END.store(place.end as usize, Ordering::Relaxed);
}

/// The flash around `place`, by the device tree.
#[cfg(any(target_arch = "aarch64", target_arch = "arm"))]
fn bank(boot: &BootInformation, place: &Range<u64>) -> Option<Range<u64>> {
    use crate::fdt;
    let mut found = None;
    fdt::walk(boot.tree()?, &mut |node| {
        if node.is("cfi-flash") && node.enabled() && fdt::cell(&node.node, "bank-width") == Some(4)
        {
            let mut banks = (0..4).map_while(|index| node.reg(index));
            found = found.take().or_else(|| banks.find(|bank| inside(place, bank)));
        }
    });
    found
}

/// PCs have no device tree, and U-Boot's environment elsewhere.
#[cfg(target_arch = "x86_64")]
fn bank(_: &BootInformation, _: &Range<u64>) -> Option<Range<u64>> {
    None
}

#[cfg(any(target_arch = "aarch64", target_arch = "arm"))]
fn inside(place: &Range<u64>, bank: &Range<u64>) -> bool {
    bank.start <= place.start && place.end <= bank.end
}

/// Ends the trial of the image that runs: from now on U-Boot boots it without counting. `false`: it was on none.
pub fn mark_good() -> Result<bool, Error> {
    change(&[("upgrade_available", Some("0")), ("bootcount", Some("0"))], |environment| {
        environment.get("upgrade_available") == Some(b"1")
    })
}

/// Sets a variable of U-Boot's environment, or removes it; whether that changed anything.
pub fn set(name: &str, value: Option<&str>) -> Result<bool, Error> {
    change(&[(name, value)], |_| true)
}

/// Prints the variables, or the one of that name.
pub fn show(name: Option<&str>, out: &mut String) {
    let shown = exclusively(|flash, offset, length| {
        let environment = read(flash, offset, length)?;
        for variable in environment.variables() {
            let text = String::from_utf8_lossy(variable);
            if name.is_none_or(|name| text.split('=').next() == Some(name)) {
                let _ = writeln!(out, "{text}");
            }
        }
        Ok(())
    });
    if let Err(why) = shown {
        let _ = writeln!(out, "{why}");
    }
}

fn change(
    changes: &[(&str, Option<&str>)],
    wanted: impl FnOnce(&Environment) -> bool,
) -> Result<bool, Error> {
    exclusively(|flash, offset, length| {
        let mut environment = read(flash, offset, length)?;
        if !wanted(&environment) {
            return Ok(false);
        }
        let mut changed = false;
        for (name, value) in changes {
            changed |= environment.set(name, *value).map_err(Error::Environment)?;
        }
        if changed {
            let mut writer = Flash::open(*flash).map_err(Error::Flash)?;
            writer.replace(offset, environment.bytes()).map_err(Error::Flash)?;
            if read(flash, offset, length)?.bytes() != environment.bytes() {
                return Err(Error::Verify);
            }
        }
        Ok(changed)
    })
}

fn read(flash: &MappedRegisters, offset: usize, length: usize) -> Result<Environment, Error> {
    let mut bytes = Vec::with_capacity(length);
    for at in (offset..offset + length).step_by(4) {
        bytes.extend_from_slice(&Bus::read(flash, at).to_le_bytes());
    }
    Environment::parse(bytes).map_err(Error::Environment)
}

/// Calls `work` with the flash, mapped, and where in it the environment lies.
fn exclusively<R>(
    work: impl FnOnce(&MappedRegisters, usize, usize) -> Result<R, Error>,
) -> Result<R, Error> {
    let (start, end) = (START.load(Ordering::Relaxed), END.load(Ordering::Relaxed));
    let bank = BANK.load(Ordering::Relaxed);
    if start == end {
        return Err(Error::None);
    }
    if IN_USE.swap(true, Ordering::Acquire) {
        return Err(Error::InUse);
    }
    // From the flash's beginning, where it takes commands, to the environment's end.
    let result = MappedRegisters::map(bank as u64..end as u64)
        .map_err(Error::Map)
        .and_then(|flash| work(&flash, start - bank, end - start));
    IN_USE.store(false, Ordering::Release);
    result
}
