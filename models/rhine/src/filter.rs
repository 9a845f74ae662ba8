//! Which frames are received: station address, hash, and on the VT6105M the two CAMs.

use crate::checksum::multicast_hash;
use crate::regs::{Camc, Rcr, Rdes0};

/// The two content-addressable memories of the VT6105M and the registers that reach them.
#[derive(Clone, Debug)]
pub(crate) struct Cam {
    multicast: [[u8; 6]; 32],
    multicast_mask: u32,
    vlan: [u16; 32],
    vlan_mask: u32,
    /// What 0x10-0x17 hold while CAMEN is set.
    pub(crate) data: [u8; 8],
    pub(crate) control: Camc,
    pub(crate) address: u8,
    /// VCAMSL as it was when CAMEN last went from 0 to 1: drivers drop VCAMSL in the write that
    /// commits a VLAN entry, and mean the VLAN CAM all the same. (INF)
    vlan_selected: bool,
}

impl Cam {
    pub(crate) fn new() -> Cam {
        Cam {
            multicast: [[0; 6]; 32],
            multicast_mask: 0,
            vlan: [0; 32],
            vlan_mask: 0,
            data: [0; 8],
            control: Camc::empty(),
            address: 0,
            vlan_selected: false,
        }
    }

    /// Software reset: the entries stay, none is valid.
    pub(crate) fn reset(&mut self) {
        self.multicast_mask = 0;
        self.vlan_mask = 0;
        self.control = Camc::empty();
        self.vlan_selected = false;
    }

    pub(crate) fn enabled(&self) -> bool {
        self.control.contains(Camc::CAMEN)
    }

    pub(crate) fn write_control(&mut self, value: u8) {
        let value = Camc::from_bits_truncate(value);
        if value.contains(Camc::CAMEN) && !self.enabled() {
            self.vlan_selected = value.contains(Camc::VCAMSL);
        }
        let entry = usize::from(self.address & 31);
        if value.contains(Camc::CAMEN | Camc::CAMWR) {
            match self.vlan_selected {
                true => self.vlan[entry] = u16::from_le_bytes([self.data[6], self.data[7]]) & 0xfff,
                false => self.multicast[entry].copy_from_slice(&self.data[..6]),
            }
        } else if value.contains(Camc::CAMEN | Camc::CAMRD) {
            match self.vlan_selected {
                true => self.data[6..].copy_from_slice(&self.vlan[entry].to_le_bytes()),
                false => self.data[..6].copy_from_slice(&self.multicast[entry]),
            }
        }
        self.control = value.difference(Camc::CAMWR | Camc::CAMRD);
    }

    pub(crate) fn mask(&mut self) -> &mut u32 {
        if self.vlan_selected && self.enabled() {
            &mut self.vlan_mask
        } else {
            &mut self.multicast_mask
        }
    }

    fn has_multicast(&self, address: &[u8]) -> bool {
        (0..32).any(|i| self.multicast_mask >> i & 1 != 0 && self.multicast[i] == address)
    }

    pub(crate) fn has_vlan(&self, id: u16) -> bool {
        (0..32).any(|i| self.vlan_mask >> i & 1 != 0 && self.vlan[i] == id)
    }
}

/// Address filter: the descriptor bit of the match, or `None` for a frame not to be received.
pub(crate) fn address_match(
    destination: &[u8; 6],
    station: &[u8; 6],
    rcr: Rcr,
    hash: u64,
    cam: &Cam,
    unicast_disabled: bool,
) -> Option<Rdes0> {
    if *destination == [0xff; 6] {
        return rcr.contains(Rcr::AB).then_some(Rdes0::BAR);
    }
    if destination[0] & 1 != 0 {
        let hit = hash >> multicast_hash(destination) & 1 != 0 || cam.has_multicast(destination);
        return (rcr.contains(Rcr::AM) && hit).then_some(Rdes0::MAR);
    }
    let ours = destination == station && !unicast_disabled;
    (ours || rcr.contains(Rcr::PROM)).then_some(Rdes0::PHY)
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: [u8; 6] = [0, 0x0d, 0xb9, 1, 2, 3];
    const GROUP: [u8; 6] = [0x01, 0x00, 0x5e, 0, 0, 1];

    fn passes(to: &[u8; 6], rcr: Rcr, hash: u64, cam: &Cam) -> Option<Rdes0> {
        address_match(to, &US, rcr, hash, cam, false)
    }

    #[test]
    fn each_class_has_its_own_switch() {
        let cam = Cam::new();
        let other = [0, 1, 2, 3, 4, 5];
        assert_eq!(passes(&US, Rcr::empty(), 0, &cam), Some(Rdes0::PHY));
        assert_eq!(address_match(&US, &US, Rcr::empty(), 0, &cam, true), None);
        assert_eq!(passes(&other, Rcr::AM | Rcr::AB, !0, &cam), None);
        assert_eq!(passes(&other, Rcr::PROM, 0, &cam), Some(Rdes0::PHY));
        assert_eq!(passes(&[0xff; 6], Rcr::AM | Rcr::PROM, !0, &cam), None);
        assert_eq!(passes(&[0xff; 6], Rcr::AB, 0, &cam), Some(Rdes0::BAR));
        assert_eq!(passes(&GROUP, Rcr::AM, 1 << 31, &cam), Some(Rdes0::MAR));
        assert_eq!(passes(&GROUP, Rcr::AM, !(1 << 31), &cam), None);
        assert_eq!(passes(&GROUP, Rcr::PROM, !0, &cam), None);
    }

    #[test]
    fn a_cam_entry_is_written_as_the_drivers_write_it() {
        let mut cam = Cam::new();
        cam.write_control(1);
        cam.address = 3;
        cam.data[..6].copy_from_slice(&GROUP);
        cam.write_control(5);
        cam.write_control(0);
        assert_eq!(passes(&GROUP, Rcr::AM, 0, &cam), None, "not in the mask yet");
        cam.write_control(1);
        *cam.mask() = 1 << 3;
        cam.write_control(0);
        assert_eq!(passes(&GROUP, Rcr::AM, 0, &cam), Some(Rdes0::MAR));
    }

    #[test]
    fn vlan_entries_commit_with_the_selection_kept_or_dropped() {
        for commit in [5, 7] {
            let mut cam = Cam::new();
            cam.write_control(3);
            cam.address = 1;
            cam.data[6..].copy_from_slice(&100u16.to_le_bytes());
            cam.write_control(commit);
            *cam.mask() = 2;
            cam.write_control(0);
            assert!(cam.has_vlan(100) && !cam.has_vlan(0));
            assert_eq!(*cam.mask(), 0, "the other bank");
        }
    }
}
