//! VLAN interfaces frame by frame: whose a frame is, and what goes out with it.

mod common;

use common::{Abilities, Card, Ends, MAC};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use trireme_netstack::{
    Addressing, Config, Family, Instant, Ipv4Addressing, Ipv6Addressing, Kind, Stack, VlanError,
    VlanSpec,
};
use trireme_nic::{Feature, FeatureError, ReceiveChecksum, Tci};

const PEER: [u8; 6] = [2, 0, 0, 0, 0, 1];
const OWN: [u8; 6] = [2, 0, 0, 0, 0, 0x66];

/// `eth0` is 10.0.0.2, `eth0.5` 10.5.0.2, and `vlan6` 10.6.0.2 with an address of its own.
struct Host {
    stack: Stack,
    ends: Arc<Mutex<Ends>>,
    now: Instant,
}

fn addressing(second: u8) -> Addressing {
    Addressing {
        ipv4: Ipv4Addressing::Static {
            address: [10, second, 0, 2].into(),
            prefix: 24,
            gateway: None,
        },
        ipv6: Ipv6Addressing::LinkLocal,
        ..Addressing::default()
    }
}

impl Host {
    fn new(abilities: Abilities) -> Host {
        let (card, ends) = Card::new(abilities);
        let now = Instant::from_secs(1);
        let config = Config { seed: [5; 32], buffer_budget: 4 << 20, hostname: String::new() };
        let mut stack = Stack::new(config, now);
        assert_eq!(stack.add_interface(card, addressing(0), now), 0);
        let vlan5 = "eth0.5:eth0".parse().unwrap();
        assert_eq!(stack.add_vlan(&vlan5, addressing(5), now), Ok(1));
        let own = Addressing { mac: Some(OWN), mtu: Some(1400), ..addressing(6) };
        assert_eq!(stack.add_vlan(&"vlan6:eth0".parse().unwrap(), own, now), Ok(2));
        let mut host = Host { stack, ends, now };
        host.settle();
        host
    }

    /// Lets duplicate address detection pass, and forgets what was sent.
    fn settle(&mut self) {
        let end = self.now + trireme_netstack::Duration::from_secs(5);
        while self.now < end {
            while self.stack.poll(self.now).again {}
            self.now = self.stack.wake_at().map_or(end, |at| at.clamp(self.now, end));
            self.now += trireme_netstack::Duration::from_micros(1);
        }
        self.sent();
    }

    fn sent(&mut self) -> Vec<Vec<u8>> {
        self.ends.lock().unwrap().sent.drain(..).collect()
    }

    /// What the stack answers to a frame.
    fn answer(&mut self, frame: Vec<u8>) -> Vec<Vec<u8>> {
        self.ends.lock().unwrap().towards.push_back((frame, ReceiveChecksum::Unverified));
        while self.stack.poll(self.now).again {}
        self.sent()
    }

    fn counter(&self, n: usize, name: &str) -> u64 {
        let mut all = HashMap::new();
        self.stack.nic(n).unwrap().statistics(&mut |name, value| _ = all.insert(name, value));
        self.stack.offload_statistics(n, &mut |name, value| _ = all.insert(name, value));
        all[name]
    }
}

/// Who has 10.SECOND.0.2? Padded as on the wire, behind these tags.
fn question(second: u8, tags: &[u8]) -> Vec<u8> {
    let mut frame = [&[0xff; 6][..], &PEER, tags, &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1], &PEER].concat();
    frame.extend([10, second, 0, 1, 0, 0, 0, 0, 0, 0, 10, second, 0, 2]);
    frame.resize(64, 0);
    frame
}

/// The answer to it, from this address.
fn reply(second: u8, tags: &[u8], mac: [u8; 6]) -> Vec<u8> {
    let mut frame = [&PEER[..], &mac, tags, &[8, 6, 0, 1, 8, 0, 6, 4, 0, 2], &mac].concat();
    frame.extend([10, second, 0, 2]);
    frame.extend(PEER);
    frame.extend([10, second, 0, 1]);
    frame
}

#[test]
fn a_tag_leads_to_its_interface_and_back() {
    for tags in [true, false] {
        let mut host = Host::new(Abilities { tags, ..Abilities::default() });
        assert_eq!(host.answer(question(0, &[])), [reply(0, &[], MAC)]);
        // Priority 5, drop eligible: what comes with a frame does not matter. Ours goes with neither.
        assert_eq!(
            host.answer(question(5, &[0x81, 0, 0xb0, 5])),
            [reply(5, &[0x81, 0, 0, 5], MAC)],
            "{tags}"
        );
        assert_eq!(host.answer(question(6, &[0x81, 0, 0, 6])), [reply(6, &[0x81, 0, 0, 6], OWN)]);
        let by_card = u64::from(tags) * 2;
        let inserted = host.ends.lock().unwrap().inserted.clone();
        assert_eq!(inserted.ends_with(&[Tci(5), Tci(6)]), tags);
        assert_eq!(host.counter(0, "rx_vlan_hw"), by_card);
        assert_eq!(host.counter(0, "rx_vlan_sw"), 2 - by_card);
        // 60 bytes each without the tag; ARP has no length of its own.
        assert_eq!((host.counter(1, "rx_packets"), host.counter(1, "rx_bytes")), (1, 60));
        assert_eq!(host.counter(2, "rx_packets"), 1);
        assert!(host.counter(1, if tags { "tx_vlan_hw" } else { "tx_vlan_sw" }) > 0);
        assert_eq!(host.counter(1, if tags { "tx_vlan_sw" } else { "tx_vlan_hw" }), 0);
    }
}

#[test]
fn a_priority_tag_is_no_vlan() {
    for tags in [true, false] {
        let mut host = Host::new(Abilities { tags, ..Abilities::default() });
        assert_eq!(host.answer(question(0, &[0x81, 0, 0xe0, 0])), [reply(0, &[], MAC)]);
        assert_eq!(host.counter(0, "rx_vlan_priority"), 1);
        assert_eq!(host.counter(0, "rx_vlan_unknown"), 0);
    }
}

#[test]
fn what_is_nobodys_is_dropped_and_counted() {
    for tags in [true, false] {
        let mut host = Host::new(Abilities { tags, ..Abilities::default() });
        let strange: [&[u8]; 7] = [
            // Another VLAN, the reserved one, a service tag, and tags in tags of every kind.
            &[0x81, 0, 0, 7],
            &[0x81, 0, 0x0f, 0xff],
            &[0x88, 0xa8, 0, 5],
            &[0x81, 0, 0, 5, 0x81, 0, 0, 5],
            &[0x81, 0, 0, 5, 0x81, 0, 0, 0],
            &[0x81, 0, 0, 0, 0x81, 0, 0, 5],
            &[0x81, 0, 0, 5, 0x81, 0, 0, 5, 0x81, 0, 0, 5],
        ];
        for (n, tags) in strange.iter().enumerate() {
            for second in [0, 5] {
                assert_eq!(host.answer(question(second, tags)), [[0u8; 0]; 0], "{tags:x?}");
            }
            assert_eq!(host.counter(0, "rx_vlan_unknown"), 2 * (n as u64 + 1), "{tags:x?}");
        }
        // An address of another VLAN is not this one's.
        assert_eq!(host.answer(question(6, &[0x81, 0, 0, 5])), [[0u8; 0]; 0]);
        assert_eq!(host.answer(question(5, &[])), [[0u8; 0]; 0]);
        // Nor is a frame to another Ethernet address.
        let mut frame = question(6, &[0x81, 0, 0, 6]);
        frame[..6].copy_from_slice(&MAC);
        assert_eq!(host.answer(frame), [[0u8; 0]; 0]);
        for len in 12..18 {
            let short = question(5, &[0x81, 0, 0, 5])[..len].to_vec();
            assert_eq!(host.answer(short), [[0u8; 0]; 0]);
        }
    }
}

#[test]
fn interfaces_say_what_they_are() {
    let mut host = Host::new(Abilities::default());
    let shown = |host: &Host, n: usize| {
        let info = host.stack.interfaces().swap_remove(n);
        (info.name, info.vlan, info.mac, info.mtu)
    };
    assert_eq!(shown(&host, 1), ("eth0".into(), None, MAC, 1500));
    assert_eq!(shown(&host, 2), ("eth0.5".into(), Some(("eth0".into(), 5)), MAC, 1500));
    assert_eq!(shown(&host, 3), ("vlan6".into(), Some(("eth0".into(), 6)), OWN, 1400));
    assert_eq!((host.stack.find("vlan6"), host.stack.find("eth0.6")), (Some(2), None));
    // The next card is eth1 all the same.
    let (card, _) = Card::new(Abilities::default());
    assert_eq!(host.stack.add_interface(card, addressing(9), host.now), 3);
    assert_eq!(host.stack.interfaces()[4].name, "eth1");
    // A VLAN's MTU is at most the card's, also when that shrinks.
    let vlan = host.stack.nic_mut(1).unwrap();
    assert!(!vlan.set_mtu(1501) && vlan.set_mtu(1450) && vlan.mtu() == 1450);
    assert!(host.stack.nic_mut(0).unwrap().set_mtu(1300));
    assert_eq!(host.stack.nic(1).unwrap().mtu(), 1300);
    // Features are the card's.
    let vlan = host.stack.nic_mut(1).unwrap();
    assert!(
        vlan.feature(Feature::TxChecksumming).on && vlan.feature(Feature::TxChecksumming).fixed
    );
    assert_eq!(vlan.set_feature(Feature::TxChecksumming, false), Err(FeatureError::Fixed));
}

#[test]
fn the_card_hears_what_all_of_them_want() {
    let (card, ends) = Card::new(Abilities::default());
    let now = Instant::from_secs(1);
    let config = Config { seed: [5; 32], buffer_budget: 4 << 20, hostname: String::new() };
    let mut stack = Stack::new(config, now);
    stack.add_interface(card, addressing(0), now);
    let before = ends.lock().unwrap().filter.clone();
    stack.add_vlan(&"eth0.5:eth0".parse().unwrap(), addressing(5), now).unwrap();
    assert_eq!(ends.lock().unwrap().filter, before, "the same groups once more");
    let join = |stack: &mut Stack, group: [u8; 4], of: [u8; 4]| {
        let id = stack.socket(Family::V4, Kind::Datagram).unwrap();
        let option = trireme_netstack::SocketOption::JoinMulticastV4(group.into(), of.into());
        stack.set_option(id, option, now).unwrap();
        id
    };
    join(&mut stack, [239, 0, 0, 1], [10, 0, 0, 2]);
    let second = join(&mut stack, [239, 0, 0, 2], [10, 5, 0, 2]);
    // RFC 1112, 6.4.
    let group = |last| [0x01, 0x00, 0x5e, 0, 0, last];
    let has = |last| ends.lock().unwrap().filter.contains(&group(last));
    assert!(has(1) && has(2));
    stack.close(second, now).unwrap();
    assert!(has(1) && !has(2));
    let own = Addressing { mac: Some(OWN), ..addressing(6) };
    assert!(!ends.lock().unwrap().promiscuous);
    stack.add_vlan(&"vlan6:eth0".parse().unwrap(), own, now).unwrap();
    assert!(ends.lock().unwrap().promiscuous, "it has another address");
    assert_eq!(ends.lock().unwrap().vlans, [5, 6]);
}

#[test]
fn what_cannot_be_is_refused() {
    let spec = |text: &str| text.parse::<VlanSpec>();
    for (text, id) in [
        ("eth0.5:eth0", 5),
        ("eth0.0005:eth0", 5),
        ("vlan5:eth0", 5),
        ("vlan0005:eth0", 5),
        ("eth1.4094:eth1", 4094),
    ] {
        assert_eq!(spec(text).unwrap().id, id, "{text}");
    }
    for (text, error) in [
        ("eth0.5", VlanError::Form),
        ("eth0.5:", VlanError::Form),
        ("eth0.5:eth0:x", VlanError::Form),
        ("eth0.5.6:eth0.5", VlanError::Form),
        ("eth1.5:eth0", VlanError::Name),
        ("office:eth0", VlanError::Name),
        ("eth0.:eth0", VlanError::Name),
        ("eth0.+5:eth0", VlanError::Name),
        ("eth0.00005:eth0", VlanError::Name),
        ("longlonglong.4000:longlonglong", VlanError::Name),
        ("eth0.0:eth0", VlanError::Id),
        ("eth0.4095:eth0", VlanError::Id),
        ("vlan9999:eth0", VlanError::Id),
    ] {
        assert_eq!(spec(text), Err(error), "{text}");
    }
    let mut host = Host::new(Abilities::default());
    for (text, error) in [
        ("eth0.5:eth0", VlanError::Taken),
        ("vlan5:eth0", VlanError::Taken),
        ("eth7.5:eth7", VlanError::NoCard),
        ("vlan7:vlan6", VlanError::NoCard),
        ("vlan7:lo", VlanError::NoCard),
    ] {
        let vlan = spec(text).unwrap();
        assert_eq!(host.stack.add_vlan(&vlan, addressing(7), host.now), Err(error), "{text}");
    }
    let made = (100..200)
        .map_while(|id| {
            let vlan = spec(&format!("vlan{id}:eth0")).unwrap();
            host.stack.add_vlan(&vlan, Addressing::default(), host.now).ok()
        })
        .count();
    assert_eq!(made, 62, "64 over a card");
}
