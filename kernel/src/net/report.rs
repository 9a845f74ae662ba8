//! What [`network`](crate::network) reports and changes, from the stack.

use alloc::vec::Vec;

use trireme_netstack::Stack;

use super::{look, with_stack};
use crate::network::{Feature, Interface, SocketBuffers, SocketState, SwitchError};
use crate::preempt;

fn describe(stack: &Stack) -> Vec<Interface> {
    let describe = |info: trireme_netstack::InterfaceInfo| {
        let nic = stack.nic(stack.find(&info.name)?)?;
        let driver = nic.driver_info();
        Some(Interface {
            driver: driver.driver,
            chip: driver.chip,
            mac: info.mac,
            link: info.link,
            mtu: info.mtu,
            addresses: info.addresses.iter().map(|cidr| (cidr.address, cidr.prefix)).collect(),
            features: Feature::ALL.into_iter().map(|f| (f, nic.feature(f))).collect(),
            name: info.name,
        })
    };
    stack.interfaces().into_iter().filter_map(describe).collect()
}

pub fn interfaces() -> Vec<Interface> {
    let _guard = preempt::disable();
    look(|stack| describe(stack))
}

pub fn set_feature(interface: &str, feature: Feature, on: bool) -> Result<(), SwitchError> {
    let _guard = preempt::disable();
    with_stack(|stack, _| {
        let nic = stack.find(interface).and_then(|n| stack.nic_mut(n));
        let nic = nic.ok_or(SwitchError::NoSuchInterface)?;
        nic.set_feature(feature, on).map_err(SwitchError::Card)
    })?;
    log::info!("{interface}: {} {}", feature.name(), if on { "on" } else { "off" });
    Ok(())
}

pub fn counters(interface: &str) -> Option<Vec<(&'static str, u64)>> {
    let _guard = preempt::disable();
    // Not visited by the caller: what he does in between might need the stack.
    let mut all = Vec::with_capacity(96);
    look(|stack| {
        let n = stack.find(interface)?;
        stack.nic(n)?.statistics(&mut |name, value| all.push((name, value)));
        stack.offload_statistics(n, &mut |name, value| all.push((name, value)));
        Some(all)
    })
}

pub fn statistics() -> Vec<(&'static str, u64)> {
    let _guard = preempt::disable();
    let mut all = Vec::new();
    look(|stack| stack.statistics()).visit(&mut |name, value| all.push((name, value)));
    all
}

pub fn sockets() -> [usize; SocketState::ALL.len()] {
    use trireme_netstack::SocketState as Of;
    let _guard = preempt::disable();
    let mut counts = [0; SocketState::ALL.len()];
    look(|stack| {
        stack.socket_states(&mut |_, state| {
            let state = match state {
                Of::Datagram => SocketState::Datagram,
                Of::Closed => SocketState::Closed,
                Of::Listen(_) => SocketState::Listen,
                Of::SynSent => SocketState::SynSent,
                Of::SynReceived => SocketState::SynReceived,
                Of::Established => SocketState::Established,
                Of::FinWait1 => SocketState::FinWait1,
                Of::FinWait2 => SocketState::FinWait2,
                Of::CloseWait => SocketState::CloseWait,
                Of::Closing => SocketState::Closing,
                Of::LastAck => SocketState::LastAck,
                Of::TimeWait => SocketState::TimeWait,
            };
            counts[state as usize] += 1;
        });
    });
    counts
}

pub fn socket_buffers() -> Option<SocketBuffers> {
    let _guard = preempt::disable();
    let (_, used, budget) = look(|stack| stack.usage());
    Some(SocketBuffers { budget, used })
}
