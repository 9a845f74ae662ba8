//! The Trireme kernel: an ordinary crate that makes a std program a network appliance.
//!
//! A program says `use trireme as _;` and is built for a `*-hermit` target. This crate then brings
//! everything `std` expects below it: the entry point, memory, threads, time, the console, files
//! linked into the image and the network, by the names of the Hermit ABI (`sys_*`). On any other
//! target only the modules that touch no machine are compiled, for their tests.
//!
//! Beyond `std`, a program may call [`network`] and [`system`], which compile everywhere and say so where the program is
//! no appliance, and on an appliance `poller`.
//!
//! Four ideas carry it:
//! - **One CPU, one address space, one privilege level.** A system call is a function call.
//! - **Kernel code is never preempted by a thread** ([`preempt`]), so no lock in it is ever
//!   contended. Interrupts stay enabled nearly always, and only *mark*: they set a bit, and the bit
//!   is looked at when the interrupted code may be preempted ([`interrupt`]).
//! - **Deferred work runs where the CPU happens to be**: at the end of an interrupt, at the end of a
//!   system call, in the idle loop. A thread that waits for the network and is woken by it is never
//!   switched away from.
//! - **Nothing ticks.** A timer interrupt comes when something is due ([`time`]).

#![cfg_attr(not(any(test, not(target_os = "hermit"))), no_std)]
// Without the machine, or the console's commands, nobody asks for much of it.
#![cfg_attr(not(all(target_os = "hermit", feature = "console")), allow(dead_code, unused_imports))]
// Hardly anything here is called by path (`network`, `system`, `poller` and `socket` are): `pub` says "for the other modules".
#![allow(unreachable_pub)]
// Sources are cited in brackets, which rustdoc takes for links.
#![allow(rustdoc::broken_intra_doc_links)]

extern crate alloc;

mod address;
mod arguments;
mod bus;
mod calendar;
mod cpio;
mod futex;
pub mod network;
pub mod ptp;
mod ready;
#[cfg(feature = "console")]
mod shell;
mod slots;
mod small;
mod syslog;
pub mod system;
mod timer;
mod uboot;

#[cfg(target_os = "hermit")]
mod abi;
#[cfg(any(target_os = "hermit", test))]
mod arch;
#[cfg(target_os = "hermit")]
mod boot;
#[cfg(target_os = "hermit")]
mod cell;
#[cfg(any(all(target_os = "hermit", target_arch = "x86_64"), test))]
mod cmos;
#[cfg(target_os = "hermit")]
mod console;
#[cfg(target_os = "hermit")]
mod descriptor;
#[cfg(target_os = "hermit")]
mod devices;
#[cfg(target_os = "hermit")]
mod entropy;
#[cfg(any(all(target_os = "hermit", any(target_arch = "aarch64", target_arch = "arm")), test))]
mod fdt;
#[cfg(target_os = "hermit")]
mod files;
#[cfg(target_os = "hermit")]
mod interrupt;
#[cfg(target_os = "hermit")]
mod logging;
#[cfg(target_os = "hermit")]
mod memory;
#[cfg(target_os = "hermit")]
mod net;
#[cfg(target_os = "hermit")]
mod panic;
#[cfg(target_os = "hermit")]
pub mod poller;
#[cfg(target_os = "hermit")]
mod power;
#[cfg(target_os = "hermit")]
mod preempt;
#[cfg(target_os = "hermit")]
pub mod socket;
#[cfg(target_os = "hermit")]
mod start;
#[cfg(target_os = "hermit")]
mod thread;
#[cfg(target_os = "hermit")]
mod time;
#[cfg(target_os = "hermit")]
mod tls;
#[cfg(target_os = "hermit")]
mod trial;
#[cfg(any(target_os = "hermit", test))]
mod watchdog;
