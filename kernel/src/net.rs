//! The network between system calls and the stack.

use alloc::boxed::Box;

use trireme_nic::Nic;

use crate::arguments::Arguments;
use crate::descriptor::{Description, Errno};

/// A socket.
pub enum Socket {}

/// Makes the stack.
pub fn initialize(_arguments: &Arguments<'_>) {}

/// Takes a card into service as the next interface, `eth0`, `eth1`, …
pub fn add_card(_nic: Box<dyn Nic>) {}

/// All cards are there.
pub fn configured(_arguments: &Arguments<'_>) {}

/// A turn of the stack: deferred work of the cards' interrupts and of the network's timer.
pub fn turn() {}

impl Socket {
    /// Whether it keeps message boundaries.
    pub fn is_datagram(&self) -> bool {
        match *self {}
    }
}

/// Reads.
pub fn receive(_: &Description, socket: &Socket, _: &mut [u8], _: i32) -> Result<usize, Errno> {
    match *socket {}
}

/// Writes.
pub fn send(_: &Description, socket: &Socket, _: &[u8]) -> Result<usize, Errno> {
    match *socket {}
}

/// Writes several pieces.
pub fn send_vectored(_: &Description, socket: &Socket, _: &[&[u8]]) -> Result<usize, Errno> {
    match *socket {}
}

/// Bytes to read.
pub fn available(socket: &Socket) -> Result<usize, Errno> {
    match *socket {}
}

/// Readiness.
pub fn poll_bits(socket: &Socket) -> i16 {
    match *socket {}
}
