/// A card feature that can be looked at and perhaps switched, by its `ethtool -k` name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Feature {
    /// The card verifies checksums of received frames.
    RxChecksumming,
    /// The card fills in checksums of transmitted frames.
    TxChecksumming,
    /// The card reads a frame from more than one buffer.
    ScatterGather,
    /// The card cuts large IPv4 TCP frames into segments.
    TcpSegmentationOffload,
    /// The card cuts large IPv6 TCP frames into segments.
    Tcp6Segmentation,
    /// The card (or hypervisor) merges received TCP segments.
    LargeReceiveOffload,
    /// The card takes VLAN tags out of received frames.
    RxVlanOffload,
    /// The card inserts VLAN tags into transmitted frames.
    TxVlanOffload,
    /// The card drops frames of VLANs it was not told of.
    RxVlanFilter,
}

impl Feature {
    /// Every feature, in the order `ethtool -k` lists them.
    pub const ALL: [Feature; 9] = [
        Feature::RxChecksumming,
        Feature::TxChecksumming,
        Feature::ScatterGather,
        Feature::TcpSegmentationOffload,
        Feature::Tcp6Segmentation,
        Feature::LargeReceiveOffload,
        Feature::RxVlanOffload,
        Feature::TxVlanOffload,
        Feature::RxVlanFilter,
    ];

    /// The name `ethtool -k` prints.
    pub const fn name(self) -> &'static str {
        match self {
            Feature::RxChecksumming => "rx-checksumming",
            Feature::TxChecksumming => "tx-checksumming",
            Feature::ScatterGather => "scatter-gather",
            Feature::TcpSegmentationOffload => "tcp-segmentation-offload",
            Feature::Tcp6Segmentation => "tx-tcp6-segmentation",
            Feature::LargeReceiveOffload => "large-receive-offload",
            Feature::RxVlanOffload => "rx-vlan-offload",
            Feature::TxVlanOffload => "tx-vlan-offload",
            Feature::RxVlanFilter => "rx-vlan-filter",
        }
    }

    /// Finds a feature by the long name, or by the short one `ethtool -K` takes (`rx`, `tx`, `sg`,
    /// `tso`, `lro`, `rxvlan`, `txvlan`).
    pub fn by_name(name: &str) -> Option<Feature> {
        Some(match name {
            "rx" => Feature::RxChecksumming,
            "tx" => Feature::TxChecksumming,
            "sg" => Feature::ScatterGather,
            "tso" => Feature::TcpSegmentationOffload,
            "tcp6-segmentation" => Feature::Tcp6Segmentation,
            "lro" => Feature::LargeReceiveOffload,
            "rxvlan" => Feature::RxVlanOffload,
            "txvlan" => Feature::TxVlanOffload,
            _ => return Feature::ALL.into_iter().find(|f| f.name() == name),
        })
    }
}

/// State of a [`Feature`] on one card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeatureState {
    /// In use now.
    pub on: bool,
    /// Cannot be changed (`[fixed]` in `ethtool -k`).
    pub fixed: bool,
}

impl FeatureState {
    /// A feature the card does not have.
    pub const ABSENT: FeatureState = FeatureState { on: false, fixed: true };
}

/// Why a feature was not switched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeatureError {
    /// The card cannot change it.
    Fixed,
    /// It needs another feature that is off (segmentation needs transmit checksums).
    Requires(Feature),
    /// The card did not stop or restart in time; it was reset.
    Timeout,
}
