//! From the architecture's entry code to the program's `main`.

use alloc::boxed::Box;
use alloc::ffi::CString;
use alloc::vec::Vec;
use core::ffi::c_char;
use core::sync::atomic::{AtomicPtr, Ordering};

use crate::arguments::Arguments;
use crate::boot::{BootInformation, give_up};
use crate::{
    arch, console, descriptor, devices, entropy, files, logging, memory, net, panic, preempt,
    syslog, thread, time, tls, trial, watchdog,
};

unsafe extern "C" {
    /// `std`'s entry: stores the environment, runs `main`, ends in `sys_exit`.
    fn runtime_entry(argc: i32, argv: *const *const c_char, env: *const *const c_char) -> !;
}

/// The main thread's stack, as much as memory allows within reason. Linux gives 8 MiB.
const MAIN_STACK: usize = 1 << 20;

/// What the main thread passes to `runtime_entry`.
struct Program {
    argument_count: i32,
    /// Both lists end in null and point into strings that are never freed.
    arguments: Vec<*const c_char>,
    environment: Vec<*const c_char>,
}

/// What `start` leaves for the main thread.
static BOOT: AtomicPtr<BootInformation> = AtomicPtr::new(core::ptr::null_mut());

/// Brings up threads and starts the main one. Called once, on the boot stack, interrupts masked, with
/// memory donated and exceptions handled. See [`crate::arch`] for the contract.
pub fn start(boot: BootInformation) -> ! {
    // First of all: a panic needs thread-locals.
    match tls::Block::new() {
        Some(block) => {
            arch::set_thread_pointer(block.pointer());
            // The boot context's; it ends with the first switch, the block stays.
            core::mem::forget(block);
        }
        None => give_up(format_args!(
            "not enough memory to start: {} KiB of RAM, {} KiB of it usable",
            boot.memory_bytes / 1024,
            memory::total() / 1024
        )),
    }
    logging::initialize();
    thread::initialize();
    let stack = MAIN_STACK.min(memory::total() / 16);
    BOOT.store(Box::into_raw(Box::new(boot)), Ordering::Relaxed);
    if thread::spawn(main_thread, 0, thread::NORMAL, stack).is_none() {
        give_up(format_args!("not enough memory for the main thread"));
    }
    arch::interrupts_restore(true);
    preempt::set(1);
    thread::leave_boot()
}

/// Brings up everything else. By the main thread, because bringing a card up takes more stack than boot code should
/// have, and before the program, so that the first thing it does may be to use the network.
fn bring_up(boot: &BootInformation) -> Program {
    let _guard = preempt::disable();
    let arguments = Arguments::parse(boot.command_line);
    if let Some(level) = arguments.loglevel {
        logging::set_console_level(level);
    }
    if let Some(seconds) = arguments.panic {
        panic::set_policy(seconds);
    }
    for unknown in &arguments.unknown {
        log::warn!("boot argument not understood, ignored: {unknown}");
    }
    if let Some(slot) = arguments.slot {
        log::info!("started from slot {slot}");
    }
    time::initialize();
    descriptor::initialize();
    files::initialize(boot.initrd);
    console::initialize();
    net::initialize(&arguments);
    devices::discover(boot);
    watchdog::begin(arguments.watchdog);
    net::configured(&arguments);
    trial::initialize(boot, &arguments);
    syslog::initialize(arguments.syslog, arguments.hostname.unwrap_or("trireme"));
    #[cfg(feature = "console")]
    if !arguments.shell_off {
        crate::shell::start(arguments.hostname.unwrap_or("trireme"));
    }
    // Seeds the generator now if nothing has needed it yet: `HashMap` will.
    entropy::fill(&mut [0; 1]);
    program(&arguments)
}

fn strings<'a>(list: impl Iterator<Item = &'a str>) -> Vec<*const c_char> {
    list.filter_map(|text| CString::new(text).ok())
        .map(|text| text.into_raw().cast_const())
        .chain([core::ptr::null()])
        .collect()
}

fn program(arguments: &Arguments<'_>) -> Program {
    let list = strings(core::iter::once("appliance").chain(arguments.program.iter().copied()));
    Program {
        argument_count: list.len() as i32 - 1,
        arguments: list,
        environment: strings(arguments.environment.iter().copied()),
    }
}

extern "C" fn main_thread(_: usize) {
    thread::set_name("main");
    // SAFETY: `start` stored it before it spawned this thread, and nobody frees it.
    let boot = unsafe { &*BOOT.load(Ordering::Relaxed) };
    let program = bring_up(boot);
    // SAFETY: the lists end in null as `runtime_entry` wants, and are never freed: it does not return.
    unsafe {
        runtime_entry(
            program.argument_count,
            program.arguments.as_ptr(),
            program.environment.as_ptr(),
        )
    }
}
