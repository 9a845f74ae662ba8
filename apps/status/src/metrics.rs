//! From counters to metrics: which counter of `ethtool -S` or `nstat` is which family and label.
//!
//! A counter that is in none of the tables here is still there, among `…_events_total` with its own name: a driver may
//! count what it likes.

use trireme::network::{Interface, SocketState};
use trireme::system;

use crate::exposition::{Exposition, Kind, Seconds};
use crate::snapshot::{Counters, Snapshot};
use crate::status::Tally;

/// A family of counters of a card, and which of the card's it is made of.
struct Family {
    name: &'static str,
    help: &'static str,
    /// The second label's name, if there is one.
    label: &'static str,
    /// Counter, that label's value, and the value of `how` if the family has that label too.
    counters: &'static [(&'static str, &'static str, &'static str)],
}

/// Order is that of the document.
const CARD: &[Family] = &[
    Family {
        name: "trireme_network_receive_bytes_total",
        help: "Bytes received, Ethernet headers included.",
        label: "",
        counters: &[("rx_bytes", "", "")],
    },
    Family {
        name: "trireme_network_transmit_bytes_total",
        help: "Bytes sent, Ethernet headers included; of a frame the card cuts, headers count once.",
        label: "",
        counters: &[("tx_bytes", "", "")],
    },
    Family {
        name: "trireme_network_receive_frames_total",
        help: "Frames the card delivered; one it merged counts once.",
        label: "",
        counters: &[("rx_packets", "", "")],
    },
    Family {
        name: "trireme_network_transmit_frames_total",
        help: "Frames given to the card; one it cuts counts once.",
        label: "",
        counters: &[("tx_packets", "", "")],
    },
    Family {
        name: "trireme_network_receive_checksums_total",
        help: "TCP and UDP checksums of received frames, by who verified them: the card (verified, complete: it gave the \
               sum of all bytes, partial: it vouched for a frame that never crossed a wire), software, or nobody (absent: \
               the sender made none, other: ARP, ICMP, fragments).",
        label: "by",
        counters: &[
            ("rx_csum_hw", "card", "verified"),
            ("rx_csum_complete", "card", "complete"),
            ("rx_csum_partial", "card", "partial"),
            ("rx_csum_sw", "software", "summed"),
            ("rx_csum_absent", "nobody", "absent"),
            ("rx_csum_none", "nobody", "other"),
        ],
    },
    Family {
        name: "trireme_network_transmit_checksums_total",
        help: "TCP and UDP checksums of sent segments, by who made them: the card (frame, segment: it cut the frame \
               itself), software, or nobody (ARP, ICMP, fragments).",
        label: "by",
        counters: &[
            ("tx_csum_hw", "card", "frame"),
            ("tx_tso_segments", "card", "segment"),
            ("tx_csum_sw", "software", "summed"),
            ("tx_csum_none", "nobody", "other"),
        ],
    },
    Family {
        name: "trireme_network_transmit_segments_total",
        help: "TCP segments cut from large frames, by who cut them.",
        label: "by",
        counters: &[("tx_tso_segments", "card", ""), ("tx_gso_segments", "software", "")],
    },
    Family {
        name: "trireme_network_transmit_large_frames_total",
        help: "Large TCP frames that had to be cut, by who cut them.",
        label: "by",
        counters: &[("tx_tso_frames", "card", ""), ("tx_gso_frames", "software", "")],
    },
    Family {
        name: "trireme_network_receive_merged_frames_total",
        help: "Frames merged from several TCP segments, by who merged them.",
        label: "by",
        counters: &[("rx_gso_packets", "card", ""), ("rx_gro_frames", "software", "")],
    },
    Family {
        name: "trireme_network_software_checksum_bytes_total",
        help: "Bytes summed in software for transport checksums.",
        label: "direction",
        counters: &[("rx_csum_sw_bytes", "receive", ""), ("tx_csum_sw_bytes", "transmit", "")],
    },
    Family {
        name: "trireme_network_receive_drops_total",
        help: "Received frames that were dropped, by cause.",
        label: "cause",
        counters: &[
            ("rx_no_spare", "no_buffer", ""),
            ("rx_missed_errors", "missed", ""),
            ("rx_crc_errors", "crc", ""),
            ("rx_frame_errors", "alignment", ""),
            ("rx_fifo_errors", "fifo", ""),
            ("rx_length_errors", "length", ""),
            ("rx_merge_errors", "merge", ""),
            ("rx_csum_bad_ip", "ip_checksum", ""),
            ("rx_csum_bad_tcp", "tcp_checksum", ""),
            ("rx_csum_bad_udp", "udp_checksum", ""),
            ("rx_csum_missing", "no_udp_checksum", ""),
        ],
    },
    Family {
        name: "trireme_network_transmit_drops_total",
        help: "Frames that were not sent, by cause.",
        label: "cause",
        counters: &[
            ("tx_dropped", "dropped", ""),
            ("tx_errors", "error", ""),
            ("tx_dropped_no_buffer", "no_buffer", ""),
            ("tx_dropped_malformed", "malformed", ""),
        ],
    },
    Family {
        name: "trireme_network_tcp_retransmits_total",
        help: "TCP segments sent again.",
        label: "",
        counters: &[("tx_tcp_retransmits", "", "")],
    },
];

/// Counters of received frames that could not be taken apart begin so; the rest is the cause of the drop.
const MALFORMED: &str = "rx_malformed_";
/// Where they belong.
const RECEIVE_DROPS: &str = "trireme_network_receive_drops_total";

/// Counters of the stack that say why something was dropped.
const STACK_DROPS: &[&str] = &[
    "not_for_us",
    "unknown_protocol",
    "bad_source",
    "fragments_dropped",
    "icmp_bad_checksum",
    "udp_no_port",
    "udp_queue_full",
    "tcp_no_socket",
    "listen_overflows",
    "no_memory",
];

/// Protocol and state of sockets, in the order of [`SocketState::ALL`].
const SOCKETS: [(&str, &str); SocketState::ALL.len()] = [
    ("udp", "open"),
    ("tcp", "closed"),
    ("tcp", "listen"),
    ("tcp", "syn_sent"),
    ("tcp", "syn_received"),
    ("tcp", "established"),
    ("tcp", "fin_wait_1"),
    ("tcp", "fin_wait_2"),
    ("tcp", "close_wait"),
    ("tcp", "closing"),
    ("tcp", "last_ack"),
    ("tcp", "time_wait"),
];

/// The whole document.
pub(crate) fn render(snapshot: &Snapshot, tally: &Tally) -> String {
    let mut out = Exposition::default();
    machine(&mut out, snapshot);
    cards(&mut out, &snapshot.cards);
    stack(&mut out, snapshot);
    page(&mut out, tally);
    out.into_text()
}

fn machine(out: &mut Exposition, snapshot: &Snapshot) {
    out.family("trireme_build_info", Kind::Gauge, "What was built: always 1.");
    let system = if system::APPLIANCE { "appliance" } else { std::env::consts::OS };
    let labels =
        [("version", system::VERSION), ("arch", std::env::consts::ARCH), ("system", system)];
    out.sample(&labels, 1);
    if let Some(processor) = snapshot.processor {
        let busy = processor.uptime.saturating_sub(processor.idle);
        out.single(
            "trireme_uptime_seconds",
            Kind::Gauge,
            "Time since boot.",
            Seconds(processor.uptime),
        );
        out.family(
            "trireme_cpu_seconds_total",
            Kind::Counter,
            "Time the processor slept for want of work, and the rest.",
        );
        out.sample(&[("mode", "idle")], Seconds(processor.idle));
        out.sample(&[("mode", "busy")], Seconds(busy));
    }
    if let Some(memory) = snapshot.memory {
        let help = "Memory of kernel and program.";
        out.single("trireme_memory_size_bytes", Kind::Gauge, help, memory.total);
        let help = "Of that, in use.";
        out.single("trireme_memory_used_bytes", Kind::Gauge, help, memory.used);
    }
}

fn cards(out: &mut Exposition, cards: &[(Interface, Counters)]) {
    out.family("trireme_network_info", Kind::Gauge, "Cards: always 1.");
    for (card, _) in cards {
        let mac = card.mac.map(|byte| format!("{byte:02x}")).join(":");
        let labels =
            [("device", &*card.name), ("driver", card.driver), ("chip", card.chip), ("mac", &mac)];
        out.sample(&labels, 1);
    }
    out.family("trireme_network_address_info", Kind::Gauge, "Addresses: always 1.");
    for (card, _) in cards {
        for (address, prefix) in &card.addresses {
            let address = format!("{address}/{prefix}");
            out.sample(&[("device", &*card.name), ("address", &address)], 1);
        }
    }
    out.family("trireme_network_up", Kind::Gauge, "Whether there is a carrier.");
    for (card, _) in cards {
        out.sample(&[("device", &card.name)], u8::from(card.link.up));
    }
    out.family(
        "trireme_network_speed_bytes",
        Kind::Gauge,
        "Speed of the link in bytes per second, where the card has one.",
    );
    for (card, _) in cards.iter().filter(|(card, _)| card.link.speed_mbps > 0) {
        out.sample(&[("device", &card.name)], u64::from(card.link.speed_mbps) * 125_000);
    }
    out.family("trireme_network_mtu_bytes", Kind::Gauge, "Largest packet.");
    for (card, _) in cards {
        out.sample(&[("device", &card.name)], card.mtu);
    }
    for (name, help, which) in [
        ("trireme_network_feature_enabled", "Whether a feature is in use.", true),
        ("trireme_network_feature_fixed", "Whether it cannot be switched.", false),
    ] {
        out.family(name, Kind::Gauge, help);
        for (card, _) in cards {
            for (feature, state) in &card.features {
                let value = if which { state.on } else { state.fixed };
                out.sample(&[("device", &card.name), ("feature", feature.name())], u8::from(value));
            }
        }
    }
    for family in CARD {
        out.family(family.name, Kind::Counter, family.help);
        for (card, counters) in cards {
            sum_up(out, family, &card.name, counters);
        }
    }
    out.family(
        "trireme_network_events_total",
        Kind::Counter,
        "The other counters of card, driver and offload layer, by their ethtool names.",
    );
    for (card, counters) in cards {
        for (name, value) in counters.iter().filter(|(name, _)| !is_placed(name)) {
            out.sample(&[("device", &card.name), ("event", name)], value);
        }
    }
}

/// The samples of one family for one card.
fn sum_up(out: &mut Exposition, family: &Family, device: &str, counters: &Counters) {
    for (counter, value, how) in family.counters {
        let Some((_, count)) = counters.iter().find(|(name, _)| name == counter) else { continue };
        let labels = [("device", device), (family.label, *value), ("how", *how)];
        let used = labels.iter().take_while(|(_, value)| !value.is_empty()).count();
        out.sample(&labels[..used], count);
    }
    if family.name == RECEIVE_DROPS {
        for (name, count) in counters {
            if name.starts_with(MALFORMED) {
                out.sample(&[("device", device), ("cause", &name["rx_".len()..])], count);
            }
        }
    }
}

/// A family has it.
fn is_placed(name: &str) -> bool {
    let has = |family: &Family| family.counters.iter().any(|(counter, ..)| *counter == name);
    name.starts_with(MALFORMED) || CARD.iter().any(has)
}

fn stack(out: &mut Exposition, snapshot: &Snapshot) {
    out.family("trireme_sockets", Kind::Gauge, "Sockets, by state.");
    if let Some(counts) = &snapshot.sockets {
        for ((protocol, state), count) in SOCKETS.iter().zip(counts) {
            out.sample(&[("protocol", protocol), ("state", state)], count);
        }
    }
    if let Some(buffers) = snapshot.buffers {
        let help = "Memory that all sockets' buffers together may take.";
        out.single("trireme_socket_buffers_size_bytes", Kind::Gauge, help, buffers.budget);
        let help = "Of that, in use.";
        out.single("trireme_socket_buffers_used_bytes", Kind::Gauge, help, buffers.used);
    }
    for (family, label, help, drops) in [
        (
            "trireme_stack_drops_total",
            "cause",
            "Good frames, packets and connections that nobody wanted or had room for, by cause.",
            true,
        ),
        (
            "trireme_stack_events_total",
            "event",
            "The other counters of the stack, by their nstat names.",
            false,
        ),
    ] {
        out.family(family, Kind::Counter, help);
        for (name, count) in &snapshot.stack {
            if STACK_DROPS.contains(name) == drops {
                out.sample(&[(label, name)], count);
            }
        }
    }
}

fn page(out: &mut Exposition, tally: &Tally) {
    out.single(
        "trireme_status_switching_enabled",
        Kind::Gauge,
        "Whether this machine has a token that switches features.",
        u8::from(tally.can_switch),
    );
    out.family(
        "trireme_status_switches_total",
        Kind::Counter,
        "Features switched through the status page, and good requests the card refused.",
    );
    out.sample(&[("result", "done")], tally.done);
    out.sample(&[("result", "refused")], tally.refused);
    out.family(
        "trireme_status_token_failures_total",
        Kind::Counter,
        "Requests to switch without a token, with a wrong one, and those not looked at after too many wrong ones.",
    );
    out.sample(&[("reason", "missing")], tally.missing);
    out.sample(&[("reason", "wrong")], tally.wrong);
    out.sample(&[("reason", "limited")], tally.limited);
}
