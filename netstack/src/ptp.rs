//! PTP over Ethernet (IEEE 1588-2019 annex E, 802.1AS): messages in and out with the times the card's
//! own clock gives them. What they say is the program's affair.

use crate::error::Error;
use crate::frame::ethertype;
use crate::route::LOOPBACK;
use crate::socket::Event;
use crate::stack::Stack;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use trireme_nic::{MacAddress, Ptp, PtpTime, ReceivedFrame};

/// Messages kept for the program; more are lost, and counted.
const MAX_QUEUED: usize = 32;
/// Longest message: what an MTU of 1500 bytes holds.
const MAX_MESSAGE: usize = 1500;

/// A received message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PtpMessage {
    /// Who sent it.
    pub source: MacAddress,
    /// Whom it was sent to.
    pub destination: MacAddress,
    /// What follows the Ethernet header, padding included.
    pub message: Vec<u8>,
    /// When it arrived, if the card says so.
    pub received_at: Option<PtpTime>,
}

/// Messages of one interface.
#[derive(Debug, Default)]
pub(crate) struct PtpQueue {
    received: VecDeque<PtpMessage>,
}

impl Stack {
    /// From now on keeps PTP messages that `eth{n}` receives, for one who asks.
    pub fn ptp_open(&mut self, n: usize) -> Result<(), Error> {
        let interface = self.interfaces.get_mut(LOOPBACK + 1 + n);
        let interface = interface.ok_or(Error::AddressNotAvailable)?;
        interface.nic.ptp().ok_or(Error::NotSupported)?;
        if interface.ptp.is_some() {
            return Err(Error::AddressInUse);
        }
        interface.ptp = Some(PtpQueue::default());
        Ok(())
    }

    /// Keeps none any more.
    pub fn ptp_close(&mut self, n: usize) {
        if let Some(interface) = self.interfaces.get_mut(LOOPBACK + 1 + n) {
            interface.ptp = None;
        }
    }

    /// The clock of `eth{n}`'s card.
    pub fn ptp_clock(&mut self, n: usize) -> Option<&mut dyn Ptp> {
        self.interfaces.get_mut(LOOPBACK + 1 + n)?.nic.ptp()
    }

    /// The oldest message received.
    pub fn ptp_receive(&mut self, n: usize) -> Option<PtpMessage> {
        self.interfaces.get_mut(LOOPBACK + 1 + n)?.ptp.as_mut()?.received.pop_front()
    }

    /// Sends a message. The number comes back from the clock's
    /// [`sent_at`](trireme_nic::Ptp::sent_at) with the time it left.
    pub fn ptp_send(
        &mut self,
        n: usize,
        destination: MacAddress,
        message: &[u8],
    ) -> Result<u32, Error> {
        let interface = self.interfaces.get_mut(LOOPBACK + 1 + n);
        let interface = interface.ok_or(Error::AddressNotAvailable)?;
        if message.len() > MAX_MESSAGE {
            return Err(Error::MessageTooLong);
        }
        interface.nic.ptp().ok_or(Error::NotSupported)?;
        if !interface.egress.ready(&mut *interface.nic, 0) {
            return Err(Error::WouldBlock);
        }
        let header = interface.header(destination, ethertype::PTP);
        let number = interface.egress.send_timed(&mut *interface.nic, &header, message);
        interface.unflushed = true;
        interface.flush();
        number.ok_or(Error::WouldBlock)
    }

    /// A frame of PTP's EtherType, its message from `start` on.
    pub(crate) fn ptp_frame(&mut self, place: usize, frame: &ReceivedFrame, start: usize) {
        let Some(interface) = self.interfaces.get_mut(place) else { return };
        let Some(queue) = &mut interface.ptp else {
            self.statistics.unknown_protocol += 1;
            return;
        };
        if queue.received.len() == MAX_QUEUED {
            self.statistics.ptp_overflows += 1;
            return;
        }
        let bytes = &frame.buffer;
        let (Some(destination), Some(source), Some(message)) =
            (bytes.first_chunk(), bytes[6..].first_chunk(), bytes.get(start..))
        else {
            return;
        };
        let received_at = interface.nic.ptp().and_then(|clock| clock.received_at(frame));
        queue.received.push_back(PtpMessage {
            source: *source,
            destination: *destination,
            message: message[..message.len().min(MAX_MESSAGE)].to_vec(),
            received_at,
        });
        self.events.push_back(Event::Ptp(place - LOOPBACK - 1));
    }
}
