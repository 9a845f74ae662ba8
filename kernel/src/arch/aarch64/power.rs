//! The end of the machine: semihosting or PSCI.

use core::sync::atomic::{AtomicU8, Ordering};

use smccc::{Hvc, Smc, psci};

use super::semihosting;
use crate::fdt::machine::Conduit;

static CONDUIT: AtomicU8 = AtomicU8::new(0);
const HVC: u8 = 1;
const SMC: u8 = 2;

/// Remembers how PSCI is called.
pub(super) fn init(conduit: Option<Conduit>) {
    let value = match conduit {
        Some(Conduit::Hvc) => HVC,
        Some(Conduit::Smc) => SMC,
        None => 0,
    };
    CONDUIT.store(value, Ordering::Relaxed);
}

/// Ends the machine. The status reaches a debugger or QEMU that offers semihosting; otherwise the
/// machine is switched off, and the status is lost.
pub fn shutdown(status: i32) -> ! {
    super::interrupts_disable();
    semihosting::exit(status);
    // Both return only if they failed.
    let _ = match CONDUIT.load(Ordering::Relaxed) {
        HVC => psci::system_off::<Hvc>(),
        SMC => psci::system_off::<Smc>(),
        _ => Ok(()),
    };
    stop()
}

/// Resets the machine.
pub fn reboot() -> ! {
    super::interrupts_disable();
    let _ = match CONDUIT.load(Ordering::Relaxed) {
        HVC => psci::system_reset::<Hvc>(),
        SMC => psci::system_reset::<Smc>(),
        _ => Ok(()),
    };
    stop()
}

/// There is nothing to tell where the console is: say it to a debugger, and stop.
pub(super) fn no_device_tree() -> ! {
    semihosting::write(c"trireme: no device tree, or a broken one\n");
    shutdown(1)
}

fn stop() -> ! {
    loop {
        super::halt();
    }
}
