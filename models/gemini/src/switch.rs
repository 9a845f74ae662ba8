//! The RTL8366RB of a DIR-685, as far as docs/hardware/gemini.md 2.1 goes: registers, the ports' PHYs, the
//! tag "rtl4a" on its CPU port, and plain forwarding.

use crate::phy::Phy;

/// Ports with a socket; the CPU's comes after them.
pub(crate) const PORTS: usize = 5;
const CPU: usize = 5;

const GLOBAL: u16 = 0x0000;
const PORT_STATUS: u16 = 0x0014;
const CHIP_ID: u16 = 0x005c;
const CPU_PORT: u16 = 0x0061;
const RESET: u16 = 0x0100;
const CHIP_ID_2: u16 = 0x0509;
const VERSION: u16 = 0x050a;
const PHY_CONTROL: u16 = 0x8000;
const PHY_DATA: u16 = 0x8002;

/// Addresses remembered at most.
const LEARNED: usize = 256;
/// EtherType of the tag.
const TAG: [u8; 2] = [0x88, 0x99];

/// Where the switch sends a frame.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Forwarded {
    pub(crate) cpu: Option<Vec<u8>>,
    /// Frames and the ports they leave by.
    pub(crate) ports: Vec<(usize, Vec<u8>)>,
}

/// The switch.
#[derive(Clone, Debug)]
pub(crate) struct Switch {
    /// Low half of the register space; above is the PHYs'.
    file: Vec<u16>,
    phy_reads: bool,
    phy_data: u16,
    pub(crate) phys: [Phy; PORTS],
    /// Addresses and their ports, oldest first.
    learned: Vec<([u8; 6], usize)>,
}

impl Switch {
    pub(crate) fn new() -> Switch {
        let phys = [(); PORTS].map(|()| Phy::switch_port());
        let file = vec![0; usize::from(PHY_CONTROL)];
        Switch { file, phy_reads: false, phy_data: 0, phys, learned: Vec::new() }
    }

    pub(crate) fn read(&self, register: u16) -> u16 {
        match register {
            CHIP_ID | CHIP_ID_2 => 0x5937,
            // Which versions exist is not in the sheet; the low bits carry it.
            VERSION => 1,
            PHY_DATA => self.phy_data,
            PORT_STATUS..=0x0016 => {
                let first = usize::from(register - PORT_STATUS) * 2;
                self.port_status(first) | self.port_status(first + 1) << 8
            }
            _ => self.file.get(usize::from(register)).copied().unwrap_or(0),
        }
    }

    /// 1:0 speed, 2 duplex, 4 link, 5/6 pause, 7 negotiated. \[2.1\]
    fn port_status(&self, port: usize) -> u16 {
        if port == CPU {
            return 0x76;
        }
        let Some(phy) = self.phys.get(port).filter(|phy| phy.link()) else { return 0 };
        let (speed, full) = phy.mode().unwrap_or((10, false));
        let speed = [10, 100, 1000].iter().position(|&s| s == speed).unwrap_or(0) as u16;
        0xf0 | u16::from(full) << 2 | speed
    }

    pub(crate) fn write(&mut self, register: u16, value: u16) {
        match register {
            RESET if value & 1 != 0 => {
                let phys = self.phys.clone();
                *self = Switch { phys, ..Switch::new() };
            }
            PHY_CONTROL => self.phy_reads = value & 1 != 0,
            0x8200.. => {
                // One bit of 9 to 13 names the PHY.
                let which = (0..PORTS).find(|phy| register & 0x7e00 == 1 << (9 + phy));
                let Some(phy) = which.map(|phy| &mut self.phys[phy]) else { return };
                match self.phy_reads {
                    true => self.phy_data = phy.read((register & 31) as u8),
                    false => phy.write((register & 31) as u8, value),
                }
            }
            _ => {
                if let Some(word) = self.file.get_mut(usize::from(register)) {
                    *word = value;
                }
            }
        }
    }

    /// The CPU port carries tags.
    fn tags(&self) -> bool {
        let control = self.read(CPU_PORT);
        control >> CPU & 1 != 0 && control >> 15 == 0
    }

    fn too_long(&self, frame: &[u8]) -> bool {
        let max = [1522, 1536, 1552, 16000][usize::from(self.read(GLOBAL) >> 4 & 3)];
        frame.len() + 4 > max
    }

    fn learn(&mut self, frame: &[u8], port: usize) {
        let Some(&from) = frame.get(6..).and_then(|f| f.first_chunk::<6>()) else { return };
        self.learned.retain(|(address, _)| *address != from);
        if self.learned.len() == LEARNED {
            self.learned.remove(0);
        }
        self.learned.push((from, port));
    }

    /// Ports a frame from `from` goes to by its address.
    fn destinations(&self, frame: &[u8], from: usize) -> u16 {
        let known = self.learned.iter().find(|(address, _)| frame.starts_with(address));
        let all = known.map_or(0x3f, |&(_, port)| 1 << port);
        all & !(1 << from)
    }

    fn forward(&self, frame: Vec<u8>, to: u16, from: usize) -> Forwarded {
        let links = |port: &usize| to >> port & 1 != 0 && self.phys[*port].link();
        let ports = (0..PORTS).filter(links).map(|port| (port, frame.clone())).collect();
        let cpu = (to >> CPU & 1 != 0 && from != CPU).then(|| match self.tags() {
            true => [&frame[..12], &TAG, &[0xa0, from as u8], &frame[12..]].concat(),
            false => frame,
        });
        Forwarded { cpu, ports }
    }

    /// A frame from the CPU.
    pub(crate) fn take_cpu(&mut self, mut frame: Vec<u8>) -> Forwarded {
        if self.too_long(&frame) || frame.len() < 16 {
            return Forwarded::default();
        }
        self.learn(&frame, CPU);
        if !self.tags() || frame[12..14] != TAG {
            let to = self.destinations(&frame, CPU);
            return self.forward(frame, to, CPU);
        }
        let tag = u16::from_be_bytes([frame[14], frame[15]]);
        if tag >> 12 != 0xa {
            return Forwarded::default();
        }
        frame.drain(12..16);
        self.forward(frame, tag & 0x1f, CPU)
    }

    /// A frame from a port's cable.
    pub(crate) fn take_port(&mut self, port: usize, frame: &[u8]) -> Forwarded {
        if !self.phys[port].link() || self.too_long(frame) || frame.len() < 14 {
            return Forwarded::default();
        }
        self.learn(frame, port);
        let to = self.destinations(frame, port);
        self.forward(frame.to_vec(), to, port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(to: u8, from: u8) -> Vec<u8> {
        let mut frame = vec![0xee; 60];
        frame[..12].copy_from_slice(&[2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, from]);
        frame
    }

    #[test]
    fn tags_lead_to_one_port_and_say_where_a_frame_came_in() {
        let mut switch = Switch::new();
        switch.write(0x0061, 0x0020);
        let plain = frame(9, 1);
        let tagged = |word: [u8; 2]| [&plain[..12], &[0x88, 0x99], &word, &plain[12..]].concat();
        let out = switch.take_cpu(tagged([0xa0, 0x04]));
        assert_eq!(out, Forwarded { cpu: None, ports: vec![(2, plain.clone())] });
        assert_eq!(switch.take_cpu(tagged([0x50, 0x04])), Forwarded::default());

        let answer = frame(1, 9);
        let out = switch.take_port(2, &answer);
        let wanted = [&answer[..12], &[0x88, 0x99, 0xa0, 0x02], &answer[12..]].concat();
        assert_eq!(out, Forwarded { cpu: Some(wanted), ports: vec![] });
    }

    #[test]
    fn untagged_frames_go_where_the_address_was_seen() {
        let mut switch = Switch::new();
        let out = switch.take_port(1, &frame(1, 9));
        assert_eq!(out.ports.iter().map(|p| p.0).collect::<Vec<_>>(), [0, 2, 3, 4]);
        assert_eq!(out.cpu, Some(frame(1, 9)));
        let out = switch.take_cpu(frame(9, 1));
        assert_eq!(out.ports, [(1, frame(9, 1))]);
        let out = switch.take_port(0, &frame(1, 8));
        assert_eq!((out.cpu, out.ports), (Some(frame(1, 8)), vec![]));
    }
}
