//! virtio devices without a bus, as boot arguments name them: `virtio_mmio.device=SIZE@BASE:IRQ[:ID]`, in
//! the syntax of Linux's "kernel-parameters" documentation. QEMU's microvm adds one for each. Pure logic.

use core::ops::Range;

/// A device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Its registers.
    pub registers: Range<u64>,
    /// Its interrupt line.
    pub line: u32,
}

/// Reads the value of one argument. `None`: it does not parse.
pub fn parse(value: &str) -> Option<Device> {
    let (size, rest) = value.split_once('@')?;
    let mut rest = rest.split(':');
    let base = number(rest.next()?)?;
    let line = u32::try_from(number(rest.next()?)?).ok()?;
    // The identifier is for Linux's own bookkeeping.
    if let Some(identifier) = rest.next() {
        number(identifier)?;
    }
    let size = scaled(size)?;
    let end = base.checked_add(size)?;
    // Registers are words.
    (rest.next().is_none() && size != 0 && base != 0 && base.is_multiple_of(4))
        .then_some(Device { registers: base..end, line })
}

/// A size, with Linux's suffixes.
fn scaled(text: &str) -> Option<u64> {
    let shift = match text.as_bytes().last()? {
        b'K' | b'k' => 10,
        b'M' | b'm' => 20,
        b'G' | b'g' => 30,
        _ => return number(text),
    };
    number(&text[..text.len() - 1])?.checked_mul(1 << shift)
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        // `from_str_radix` takes a sign.
        Some(digits) if !digits.starts_with('+') => u64::from_str_radix(digits, 16).ok(),
        None if !text.starts_with('+') => text.parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_qemu_appends() {
        // hw/i386/microvm.c
        assert_eq!(
            parse("512@0xfeb00e00:12"),
            Some(Device { registers: 0xfeb0_0e00..0xfeb0_1000, line: 12 })
        );
    }

    #[test]
    fn what_linux_documents() {
        assert_eq!(
            parse("1K@0x100b0000:48:7"),
            Some(Device { registers: 0x100b_0000..0x100b_0400, line: 48 })
        );
        assert_eq!(parse("0x200@4096:1").unwrap().registers, 4096..4608);
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            "",
            "512",
            "512@",
            "512@0xfeb00000",
            "512@0xfeb00000:",
            "@0x1000:5",
            "0@0x1000:5",
            "512@0:5",
            "512@0x1000:5:",
            "512@0x1000:5:1:2",
            "512@0x1000:-5",
            "512@+0x1000:5",
            "512@0x+1000:5",
            "K@0x1000:5",
            "18446744073709551615@0x1000:5",
            "99999999999G@0x1000:5",
            "512@0x1000:4294967296",
            "512@0x1002:5",
            "é@0x1000:5",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
