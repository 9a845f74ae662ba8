//! Everything the metrics are made of, taken at one time. Made by hand in tests.

use trireme::network::{self, Interface, SocketBuffers, SocketState};
use trireme::system::{self, Memory, Processor};

pub(crate) type Counters = Vec<(&'static str, u64)>;

pub(crate) struct Snapshot {
    pub(crate) cards: Vec<(Interface, Counters)>,
    pub(crate) stack: Counters,
    pub(crate) sockets: Option<[usize; SocketState::ALL.len()]>,
    pub(crate) buffers: Option<SocketBuffers>,
    pub(crate) memory: Option<Memory>,
    pub(crate) processor: Option<Processor>,
}

impl Snapshot {
    pub(crate) fn take() -> Snapshot {
        let counted = |card: Interface| {
            let counters = network::counters(&card.name).unwrap_or_default();
            (card, counters)
        };
        Snapshot {
            cards: network::interfaces().into_iter().map(counted).collect(),
            stack: network::statistics(),
            sockets: system::APPLIANCE.then(network::sockets),
            buffers: network::socket_buffers(),
            memory: system::memory(),
            processor: system::processor(),
        }
    }
}
