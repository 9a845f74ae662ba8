//! The boot arguments. Pure logic.
//!
//! Words separated by spaces; `"` keeps spaces together. Quotes around a whole word or a whole value are
//! taken off, but for `env.`, where the whole word has to be quoted: `"env.MOTD=hello world"`. `--` ends what the
//! kernel reads: the rest are the program's arguments.

use alloc::vec::Vec;

/// What was asked for. Words are slices of the boot argument string.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Arguments<'a> {
    /// `ip=`, once per interface at most, in the syntax of Linux's "nfsroot" documentation.
    pub ip: Vec<&'a str>,
    /// `vlan=NAME:CARD`, as dracut has it, once per interface.
    pub vlan: Vec<&'a str>,
    /// `ntp=`: servers, comma-separated.
    pub ntp: Option<&'a str>,
    /// `hostname=`.
    pub hostname: Option<&'a str>,
    /// `panic=`, seconds to reset; 0 stays, negative resets at once.
    pub panic: Option<i32>,
    /// `loglevel=`, 0 to 8.
    pub loglevel: Option<u8>,
    /// `console=`: kept for the architecture to compare with what it has.
    pub console: Option<&'a str>,
    /// `env.NAME=VALUE`, less the `env.`.
    pub environment: Vec<&'a str>,
    /// What follows `--`.
    pub program: Vec<&'a str>,
    /// `virtio_mmio.device=SIZE@BASE:IRQ[:ID]`, as Linux has it.
    pub virtio_mmio: Vec<&'a str>,
    /// `rhine.tx-checksumming=`: `off`, `on`, `auto` or `auto:BYTES`.
    pub rhine_tx: Option<&'a str>,
    /// `rhine.wol=`: `g`, wake the machine for a magic packet, or `d`.
    pub rhine_wol: Option<&'a str>,
    /// `uboot.slot=`, `grub.slot=`: which of its two slots the boot loader took the image from; for people.
    pub slot: Option<&'a str>,
    /// `uboot.env=ADDRESS:SIZE`: where U-Boot keeps its environment in flash.
    pub uboot_environment: Option<&'a str>,
    /// `grub.cmos=BYTE:BIT`: where GRUB looks whether the image was marked good.
    pub grub_cmos: Option<&'a str>,
    /// `uboot.good=`, `grub.good=`: seconds after which the image is marked good.
    pub good: Option<u32>,
    /// `ethN.FEATURE=on|off`, in this order.
    pub settings: Vec<Setting<'a>>,
    /// `console.shell=off`: what is typed is for the program alone.
    pub shell_off: bool,
    /// `syslog=HOST[:PORT]`.
    pub syslog: Option<&'a str>,
    /// `watchdog=`: seconds without a sign of life after which the machine is reset; 0: as if not given.
    pub watchdog: Option<u32>,
    /// Words not understood, values that do not parse among them.
    pub unknown: Vec<&'a str>,
}

/// `ethN.NAME=VALUE`: a feature or private flag of one card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting<'a> {
    /// `ethN`.
    pub card: &'a str,
    /// Name of the feature, long or short, or of a private flag.
    pub name: &'a str,
    /// `on` or `off`, if it is right.
    pub value: &'a str,
}

impl<'a> Arguments<'a> {
    /// Parses; never fails, see [`unknown`](Self::unknown).
    pub fn parse(line: &'a str) -> Arguments<'a> {
        let mut arguments = Arguments::default();
        let mut words = Words(line);
        while let Some(word) = words.next() {
            if word == "--" {
                arguments.program = words.map(unquoted).collect();
                break;
            }
            if !arguments.take(word) {
                arguments.unknown.push(word);
            }
        }
        arguments
    }

    /// False: not understood.
    fn take(&mut self, word: &'a str) -> bool {
        if let Some(pair) = unquoted(word).strip_prefix("env.") {
            // A name must not be empty.
            let good = pair.find('=').is_some_and(|at| at > 0);
            if good {
                self.environment.push(unquoted(pair));
            }
            return good;
        }
        let Some((name, value)) = word.split_once('=') else { return false };
        let value = unquoted(value);
        if let Some((card, name)) = name.split_once('.')
            && card.strip_prefix("eth").is_some_and(|number| number.parse::<u16>().is_ok())
        {
            self.settings.push(Setting { card, name, value });
            return true;
        }
        match name {
            "ip" => self.ip.push(value),
            "vlan" => self.vlan.push(value),
            "ntp" => self.ntp = Some(value),
            "hostname" => self.hostname = Some(value),
            "console" => self.console = Some(value),
            "rhine.wol" => self.rhine_wol = Some(value),
            "console.shell" => match value {
                "on" | "off" => self.shell_off = value == "off",
                _ => return false,
            },
            "syslog" => self.syslog = Some(value),
            "rhine.tx-checksumming" => self.rhine_tx = Some(value),
            "watchdog" => match value.parse() {
                Ok(seconds) => self.watchdog = Some(seconds),
                Err(_) => return false,
            },
            "uboot.slot" | "grub.slot" => self.slot = Some(value),
            "grub.cmos" => self.grub_cmos = Some(value),
            "uboot.env" => self.uboot_environment = Some(value),
            "uboot.good" | "grub.good" => match value.parse() {
                Ok(seconds) => self.good = Some(seconds),
                Err(_) => return false,
            },
            "virtio_mmio.device" => self.virtio_mmio.push(value),
            "panic" => match value.parse() {
                Ok(seconds) => self.panic = Some(seconds),
                Err(_) => return false,
            },
            "loglevel" => match value.parse() {
                Ok(level) => self.loglevel = Some(level),
                Err(_) => return false,
            },
            _ => return false,
        }
        true
    }
}

/// Without the quotes, if the whole of it is quoted.
fn unquoted(text: &str) -> &str {
    text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(text)
}

/// Splits at spaces outside quotes.
struct Words<'a>(&'a str);

impl<'a> Iterator for Words<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let text = self.0.trim_start_matches(is_space);
        if text.is_empty() {
            self.0 = text;
            return None;
        }
        let mut quoted = false;
        let end = text.find(|c| {
            quoted ^= c == '"';
            !quoted && is_space(c)
        });
        let (word, rest) = text.split_at(end.unwrap_or(text.len()));
        self.0 = rest;
        Some(word)
    }
}

fn is_space(c: char) -> bool {
    c.is_ascii_whitespace() || c == '\0'
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn understands_what_the_manual_lists() {
        let line = "console=ttyS0 ip=10.0.2.15::10.0.2.2:255.255.255.0 ip=dhcp ntp=pool.ntp.org \
                    hostname=web panic=-1 loglevel=7 uboot.slot=b uboot.env=0x4000000:0x40000 grub.cmos=111:0 \
                    uboot.good=60 watchdog=30 vlan=eth0.5:eth0 env.RUST_BACKTRACE=1 -- --port 80";
        let arguments = Arguments::parse(line);
        assert_eq!(
            arguments,
            Arguments {
                ip: vec!["10.0.2.15::10.0.2.2:255.255.255.0", "dhcp"],
                vlan: vec!["eth0.5:eth0"],
                ntp: Some("pool.ntp.org"),
                hostname: Some("web"),
                panic: Some(-1),
                loglevel: Some(7),
                console: Some("ttyS0"),
                environment: vec!["RUST_BACKTRACE=1"],
                program: vec!["--port", "80"],
                virtio_mmio: vec![],
                rhine_tx: None,
                rhine_wol: None,
                slot: Some("b"),
                uboot_environment: Some("0x4000000:0x40000"),
                grub_cmos: Some("111:0"),
                good: Some(60),
                settings: vec![],
                shell_off: false,
                syslog: None,
                watchdog: Some(30),
                unknown: vec![],
            }
        );
    }

    #[test]
    fn a_card_is_told_who_makes_its_checksums() {
        let arguments = Arguments::parse("rhine.tx-checksumming=auto:600 rhine.wol=g");
        assert_eq!((arguments.rhine_tx, &*arguments.unknown), (Some("auto:600"), &[][..]));
        assert_eq!(arguments.rhine_wol, Some("g"));
    }

    #[test]
    fn features_are_kept_for_their_card() {
        let line = "eth0.tx-checksumming=off eth12.tso=on eth.rx=on ethx.rx=on eth0.rx";
        let arguments = Arguments::parse(line);
        assert_eq!(
            arguments.settings,
            [
                Setting { card: "eth0", name: "tx-checksumming", value: "off" },
                Setting { card: "eth12", name: "tso", value: "on" },
            ]
        );
        assert_eq!(arguments.unknown, ["eth.rx=on", "ethx.rx=on", "eth0.rx"]);
    }

    #[test]
    fn the_console_can_be_closed_and_messages_sent_elsewhere() {
        let arguments = Arguments::parse("console.shell=off syslog=[2001:db8::1]:5514");
        assert!(arguments.shell_off);
        assert_eq!(arguments.syslog, Some("[2001:db8::1]:5514"));
        assert_eq!(Arguments::parse("console.shell=no").unknown, ["console.shell=no"]);
    }

    #[test]
    fn quotes_keep_spaces() {
        let arguments = Arguments::parse(r#"env.MOTD="hello world" -- "one two" three"#);
        assert_eq!(arguments.environment, [r#"MOTD="hello world""#]);
        assert_eq!(arguments.program, ["one two", "three"]);
        let arguments = Arguments::parse(r#""env.MOTD=hello world""#);
        assert_eq!(arguments.environment, ["MOTD=hello world"]);
    }

    #[test]
    fn what_is_not_understood_is_kept_not_obeyed() {
        let arguments = Arguments::parse("quiet panic=soon loglevel=-1 env.=x env.y ro=");
        assert_eq!(
            arguments.unknown,
            ["quiet", "panic=soon", "loglevel=-1", "env.=x", "env.y", "ro="]
        );
        assert_eq!(arguments.panic, None);
    }

    #[test]
    fn empty_and_blank_lines_ask_for_nothing() {
        for line in ["", "   ", "\0\0", "--", "-- "] {
            assert_eq!(Arguments::parse(line), Arguments::default());
        }
    }

    proptest! {
        #[test]
        fn never_panics_and_loses_no_word(line in "[ -~]{0,80}") {
            let arguments = Arguments::parse(&line);
            let words = Words(&line).count();
            let kept = arguments.ip.len() + arguments.environment.len() + arguments.program.len()
                + arguments.unknown.len() + arguments.virtio_mmio.len() + arguments.vlan.len()
                + arguments.settings.len();
            prop_assert!(kept <= words);
        }
    }
}
