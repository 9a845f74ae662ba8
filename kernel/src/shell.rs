//! Commands on the console, for looking into a running appliance by the names people know.
//!
//! The keyboard belongs to the program as soon as it reads standard input; until then, lines typed are commands.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;

use crate::{console, interrupt, logging, memory, net, power, preempt, thread, time, uboot};

/// Longest line; more is dropped.
const LINE: usize = 200;

const HELP: &str = "\
ip addr | ip route | ip neigh       addresses, routers, neighbours
ss                                  sockets
ethtool ethN | -i | -k | -S ethN    link, driver, features, counters
ethtool -a ethN                     flow control
ethtool -s ethN wol g|d             wake the machine for a magic packet, or not
ethtool -K ethN FEATURE on|off      switch a feature (rx, tx, sg, tso, lro, ...)
ethtool --show-priv-flags ethN | --set-priv-flags ethN FLAG on|off
nstat                               counters of the network stack
fw_printenv [NAME]                  U-Boot's environment
fw_setenv NAME [VALUE]              change it, or remove a variable
free | uptime | dmesg | date        memory, time, kernel messages
reboot | poweroff
";

/// Starts the shell's thread.
pub fn start() {
    // A shell that cannot be had for lack of memory is no reason to stop.
    if thread::spawn(run, 0, thread::NORMAL, 0).is_none() {
        log::warn!("console: no memory for commands");
    }
}

extern "C" fn run(_: usize) {
    let mut line = String::new();
    loop {
        let mut byte = [0];
        {
            let _guard = preempt::disable();
            while !console::is_claimed() && console::take_input(&mut byte) == 0 {
                if console::readers().wait(false, None).is_none() {
                    return;
                }
            }
        }
        if console::is_claimed() {
            return;
        }
        match byte[0] {
            b'\n' => {
                console::write(b"\n");
                let mut out = String::new();
                command(&line, &mut out);
                console::write(out.as_bytes());
                line.clear();
            }
            // Backspace and delete.
            8 | 127 if line.pop().is_some() => console::write(b"\x08 \x08"),
            byte @ 0x20..0x7f if line.len() < LINE => {
                console::write(&[byte]);
                line.push(char::from(byte));
            }
            _ => {}
        }
    }
}

/// Runs a line. Writing to a string cannot fail, so results of `write!` are dropped throughout.
fn command(line: &str, out: &mut String) {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    match words.as_slice() {
        [] => {}
        ["help" | "?"] => out.push_str(HELP),
        ["ip", "a" | "addr" | "address", ..] => net::show_addresses(out),
        ["ip", "r" | "route", ..] => net::show_routes(out),
        ["ip", "n" | "neigh" | "neighbour", ..] => net::show_neighbours(out),
        ["ss", ..] => net::show_sockets(out),
        ["nstat", ..] => net::show_statistics(out),
        ["ethtool", "-K", card, rest @ ..] => net::set_features(card, rest, out),
        ["ethtool", "-k", card] => net::show_features(card, out),
        ["ethtool", "--show-priv-flags", card] => net::show_private_flags(card, out),
        ["ethtool", "--set-priv-flags", card, flag, on @ ("on" | "off")] => {
            net::set_private_flag(card, flag, *on == "on", out);
        }
        ["ethtool", "-S", card] => net::show_counters(card, out),
        ["ethtool", "-i", card] => net::show_driver(card, out),
        ["ethtool", "-a", card] => net::show_pause(card, out),
        ["ethtool", "-s", card, "wol", how @ ("g" | "d")] => {
            net::set_wake_on_lan(card, *how == "g", out);
        }
        ["ethtool", card] => net::show_link(card, out),
        ["fw_printenv"] => uboot::show(None, out),
        ["fw_printenv", name] => uboot::show(Some(name), out),
        ["fw_setenv", name, words @ ..] => {
            let value = (!words.is_empty()).then(|| words.join(" "));
            if let Err(why) = uboot::set(name, value.as_deref()) {
                let _ = writeln!(out, "{why}");
            }
        }
        ["free"] => {
            let (total, used) = (memory::total() / 1024, memory::used() / 1024);
            let _ = writeln!(out, "total {total} KiB, used {used} KiB, free {} KiB", total - used);
        }
        ["uptime"] => {
            let seconds = time::monotonic_ns() / 1_000_000_000;
            let (switches, stray) = (thread::switches(), interrupt::stray());
            let _ = writeln!(out, "up {seconds} s, {switches} switches, {stray} stray interrupts");
        }
        ["date"] => {
            let _ = writeln!(out, "{} s since 1970-01-01 UTC", time::wall_ns() / 1_000_000_000);
        }
        ["dmesg"] => logging::dmesg(&mut |part| out.push_str(&String::from_utf8_lossy(part))),
        ["reboot"] => power::reboot(),
        ["poweroff" | "halt"] => power::off(0),
        [unknown, ..] => {
            let _ = writeln!(out, "{unknown}: no such command; help lists them");
        }
    }
}
