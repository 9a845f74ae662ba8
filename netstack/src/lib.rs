//! Trireme's network stack: smoltcp, the offload policy, sockets and addresses.
//!
//! [`Stack`] is the whole of it to the outside: cards go in as [`Nic`](trireme_nic::Nic), the socket
//! calls of `std::net` come out. TCP's protocol is smoltcp's; everything around it is here, because
//! smoltcp looks at every socket for every packet and this stack must not.
//!
//! The principles:
//! - **A packet touches one connection.** Each has a smoltcp socket set of its own, found by a keyed hash.
//! - **Everything is bounded** that a stranger can make grow, and rationed that a stranger can provoke.
//! - **No allocation and no copy per packet** beyond the one between card and socket buffer.
//! - **Time is an argument.** Nothing here reads a clock, so a test owns it.

#![cfg_attr(not(test), no_std)]
#![deny(unsafe_code)]

extern crate alloc;

mod address;
mod api;
mod arp;
mod buffers;
mod configure;
mod cookie;
pub mod counters;
pub mod dhcp;
pub mod dns;
pub mod egress;
mod error;
mod flow;
pub mod frame;
mod gro;
pub mod gso;
mod hash;
mod icmp;
mod ingress;
mod interface;
pub mod ipconfig;
mod limit;
mod line;
mod listen;
mod look;
mod loopback;
mod membership;
mod multicast;
mod nd;
mod neighbour;
pub mod ntp;
pub mod offload;
mod order;
mod packet;
mod ping;
mod pmtu;
mod ports;
mod ptp;
mod query;
mod queue;
mod reassembly;
mod route;
pub mod slaac;
mod slab;
mod socket;
mod stack;
mod statistics;
mod tcp;
mod timer;
mod timewait;
mod udp;
mod vlan;

pub use address::Cidr;
pub use error::Error;
pub use ipconfig::{Addressing, Ipv4Addressing, Ipv6Addressing};
pub use look::{InterfaceInfo, SocketInfo, SocketState};
pub use neighbour::NeighbourInfo;
pub use ping::{Answer, AnswerKind, MAX_PAYLOAD as MAX_PING_PAYLOAD, PingId};
pub use ptp::PtpMessage;
pub use smoltcp::time::{Duration, Instant};
pub use socket::{
    Event, Family, Kind, QueryId, Readiness, Shutdown, SocketId, SocketOption, SocketOptionName,
};
pub use stack::{Config, Poll, Stack};
pub use statistics::Statistics;
pub use vlan::{VlanError, VlanSpec};
