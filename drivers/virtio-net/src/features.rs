//! Feature bits and which of the offered ones to take. [VIRTIO] is "Virtual I/O Device (VIRTIO)
//! Version 1.2", OASIS, 2022.

use bitflags::bitflags;

bitflags! {
    /// Feature bits of a network device. [VIRTIO 5.1.3, 6]
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Features: u64 {
        /// The device completes transport checksums of transmitted frames.
        const CSUM = 1 << 0;
        /// We take received frames whose transport checksum is not completed.
        const GUEST_CSUM = 1 << 1;
        /// Receive offloads can be switched at run time.
        const CTRL_GUEST_OFFLOADS = 1 << 2;
        /// The configuration has the MTU.
        const MTU = 1 << 3;
        /// The configuration has the MAC address.
        const MAC = 1 << 5;
        /// We take merged IPv4 TCP segments.
        const GUEST_TSO4 = 1 << 7;
        /// We take merged IPv6 TCP segments.
        const GUEST_TSO6 = 1 << 8;
        /// We take merged segments with ECN's CWR in the first.
        const GUEST_ECN = 1 << 9;
        /// The device cuts IPv4 TCP frames.
        const HOST_TSO4 = 1 << 11;
        /// The device cuts IPv6 TCP frames.
        const HOST_TSO6 = 1 << 12;
        /// The device cuts frames with CWR, setting it in the first segment only.
        const HOST_ECN = 1 << 13;
        /// A received frame may be spread over several buffers.
        const MRG_RXBUF = 1 << 15;
        /// The configuration has the link state.
        const STATUS = 1 << 16;
        /// There is a control queue.
        const CTRL_VQ = 1 << 17;
        /// The control queue sets receive filters.
        const CTRL_RX = 1 << 18;
        /// Notifications are asked for by ring index instead of by flag.
        const EVENT_IDX = 1 << 29;
        /// The device follows version 1.0 or later.
        const VERSION_1 = 1 << 32;
    }
}

/// Everything this driver can use.
pub(crate) const SUPPORTED: Features = Features::all();

/// Which of the offered features to take. `merge_without_mrg_rxbuf`: there is memory for enough
/// single buffers of 64 KiB to receive merged segments without MRG_RXBUF.
///
/// Follows the dependencies of [VIRTIO 5.1.3.1]: a device need not offer a consistent set, but
/// would refuse to be set up with an inconsistent one.
pub(crate) fn choose(offered: Features, merge_without_mrg_rxbuf: bool) -> Features {
    let mut chosen = offered & SUPPORTED;
    if !chosen.contains(Features::CSUM) {
        chosen -= Features::HOST_TSO4 | Features::HOST_TSO6;
    }
    if !chosen.intersects(Features::HOST_TSO4 | Features::HOST_TSO6) {
        chosen -= Features::HOST_ECN;
    }
    let can_hold = chosen.contains(Features::MRG_RXBUF) || merge_without_mrg_rxbuf;
    if !chosen.contains(Features::GUEST_CSUM) || !can_hold {
        chosen -= Features::GUEST_TSO4 | Features::GUEST_TSO6;
    }
    if !chosen.intersects(Features::GUEST_TSO4 | Features::GUEST_TSO6) {
        chosen -= Features::GUEST_ECN;
    }
    if !chosen.contains(Features::CTRL_VQ) {
        chosen -= Features::CTRL_RX | Features::CTRL_GUEST_OFFLOADS;
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chosen_features_are_offered_and_consistent_for_every_offer() {
        let bits: Vec<Features> = SUPPORTED.iter().collect();
        for offer in 0u32..1 << bits.len() {
            let mut offered = Features::empty();
            for (i, bit) in bits.iter().enumerate() {
                offered.set(*bit, offer & 1 << i != 0);
            }
            for big in [false, true] {
                let chosen = choose(offered, big);
                assert!(offered.contains(chosen));
                let needs = |feature: Features, any_of: Features| {
                    !chosen.intersects(feature) || chosen.intersects(any_of)
                };
                use Features as F;
                assert!(needs(F::HOST_TSO4 | F::HOST_TSO6, F::CSUM));
                assert!(needs(F::GUEST_TSO4 | F::GUEST_TSO6, F::GUEST_CSUM));
                assert!(needs(F::HOST_ECN, F::HOST_TSO4 | F::HOST_TSO6));
                assert!(needs(F::GUEST_ECN, F::GUEST_TSO4 | F::GUEST_TSO6));
                assert!(needs(F::CTRL_RX | F::CTRL_GUEST_OFFLOADS, F::CTRL_VQ));
                assert!(big || needs(F::GUEST_TSO4 | F::GUEST_TSO6, F::MRG_RXBUF));
            }
        }
    }

    #[test]
    fn a_full_offer_is_taken_in_full() {
        assert_eq!(choose(Features::all(), false), Features::all());
        assert_eq!(choose(Features::from_bits_retain(u64::MAX), false), Features::all());
    }
}
