//! `ethtool`: what a card is, does and counts, in ethtool's layout.
//!
//! Writing to a string cannot fail, so results of `write!` are dropped throughout.

use alloc::format;
use alloc::string::{String, ToString};
use core::fmt::Write;

use trireme_nic::{Feature, FeatureError, Nic};

use super::ip::mac;
use crate::net::{self, SettingError};

const BAD: &str = "ethtool: bad command line argument(s)\nFor more information run ethtool -h\n";
const NO_DEVICE: &str = "netlink error: No such device\n";
const NOT_SUPPORTED: &str = "netlink error: Operation not supported\n";

const HELP: &str = "\
Usage:
        ethtool ethN                    link
        ethtool -i|--driver ethN        driver
        ethtool -k|--show-features ethN features
        ethtool -K|--features ethN FEATURE on|off ...
        ethtool -S|--statistics ethN    counters of card and offload layer
        ethtool -a|--show-pause ethN    flow control
        ethtool -P|--show-permaddr ethN address
        ethtool -T|--show-time-stamping ethN
        ethtool -s|--change ethN wol g|d
        ethtool --show-priv-flags ethN
        ethtool --set-priv-flags ethN FLAG on|off ...
";

/// `ethtool`.
pub fn run(words: &[&str], out: &mut String) -> Result<(), String> {
    match words {
        ["-h" | "--help"] => {
            out.push_str(HELP);
            Ok(())
        }
        ["-K" | "--features" | "--offload", card, rest @ ..] => set_features(card, rest, out),
        ["--set-priv-flags", card, rest @ ..] => set_private_flags(card, rest),
        ["-s" | "--change", card, "wol", how @ ("g" | "d")] => {
            match on_card(card, |nic| nic.set_wake_on_lan(*how == "g"))? {
                true => Ok(()),
                false => Err(NOT_SUPPORTED.to_string()),
            }
        }
        ["-i" | "--driver", card] => on_card(card, |nic| driver(nic, out)),
        ["-k" | "--show-features" | "--show-offload", card] => {
            let _ = writeln!(out, "Features for {card}:");
            on_card(card, |nic| features(nic, out)).inspect_err(|_| out.clear())
        }
        ["-S" | "--statistics", card] => counters(card, out),
        ["-a" | "--show-pause", card] => on_card(card, |nic| pause(card, nic, out))?,
        ["-T" | "--show-time-stamping", card] => {
            let _ = writeln!(out, "Time stamping parameters for {card}:");
            on_card(card, |nic| timestamping(nic, out)).inspect_err(|_| out.clear())
        }
        ["-P" | "--show-permaddr", card] => on_card(card, |nic| {
            let _ = writeln!(out, "Permanent address: {}", mac(nic.mac_address()));
        }),
        // Sizes of rings are not in the contract with drivers.
        ["-g" | "--show-ring", card] => on_card(card, |_| Err(NOT_SUPPORTED.to_string()))?,
        ["--show-priv-flags", card] => {
            let _ = writeln!(out, "Private flags for {card}:");
            let show = |nic: &mut dyn Nic| {
                let mut any = false;
                nic.private_flags(&mut |flag, on| {
                    any = true;
                    let _ = writeln!(out, "{flag:18}: {}", on_off(on));
                });
                any
            };
            match on_card(card, show) {
                Ok(true) => Ok(()),
                Ok(false) => {
                    out.clear();
                    Err("no private flags defined\n".to_string())
                }
                Err(error) => {
                    out.clear();
                    Err(error)
                }
            }
        }
        [card] if !card.starts_with('-') => {
            let _ = writeln!(out, "Settings for {card}:");
            on_card(card, |nic| link(nic, out)).inspect_err(|_| out.clear())
        }
        _ => Err(BAD.to_string()),
    }
}

fn on_off(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

/// Runs `show` on the card, or the VLAN over one, with this name.
fn on_card<R>(card: &str, show: impl FnOnce(&mut dyn Nic) -> R) -> Result<R, String> {
    net::with_stack(|stack, _| match stack.find(card).and_then(|number| stack.nic_mut(number)) {
        Some(nic) => Ok(show(nic)),
        None => Err(NO_DEVICE.to_string()),
    })
}

fn link(nic: &mut dyn Nic, out: &mut String) {
    let link = nic.link();
    if link.up && link.speed_mbps != 0 {
        let duplex = if link.full_duplex { "Full" } else { "Half" };
        let _ = writeln!(out, "\tSpeed: {}Mb/s\n\tDuplex: {duplex}", link.speed_mbps);
    } else {
        out.push_str("\tSpeed: Unknown!\n\tDuplex: Unknown! (255)\n");
    }
    if let Some(wakes) = nic.wake_on_lan() {
        let _ =
            writeln!(out, "\tSupports Wake-on: g\n\tWake-on: {}", if wakes { 'g' } else { 'd' });
    }
    let _ = writeln!(out, "\tLink detected: {}", if link.up { "yes" } else { "no" });
}

fn driver(nic: &mut dyn Nic, out: &mut String) {
    let info = nic.driver_info();
    let mut flags = false;
    nic.private_flags(&mut |_, _| flags = true);
    let _ = writeln!(out, "driver: {}\nversion: {}", info.driver, env!("CARGO_PKG_VERSION"));
    let _ = writeln!(out, "chip: {}\nsupports-statistics: yes", info.chip);
    let _ = writeln!(out, "supports-priv-flags: {}", if flags { "yes" } else { "no" });
}

fn timestamping(nic: &mut dyn Nic, out: &mut String) {
    let Some(clock) = nic.ptp() else {
        out.push_str("PTP Hardware Clock: none\n");
        return;
    };
    out.push_str("Capabilities:\n");
    for can in ["hardware-transmit", "hardware-receive", "hardware-raw-clock"] {
        let _ = writeln!(out, "\t{can}");
    }
    let _ = match clock.now() {
        Ok(now) => writeln!(out, "PTP Hardware Clock: {}.{:09} s", now.seconds, now.nanoseconds),
        Err(error) => writeln!(out, "PTP Hardware Clock: {error}"),
    };
    out.push_str("Hardware Transmit Timestamp Modes: ptp messages of programs\n");
    out.push_str("Hardware Receive Filter Modes: all\n");
}

fn features(nic: &mut dyn Nic, out: &mut String) {
    for feature in Feature::ALL {
        let state = nic.feature(feature);
        // Listed below the feature it is a part of there.
        let tab = if feature == Feature::Tcp6Segmentation { "\t" } else { "" };
        let fixed = if state.fixed { " [fixed]" } else { "" };
        let _ = writeln!(out, "{tab}{}: {}{fixed}", feature.name(), on_off(state.on));
    }
}

fn counters(card: &str, out: &mut String) -> Result<(), String> {
    out.push_str("NIC statistics:\n");
    on_card(card, |nic| {
        nic.statistics(&mut |name, value| {
            let _ = writeln!(out, "     {name}: {value}");
        });
    })
    .inspect_err(|_| out.clear())?;
    net::look(|stack| {
        if let Some(number) = stack.find(card) {
            stack.offload_statistics(number, &mut |name, value| {
                let _ = writeln!(out, "     {name}: {value}");
            });
        }
    });
    Ok(())
}

fn pause(card: &str, nic: &mut dyn Nic, out: &mut String) -> Result<(), String> {
    let pause = nic.pause().ok_or(NOT_SUPPORTED)?;
    let (auto, rx, tx) = (on_off(pause.autonegotiate), on_off(pause.rx), on_off(pause.tx));
    let _ = writeln!(
        out,
        "Pause parameters for {card}:\nAutonegotiate:\t{auto}\nRX:\t\t{rx}\nTX:\t\t{tx}"
    );
    Ok(())
}

/// `ethtool -K ethN FEATURE on|off …`: all or, if one of the words is wrong, none.
fn set_features(card: &str, words: &[&str], out: &mut String) -> Result<(), String> {
    let wrong = |pair: &[&str]| Feature::by_name(pair[0]).is_none() || net::on(pair[1]).is_err();
    if words.is_empty() || !words.len().is_multiple_of(2) || words.chunks_exact(2).any(wrong) {
        return Err(BAD.to_string());
    }
    on_card(card, |nic| {
        for pair in words.chunks_exact(2) {
            let name = Feature::by_name(pair[0]).map_or(pair[0], |feature| feature.name());
            let _ = match net::set_feature(nic, pair[0], pair[1]) {
                Ok(()) => Ok(()),
                Err(SettingError::Refused(FeatureError::Fixed)) => {
                    writeln!(out, "Cannot change {name}")
                }
                Err(error) => writeln!(out, "Cannot change {name}: {error}"),
            };
        }
    })
}

fn set_private_flags(card: &str, words: &[&str]) -> Result<(), String> {
    if words.is_empty() || !words.len().is_multiple_of(2) {
        return Err(BAD.to_string());
    }
    on_card(card, |nic| {
        for pair in words.chunks_exact(2) {
            let on = net::on(pair[1]).map_err(|_| BAD.to_string())?;
            if !nic.set_private_flag(pair[0], on) {
                return Err(format!("ethtool: no private flag \"{}\" to set on {card}\n", pair[0]));
            }
        }
        Ok(())
    })?
}
