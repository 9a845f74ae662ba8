//! The network, as a program can ask about it and change it: what `ip`, `ethtool`, `ss` and `nstat` show on the console.
//!
//! On an appliance the cards are the program's. Elsewhere they are not, and the same source still runs: lists are
//! empty, and nothing can be switched ([`SwitchError::NoSuchInterface`]).
//!
//! ```
//! use trireme::network::{self, Feature};
//!
//! for card in network::interfaces() {
//!     println!("{}: {} ({}), MTU {} bytes", card.name, card.driver, card.chip, card.mtu);
//!     for (feature, state) in card.features {
//!         println!("{}: {}", feature.name(), if state.on { "on" } else { "off" });
//!     }
//! }
//! // As `ethtool -K eth0 tx off`; the connections stay, the processor sums from now on.
//! if let Err(error) = network::set_feature("eth0", Feature::TxChecksumming, false) {
//!     eprintln!("eth0: {error}");
//! }
//! ```

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;

pub use trireme_nic::{Feature, FeatureError, FeatureState, Link, MacAddress};

/// A network card and what the stack knows of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// `eth0`, `eth1`, … in the order of discovery; then VLANs over them, by the names boot arguments gave them.
    pub name: String,
    /// The driver, as `ethtool -i` spells it.
    pub driver: &'static str,
    /// Chip variant or revision.
    pub chip: &'static str,
    /// Ethernet address.
    pub mac: MacAddress,
    /// Link state.
    pub link: Link,
    /// Largest packet in bytes, without the Ethernet header.
    pub mtu: usize,
    /// Addresses, each with the length of its network's prefix in bits.
    pub addresses: Vec<(IpAddr, u8)>,
    /// What the card can be asked to do, in the order of `ethtool -k`.
    pub features: Vec<(Feature, FeatureState)>,
}

/// State of a socket, by the names of RFC 9293 where there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are the RFC's")]
pub enum SocketState {
    /// UDP.
    Datagram,
    /// TCP, made and perhaps bound.
    Closed,
    Listen,
    SynSent,
    SynReceived,
    Established,
    FinWait1,
    FinWait2,
    CloseWait,
    Closing,
    LastAck,
    TimeWait,
}

impl SocketState {
    /// Every state; a state's place here is its place in [`sockets`]' answer.
    pub const ALL: [SocketState; 12] = [
        SocketState::Datagram,
        SocketState::Closed,
        SocketState::Listen,
        SocketState::SynSent,
        SocketState::SynReceived,
        SocketState::Established,
        SocketState::FinWait1,
        SocketState::FinWait2,
        SocketState::CloseWait,
        SocketState::Closing,
        SocketState::LastAck,
        SocketState::TimeWait,
    ];
}

/// Memory of all sockets' buffers together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketBuffers {
    /// Bytes there may be.
    pub budget: usize,
    /// Bytes in use.
    pub used: usize,
}

/// Why a feature was not switched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SwitchError {
    /// There is no interface of that name; nor any at all where the program is no appliance.
    NoSuchInterface,
    /// The card cannot or did not do it.
    Card(FeatureError),
}

impl fmt::Display for SwitchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SwitchError::NoSuchInterface => f.write_str("no such interface"),
            SwitchError::Card(FeatureError::Fixed) => f.write_str("the card cannot change it"),
            SwitchError::Card(FeatureError::Requires(other)) => {
                write!(f, "it requires {}", other.name())
            }
            SwitchError::Card(FeatureError::Timeout) => {
                f.write_str("the card did not answer and was reset")
            }
        }
    }
}

impl core::error::Error for SwitchError {}

/// All cards.
pub fn interfaces() -> Vec<Interface> {
    sys::interfaces()
}

/// Switches a feature of a card, under traffic too: connections stay, and what the card ceases to do the processor
/// does.
pub fn set_feature(interface: &str, feature: Feature, on: bool) -> Result<(), SwitchError> {
    sys::set_feature(interface, feature, on)
}

/// The counters of a card, its driver and the offload layer with their `ethtool -S` names. They only grow, from boot
/// on. `None`: no such interface.
///
/// A frame the card cuts into segments counts once among the card's own (`tx_packets`), as on Linux.
pub fn counters(interface: &str) -> Option<Vec<(&'static str, u64)>> {
    sys::counters(interface)
}

/// The counters of the stack as a whole with their `nstat` names.
pub fn statistics() -> Vec<(&'static str, u64)> {
    sys::statistics()
}

/// How many sockets there are in each state, in the order of [`SocketState::ALL`].
pub fn sockets() -> [usize; SocketState::ALL.len()] {
    sys::sockets()
}

/// Memory of the sockets' buffers. `None` where the program is no appliance.
pub fn socket_buffers() -> Option<SocketBuffers> {
    sys::socket_buffers()
}

#[cfg(target_os = "hermit")]
use crate::net::report as sys;

#[cfg(not(target_os = "hermit"))]
mod sys {
    use super::{Feature, Interface, SocketBuffers, SocketState, SwitchError, Vec};

    pub fn interfaces() -> Vec<Interface> {
        Vec::new()
    }

    pub fn set_feature(_: &str, _: Feature, _: bool) -> Result<(), SwitchError> {
        Err(SwitchError::NoSuchInterface)
    }

    pub fn counters(_: &str) -> Option<Vec<(&'static str, u64)>> {
        None
    }

    pub fn statistics() -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    pub fn sockets() -> [usize; SocketState::ALL.len()] {
        [0; SocketState::ALL.len()]
    }

    pub fn socket_buffers() -> Option<SocketBuffers> {
        None
    }
}
