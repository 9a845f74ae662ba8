//! An ordinary clock: one port, its timers and its messages.

use std::cell::RefCell;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::rc::Rc;
use std::time::{Duration, Instant};

use rand::SeedableRng;
use rand::rngs::SmallRng;
use statime::PtpInstance;
use statime::config::{
    AcceptAnyMaster, ClockIdentity, DelayMechanism, InstanceConfig, PortConfig, PtpMinorVersion,
    SdoId, TimePropertiesDS, TimeSource,
};
use statime::observability::port::PortState;
use statime::port::{
    InBmca, NoForwardedTLVs, Port, PortAction, PortActionIterator, Running, TimestampContext,
};
use statime::time::Interval;
use trireme::network;
use trireme::ptp::{self, Error, MacAddress, NEAREST_BRIDGE, PtpTime};

use crate::card::{CardClock, time};
use crate::message;
use crate::options::Options;
use crate::servo::{Purpose, Servo};

/// Where everything but peer delay goes over Ethernet. (IEEE 1588-2019, annex E)
const EVERYBODY: MacAddress = [0x01, 0x1b, 0x19, 0, 0, 0];
/// Announcements missed until a master is given up.
const ANNOUNCE_RECEIPT_TIMEOUT: u8 = 3;

type Instance = PtpInstance<Servo>;
type PortIn<'a, State> = Port<'a, State, AcceptAnyMaster, SmallRng, CardClock, Servo>;

/// What the protocol wants to be reminded of.
#[derive(Clone, Copy, Debug)]
enum Timer {
    Announce,
    Sync,
    DelayRequest,
    AnnounceReceipt,
    FilterUpdate,
}

const TIMERS: [Timer; 5] = [
    Timer::Announce,
    Timer::Sync,
    Timer::DelayRequest,
    Timer::AnnounceReceipt,
    Timer::FilterUpdate,
];

/// Timers and the way out.
struct Surroundings {
    card: Rc<RefCell<ptp::Port>>,
    due: [Option<Instant>; TIMERS.len()],
    messages: bool,
    counts: Counts,
}

/// What went wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    /// Not PTP version 2, or cut short.
    malformed: u64,
    /// Events the card gave no time of arrival.
    without_time: u64,
    /// Messages that did not leave, or nobody knows when.
    unsent: u64,
}

/// A clock with its card.
pub struct Ordinary {
    options: Options,
    mac: MacAddress,
    card: Rc<RefCell<ptp::Port>>,
}

impl Ordinary {
    /// Opens the card.
    pub fn open(options: &Options) -> Result<Ordinary, Error> {
        let card = Rc::new(RefCell::new(ptp::Port::open(&options.interface)?));
        let interfaces = network::interfaces();
        let interface = interfaces.into_iter().find(|card| card.name == options.interface);
        let mac = interface.ok_or(Error::NoSuchInterface)?.mac;
        Ok(Ordinary { options: options.clone(), mac, card })
    }

    /// Runs, for good.
    pub fn run(self) -> ! {
        let options = &self.options;
        let instance = Instance::new(self.instance_config(), time_properties());
        let clock = CardClock::new(self.card.clone());
        let purpose = if options.free_running { Purpose::Measure } else { Purpose::Steer };
        let random = SmallRng::seed_from_u64(RandomState::new().build_hasher().finish());
        let port = instance.add_port(self.port_config(), purpose, clock.clone(), random);
        let mut surroundings = Surroundings {
            card: self.card.clone(),
            due: [None; TIMERS.len()],
            messages: options.messages,
            counts: Counts::default(),
        };
        let identity = identity(instance.default_ds().clock_identity);
        println!("{}: PTP clock {identity}, domain {}", options.interface, options.domain);
        let mut port = elect(&instance, port, &mut surroundings);
        let mut elect_at = Instant::now() + instance.bmca_interval();
        let mut report = Report::new(options, &clock);
        loop {
            let now = Instant::now();
            if now >= elect_at {
                port = elect(&instance, port.start_bmca(), &mut surroundings);
                elect_at = now + instance.bmca_interval();
            }
            surroundings.expire(&mut port, now);
            let next = surroundings.due.iter().flatten().copied().chain([elect_at, report.at]);
            let next = next.min().unwrap_or(elect_at);
            surroundings.receive(&mut port, next.saturating_duration_since(Instant::now()));
            report.show(&instance, &port, &surroundings.counts);
        }
    }

    fn instance_config(&self) -> InstanceConfig {
        let [a, b, c, d, e, f] = self.mac;
        InstanceConfig {
            // An EUI-64 of an EUI-48, as PTP clocks have been named ever since. (IEEE 1588-2019, 7.5.2.2.2)
            clock_identity: ClockIdentity([a, b, c, 0xff, 0xfe, d, e, f]),
            priority_1: self.options.priority1.unwrap_or(u8::MAX),
            priority_2: 128,
            domain_number: self.options.domain,
            sdo_id: SdoId::default(),
            slave_only: self.options.priority1.is_none(),
            path_trace: false,
        }
    }

    fn port_config(&self) -> PortConfig<AcceptAnyMaster> {
        let interval = Interval::from_log_2(self.options.delay_interval);
        PortConfig {
            acceptable_master_list: AcceptAnyMaster,
            delay_mechanism: match self.options.p2p {
                true => DelayMechanism::P2P { interval },
                false => DelayMechanism::E2E { interval },
            },
            announce_interval: Interval::from_log_2(self.options.announce_interval),
            announce_receipt_timeout: ANNOUNCE_RECEIPT_TIMEOUT,
            sync_interval: Interval::from_log_2(self.options.sync_interval),
            master_only: false,
            delay_asymmetry: statime::time::Duration::ZERO,
            minor_ptp_version: PtpMinorVersion::One,
        }
    }
}

/// Of the card's clock before anyone has set it.
fn time_properties() -> TimePropertiesDS {
    TimePropertiesDS::new_arbitrary_time(false, false, TimeSource::InternalOscillator)
}

/// The best master is chosen anew.
fn elect<'a>(
    instance: &'a Instance,
    mut port: PortIn<'a, InBmca>,
    surroundings: &mut Surroundings,
) -> PortIn<'a, Running> {
    instance.bmca(&mut [&mut port]);
    let (mut port, actions) = port.end_bmca();
    let sent = surroundings.act(actions);
    surroundings.stamp(&mut port, sent);
    port
}

impl Surroundings {
    /// Does what the protocol asks for. A message whose time counts comes back with it.
    fn act(&mut self, actions: PortActionIterator<'_>) -> Option<(TimestampContext, PtpTime)> {
        let mut sent = None;
        for action in actions {
            let (timer, duration) = match action {
                PortAction::SendEvent { context, data, link_local } => {
                    sent = self.send(data, link_local).map(|time| (context, time));
                    continue;
                }
                PortAction::SendGeneral { data, link_local } => {
                    self.send(data, link_local);
                    continue;
                }
                // There is no other port to forward to.
                PortAction::ForwardTLV { .. } => continue,
                PortAction::ResetAnnounceTimer { duration } => (Timer::Announce, duration),
                PortAction::ResetSyncTimer { duration } => (Timer::Sync, duration),
                PortAction::ResetDelayRequestTimer { duration } => (Timer::DelayRequest, duration),
                PortAction::ResetAnnounceReceiptTimer { duration } => {
                    (Timer::AnnounceReceipt, duration)
                }
                PortAction::ResetFilterUpdateTimer { duration } => (Timer::FilterUpdate, duration),
            };
            self.due[timer as usize] = Instant::now().checked_add(duration);
        }
        sent
    }

    fn send(&mut self, message: &[u8], link_local: bool) -> Option<PtpTime> {
        let destination = if link_local { NEAREST_BRIDGE } else { EVERYBODY };
        match self.card.borrow_mut().send(destination, message) {
            Ok(left) => {
                if let Some(message) = message::parse(message).filter(|m| m.kind.is_event()) {
                    self.tell(&message, "left at", left);
                }
                Some(left)
            }
            Err(error) => {
                self.counts.unsent += 1;
                if self.messages {
                    println!("not sent: {error}");
                }
                None
            }
        }
    }

    fn tell(&self, message: &message::Message<'_>, what: &str, at: PtpTime) {
        if self.messages {
            let (name, sequence) = (message.kind.name(), message.sequence);
            println!("{name} {sequence} {what} {}.{:09}", at.seconds, at.nanoseconds);
        }
    }

    /// Gives the protocol the time a message left, and so on until there is none.
    fn stamp(
        &mut self,
        port: &mut PortIn<'_, Running>,
        mut sent: Option<(TimestampContext, PtpTime)>,
    ) {
        while let Some((context, left)) = sent {
            let actions = port.handle_send_timestamp(context, time(left));
            sent = self.act(actions);
        }
    }

    /// Timers that are due.
    fn expire(&mut self, port: &mut PortIn<'_, Running>, now: Instant) {
        for timer in TIMERS {
            let Some(due) = &mut self.due[timer as usize] else { continue };
            if *due > now {
                continue;
            }
            self.due[timer as usize] = None;
            let actions = match timer {
                Timer::Announce => port.handle_announce_timer(&mut NoForwardedTLVs),
                Timer::Sync => port.handle_sync_timer(),
                Timer::DelayRequest => port.handle_delay_request_timer(),
                Timer::AnnounceReceipt => port.handle_announce_receipt_timer(),
                Timer::FilterUpdate => port.handle_filter_update_timer(),
            };
            let sent = self.act(actions);
            self.stamp(port, sent);
        }
    }

    /// Waits for a message, and gives it to the protocol.
    fn receive(&mut self, port: &mut PortIn<'_, Running>, timeout: Duration) {
        let received = self.card.borrow_mut().receive(timeout);
        let Some(received) = received else { return };
        let Some(message) = message::parse(&received.bytes) else {
            self.counts.malformed += 1;
            return;
        };
        let actions = match received.received_at {
            Some(at) if message.kind.is_event() => {
                self.tell(&message, "received at", at);
                port.handle_event_receive(message.bytes, time(at))
            }
            None if message.kind.is_event() => {
                self.counts.without_time += 1;
                return;
            }
            _ => port.handle_general_receive(message.bytes),
        };
        let sent = self.act(actions);
        self.stamp(port, sent);
    }
}

/// What is told of it.
struct Report<'a> {
    options: &'a Options,
    clock: &'a CardClock,
    at: Instant,
    state: PortState,
    counts: Counts,
}

impl<'a> Report<'a> {
    fn new(options: &'a Options, clock: &'a CardClock) -> Report<'a> {
        let at = Instant::now() + options.report;
        Report { options, clock, at, state: PortState::Listening, counts: Counts::default() }
    }

    /// Changes of state at once, numbers when it is time.
    fn show(&mut self, instance: &Instance, port: &PortIn<'_, Running>, counts: &Counts) {
        let name = &self.options.interface;
        let state = port.port_ds().port_state;
        if state != self.state {
            println!("{name}: {:?} to {state:?}", self.state);
            self.state = state;
        }
        let now = Instant::now();
        if now < self.at {
            return;
        }
        self.at = now + self.options.report;
        if let Some(measured) = port.port_current_ds_contribution() {
            println!(
                "{name}: offset {} ns from grandmaster {}, path delay {} ns, frequency {:+.3} ppm",
                measured.offset_from_master.nanos_rounded(),
                identity(instance.parent_ds().grandmaster_identity),
                measured.mean_delay.nanos_rounded(),
                self.clock.frequency(),
            );
        }
        if *counts != self.counts {
            let Counts { malformed, without_time, unsent } = counts;
            println!(
                "{name}: {malformed} malformed, {without_time} without a time, {unsent} not sent"
            );
            self.counts = *counts;
        }
    }
}

/// As `pmc` and `ptp4l` write it: 2e090a.fffe.000001.
fn identity(of: ClockIdentity) -> String {
    let [a, b, c, d, e, f, g, h] = of.0;
    format!("{a:02x}{b:02x}{c:02x}.{d:02x}{e:02x}.{f:02x}{g:02x}{h:02x}")
}
