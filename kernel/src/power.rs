//! The end of the machine, its cards left as the next boot wants them.
//!
//! A panic does not come by here: it cannot know what state a driver is in, and resets the machine as it is.

use trireme_nic::Stop;

use crate::{arch, net};

/// Switches the machine off, or ends it with a status where something asks for one.
pub fn off(status: i32) -> ! {
    net::stop(Stop::PowerOff);
    arch::shutdown(status)
}

/// Starts the machine anew.
pub fn reboot() -> ! {
    net::stop(Stop::Reboot);
    arch::reboot()
}
