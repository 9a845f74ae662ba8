//! What the stack did to frames on a card's behalf, per interface, for `ethtool -S`.
//!
//! Plain integers: the stack runs on one thread. The card's own counters are the driver's
//! ([`Nic::statistics`](trireme_nic::Nic::statistics)); names here do not clash with those it uses.

use crate::frame::Malformed;

/// Counters of the offload layer. Bytes are those of whole frames for transmit counters, and those
/// actually summed for `*_sw_bytes`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Frames whose TCP or UDP sum the card filled in.
    pub tx_csum_hw: u64,
    /// Their bytes.
    pub tx_csum_hw_bytes: u64,
    /// Frames whose TCP or UDP sum software filled in.
    pub tx_csum_sw: u64,
    /// Transport bytes summed for that.
    pub tx_csum_sw_bytes: u64,
    /// IPv4 header sums the card filled in.
    pub tx_csum_ip_hw: u64,
    /// IPv4 header sums software filled in.
    pub tx_csum_ip_sw: u64,
    /// Frames without a sum of ours: ARP, ICMP, fragments.
    pub tx_csum_none: u64,
    /// Large frames the card cut into segments.
    pub tx_tso_frames: u64,
    /// Their bytes.
    pub tx_tso_bytes: u64,
    /// Segments the card made of them.
    pub tx_tso_segments: u64,
    /// Large frames software cut into segments.
    pub tx_gso_frames: u64,
    /// Segments made of them.
    pub tx_gso_segments: u64,
    /// Payload bytes copied for that.
    pub tx_gso_bytes: u64,
    /// Cuts that had to wait for the ring.
    pub tx_gso_waits: u64,
    /// Frames lost because no transmit buffer was free where one had to be.
    pub tx_dropped_no_buffer: u64,
    /// Frames lost because they could not be taken apart: a fault of ours.
    pub tx_dropped_malformed: u64,
    /// TCP segments sent again: of data, SYN or FIN, not counting probes of idle connections.
    pub tx_tcp_retransmits: u64,

    /// Frames whose transport sum the card had verified.
    pub rx_csum_hw: u64,
    /// Frames settled by arithmetic from the card's sum over all bytes.
    pub rx_csum_complete: u64,
    /// Frames that never crossed a wire: the sender left the sum unfinished.
    pub rx_csum_partial: u64,
    /// Frames whose transport was summed in software.
    pub rx_csum_sw: u64,
    /// Transport bytes summed for that.
    pub rx_csum_sw_bytes: u64,
    /// UDP datagrams over IPv4 sent without a sum.
    pub rx_csum_absent: u64,
    /// Frames without a transport sum to verify here: ARP, ICMP, fragments.
    pub rx_csum_none: u64,
    /// Frames the card called bad, or whose sum it gave wrongly, and that were good.
    pub rx_csum_card_wrong: u64,
    /// Frames dropped: IPv4 header sum.
    pub rx_csum_bad_ip: u64,
    /// Frames dropped: TCP sum.
    pub rx_csum_bad_tcp: u64,
    /// Frames dropped: UDP sum.
    pub rx_csum_bad_udp: u64,
    /// Frames dropped: UDP over IPv6 without a sum (RFC 8200, 8.1).
    pub rx_csum_missing: u64,
    /// Frames whose VLAN tag the card took out.
    pub rx_vlan_hw: u64,
    /// Frames with a VLAN tag in them.
    pub rx_vlan_sw: u64,
    /// Those of either whose tag carries a priority and no VLAN.
    pub rx_vlan_priority: u64,
    /// Frames dropped: of a VLAN without an interface here, or with several tags.
    pub rx_vlan_unknown: u64,
    /// Frames software merged segments to.
    pub rx_gro_frames: u64,
    /// Segments merged.
    pub rx_gro_segments: u64,
    /// Frames dropped as malformed, by check, in the order of [`Malformed::ALL`].
    pub rx_malformed: [u64; Malformed::ALL.len()],
}

impl Counters {
    /// Counts a received frame that could not be taken apart.
    pub fn malformed(&mut self, cause: Malformed) {
        self.rx_malformed[cause as usize] += 1;
    }

    /// Visits every counter with its `ethtool -S` name.
    pub fn visit(&self, visit: &mut dyn FnMut(&'static str, u64)) {
        visit("tx_csum_hw", self.tx_csum_hw);
        visit("tx_csum_hw_bytes", self.tx_csum_hw_bytes);
        visit("tx_csum_sw", self.tx_csum_sw);
        visit("tx_csum_sw_bytes", self.tx_csum_sw_bytes);
        visit("tx_csum_ip_hw", self.tx_csum_ip_hw);
        visit("tx_csum_ip_sw", self.tx_csum_ip_sw);
        visit("tx_csum_none", self.tx_csum_none);
        visit("tx_tso_frames", self.tx_tso_frames);
        visit("tx_tso_bytes", self.tx_tso_bytes);
        visit("tx_tso_segments", self.tx_tso_segments);
        visit("tx_gso_frames", self.tx_gso_frames);
        visit("tx_gso_segments", self.tx_gso_segments);
        visit("tx_gso_bytes", self.tx_gso_bytes);
        visit("tx_gso_waits", self.tx_gso_waits);
        visit("tx_dropped_no_buffer", self.tx_dropped_no_buffer);
        visit("tx_dropped_malformed", self.tx_dropped_malformed);
        visit("tx_tcp_retransmits", self.tx_tcp_retransmits);
        visit("rx_csum_hw", self.rx_csum_hw);
        visit("rx_csum_complete", self.rx_csum_complete);
        visit("rx_csum_partial", self.rx_csum_partial);
        visit("rx_csum_sw", self.rx_csum_sw);
        visit("rx_csum_sw_bytes", self.rx_csum_sw_bytes);
        visit("rx_csum_absent", self.rx_csum_absent);
        visit("rx_csum_none", self.rx_csum_none);
        visit("rx_csum_card_wrong", self.rx_csum_card_wrong);
        visit("rx_csum_bad_ip", self.rx_csum_bad_ip);
        visit("rx_csum_bad_tcp", self.rx_csum_bad_tcp);
        visit("rx_csum_bad_udp", self.rx_csum_bad_udp);
        visit("rx_csum_missing", self.rx_csum_missing);
        visit("rx_vlan_hw", self.rx_vlan_hw);
        visit("rx_vlan_sw", self.rx_vlan_sw);
        visit("rx_vlan_priority", self.rx_vlan_priority);
        visit("rx_vlan_unknown", self.rx_vlan_unknown);
        visit("rx_gro_frames", self.rx_gro_frames);
        visit("rx_gro_segments", self.rx_gro_segments);
        for cause in Malformed::ALL {
            visit(cause.counter(), self.rx_malformed[cause as usize]);
        }
    }
}
