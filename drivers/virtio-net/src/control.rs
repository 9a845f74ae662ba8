//! The control queue: receive filters and run-time receive offloads. [VIRTIO 5.1.6.5]
//!
//! One command is under way at a time. Filters are remembered as wanted and sent one after the other
//! by [`Control::step`], without waiting. Only a change of offloads waits, within a bound: whoever
//! asks has to know whether it took effect.

#![allow(unsafe_code)]

use crate::counters::Counters;
use crate::features::Features;
use crate::{Error, QUEUE_CONTROL};
use trireme_nic::{Buffer, DeviceBuffer, Direction, Dma, MacAddress, ReceiveFilter};
use virtio_drivers::queue::VirtQueue;
use virtio_drivers::transport::Transport;
use virtio_drivers::{Error as VirtioError, Hal};

/// Two descriptors, command and answer, are in use at most.
const SIZE: usize = 2;
/// Groups in a filter; more than this, and every multicast frame is let through.
const MAX_GROUPS: usize = 64;
/// Class, command, an empty unicast table and a full multicast table.
const COMMAND_LEN: usize = 2 + 4 + 4 + 6 * MAX_GROUPS;
/// Looks at the used ring before a command is given up. Some milliseconds even where a look is quick;
/// the device answers in microseconds.
const PATIENCE: usize = 1 << 20;

const OK: u8 = 0;
const CLASS_RX: u8 = 0;
const RX_PROMISC: u8 = 0;
const RX_ALLMULTI: u8 = 1;
const CLASS_MAC: u8 = 1;
const MAC_TABLE_SET: u8 = 0;
const CLASS_GUEST_OFFLOADS: u8 = 5;
const GUEST_OFFLOADS_SET: u8 = 0;

/// What is to be received.
struct Filter {
    promiscuous: bool,
    all_multicast: bool,
    groups: [MacAddress; MAX_GROUPS],
    count: usize,
}

/// Parts of the filter the device has not been told of.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Dirty {
    promiscuous: bool,
    all_multicast: bool,
    table: bool,
}

impl Dirty {
    const NOTHING: Dirty = Dirty { promiscuous: false, all_multicast: false, table: false };
    const ALL: Dirty = Dirty { promiscuous: true, all_multicast: true, table: true };
}

enum Channel {
    Idle { command: Buffer, answer: Buffer },
    Busy { token: u16, command: DeviceBuffer, answer: DeviceBuffer },
}

pub(crate) struct Control<H: Hal> {
    ring: VirtQueue<H, SIZE>,
    /// Always there between calls.
    channel: Option<Channel>,
    /// The device gave a wrong id: it may still write to the buffers, and nothing more can be
    /// asked before a reset.
    stuck: bool,
    /// Whether the last command finished was accepted.
    accepted: bool,
    filters: bool,
    wanted: Filter,
    dirty: Dirty,
}

impl<H: Hal> Control<H> {
    pub(crate) fn new<D: Dma, T: Transport>(
        dma: &D,
        transport: &mut T,
        features: Features,
    ) -> Result<Self, Error> {
        let line = dma.cache_line();
        let ring = new_ring(transport)?;
        let command = Buffer::new(dma.allocate(COMMAND_LEN.next_multiple_of(line), line)?);
        let answer = Buffer::new(dma.allocate(line, line)?);
        Ok(Control {
            ring,
            channel: Some(Channel::Idle { command, answer }),
            stuck: false,
            accepted: true,
            filters: features.contains(Features::CTRL_RX),
            // A device starts out promiscuous where it wants to please old drivers (QEMU does).
            wanted: Filter {
                promiscuous: false,
                all_multicast: false,
                groups: [[0; 6]; MAX_GROUPS],
                count: 0,
            },
            dirty: Dirty::ALL,
        })
    }

    /// Remembers a filter for [`step`](Self::step) to send.
    pub(crate) fn set_filter(&mut self, filter: ReceiveFilter<'_>) {
        let promiscuous = filter == ReceiveFilter::Promiscuous;
        let (groups, all_multicast) = match filter {
            ReceiveFilter::Multicast(groups) if groups.len() <= MAX_GROUPS => (groups, false),
            ReceiveFilter::Multicast(_) | ReceiveFilter::AllMulticast => (&[][..], true),
            ReceiveFilter::Promiscuous => (&[][..], false),
        };
        self.dirty.promiscuous |= promiscuous != self.wanted.promiscuous;
        self.dirty.all_multicast |= all_multicast != self.wanted.all_multicast;
        self.dirty.table |= self.wanted.groups.get(..self.wanted.count) != Some(groups);
        self.wanted.promiscuous = promiscuous;
        self.wanted.all_multicast = all_multicast;
        self.wanted.count = groups.len();
        if let Some(table) = self.wanted.groups.get_mut(..groups.len()) {
            table.copy_from_slice(groups);
        }
    }

    /// True if [`step`](Self::step) has something to do or to wait for.
    pub(crate) fn is_active(&self) -> bool {
        let busy = matches!(self.channel, Some(Channel::Busy { .. }));
        !self.stuck && (busy || (self.filters && self.dirty != Dirty::NOTHING))
    }

    /// Finishes the command under way if the device answered, and starts the next.
    pub(crate) fn step<D: Dma, T: Transport>(
        &mut self,
        dma: &D,
        transport: &mut T,
        counters: &mut Counters,
    ) {
        self.finish(dma, counters);
        if !self.filters || !matches!(self.channel, Some(Channel::Idle { .. })) {
            return;
        }
        // The table first: were the device to stop being promiscuous before it knows the groups, what
        // is sent to them in between, an advertisement a router was just asked for, say, would
        // be lost.
        if core::mem::take(&mut self.dirty.table) {
            let count = self.wanted.count;
            let groups = self.wanted.groups;
            self.start(
                dma,
                transport,
                counters,
                &[
                    &[CLASS_MAC, MAC_TABLE_SET],
                    &0u32.to_le_bytes(),
                    &(count as u32).to_le_bytes(),
                    groups[..count].as_flattened(),
                ],
            );
        } else if core::mem::take(&mut self.dirty.all_multicast) {
            let on = u8::from(self.wanted.all_multicast);
            self.start(dma, transport, counters, &[&[CLASS_RX, RX_ALLMULTI, on]]);
        } else if core::mem::take(&mut self.dirty.promiscuous) {
            let on = u8::from(self.wanted.promiscuous);
            self.start(dma, transport, counters, &[&[CLASS_RX, RX_PROMISC, on]]);
        }
    }

    /// Sets the receive offloads, waiting for the device's answer. False if it refused or did not
    /// answer.
    pub(crate) fn set_offloads<D: Dma, T: Transport>(
        &mut self,
        dma: &D,
        transport: &mut T,
        counters: &mut Counters,
        offloads: Features,
    ) -> bool {
        // The offload bits are the feature bits. [VIRTIO 5.1.6.5.6.1]
        let bits = offloads.bits().to_le_bytes();
        self.wait(dma, counters)
            && self.start(
                dma,
                transport,
                counters,
                &[&[CLASS_GUEST_OFFLOADS, GUEST_OFFLOADS_SET], &bits],
            )
            && self.wait(dma, counters)
            && self.accepted
    }

    /// Waits until nothing is under way. False if the device does not answer.
    fn wait<D: Dma>(&mut self, dma: &D, counters: &mut Counters) -> bool {
        for _ in 0..PATIENCE {
            self.finish(dma, counters);
            if matches!(self.channel, Some(Channel::Idle { .. })) {
                return true;
            }
            if self.stuck {
                return false;
            }
            core::hint::spin_loop();
        }
        counters.ctrl_timeouts += 1;
        false
    }

    fn finish<D: Dma>(&mut self, dma: &D, counters: &mut Counters) {
        let (token, command, answer) = match self.channel.take() {
            Some(Channel::Busy { token, command, answer }) if !self.stuck => {
                (token, command, answer)
            }
            other => {
                self.channel = other;
                return;
            }
        };
        let popped = match self.ring.peek_used() {
            None => {
                self.channel = Some(Channel::Busy { token, command, answer });
                return;
            }
            // SAFETY: `start` added exactly these two when it got `token`, and nobody has reached
            // them since. The references end with the call.
            Some(used) if used == token => unsafe {
                self.ring.pop_used(
                    token,
                    &[&*command.pointer().as_ptr()],
                    &mut [&mut *answer.pointer().as_ptr()],
                )
            },
            Some(_) => Err(VirtioError::WrongToken),
        };
        if popped.is_err() {
            counters.bad_ids += 1;
            self.stuck = true;
            self.channel = Some(Channel::Busy { token, command, answer });
            return;
        }
        let (command, answer) = (command.to_cpu(dma), answer.to_cpu(dma));
        self.accepted = answer.first() == Some(&OK);
        counters.ctrl_errors += u64::from(!self.accepted);
        self.channel = Some(Channel::Idle { command, answer });
    }

    fn start<D: Dma, T: Transport>(
        &mut self,
        dma: &D,
        transport: &mut T,
        counters: &mut Counters,
        parts: &[&[u8]],
    ) -> bool {
        let (mut command, mut answer) = match self.channel.take() {
            Some(Channel::Idle { command, answer }) => (command, answer),
            other => {
                self.channel = other;
                return false;
            }
        };
        let mut len = 0;
        for part in parts {
            command.whole_mut()[len..len + part.len()].copy_from_slice(part);
            len += part.len();
        }
        command.set_window(0..len);
        answer.set_window(0..1);
        answer[0] = !OK;
        let command = command.to_device(dma, Direction::ToDevice);
        let answer = answer.to_device(dma, Direction::FromDevice);
        // SAFETY: DeviceBuffers are valid for ever and reached by nobody on the CPU's side; they
        // are kept in `Busy` until `pop_used`. Neither is empty.
        let token = unsafe {
            self.ring.add(&[&*command.pointer().as_ptr()], &mut [&mut *answer.pointer().as_ptr()])
        };
        let Ok(token) = token else {
            self.channel =
                Some(Channel::Idle { command: command.to_cpu(dma), answer: answer.to_cpu(dma) });
            return false;
        };
        self.channel = Some(Channel::Busy { token, command, answer });
        counters.ctrl_commands += 1;
        transport.notify(QUEUE_CONTROL);
        true
    }

    /// Puts a fresh ring under the queue, after a reset of the device. The filter is sent again.
    pub(crate) fn restart<D: Dma, T: Transport>(
        &mut self,
        dma: &D,
        transport: &mut T,
    ) -> Result<(), Error> {
        self.ring = new_ring(transport)?;
        self.channel = match self.channel.take() {
            Some(Channel::Busy { command, answer, .. }) => {
                Some(Channel::Idle { command: command.to_cpu(dma), answer: answer.to_cpu(dma) })
            }
            other => other,
        };
        self.stuck = false;
        self.dirty = Dirty::ALL;
        Ok(())
    }
}

/// Always told of commands, and never interrupts: [`Control::step`] looks.
fn new_ring<H: Hal, T: Transport>(transport: &mut T) -> Result<VirtQueue<H, SIZE>, VirtioError> {
    let mut ring = VirtQueue::new(transport, QUEUE_CONTROL, false, false)?;
    ring.set_dev_notify(false);
    Ok(ring)
}
