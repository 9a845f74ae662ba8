//! Commands about the machine itself.
//!
//! Writing to a string cannot fail, so results of `write!` are dropped throughout.

use alloc::format;
use alloc::string::String;
use core::fmt::Write;

use super::words::{Item, getopt};
use crate::calendar::Civil;
use crate::{interrupt, logging, memory, net, syslog, thread, time};

/// For those that take no arguments.
fn no_more(name: &str, words: &[&str]) -> Result<(), String> {
    match getopt(name, words, "", "", &[])?.first() {
        Some(Item::Operand(word)) => Err(format!("{name}: unexpected argument '{word}'\n")),
        _ => Ok(()),
    }
}

/// `nstat`.
pub fn nstat(words: &[&str], out: &mut String) -> Result<(), String> {
    no_more("nstat", words)?;
    net::look(|stack| {
        stack.statistics().visit(&mut |name, value| {
            let _ = writeln!(out, "{name:31} {value:<18} 0.0");
        });
        stack.service_statistics(&mut |name, value| {
            let _ = writeln!(out, "{name:31} {value:<18} 0.0");
        });
    });
    let _ = writeln!(out, "{:31} {:<18} 0.0", "syslog_dropped", syslog::dropped());
    Ok(())
}

/// `ps`: the threads.
pub fn ps(words: &[&str], out: &mut String) -> Result<(), String> {
    // Whatever is wanted of processes, these are all there are. [BSD style `ps ax` has no hyphen]
    let dashed: alloc::vec::Vec<&str> =
        words.iter().copied().filter(|w| !matches!(*w, "a" | "x" | "ax" | "aux")).collect();
    for item in getopt("ps", &dashed, "", "Aefjl", &[])? {
        if let Item::Operand(word) = item {
            return Err(format!("ps: unexpected argument '{word}'\n"));
        }
    }
    out.push_str("       PID STAT PRI        TIME COMMAND\n");
    let threads = thread::list();
    for info in &threads {
        let state = if info.ready { 'R' } else { 'S' };
        let centiseconds = info.cpu_ns / 10_000_000;
        let (minutes, rest) = (centiseconds / 6000, centiseconds % 6000);
        let (seconds, hundredths) = (rest / 100, rest % 100);
        let (id, priority, name) = (info.id, info.priority, info.name);
        let _ = writeln!(
            out,
            "{id:10} {state}    {priority:3} {minutes:5}:{seconds:02}.{hundredths:02} {name}"
        );
    }
    let up = time::monotonic_ns().max(1);
    let permille = u128::from(thread::idle_ns()) * 1000 / u128::from(up);
    let _ = writeln!(out, "idle {}.{} % since boot", permille / 10, permille % 10);
    Ok(())
}

/// `free`.
pub fn free(words: &[&str], out: &mut String) -> Result<(), String> {
    // Bytes in the unit, and whether to choose it by size.
    let (mut unit, mut human) = (1024, false);
    let long = [("bytes", 'b'), ("kibi", 'k'), ("mebi", 'm'), ("gibi", 'g'), ("human", 'h')];
    for item in getopt("free", words, "", "bkmgh", &long)? {
        match item {
            Item::Option('b', _) => unit = 1,
            Item::Option('m', _) => unit = 1 << 20,
            Item::Option('g', _) => unit = 1 << 30,
            Item::Option('h', _) => human = true,
            Item::Option(..) => unit = 1024,
            Item::Operand(word) => return Err(format!("free: unexpected argument '{word}'\n")),
        }
    }
    let shown = |bytes: usize| match bytes {
        _ if !human => format!("{}", bytes / unit),
        0..0x10_0000 => format!("{}Ki", bytes >> 10),
        0x10_0000..0x4000_0000 => format!("{}.{}Mi", bytes >> 20, (bytes >> 10) % 1024 * 10 / 1024),
        _ => format!("{}.{}Gi", bytes >> 30, (bytes >> 20) % 1024 * 10 / 1024),
    };
    let (total, used) = (memory::total(), memory::used());
    let free = total.saturating_sub(used);
    let head = ["total", "used", "free", "shared", "buff/cache", "available"];
    let memory = [total, used, free, 0, 0, free];
    out.push_str("    ");
    head.iter().for_each(|name| {
        let _ = write!(out, " {name:>11}");
    });
    out.push_str("\nMem:");
    memory.iter().for_each(|bytes| {
        let _ = write!(out, " {:>11}", shown(*bytes));
    });
    out.push_str("\nSwap:          0           0           0\n");
    let (_, buffers, budget) = net::look(|stack| stack.usage());
    let _ = writeln!(out, "Of it for sockets: {} used, {} at most", shown(buffers), shown(budget));
    Ok(())
}

/// `uptime`.
pub fn uptime(words: &[&str], out: &mut String) -> Result<(), String> {
    no_more("uptime", words)?;
    let seconds = time::monotonic_ns() / 1_000_000_000;
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    let now = Civil::new(time::wall_ns() / 1_000_000_000);
    let _ = write!(out, " {:02}:{:02}:{:02} up ", now.hour, now.minute, now.second);
    if days > 0 {
        let _ = write!(out, "{days} day{}, ", if days == 1 { "" } else { "s" });
    }
    let (switches, stray) = (thread::switches(), interrupt::stray());
    let _ = writeln!(
        out,
        "{hours:2}:{minutes:02}, {seconds} s, {switches} switches, {stray} stray interrupts"
    );
    Ok(())
}

/// `date`.
pub fn date(words: &[&str], out: &mut String) -> Result<(), String> {
    for item in getopt("date", words, "", "u", &[("utc", 'u')])? {
        if let Item::Operand(word) = item {
            return Err(format!("date: invalid date '{word}'\n"));
        }
    }
    let now = Civil::new(time::wall_ns() / 1_000_000_000);
    let _ = writeln!(
        out,
        "{} {} {:2} {:02}:{:02}:{:02} UTC {}{}",
        now.weekday_name(),
        now.month_name(),
        now.day,
        now.hour,
        now.minute,
        now.second,
        now.year,
        if time::wall_at(0).is_none() { " (nobody has told the time yet)" } else { "" }
    );
    Ok(())
}

/// `dmesg`.
pub fn dmesg(words: &[&str], out: &mut String) -> Result<(), String> {
    no_more("dmesg", words)?;
    logging::dmesg(&mut |part| out.push_str(&String::from_utf8_lossy(part)));
    Ok(())
}
