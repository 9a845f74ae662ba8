//! A port that follows a master whose messages are partly nonsense, beside others': nothing panics, and the clock's rate stays
//! within bounds.

use proptest::prelude::*;
use ptp_clock::message;
use ptp_clock::servo::{Purpose, Servo};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use statime::config::{
    AcceptAnyMaster, ClockIdentity, DelayMechanism, InstanceConfig, PortConfig, PtpMinorVersion,
    SdoId, TimePropertiesDS, TimeSource,
};
use statime::port::{PortAction, PortActionIterator, TimestampContext};
use statime::time::{Duration, Interval, Time};
use statime::{Clock, PtpInstance};

const OURS: [u8; 8] = [0x2e, 0x09, 0x0a, 0xff, 0xfe, 0, 0, 1];
const MASTER: [u8; 8] = [0x02, 0, 0, 0xff, 0xfe, 0, 0, 9];

struct Bounded(Time);

impl Clock for Bounded {
    type Error = ();

    fn now(&self) -> Time {
        self.0
    }

    fn step_clock(&mut self, _: Duration) -> Result<Time, ()> {
        Ok(self.0)
    }

    fn set_frequency(&mut self, ppm: f64) -> Result<Time, ()> {
        assert!(ppm.abs() <= 500.0, "{ppm} ppm");
        Ok(self.0)
    }

    fn set_properties(&mut self, _: &TimePropertiesDS) -> Result<(), ()> {
        Ok(())
    }
}

/// A message: its type, how far its time is from right, and what of it is overwritten.
#[derive(Clone, Debug)]
struct Sent {
    kind: u8,
    error: i64,
    overwritten: Vec<(u8, u8)>,
}

fn sent() -> impl Strategy<Value = Sent> {
    let kind = prop::sample::select(vec![0, 0, 0, 8, 8, 8, 9, 9, 11, 11, 1, 2, 3, 10, 12, 13]);
    let error = prop_oneof![8 => -2_000_000..2_000_000i64, 1 => any::<i64>()];
    let overwritten = prop_oneof![
        4 => Just(Vec::new()),
        1 => prop::collection::vec(any::<(u8, u8)>(), 1..12),
    ];
    (kind, error, overwritten).prop_map(|(kind, error, overwritten)| Sent {
        kind,
        error,
        overwritten,
    })
}

/// The message's octets. Sync and Follow_Up have one number, answers that of the question. IEEE 1588-2019, 13.3 to 13.13.
fn octets(sent: &Sent, sync: u16, question: u16, now: u64) -> Vec<u8> {
    let length: u8 = match sent.kind {
        0 | 1 | 8 | 12 => 44,
        11 => 64,
        13 => 48,
        _ => 54,
    };
    let mut bytes = vec![0; length.into()];
    bytes[..4].copy_from_slice(&[sent.kind, 0x12, 0, length]);
    // Two steps.
    bytes[6] = if sent.kind == 0 { 2 } else { 0 };
    bytes[20..28].copy_from_slice(&MASTER);
    bytes[29] = 1;
    let number = if matches!(sent.kind, 3 | 9 | 10) { question } else { sync };
    bytes[30..32].copy_from_slice(&number.to_be_bytes());
    let time = now.wrapping_add_signed(sent.error);
    bytes[34..40].copy_from_slice(&(time / 1_000_000_000).to_be_bytes()[2..]);
    bytes[40..44].copy_from_slice(&((time % 1_000_000_000) as u32).to_be_bytes());
    match sent.kind {
        11 => bytes[47..64].copy_from_slice(
            // grandmasterPriority1, clockQuality, grandmasterPriority2, grandmasterIdentity, stepsRemoved, timeSource
            &[&[100, 6, 0x21, 0, 0, 128][..], &MASTER, &[0, 0, 0x20]].concat(),
        ),
        3 | 9 | 10 => bytes[44..54].copy_from_slice(&[&OURS[..], &[0, 1]].concat()),
        _ => {}
    }
    for (at, value) in &sent.overwritten {
        let at = usize::from(*at) % bytes.len();
        bytes[at] = *value;
    }
    bytes
}

/// The question among what is to be done, with its number.
fn question(actions: PortActionIterator<'_>) -> Option<(TimestampContext, u16)> {
    actions.fold(None, |found, action| match action {
        PortAction::SendEvent { context, data, .. } => {
            Some((context, message::parse(data).expect("we send messages").sequence))
        }
        _ => found,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]
    #[test]
    fn nonsense_is_survived(
        messages in prop::collection::vec(sent(), 100..400),
        p2p in any::<bool>(),
        slave_only in any::<bool>(),
    ) {
        let config = InstanceConfig {
            clock_identity: ClockIdentity(OURS),
            priority_1: 128,
            priority_2: 128,
            domain_number: 0,
            sdo_id: SdoId::default(),
            slave_only,
            path_trace: false,
        };
        let properties =
            TimePropertiesDS::new_arbitrary_time(false, false, TimeSource::InternalOscillator);
        let instance = PtpInstance::<Servo>::new(config, properties);
        let interval = Interval::from_log_2(0);
        let port_config = PortConfig {
            acceptable_master_list: AcceptAnyMaster,
            delay_mechanism: match p2p {
                true => DelayMechanism::P2P { interval },
                false => DelayMechanism::E2E { interval },
            },
            announce_interval: interval,
            announce_receipt_timeout: 3,
            sync_interval: interval,
            master_only: false,
            delay_asymmetry: Duration::ZERO,
            minor_ptp_version: PtpMinorVersion::One,
        };
        let clock = Bounded(Time::from_secs(5));
        let random = SmallRng::seed_from_u64(1);
        let mut waiting = instance.add_port(port_config, Purpose::Steer, clock, random);
        instance.bmca(&mut [&mut waiting]);
        let (mut port, actions) = waiting.end_bmca();
        drop(actions);
        let (mut now, mut sync, mut asked) = (5_000_000_000, 0u16, 0);
        for (n, sent) in messages.iter().enumerate() {
            now += 100_000_000;
            if n % 10 == 0 {
                let mut waiting = port.start_bmca();
                instance.bmca(&mut [&mut waiting]);
                port = waiting.end_bmca().0;
            }
            if n % 5 == 0
                && let Some((context, number)) = question(port.handle_delay_request_timer())
            {
                asked = number;
                drop(port.handle_send_timestamp(context, Time::from_nanos(now)));
            }
            sync = sync.wrapping_add(u16::from(sent.kind == 0));
            let bytes = octets(sent, sync, asked, now);
            let Some(message) = message::parse(&bytes) else { continue };
            let at = Time::from_nanos(now);
            if let Some((context, _)) = question(port.handle_event_receive(message.bytes, at)) {
                drop(port.handle_send_timestamp(context, at));
            }
        }
        prop_assert!(instance.current_ds(port.port_current_ds_contribution()).offset_from_master.seconds().is_finite());
    }
}
