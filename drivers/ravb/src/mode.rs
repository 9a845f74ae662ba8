//! The operating modes of the DMAC: reset, configuration, operation. [RV 3.1, 3.3]

use crate::Timeout;
use crate::regs::{self, Ccc, Csr};
use crate::variant::Variant;
use trireme_nic::Registers;
use trireme_registers::wait_until;

/// Longest change of mode. Linux waits as long. [RV 3.1]
const MODE_US: u32 = 100_000;
/// Longest time until accesses to the bus are suspended.
const SUSPEND_US: u32 = 100_000;

/// CCC beside the mode, once the clock of gPTP is chosen.
fn base(variant: Variant) -> Ccc {
    match variant {
        Variant::Gen2 => Ccc::CSEL_HPB,
        Variant::Gen3 => Ccc::GAC | Ccc::CSEL_HPB,
        Variant::Gbeth => Ccc::empty(),
    }
}

fn reached<R: Registers>(
    bar: &R,
    delay: &dyn Fn(u32),
    what: &'static str,
    mode: Csr,
) -> Result<(), Timeout> {
    wait_until(delay, what, MODE_US, || regs::CSR.read(bar).contains(mode))
}

/// From wherever a boot loader or we have left it to reset. In operation that needs the bus accesses
/// suspended first, or else [RV 3.1] both processes idle and configuration mode in between. `force`: if neither
/// comes about, reset mode regardless. A block that hangs has no other way back [RV E31].
pub(crate) fn reset<R: Registers>(
    bar: &R,
    variant: Variant,
    force: bool,
    delay: &dyn Fn(u32),
) -> Result<(), Timeout> {
    if regs::CSR.read(bar).contains(Csr::OPERATION) {
        match suspend(bar, variant, delay) {
            // Suspended until it is in reset mode.
            Ok(()) => {
                regs::CCC.write(bar, Ccc::DTSR);
                reached(bar, delay, "reset mode", Csr::RESET)?;
            }
            Err(timeout) if force => log::warn!("ravb: {timeout:?}"),
            Err(timeout) => return Err(timeout),
        }
    }
    regs::CCC.write(bar, Ccc::empty());
    reached(bar, delay, "reset mode", Csr::RESET)
}

/// No more accesses to the bus, one way or the other.
fn suspend<R: Registers>(bar: &R, variant: Variant, delay: &dyn Fn(u32)) -> Result<(), Timeout> {
    let mode = regs::CCC.read(bar) & Ccc::OPC | base(variant);
    regs::CCC.write(bar, mode | Ccc::DTSR);
    let suspended = wait_until(delay, "bus accesses suspended", SUSPEND_US, || {
        regs::CSR.read(bar).contains(Csr::DTS)
    });
    suspended.or_else(|timeout| {
        log::debug!("ravb: {timeout:?}");
        regs::CCC.write(bar, base(variant) | Ccc::CONFIG);
        reached(bar, delay, "configuration mode", Csr::CONFIG)
    })
}

/// From reset to configuration. GAC, clock and mode in one write, or gPTP does not run [RV E2]; on Gen2
/// the clock comes after the mode. [RV 3.2 A 2]
pub(crate) fn configure<R: Registers>(
    bar: &R,
    variant: Variant,
    delay: &dyn Fn(u32),
) -> Result<(), Timeout> {
    let first = if variant == Variant::Gen2 { Ccc::empty() } else { base(variant) };
    regs::CCC.write(bar, first | Ccc::CONFIG);
    reached(bar, delay, "configuration mode", Csr::CONFIG)?;
    regs::CCC.write(bar, base(variant) | Ccc::CONFIG);
    Ok(())
}

/// From configuration to operation.
pub(crate) fn operate<R: Registers>(
    bar: &R,
    variant: Variant,
    delay: &dyn Fn(u32),
) -> Result<(), Timeout> {
    regs::CCC.write(bar, base(variant) | Ccc::OPERATION);
    reached(bar, delay, "operation mode", Csr::OPERATION)
}
