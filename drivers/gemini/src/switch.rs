//! The RTL8366RB of a DIR-685, as far as the sheet goes: its ports switched on, and the tag "rtl4a" between it and
//! the MAC. [GM 2.1]
//!
//! The switch forwards between its sockets by itself. What we send goes by the socket its address was last heard
//! from, and by all while it was not: a tag names sockets and leaves nothing to the switch's own table.

use crate::smi::Smi;
use trireme_nic::{Buffer, FrameShape, Link, MacAddress};
use trireme_phy::{LinkState, Pins};

/// Bytes of a tag, which stands between addresses and EtherType.
pub(crate) const TAG: usize = 4;
/// Its EtherType, and the protocol in its highest bits.
const ETHERTYPE: [u8; 2] = [0x88, 0x99];
const PROTOCOL: u8 = 0xa0;
/// Shortest frame before it is tagged.
const SHORTEST: usize = 60;
const ADDRESSES: usize = 12;

/// Sockets; the CPU's port comes after them.
const SOCKETS: u8 = 5;
const EVERY_SOCKET: u8 = (1 << SOCKETS) - 1;
const CPU_PORT: u16 = 5;

const CONTROL: u16 = 0x0000;
/// Bits 5:4 of it: 16,000 bytes; what the MAC takes is less.
const LONGEST: u16 = 3 << 4;
const PORT_STATUS: u16 = 0x0014;
const STATUS_LINK: u16 = 1 << 4;
const CHIP_ID: u16 = 0x005c;
const RTL8366RB: u16 = 0x5937;
const CPU_CONTROL: u16 = 0x0061;
const PHY_CONTROL: u16 = 0x8000;
const PHY_READ: u16 = 1;
const PHY_DATA: u16 = 0x8002;
/// BMCR of its PHYs. [802.3 22.2.4.1]
const BMCR: u16 = 0;
const BMCR_POWER_DOWN: u16 = 1 << 11;
const BMCR_ISOLATE: u16 = 1 << 10;
const BMCR_NEGOTIATE: u16 = 3 << 9;

/// Addresses remembered at most; a newer one takes the place of the oldest.
const PLACES: usize = 32;

/// The switch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Switch {
    /// It has answered, and tags.
    set_up: bool,
    /// Whom we heard by which socket.
    places: [(MacAddress, u8); PLACES],
    next: usize,
}

impl Switch {
    /// Not spoken to yet.
    pub(crate) fn new() -> Switch {
        Switch { set_up: false, places: [([0; 6], 0); PLACES], next: 0 }
    }

    /// Sets it up if it is not, and asks for its sockets' links. The link is up as long as one of them is: the
    /// other end of the MAC's own is always there.
    pub(crate) fn look<P: Pins>(&mut self, bus: &Smi<'_, P>, pause: bool) -> LinkState {
        if !self.set_up {
            self.set_up = set_up(bus).is_some();
        }
        let sockets = self.set_up.then(|| links(bus)).flatten();
        // One that does not answer any more may have lost its settings.
        self.set_up = sockets.is_some();
        for (_, socket) in &mut self.places {
            // Whoever was there is somewhere else now, or nowhere.
            *socket &= sockets.unwrap_or(0);
        }
        match sockets {
            None | Some(0) => LinkState::default(),
            Some(_) => {
                let link = Link { up: true, speed_mbps: 1000, full_duplex: true };
                LinkState { link, pause }
            }
        }
    }

    /// The shape a frame has once it is tagged.
    pub(crate) fn tagged(shape: &FrameShape) -> FrameShape {
        FrameShape {
            len: shape.len.max(SHORTEST) + TAG,
            link_len: shape.link_len + TAG as u8,
            ..*shape
        }
    }

    /// Puts a tag into a frame that is to be sent.
    pub(crate) fn tag(&self, frame: &mut Buffer) {
        let (window, len) = (frame.window(), frame.len());
        let start = match window.start.checked_sub(TAG) {
            Some(start) => start,
            None => {
                // Whoever moved the frame to the buffer's start: there is room behind it.
                frame.whole_mut().copy_within(window, TAG);
                0
            }
        };
        let padded = len.max(SHORTEST);
        frame.set_window(start..start + TAG + padded);
        frame[TAG + len..].fill(0);
        frame.copy_within(TAG..TAG + ADDRESSES, 0);
        let sockets = self.sockets(frame);
        frame[ADDRESSES..ADDRESSES + 2].copy_from_slice(&ETHERTYPE);
        frame[ADDRESSES + 2..ADDRESSES + TAG].copy_from_slice(&[PROTOCOL, sockets]);
    }

    fn sockets(&self, frame: &[u8]) -> u8 {
        let place = self
            .places
            .iter()
            .find(|(address, sockets)| *sockets != 0 && frame.starts_with(address));
        place.map_or(EVERY_SOCKET, |(_, socket)| *socket)
    }

    /// Takes the tag out of a received frame, and notes who is where. False: there was none.
    pub(crate) fn untag(&mut self, frame: &mut Buffer) -> bool {
        let Some(&[a, b, c, socket]) = frame.get(ADDRESSES..ADDRESSES + TAG) else { return false };
        if [a, b] != ETHERTYPE || c & 0xf0 != PROTOCOL || frame.len() < 14 + TAG {
            return false;
        }
        frame.copy_within(..ADDRESSES, TAG);
        let window = frame.window();
        frame.set_window(window.start + TAG..window.end);
        if let Some(&[_, _, _, _, _, _, a, b, c, d, e, f]) = frame.first_chunk::<ADDRESSES>()
            && socket < SOCKETS
            && a & 1 == 0
        {
            self.note([a, b, c, d, e, f], 1 << socket);
        }
        true
    }

    fn note(&mut self, who: MacAddress, socket: u8) {
        if let Some(place) = self.places.iter_mut().find(|place| place.0 == who) {
            place.1 = socket;
        } else {
            self.places[self.next] = (who, socket);
            self.next = (self.next + 1) % PLACES;
        }
    }
}

/// Finds the switch, switches its sockets on and has it tag. `None`: it does not answer, or is another.
fn set_up<P: Pins>(bus: &Smi<'_, P>) -> Option<()> {
    let id = bus.read(CHIP_ID)?;
    if id != RTL8366RB {
        log::warn!("gemini: switch {id:04x} is not known");
        return None;
    }
    let control = bus.read(CONTROL)?;
    bus.write(CONTROL, control | LONGEST).then_some(())?;
    for socket in 0..SOCKETS {
        let phy = PHY_CONTROL | 1 << (9 + socket) | BMCR;
        bus.write(PHY_CONTROL, PHY_READ).then_some(())?;
        bus.write(phy, 0).then_some(())?;
        let before = bus.read(PHY_DATA)?;
        // One that is at work keeps its link.
        if before & (BMCR_POWER_DOWN | BMCR_ISOLATE) != 0 {
            bus.write(PHY_CONTROL, 0).then_some(())?;
            let on = before & !(BMCR_POWER_DOWN | BMCR_ISOLATE) | BMCR_NEGOTIATE;
            bus.write(phy, on).then_some(())?;
        }
    }
    // Bit 15 would have it not tag.
    bus.write(CPU_CONTROL, 1 << CPU_PORT).then_some(())?;
    log::debug!("gemini: RTL8366RB");
    Some(())
}

/// Which sockets have a link, a bit each.
fn links<P: Pins>(bus: &Smi<'_, P>) -> Option<u8> {
    let mut links = 0;
    for pair in 0..3 {
        let status = bus.read(PORT_STATUS + pair)?;
        for (half, status) in [(0, status), (1, status >> 8)] {
            links |= u8::from(status & STATUS_LINK != 0) << (2 * pair + half);
        }
    }
    Some(links & EVERY_SOCKET)
}
