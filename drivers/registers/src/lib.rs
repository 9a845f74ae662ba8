//! Typed registers: an offset, the value there, and the rule for touching it.
//!
//! The rule is part of the type, so that a call says what happens: `read`, `write`, `modify` on
//! [`Rw`]; `ack` on [`W1c`], whose plain write would be a mistake. No derive, no description
//! language. And [`wait_until`], for what a register says only after a while, and [`Error`], for when it never does.

#![no_std]
#![deny(unsafe_code)]

mod error;
mod wait;

use core::marker::PhantomData;
use trireme_nic::Registers;

pub use error::Error;
pub use wait::{Timeout, wait_in_steps, wait_until};

/// Reading has no effect, writing has none either.
pub enum Ro {}
/// Plain storage, or storage with effects on the device.
pub enum Rw {}
/// Only written.
pub enum Wo {}
/// Reads give pending bits; writing a one clears that bit.
pub enum W1c {}
/// Writing a one acts on that bit, writing a zero does nothing.
pub enum W1s {}

/// May be read without an effect.
pub trait Readable {}
impl Readable for Ro {}
impl Readable for Rw {}
impl Readable for W1c {}
impl Readable for W1s {}

/// May be written as a whole.
pub trait Writable {}
impl Writable for Rw {}
impl Writable for Wo {}

/// What a register holds: a word, or flags over one ([`value!`]).
pub trait Value: Copy {
    /// Reads it at an offset.
    fn load<R: Registers + ?Sized>(bar: &R, offset: usize) -> Self;
    /// Writes it at an offset.
    fn store<R: Registers + ?Sized>(self, bar: &R, offset: usize);
}

macro_rules! word {
    ($type:ty, $read:ident, $write:ident) => {
        impl Value for $type {
            fn load<R: Registers + ?Sized>(bar: &R, offset: usize) -> Self {
                bar.$read(offset)
            }
            fn store<R: Registers + ?Sized>(self, bar: &R, offset: usize) {
                bar.$write(offset, self);
            }
        }
    };
}

word!(u8, read8, write8);
word!(u16, read16, write16);
word!(u32, read32, write32);

/// Makes types of the crate `bitflags` register values; bits without a name survive.
#[macro_export]
macro_rules! value {
    ($($type:ty),* $(,)?) => {
        $(impl $crate::Value for $type {
            fn load<R: trireme_nic::Registers + ?Sized>(bar: &R, offset: usize) -> Self {
                <$type>::from_bits_retain($crate::Value::load(bar, offset))
            }
            fn store<R: trireme_nic::Registers + ?Sized>(self, bar: &R, offset: usize) {
                $crate::Value::store(self.bits(), bar, offset);
            }
        })*
    };
}

/// A register holding `T`, touched by the rule `A`.
pub struct Reg<T, A> {
    offset: usize,
    rule: PhantomData<(T, A)>,
}

impl<T, A> Reg<T, A> {
    /// The register at an offset in bytes.
    pub const fn at(offset: usize) -> Self {
        Reg { offset, rule: PhantomData }
    }

    /// Its offset in bytes.
    pub const fn offset(&self) -> usize {
        self.offset
    }
}

impl<T: Value, A: Readable> Reg<T, A> {
    /// Reads it.
    pub fn read<R: Registers + ?Sized>(&self, bar: &R) -> T {
        T::load(bar, self.offset)
    }
}

impl<T: Value, A: Writable> Reg<T, A> {
    /// Writes all of it.
    pub fn write<R: Registers + ?Sized>(&self, bar: &R, value: T) {
        value.store(bar, self.offset);
    }
}

impl<T: Value> Reg<T, Rw> {
    /// Reads, changes and writes it.
    pub fn modify<R: Registers + ?Sized>(&self, bar: &R, change: impl FnOnce(T) -> T) {
        change(self.read(bar)).store(bar, self.offset);
    }
}

impl<T: Value> Reg<T, W1c> {
    /// Acknowledges the bits that are set in `value`.
    pub fn ack<R: Registers + ?Sized>(&self, bar: &R, value: T) {
        value.store(bar, self.offset);
    }
}

impl<T: Value> Reg<T, W1s> {
    /// Acts on the bits that are set in `value`.
    pub fn act<R: Registers + ?Sized>(&self, bar: &R, value: T) {
        value.store(bar, self.offset);
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::sync::Mutex;
    use std::vec::Vec;

    bitflags::bitflags! {
        #[derive(Clone, Copy, Debug, PartialEq)]
        struct Flags: u16 {
            const A = 1;
        }
    }
    value!(Flags);

    /// Reads give the offset; writes are noted.
    #[derive(Default)]
    struct Bus(Mutex<Vec<(usize, u32, u8)>>);
    impl Registers for Bus {
        fn read8(&self, offset: usize) -> u8 {
            offset as u8
        }
        fn read16(&self, offset: usize) -> u16 {
            offset as u16
        }
        fn read32(&self, offset: usize) -> u32 {
            offset as u32
        }
        fn write8(&self, offset: usize, value: u8) {
            self.0.lock().unwrap().push((offset, value.into(), 8));
        }
        fn write16(&self, offset: usize, value: u16) {
            self.0.lock().unwrap().push((offset, value.into(), 16));
        }
        fn write32(&self, offset: usize, value: u32) {
            self.0.lock().unwrap().push((offset, value, 32));
        }
    }

    #[test]
    fn width_follows_the_value_and_unnamed_bits_survive() {
        let bus = Bus::default();
        Reg::<u8, Rw>::at(0x12).modify(&bus, |value| value | 0x80);
        Reg::<Flags, Rw>::at(0x30).modify(&bus, |flags| flags | Flags::A);
        Reg::<Flags, W1c>::at(0x40).ack(&bus, Flags::A);
        Reg::<u32, Wo>::at(0x44).write(&bus, 7);
        Reg::<u8, W1s>::at(0x48).act(&bus, 1);
        let wanted =
            [(0x12, 0x92, 8), (0x30, 0x31, 16), (0x40, 1, 16), (0x44, 7, 32), (0x48, 1, 8)];
        assert_eq!(*bus.0.lock().unwrap(), wanted);
    }
}
