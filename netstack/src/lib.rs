//! Trireme's network stack: smoltcp, the offload policy, sockets and addresses.
#![cfg_attr(not(test), no_std)]
#![deny(unsafe_code)]

extern crate alloc;

pub mod coalesce;
pub mod counters;
pub mod dhcp;
pub mod dns;
pub mod egress;
pub mod frame;
pub mod gso;
pub mod ipconfig;
pub mod ntp;
pub mod offload;
pub mod slaac;
