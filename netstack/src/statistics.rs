//! What happened, counted.

macro_rules! statistics {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {
        /// Counters of the stack, beside those of its cards.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Statistics {
            $($(#[$doc])* pub $name: u64,)+
        }

        impl Statistics {
            /// Visits every counter with its name.
            pub fn visit(&self, visit: &mut dyn FnMut(&'static str, u64)) {
                $(visit(stringify!($name), self.$name);)+
            }
        }
    };
}

statistics! {
    /// Frames for another Ethernet address, or for a connection on another card.
    not_for_us,
    /// EtherTypes and IP protocols nobody here speaks.
    unknown_protocol,
    /// PTP messages lost because the program did not take them.
    ptp_overflows,
    /// Packets from addresses nobody can have.
    bad_source,
    /// Datagrams put together from fragments.
    reassembled,
    /// Datagrams of which a fragment never came.
    reassembly_timeouts,
    /// Fragments that are not taken.
    fragments_dropped,
    /// ICMP messages with a wrong checksum.
    icmp_bad_checksum,
    /// ICMP errors that quote nothing we have in flight.
    icmp_out_of_window,
    /// ICMP errors not sent because there were too many.
    icmp_limited,
    /// Answers to echo requests that nobody took in time.
    ping_queue_full,
    /// Datagrams for a port without a socket.
    udp_no_port,
    /// Datagrams lost because the socket's queue was full.
    udp_queue_full,
    /// Segments without a connection or listener.
    tcp_no_socket,
    /// Resets not sent because there were too many.
    resets_limited,
    /// SYNs and ACKs dropped because the accept queue was full.
    listen_overflows,
    /// Connections that never finished their handshake.
    half_open_expired,
    /// SYNs answered by a cookie.
    cookies_sent,
    /// Connections made from a cookie.
    cookies_accepted,
    /// Segments that acknowledged a cookie, but behind a first one that was lost.
    cookies_early,
    /// Connections refused because the buffer budget is used up.
    no_memory,
}
