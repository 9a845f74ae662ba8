//! The shell's thread: reads lines, runs commands.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::line::{Editor, Outcome};
use super::{ethtool, ip, ping, ss, system};
use crate::{console, net, power, preempt, thread, uboot, watchdog};

const HELP: &str = "\
ip [-4|-6] addr | route | neigh     addresses, routes, neighbours
ip [-s] link                        interfaces, with counters
ping [-4|-6] [-c N] [-i S] HOST     echo requests (also -s BYTES, -W S, -w S, -t TTL, -q, -I ethN); Ctrl-C ends it
ss [-tulanmsH46]                    sockets
ethtool [-i|-k|-S|-a|-P|-T] ethN    link; driver, features, counters, flow control, address, timestamps
ethtool -s ethN wol g|d             wake the machine for a magic packet, or not
ethtool -K ethN FEATURE on|off ...  switch features (rx, tx, sg, tso, tx-tcp6-segmentation, lro)
ethtool --show-priv-flags ethN | --set-priv-flags ethN FLAG on|off
wdctl                               the watchdog
fw_printenv [NAME]                  U-Boot's environment
fw_setenv NAME [VALUE]              change it, or remove a variable
nstat | ps | free [-bkmgh] | uptime | date | dmesg
reboot | poweroff
Lines are edited as in Emacs; the arrows fetch earlier ones.
";

const CTRL_C: u8 = 3;

/// Starts the shell's thread. `hostname` is in its prompt.
pub fn start(hostname: &str) {
    let prompt = Box::new(format!("{hostname}# "));
    // A shell that cannot be had for lack of memory is no reason to stop.
    if thread::spawn(run, Box::into_raw(prompt) as usize, thread::NORMAL, 0).is_none() {
        log::warn!("console: no memory for commands");
    }
}

extern "C" fn run(prompt: usize) {
    thread::set_name("console");
    // SAFETY: `start` leaked it for this thread alone.
    let prompt = unsafe { Box::from_raw(prompt as *mut String) };
    let mut editor = Editor::new(&prompt);
    drop(prompt);
    // Somebody is there: a prompt is shown.
    let mut attended = false;
    let mut out = Vec::new();
    loop {
        {
            let _guard = preempt::disable();
            let redraw = || attended && console::is_wiped();
            while !console::is_claimed() && !console::has_input() && !redraw() {
                if console::readers().wait(false, None).is_none() {
                    return;
                }
            }
        }
        if console::is_claimed() {
            let _guard = preempt::disable();
            console::end_edited();
            return;
        }
        let mut outcome = Outcome::Editing;
        while outcome == Outcome::Editing
            && let Some(byte) = console::take_byte()
        {
            attended = true;
            // When a line ends, all of it is to be on the screen.
            if matches!(byte, b'\r' | b'\n' | CTRL_C) {
                show(&mut editor, &mut out);
            }
            outcome = editor.byte(byte);
        }
        if outcome == Outcome::Interrupted {
            let _guard = preempt::disable();
            console::write_edited(b"^C");
        }
        if outcome != Outcome::Editing {
            let _guard = preempt::disable();
            console::end_edited();
        }
        match outcome {
            Outcome::Line(line) => command(&line),
            Outcome::EndOfFile => attended = false,
            Outcome::Interrupted | Outcome::Editing => {}
        }
        if attended && !console::is_claimed() {
            show(&mut editor, &mut out);
        }
    }
}

/// Brings the line on the screen up to date.
fn show(editor: &mut Editor, out: &mut Vec<u8>) {
    let _guard = preempt::disable();
    out.clear();
    editor.draw(console::is_edited(), out);
    console::write_edited(out);
}

/// Prints what a command says, line by line, so that nothing waits for a slow port longer than that.
pub fn print(text: &str) {
    for line in text.split_inclusive('\n') {
        let _guard = preempt::disable();
        console::write(line.as_bytes());
    }
}

/// Runs a line.
fn command(line: &str) {
    let words: Vec<&str> = line.split_whitespace().collect();
    let Some((name, rest)) = words.split_first() else { return };
    let mut out = String::new();
    let result = match *name {
        "help" | "?" => {
            out.push_str(HELP);
            Ok(())
        }
        "ip" => ip::run(rest, &mut out),
        "ping" => ping::run(rest),
        "ss" => ss::run(rest, &mut out),
        "ethtool" => ethtool::run(rest, &mut out),
        "nstat" => system::nstat(rest, &mut out),
        "ps" => system::ps(rest, &mut out),
        "free" => system::free(rest, &mut out),
        "uptime" => system::uptime(rest, &mut out),
        "date" => system::date(rest, &mut out),
        "dmesg" => system::dmesg(rest, &mut out),
        "wdctl" if rest.is_empty() => {
            watchdog::show(&mut out);
            Ok(())
        }
        "fw_printenv" | "fw_setenv" => firmware(name, rest, &mut out),
        "reboot" if rest.is_empty() => {
            net::drain();
            power::reboot()
        }
        "poweroff" | "halt" if rest.is_empty() => {
            net::drain();
            power::off(0)
        }
        "reboot" | "poweroff" | "halt" => {
            Err(format!("{name}: unexpected argument '{}'\n", rest[0]))
        }
        _ => Err(format!("{name}: command not found; help lists those there are\n")),
    };
    print(&out);
    if let Err(error) = result {
        print(&error);
    }
}

/// U-Boot's environment, as its `fw_printenv` and `fw_setenv` show and change it.
fn firmware(command: &str, words: &[&str], out: &mut String) -> Result<(), String> {
    match (command, words) {
        ("fw_printenv", []) => uboot::show(None, out),
        ("fw_printenv", [name]) => uboot::show(Some(name), out),
        ("fw_setenv", [name, words @ ..]) => {
            let value = (!words.is_empty()).then(|| words.join(" "));
            uboot::set(name, value.as_deref()).map_err(|why| format!("{why}\n"))?;
        }
        _ => return Err(format!("Usage: {command} NAME ...\n")),
    }
    Ok(())
}
