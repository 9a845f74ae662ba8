//! Commands on the console, for looking into a running appliance by the names people know.
//!
//! The keyboard belongs to the program as soon as it reads standard input; until then, lines typed are commands. No
//! prompt is shown before the first key, so that nothing but the program's own output is on the console of an appliance
//! that nobody looks at. `console.shell=off` leaves all of this out.
//!
//! What commands say is what iproute2, ethtool, procps and iputils say, as far as there is something to say.

mod duration;
mod keys;
mod line;
mod words;

#[cfg(target_os = "hermit")]
mod ethtool;
#[cfg(target_os = "hermit")]
mod ip;
#[cfg(target_os = "hermit")]
mod ping;
#[cfg(target_os = "hermit")]
mod session;
#[cfg(target_os = "hermit")]
mod ss;
#[cfg(target_os = "hermit")]
mod system;

#[cfg(target_os = "hermit")]
pub use session::start;
