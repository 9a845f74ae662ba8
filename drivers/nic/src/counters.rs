/// Makes a struct of counters, each a `u64` named as `ethtool -S` is to show it, with `visit` for
/// [`Nic::statistics`](crate::Nic::statistics).
///
/// ```
/// trireme_nic::counters! {
///     /// Counters of a card.
///     pub(crate) struct Counters {
///         rx_packets,
///         /// Sent and given up.
///         tx_dropped,
///     }
/// }
///
/// let mut counters = Counters::default();
/// counters.tx_dropped += 1;
/// let mut shown = Vec::new();
/// counters.visit(&mut |name, value| shown.push((name, value)));
/// assert_eq!(shown, [("rx_packets", 0), ("tx_dropped", 1)]);
/// ```
#[macro_export]
macro_rules! counters {
    ($(#[$of_all:meta])* $visible:vis struct $type:ident {
        $($(#[$doc:meta])* $name:ident),* $(,)?
    }) => {
        $(#[$of_all])*
        #[derive(Clone, Copy, Debug, Default)]
        $visible struct $type {
            $($(#[$doc])* $visible $name: u64,)*
        }

        impl $type {
            /// Shows each with its name.
            $visible fn visit(&self, visit: &mut dyn FnMut(&'static str, u64)) {
                $(visit(stringify!($name), self.$name);)*
            }
        }
    };
}
