//! A bit in a PC's CMOS memory, which keeps it over resets and without power: there GRUB's `cmostest` finds whether the image it
//! booted was marked good. `grub.cmos=BYTE:BIT` says which, as GRUB's own commands are told.
//!
//! Byte n of this memory is reached by writing n to port 70h and then reading or writing port 71h. Those from 14 up are not the
//! clock's. [Motorola MC146818A, "Address map"; bit 7 of port 70h masks the NMI on PCs]

/// The clock's own registers are below, and there are 128 bytes.
const FREE: core::ops::Range<u8> = 14..128;

/// `BYTE:BIT`.
fn parse(text: &str) -> Option<(u8, u8)> {
    let (byte, bit) = text.split_once(':')?;
    let (byte, bit) = (byte.parse().ok()?, bit.parse().ok()?);
    (FREE.contains(&byte) && bit < 8).then_some((byte, bit))
}

#[cfg(target_os = "hermit")]
pub use machine::{initialize, mark};

#[cfg(target_os = "hermit")]
mod machine {
    use core::sync::atomic::{AtomicU32, Ordering};

    use x86_64::instructions::port::Port;

    use crate::arch;
    use crate::arguments::Arguments;

    /// Byte and bit, 256 times the one and the other; 0: none, for byte 0 is the clock's.
    static PLACE: AtomicU32 = AtomicU32::new(0);

    /// Takes the place from the boot arguments.
    pub fn initialize(arguments: &Arguments<'_>) {
        let Some(text) = arguments.grub_cmos else { return };
        match super::parse(text) {
            Some((byte, bit)) => {
                PLACE.store(u32::from(byte) << 8 | u32::from(bit), Ordering::Relaxed);
            }
            None => log::warn!("boot argument not understood: grub.cmos={text}"),
        }
    }

    /// Sets the bit; whether it was clear. `None`: nobody said where.
    pub fn mark() -> Option<bool> {
        let place = PLACE.load(Ordering::Relaxed);
        if place == 0 {
            return None;
        }
        let (byte, mask) = ((place >> 8) as u8, 1u8 << (place & 7));
        // The clock is read through the same two ports.
        let enabled = arch::interrupts_disable();
        // SAFETY: selects a byte that is not the clock's and changes one bit of it; the port is selected anew by whoever is next.
        let old = unsafe {
            Port::<u8>::new(0x70).write(byte);
            let old: u8 = Port::new(0x71).read();
            Port::<u8>::new(0x70).write(byte);
            Port::<u8>::new(0x71).write(old | mask);
            old
        };
        arch::interrupts_restore(enabled);
        Some(old & mask == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn place_is_a_free_byte_and_a_bit() {
        assert_eq!(parse("111:0"), Some((111, 0)));
        assert_eq!(parse("14:7"), Some((14, 7)));
        for wrong in ["", "111", "111:8", "13:0", "128:0", "0:0", "a:b", "111:0:1", "300:1"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
