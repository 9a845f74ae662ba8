//! VLAN tags and the VLAN filter of the VT6105M. [RH 4.11]
//!
//! One bit of TCR, PQEN, has the card both insert tags on transmit, where a descriptor asks for it, and take
//! them out on receive. So the two features are switched together. Frames queued while it was on have their
//! tags in descriptors, and must not leave without: switched off, the card goes on until its ring is empty.

use crate::chip::Chip;
use crate::regs::{self, Bcr1, Camc};
use alloc::vec::Vec;
use trireme_nic::{Registers, Tci};

/// Entries of the VLAN CAM.
const ENTRIES: usize = 32;
/// After a command to the CAM. [RH 4.10]
const CAM_US: u32 = 10;
/// Words the tag lies on a multiple of, behind the frame's FCS.
const ALIGNMENT: usize = 4;
/// Bytes there: TPID and TCI.
pub(crate) const TAG: usize = 4;

/// What is wanted of the card in this respect.
#[derive(Clone, Debug)]
pub(crate) struct Vlans {
    /// Tags are to be the card's business.
    pub(crate) offload: bool,
    /// PQEN is set.
    pub(crate) active: bool,
    /// Frames of other VLANs are to be dropped.
    pub(crate) filter: bool,
    ids: Vec<u16>,
}

impl Vlans {
    pub(crate) fn new(chip: Chip) -> Vlans {
        let has = chip.has_vlans();
        Vlans { offload: has, active: has, filter: has, ids: Vec::new() }
    }

    /// Frames with tags are sent.
    pub(crate) fn are_in_use(&self) -> bool {
        self.active && !self.ids.is_empty()
    }

    pub(crate) fn set_ids(&mut self, ids: &[u16]) {
        self.ids.clear();
        self.ids.extend(ids);
    }

    /// Ids for the CAM; `None`: no filter, or one the CAM has no room for. Whether frames tagged with id 0 pass
    /// by themselves is not known [RH 11.9], so they have an entry.
    fn entries(&self) -> Option<impl Iterator<Item = u16>> {
        let fits = self.ids.len() < ENTRIES;
        (self.filter && fits).then(|| core::iter::once(0).chain(self.ids.iter().copied()))
    }
}

/// Writes both CAMs in full and switches the filter. The receive filter comes after this. [RH E33, E41]
/// `everything`: frames of any VLAN are wanted.
pub(crate) fn filter<R: Registers>(
    bar: &R,
    chip: Chip,
    vlans: &Vlans,
    everything: bool,
    delay: &dyn Fn(u32),
) {
    if !chip.has_vlans() {
        return;
    }
    // Of multicast addresses the hash takes care.
    regs::CAMC.write(bar, Camc::CAMEN);
    regs::CAMMSK.write(bar, 0);
    regs::CAMC.write(bar, Camc::empty());
    let Some(entries) = vlans.entries().filter(|_| !everything) else {
        return regs::BCR1.write(bar, Bcr1::empty());
    };
    let mut mask = 0u32;
    for (entry, id) in (0u8..).zip(entries) {
        regs::CAMC.write(bar, Camc::CAMEN | Camc::VCAMSL);
        regs::CAMADD.write(bar, entry);
        regs::VCAM.write(bar, id);
        delay(CAM_US);
        // Linux, FreeBSD and illumos let go of VCAMSL in this write; VIA's driver does not. [RH 4.11]
        regs::CAMC.write(bar, Camc::CAMEN | Camc::CAMWR);
        delay(CAM_US);
        regs::CAMC.write(bar, Camc::empty());
        mask |= 1 << entry;
    }
    regs::CAMC.write(bar, Camc::CAMEN | Camc::VCAMSL);
    regs::CAMMSK.write(bar, mask);
    regs::CAMC.write(bar, Camc::empty());
    regs::BCR1.write(bar, Bcr1::VIDFR);
}

/// First descriptor word of a frame with a tag: id and priority, for which there are no further bits.
pub(crate) fn descriptor_tag(tag: Tci) -> u32 {
    u32::from(tag.id()) << 16 | u32::from(tag.priority()) << 28
}

/// The tag the card took out of a frame of `len` bytes with its FCS: in the buffer behind it, on the next
/// multiple of four. [RH 4.11, E21]
pub(crate) fn tag_behind(buffer: &[u8], len: usize) -> Option<Tci> {
    let at = len.next_multiple_of(ALIGNMENT);
    let tag: &[u8; TAG] = buffer.get(at..)?.first_chunk()?;
    Some(Tci(u16::from_be_bytes([tag[2], tag[3]])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_spelled_in_the_descriptor_as_documented() {
        // [RH 4.2]: bits 16-27 id, 28-30 priority. 31 is OWN, and there is no place for drop-eligible.
        assert_eq!(descriptor_tag(Tci(0x0005)), 0x0005_0000);
        assert_eq!(descriptor_tag(Tci(0xbfff)), 0x5fff_0000);
        assert_eq!(descriptor_tag(Tci(0xffff)), 0x7fff_0000);
    }

    #[test]
    fn a_tag_is_found_behind_the_frame_on_a_multiple_of_four() {
        let mut buffer = [0; 72];
        buffer[64..68].copy_from_slice(&[0x81, 0x00, 0xa1, 0x23]);
        for len in 61..=64 {
            assert_eq!(tag_behind(&buffer, len), Some(Tci(0xa123)), "{len}");
        }
        assert_eq!(tag_behind(&buffer, 60), Some(Tci(0)));
        assert_eq!(tag_behind(&buffer, 68), Some(Tci(0)));
        assert_eq!(tag_behind(&buffer, 69), None);
        assert_eq!(tag_behind(&buffer, 2047), None);
    }
}
