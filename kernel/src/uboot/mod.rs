//! What an appliance tells the U-Boot that started it: that this image is good.
//!
//! U-Boot's script counts the boots of an image on trial (`upgrade_available=1`) and goes back to the other slot when
//! `bootcount` passes `bootlimit`. An image that works ends its trial by [`mark_good`], which changes these variables in U-Boot's
//! environment. That is possible where the environment is in memory-mapped NOR flash; the boot argument
//! `uboot.env=ADDRESS:SIZE` says where, and the device tree has to have a `cfi-flash` there. docs/boards/update.md has the
//! whole story.

mod cfi;
mod environment;

#[cfg(target_os = "hermit")]
mod flash;

#[cfg(target_os = "hermit")]
pub use flash::{Error, initialize, mark_good, set, show};

/// `uboot.env=ADDRESS:SIZE`, both in bytes, hexadecimal with `0x`.
pub(crate) fn parse_place(text: &str) -> Option<core::ops::Range<u64>> {
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    let (start, size) = text.split_once(':')?;
    let (start, size) = (number(start)?, number(size)?);
    // The largest there are have 256 KiB; this much is read to memory.
    let fits = (8..=1 << 20).contains(&size) && size.is_multiple_of(4) && start.is_multiple_of(4);
    fits.then_some(start..start.checked_add(size)?)
}

#[cfg(test)]
mod tests {
    use super::parse_place;

    #[test]
    fn place_is_an_address_and_a_size() {
        assert_eq!(parse_place("0x4000000:0x40000"), Some(0x400_0000..0x404_0000));
        assert_eq!(parse_place("4096:64"), Some(4096..4160));
        for wrong in
            ["", "0x4000000", "0x4000001:64", "0:0", "0:0x7fffffff", "0xfffffffffffffffc:64", "a:b"]
        {
            assert_eq!(parse_place(wrong), None, "{wrong}");
        }
    }
}
