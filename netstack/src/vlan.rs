//! VLAN sub-interfaces (IEEE 802.1Q): several interfaces over one card.
//!
//! The card moves into a [`Trunk`], and each interface over it gets a [`Port`], which is a card to the
//! stack. A port without a tag is the card's own interface; one with a tag marks what it sends and
//! has its own address, MTU, groups and counters. So nothing above knows of tags:
//!
//! - **Sending**, a port asks the card for four bytes more than the stack asked it for, and lends the
//!   rest. If the card inserts tags, the tag goes beside the frame; if not, the two addresses move
//!   into those four bytes and the tag takes their place. Payload never moves. What else the card will do
//!   for the frame is asked with the tag where it will be.
//! - **Receiving**, `frame::parse` steps over a tag in the frame, and a card that takes tags out hands them
//!   beside it; `Stack::receive` finds the interface by either.

use crate::frame::Headers;
use crate::interface::{Interface, Sharing, Vlan};
use crate::ipconfig::Addressing;
use crate::loopback::Loopback;
use crate::order::sort_short;
use crate::stack::Stack;
use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;
use smoltcp::time::Instant;
use spin::Mutex;
use trireme_nic::{
    Buffer, DriverInfo, Feature, FeatureError, FeatureState, FrameShape, Link, MacAddress, Nic,
    Pause, ReceiveFilter, ReceivedFrame, Stop, Tci, TransmitAbility, TransmitRequest,
};

/// Bytes of a tag: TPID and TCI.
const TAG: usize = 4;
/// Bytes of an Ethernet header without one.
const LINK_LEN: u8 = 14;
/// The two addresses before it.
const ADDRESSES: usize = 12;
/// Most VLANs over one card.
pub(crate) const MOST: usize = 64;
/// Longest name of an interface, as Linux has it (`IFNAMSIZ`, less the closing zero).
const LONGEST_NAME: usize = 15;

/// A VLAN interface to be made, as dracut's `vlan=NAME:CARD` names it.
///
/// The name carries the VLAN's id, in one of the four forms of dracut.cmdline(7): `eth0.5`, `eth0.0005`,
/// `vlan5`, `vlan0005`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VlanSpec {
    /// What it is called.
    pub name: String,
    /// The card's interface below it.
    pub card: String,
    /// VLAN id, 1 to 4094.
    pub id: u16,
}

/// Why there is no such VLAN interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VlanError {
    /// Not of the form NAME:CARD.
    Form,
    /// The name is neither `CARD.ID` nor `vlanID`, or too long.
    Name,
    /// The id is not between 1 and 4094.
    Id,
    /// No interface is called like the card, or it is itself no card.
    NoCard,
    /// The name or the id is in use.
    Taken,
    /// The card has as many as can be.
    TooMany,
}

impl fmt::Display for VlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            VlanError::Form => "not NAME:CARD",
            VlanError::Name => "the name is neither CARD.ID nor vlanID",
            VlanError::Id => "the id is not between 1 and 4094",
            VlanError::NoCard => "no such card",
            VlanError::Taken => "name or id is in use",
            VlanError::TooMany => "the card has too many already",
        })
    }
}

impl core::error::Error for VlanError {}

impl FromStr for VlanSpec {
    type Err = VlanError;

    fn from_str(text: &str) -> Result<VlanSpec, VlanError> {
        let (name, card) = text.split_once(':').ok_or(VlanError::Form)?;
        if card.is_empty() || card.contains([':', '.']) {
            return Err(VlanError::Form);
        }
        let digits = match name.strip_prefix(card).and_then(|rest| rest.strip_prefix('.')) {
            Some(digits) => digits,
            None => name.strip_prefix("vlan").ok_or(VlanError::Name)?,
        };
        let plain = (1..=4).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
        if !plain || name.len() > LONGEST_NAME {
            return Err(VlanError::Name);
        }
        let id = digits.parse().map_err(|_| VlanError::Name)?;
        // 0 marks a priority, 4095 is reserved (IEEE 802.1Q, table 9-2).
        match id {
            1..=4094 => Ok(VlanSpec { name: name.to_string(), card: card.to_string(), id }),
            _ => Err(VlanError::Id),
        }
    }
}

/// What one port wants to receive.
enum Wanted {
    Groups(Vec<MacAddress>),
    AllMulticast,
    Promiscuous,
}

impl Wanted {
    fn new(filter: ReceiveFilter<'_>) -> Wanted {
        match filter {
            ReceiveFilter::Multicast(groups) => Wanted::Groups(groups.to_vec()),
            ReceiveFilter::AllMulticast => Wanted::AllMulticast,
            ReceiveFilter::Promiscuous => Wanted::Promiscuous,
        }
    }
}

/// What the ports of a card share.
struct Shared {
    nic: Box<dyn Nic>,
    wanted: Vec<Wanted>,
    /// VLAN ids of all ports.
    ids: Vec<u16>,
    /// A port has another address than the card: contracts know no second one, so all is received.
    foreign_address: bool,
}

impl Shared {
    fn filter(&mut self) {
        let any = |kind: fn(&Wanted) -> bool| self.wanted.iter().any(kind);
        let filter = if self.foreign_address || any(|w| matches!(w, Wanted::Promiscuous)) {
            ReceiveFilter::Promiscuous
        } else if any(|w| matches!(w, Wanted::AllMulticast)) {
            ReceiveFilter::AllMulticast
        } else {
            let mut all: Vec<MacAddress> = Vec::new();
            for wanted in &self.wanted {
                if let Wanted::Groups(groups) = wanted {
                    all.extend(groups);
                }
            }
            sort_short(&mut all, |&mac| mac);
            all.dedup();
            return self.nic.set_receive_filter(ReceiveFilter::Multicast(&all));
        };
        self.nic.set_receive_filter(filter);
    }
}

/// A card with several interfaces over it. The stack is used by one thread at a time, so its lock is never
/// waited for.
#[derive(Clone)]
pub(crate) struct Trunk(Arc<Mutex<Shared>>);

impl Trunk {
    /// Takes a card in; the port is its own interface, for what has no tag.
    pub(crate) fn new(nic: Box<dyn Nic>) -> (Trunk, Port) {
        let mac = nic.mac_address();
        let shared = Shared {
            nic,
            wanted: alloc::vec![Wanted::Groups(Vec::new())],
            ids: Vec::new(),
            foreign_address: false,
        };
        let trunk = Trunk(Arc::new(Mutex::new(shared)));
        let port = Port {
            card: trunk.clone(),
            place: 0,
            tag: None,
            mac,
            mtu: None,
            sent: Sent::default(),
        };
        (trunk, port)
    }

    /// A port for a VLAN, with an address of its own or the card's.
    pub(crate) fn add(&self, id: u16, mac: Option<MacAddress>) -> Port {
        let mut shared = self.0.lock();
        let theirs = shared.nic.mac_address();
        let mac = mac.unwrap_or(theirs);
        shared.foreign_address |= mac != theirs;
        shared.ids.push(id);
        shared.wanted.push(Wanted::Groups(Vec::new()));
        let place = shared.wanted.len() - 1;
        let Shared { nic, ids, .. } = &mut *shared;
        nic.set_vlans(ids);
        let tag = Some(Tci(id));
        Port { card: self.clone(), place, tag, mac, mtu: None, sent: Sent::default() }
    }
}

/// What a port has sent.
#[derive(Clone, Copy, Debug, Default)]
struct Sent {
    packets: u64,
    bytes: u64,
    /// Tags the card inserted.
    by_card: u64,
    /// Tags put into the frame here.
    by_software: u64,
}

/// One interface's share of a card.
pub(crate) struct Port {
    card: Trunk,
    place: usize,
    tag: Option<Tci>,
    mac: MacAddress,
    /// Less than the card's.
    mtu: Option<u16>,
    sent: Sent,
}

impl Port {
    /// Shape of a frame whose tag is in it.
    fn in_frame(shape: &FrameShape) -> FrameShape {
        FrameShape { len: shape.len + TAG, link_len: shape.link_len + TAG as u8, ..*shape }
    }

    /// What the card will do, and whether with the tag beside the frame.
    fn ability(nic: &dyn Nic, shape: &FrameShape) -> (TransmitAbility, bool) {
        let ability = nic.transmit_ability(&FrameShape { tagged: true, ..*shape });
        match ability.tag {
            true => (ability, true),
            false => (nic.transmit_ability(&Port::in_frame(shape)), false),
        }
    }
}

/// Moves the addresses to the front of the window's last four bytes before it, and writes the tag behind them.
fn insert(buffer: &mut Buffer, tag: Tci) {
    let window = buffer.window();
    buffer.set_window(window.start - TAG..window.end);
    buffer.copy_within(TAG..TAG + ADDRESSES, 0);
    buffer[ADDRESSES..ADDRESSES + 2].copy_from_slice(&crate::frame::ethertype::VLAN.to_be_bytes());
    buffer[ADDRESSES + 2..ADDRESSES + 4].copy_from_slice(&tag.0.to_be_bytes());
}

impl Nic for Port {
    fn driver_info(&self) -> DriverInfo {
        match self.tag {
            None => self.card.0.lock().nic.driver_info(),
            Some(_) => DriverInfo { driver: "802.1Q VLAN Support", chip: "" },
        }
    }

    fn mac_address(&self) -> MacAddress {
        self.mac
    }

    fn link(&self) -> Link {
        self.card.0.lock().nic.link()
    }

    fn mtu(&self) -> u16 {
        let theirs = self.card.0.lock().nic.mtu();
        self.mtu.map_or(theirs, |ours| ours.min(theirs))
    }

    fn max_mtu(&self) -> u16 {
        let shared = self.card.0.lock();
        match self.tag {
            None => shared.nic.max_mtu(),
            Some(_) => shared.nic.mtu(),
        }
    }

    fn set_mtu(&mut self, mtu: u16) -> bool {
        let mut shared = self.card.0.lock();
        if self.tag.is_none() {
            return shared.nic.set_mtu(mtu);
        }
        // 68: what every link must carry (RFC 791).
        let possible = (68..=shared.nic.mtu()).contains(&mtu);
        if possible {
            self.mtu = Some(mtu);
        }
        possible
    }

    fn set_receive_filter(&mut self, filter: ReceiveFilter<'_>) {
        let mut shared = self.card.0.lock();
        if let Some(wanted) = shared.wanted.get_mut(self.place) {
            *wanted = Wanted::new(filter);
        }
        shared.filter();
    }

    fn pause(&self) -> Option<Pause> {
        self.tag.is_none().then(|| self.card.0.lock().nic.pause()).flatten()
    }

    fn wake_on_lan(&self) -> Option<bool> {
        self.tag.is_none().then(|| self.card.0.lock().nic.wake_on_lan()).flatten()
    }

    fn set_wake_on_lan(&mut self, on: bool) -> bool {
        self.tag.is_none() && self.card.0.lock().nic.set_wake_on_lan(on)
    }

    fn stop(&mut self, why: Stop) {
        if self.tag.is_none() {
            self.card.0.lock().nic.stop(why);
        }
    }

    fn service(&mut self, now_us: u64) {
        if self.tag.is_none() {
            self.card.0.lock().nic.service(now_us);
        }
    }

    fn arm(&mut self) -> bool {
        self.tag.is_none() && self.card.0.lock().nic.arm()
    }

    fn service_at(&self) -> Option<u64> {
        self.tag.is_none().then(|| self.card.0.lock().nic.service_at()).flatten()
    }

    fn receive(&mut self) -> Option<ReceivedFrame> {
        self.tag.is_none().then(|| self.card.0.lock().nic.receive()).flatten()
    }

    fn recycle(&mut self, frame: ReceivedFrame) {
        self.card.0.lock().nic.recycle(frame);
    }

    fn transmit_buffer(&mut self, len: usize) -> Option<Buffer> {
        let mut shared = self.card.0.lock();
        if self.tag.is_none() {
            return shared.nic.transmit_buffer(len);
        }
        let mut buffer = shared.nic.transmit_buffer(len + TAG)?;
        let window = buffer.window();
        buffer.set_window(window.start + TAG..window.end);
        Some(buffer)
    }

    fn transmit(&mut self, mut buffer: Buffer, request: &TransmitRequest) {
        let nic = &mut self.card.0.lock().nic;
        let Some(tag) = self.tag else { return nic.transmit(buffer, request) };
        self.sent.packets += 1;
        self.sent.bytes += buffer.len() as u64;
        let (_, beside) = Port::ability(&**nic, &request.shape);
        let mut request = *request;
        if beside {
            self.sent.by_card += 1;
            request.tag = Some(tag);
            request.shape.tagged = true;
        } else {
            self.sent.by_software += 1;
            insert(&mut buffer, tag);
            request.shape = Port::in_frame(&request.shape);
        }
        nic.transmit(buffer, &request);
    }

    fn transmit_cancel(&mut self, buffer: Buffer) {
        self.card.0.lock().nic.transmit_cancel(buffer);
    }

    fn flush(&mut self) {
        self.card.0.lock().nic.flush();
    }

    fn transmit_room(&self) -> usize {
        self.card.0.lock().nic.transmit_room()
    }

    fn transmit_ability(&self, shape: &FrameShape) -> TransmitAbility {
        let nic = &self.card.0.lock().nic;
        match self.tag {
            None => nic.transmit_ability(shape),
            Some(_) => TransmitAbility { tag: false, ..Port::ability(&**nic, shape).0 },
        }
    }

    fn max_segmented_frame(&self) -> Option<usize> {
        let most = self.card.0.lock().nic.max_segmented_frame()?;
        Some(if self.tag.is_some() { most - TAG } else { most })
    }

    fn feature(&self, feature: Feature) -> FeatureState {
        let state = self.card.0.lock().nic.feature(feature);
        match (self.tag, feature) {
            (None, _) => state,
            (_, Feature::RxVlanOffload | Feature::TxVlanOffload | Feature::RxVlanFilter) => {
                FeatureState::ABSENT
            }
            // Of the card, and switched there.
            _ => FeatureState { fixed: true, ..state },
        }
    }

    fn set_feature(&mut self, feature: Feature, on: bool) -> Result<(), FeatureError> {
        match self.tag {
            None => self.card.0.lock().nic.set_feature(feature, on),
            Some(_) => Err(FeatureError::Fixed),
        }
    }

    fn private_flags(&self, visit: &mut dyn FnMut(&'static str, bool)) {
        if self.tag.is_none() {
            self.card.0.lock().nic.private_flags(visit);
        }
    }

    fn set_private_flag(&mut self, name: &str, on: bool) -> bool {
        self.tag.is_none() && self.card.0.lock().nic.set_private_flag(name, on)
    }

    fn statistics(&self, visit: &mut dyn FnMut(&'static str, u64)) {
        if self.tag.is_none() {
            return self.card.0.lock().nic.statistics(visit);
        }
        let Sent { packets, bytes, by_card, by_software } = self.sent;
        visit("tx_packets", packets);
        visit("tx_bytes", bytes);
        visit("tx_vlan_hw", by_card);
        visit("tx_vlan_sw", by_software);
    }
}

impl Stack {
    /// Makes a VLAN interface over a card and returns its number. Its address, if not the card's, and its
    /// MTU, if less than the card's, are those of `addressing`.
    pub fn add_vlan(
        &mut self,
        spec: &VlanSpec,
        addressing: Addressing,
        now: Instant,
    ) -> Result<usize, VlanError> {
        if !(1..=4094).contains(&spec.id) {
            return Err(VlanError::Id);
        }
        if self.interfaces.iter().any(|interface| interface.name == spec.name) {
            return Err(VlanError::Taken);
        }
        let is_card = |i: &Interface| i.name == spec.card && !i.loopback && i.vlan.is_none();
        let parent = self.interfaces.iter().position(is_card).ok_or(VlanError::NoCard)?;
        let place = self.interfaces.len();
        let card = &mut self.interfaces[parent];
        let sharing = card.sharing.get_or_insert_with(|| {
            let nic = core::mem::replace(&mut card.nic, Box::new(Loopback::new()));
            let (trunk, port) = Trunk::new(nic);
            card.nic = Box::new(port);
            Box::new(Sharing { trunk, vlans: Vec::new(), first: 0 })
        });
        if sharing.vlans.len() >= MOST {
            return Err(VlanError::TooMany);
        }
        let Err(at) = sharing.vlans.binary_search_by_key(&spec.id, |(id, _)| *id) else {
            return Err(VlanError::Taken);
        };
        sharing.vlans.insert(at, (spec.id, place));
        let port = sharing.trunk.add(spec.id, addressing.mac);
        // What the card's own interface wants was lost on the way into the trunk.
        self.filter(parent);
        let mut interface =
            Interface::new(spec.name.clone(), Box::new(port), self.neighbour_key, false);
        interface.vlan = Some(Vlan { id: spec.id, parent, ..Vlan::default() });
        Ok(self.add(interface, addressing, now))
    }

    /// Whose a frame with a tag is, by its tag: one beside it, or one in it. `None`: nobody's.
    pub(crate) fn untag(
        &mut self,
        place: usize,
        beside: Option<Tci>,
        headers: &Headers,
    ) -> Option<usize> {
        let card = self.interfaces.get_mut(place)?;
        let counters = &mut card.egress.counters;
        let in_frame = (headers.shape.link_len - LINK_LEN) / TAG as u8;
        let tag = match (beside, in_frame) {
            (Some(tag), 0) => {
                counters.rx_vlan_hw += 1;
                Some(tag)
            }
            (None, 1) => {
                counters.rx_vlan_sw += 1;
                headers.tag
            }
            // Tags within tags are for bridges.
            _ => None,
        };
        let id = tag.map(Tci::id);
        if id == Some(0) {
            // It has a priority and belongs to no VLAN (IEEE 802.1Q, 9.6): the same as without.
            counters.rx_vlan_priority += 1;
            return Some(place);
        }
        let vlans = card.sharing.as_ref().map_or(&[][..], |sharing| &sharing.vlans);
        let of = |id| vlans.binary_search_by_key(&id, |(id, _)| *id).ok();
        let Some(at) = id.and_then(of) else {
            counters.rx_vlan_unknown += 1;
            return None;
        };
        let place = vlans[at].1;
        if let Some(vlan) = self.interfaces.get_mut(place).and_then(|i| i.vlan.as_mut()) {
            vlan.rx_packets += 1;
            // As if the tag had not been.
            vlan.rx_bytes += headers.shape.len as u64 - u64::from(in_frame) * TAG as u64;
        }
        Some(place)
    }
}
