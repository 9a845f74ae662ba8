//! The register map: what each offset keeps, what it reads after reset, and what a write does.
//!
//! Names, offsets, bits and reset values are those of the sheet's section 2. Reset values are known
//! for Gen3 only, by one unverified transcription; the other variants take them over, where sources
//! give nothing else. Masks of fields whose width is not established hold what drivers write.

use crate::Variant;

pub(crate) const CCC: u16 = 0x000;
pub(crate) const DBAT: u16 = 0x004;
pub(crate) const DLR: u16 = 0x008;
pub(crate) const CSR: u16 = 0x00c;
pub(crate) const CDAR: u16 = 0x010;
pub(crate) const ESR: u16 = 0x088;
pub(crate) const RCR: u16 = 0x090;
pub(crate) const RQC: u16 = 0x094;
pub(crate) const RTC: u16 = 0x0b4;
pub(crate) const UFCW: u16 = 0x0bc;
pub(crate) const UFCS: u16 = 0x0c0;
pub(crate) const UFCV: u16 = 0x0c4;
pub(crate) const UFCD: u16 = 0x0e0;
pub(crate) const SFO: u16 = 0x0fc;
pub(crate) const SFP: u16 = 0x100;
pub(crate) const SFV: u16 = 0x1b8;
pub(crate) const SFM: u16 = 0x1c0;
pub(crate) const SFL: u16 = 0x1c8;
pub(crate) const CIAR: u16 = 0x200;
pub(crate) const LIAR: u16 = 0x280;
pub(crate) const TGC: u16 = 0x300;
pub(crate) const TCCR: u16 = 0x304;
pub(crate) const TSR: u16 = 0x308;
pub(crate) const TFA: u16 = 0x310;
pub(crate) const DIC: u16 = 0x350;
pub(crate) const DIS: u16 = 0x354;
pub(crate) const EIC: u16 = 0x358;
pub(crate) const EIS: u16 = 0x35c;
pub(crate) const RIC0: u16 = 0x360;
pub(crate) const RIS0: u16 = 0x364;
pub(crate) const RIC1: u16 = 0x368;
pub(crate) const RIS1: u16 = 0x36c;
pub(crate) const RIC2: u16 = 0x370;
pub(crate) const RIS2: u16 = 0x374;
pub(crate) const TIC: u16 = 0x378;
pub(crate) const TIS: u16 = 0x37c;
pub(crate) const ISS: u16 = 0x380;
pub(crate) const CIE: u16 = 0x384;
pub(crate) const RIC3: u16 = 0x388;
pub(crate) const RIS3: u16 = 0x38c;
pub(crate) const GCCR: u16 = 0x390;
pub(crate) const GPTC: u16 = 0x398;
pub(crate) const GTI: u16 = 0x39c;
pub(crate) const GTO: u16 = 0x3a0;
pub(crate) const GIC: u16 = 0x3ac;
pub(crate) const GIS: u16 = 0x3b0;
pub(crate) const GCPT: u16 = 0x3b4;
pub(crate) const GCT: u16 = 0x3b8;
pub(crate) const GIE: u16 = 0x3cc;
pub(crate) const GID: u16 = 0x3d0;
pub(crate) const GIL: u16 = 0x3d4;
pub(crate) const DIL: u16 = 0x440;
pub(crate) const EIL: u16 = 0x444;
pub(crate) const TIL: u16 = 0x448;
/// The last register of the AVB-DMAC lies below; the E-MAC begins.
pub(crate) const EMAC: u16 = 0x500;
pub(crate) const ECMR: u16 = 0x500;
pub(crate) const RFLR: u16 = 0x508;
pub(crate) const ECSR: u16 = 0x510;
pub(crate) const ECSIPR: u16 = 0x518;
pub(crate) const PIR: u16 = 0x520;
pub(crate) const PSR: u16 = 0x528;
pub(crate) const PIPR: u16 = 0x52c;
pub(crate) const CXR35: u16 = 0x540;
pub(crate) const MPR: u16 = 0x558;
pub(crate) const PFTCR: u16 = 0x55c;
pub(crate) const PFRCR: u16 = 0x560;
pub(crate) const GECMR: u16 = 0x5b0;
pub(crate) const MAHR: u16 = 0x5c0;
pub(crate) const MALR: u16 = 0x5c8;
pub(crate) const CEFCR: u16 = 0x740;
pub(crate) const FRECR: u16 = 0x748;
pub(crate) const TSFRCR: u16 = 0x750;
pub(crate) const TLFRCR: u16 = 0x758;
pub(crate) const RFCR: u16 = 0x760;
pub(crate) const CEECR: u16 = 0x770;
pub(crate) const MAFCR: u16 = 0x778;
pub(crate) const CSR0: u16 = 0x800;
pub(crate) const CSR1: u16 = 0x804;
pub(crate) const CSR2: u16 = 0x808;

/// CCC.
pub(crate) mod ccc {
    pub(crate) const OPC: u32 = 3;
    pub(crate) const GAC: u32 = 1 << 7;
    pub(crate) const DTSR: u32 = 1 << 8;
    pub(crate) const CSEL: u32 = 3 << 16;
    pub(crate) const LBME: u32 = 1 << 24;
}

/// RCR.
pub(crate) mod rcr {
    pub(crate) const EFFS: u32 = 1 << 0;
    pub(crate) const ENCF: u32 = 1 << 1;
    pub(crate) const ETS0: u32 = 1 << 4;
    pub(crate) const ETS2: u32 = 1 << 5;
    pub(crate) const SBFS: u32 = 1 << 7;
}

/// TCCR.
pub(crate) mod tccr {
    pub(crate) const TSRQ: u32 = 0xf;
    pub(crate) const TFEN: u32 = 1 << 8;
    pub(crate) const TFR: u32 = 1 << 9;
}

/// EIS, EIC.
pub(crate) mod eis {
    pub(crate) const MTEF: u32 = 1 << 1;
    pub(crate) const QEF: u32 = 1 << 2;
    pub(crate) const TFFF: u32 = 1 << 8;
    pub(crate) const QFS: u32 = 1 << 16;
}

/// TIS, TIC.
pub(crate) mod tis {
    pub(crate) const FTF: u32 = 0xf;
    pub(crate) const TFUF: u32 = 1 << 8;
}

/// CIE.
pub(crate) mod cie {
    pub(crate) const CRIE: u32 = 1 << 0;
    pub(crate) const CTIE: u32 = 1 << 8;
    pub(crate) const RQFM: u32 = 1 << 16;
    pub(crate) const CL0M: u32 = 1 << 17;
    pub(crate) const RFWL: u32 = 1 << 18;
    pub(crate) const RFFL: u32 = 1 << 19;
}

/// ECMR.
pub(crate) mod ecmr {
    pub(crate) const PRM: u32 = 1 << 0;
    pub(crate) const TE: u32 = 1 << 5;
    pub(crate) const RE: u32 = 1 << 6;
    pub(crate) const MPDE: u32 = 1 << 9;
    pub(crate) const TXF: u32 = 1 << 16;
    pub(crate) const RXF: u32 = 1 << 17;
    pub(crate) const PFR: u32 = 1 << 18;
    pub(crate) const RZPF: u32 = 1 << 20;
    pub(crate) const DPAD: u32 = 1 << 21;
    pub(crate) const RCSC: u32 = 1 << 23;
    pub(crate) const RCPT: u32 = 1 << 25;
    pub(crate) const TRCCM: u32 = 1 << 26;
}

/// ECSR, ECSIPR.
pub(crate) mod ecsr {
    pub(crate) const ICD: u32 = 1 << 0;
    pub(crate) const MPD: u32 = 1 << 1;
    pub(crate) const LCHNG: u32 = 1 << 2;
    pub(crate) const PHYI: u32 = 1 << 3;
}

/// RIS2's and RIC2's FIFO bit; the same place in RIS1 is the FIFO warning.
pub(crate) const FIFO: u32 = 1 << 31;
/// CSR0's path enables.
pub(crate) const TPE: u32 = 1 << 4;
/// The receive path's.
pub(crate) const RPE: u32 = 1 << 5;

/// What a write does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Write {
    /// Stores the bits of the mask.
    Stores,
    /// Nothing.
    Ignored,
    /// A zero clears a bit, a one leaves it. (sheet 2.10)
    ZeroClears,
    /// A one clears a bit.
    OneClears,
    /// Clears all of it, unless reading does. (sheet 2.7)
    ClearsCounter,
    /// A one sets that bit of another register.
    Sets(u16),
    /// A one clears that bit of another register.
    Resets(u16),
    /// Has a function of its own.
    Acts,
}

/// One register, or a row of equal ones.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Register {
    pub(crate) offset: u16,
    pub(crate) count: u16,
    /// Bits that exist, per variant: gen2, gen3, GbEth. 0: the register does not exist, unless `empty`.
    pub(crate) masks: [u32; 3],
    pub(crate) reset: u32,
    pub(crate) write: Write,
}

const NONE: u32 = 0;
const ALL: u32 = 0xffff_ffff;

const fn row(offset: u16, count: u16, masks: [u32; 3], reset: u32, write: Write) -> Register {
    Register { offset, count, masks, reset, write }
}

const fn one(offset: u16, masks: [u32; 3], write: Write) -> Register {
    row(offset, 1, masks, 0, write)
}

const AVB: [u32; 3] = [ALL, ALL, NONE];
const GEN3: [u32; 3] = [NONE, ALL, NONE];
const EVERY: [u32; 3] = [ALL; 3];

/// Bits of the receive status registers, by variant.
const RX: [u32; 3] = [0x0003_ffff, 0x0003_ffff, 1];
const RX_FIFO: [u32; 3] = [0x8003_ffff, 0x8003_ffff, 0x8000_0001];
const RX_3: [u32; 3] = [NONE, 0x0003_ffff, 1];
const TX: [u32; 3] = [0x000f_0f0f, 0x000f_0f0f, 0x0001_0001];
const ERRORS: [u32; 3] = [0x7ff; 3];
const DESCRIPTORS: [u32; 3] = [0xfffe; 3];
const GPTP: [u32; 3] = [0x0007, 0xffff_03ff, NONE];

/// Every register there is. (sheet 2.1, 2.7, 2.9)
#[rustfmt::skip]
pub(crate) const MAP: &[Register] = &[
    one(CCC, [0x0313_0103, 0x0313_0183, 0x0310_0103], Write::Acts),
    one(DBAT, EVERY, Write::Stores),
    row(DLR, 1, [0x3f_ffff; 3], 0x3f_ffff, Write::Acts),
    row(CSR, 1, EVERY, 1, Write::Ignored),
    row(CDAR, 22, EVERY, 0, Write::Ignored),
    one(ESR, [0x1f1f; 3], Write::Ignored),
    one(0x08c, [NONE, 0x6012, NONE], Write::Stores),                            // APSR
    row(RCR, 1, [0x1fff_00bf, 0x1fff_00bf, 0x7fff_0001], 0x1800_0000, Write::Stores),
    row(RQC, 4, [0x7f7f_7f7f, 0x7f7f_7f7f, NONE], 0, Write::Stores),
    one(RQC + 16, [0x7f7f, 0x7f7f, NONE], Write::Stores),
    row(0x0b0, 1, [0x00ff_0700, 0x00ff_0700, NONE], 0x100, Write::Stores),      // RPC
    row(RTC, 1, [NONE, 0x0fff_0fff, 0x7fff_7fff], 0x0ffc_0ffc, Write::Stores),
    one(UFCW, [0x3f3f_3f3f, 0x3f3f_3f3f, NONE], Write::Stores),
    one(UFCS, [0x3f3f_3f3f, 0x3f3f_3f3f, NONE], Write::Stores),
    row(UFCV, 5, AVB, 0, Write::Ignored),
    row(UFCD, 5, AVB, 0, Write::Acts),
    one(SFO, [0x3f, 0x3f, NONE], Write::Stores),
    row(SFP, 32, AVB, 0, Write::Stores),
    row(SFV, 2, GEN3, 0, Write::Stores),
    row(SFM, 2, AVB, 0, Write::Stores),
    row(SFL, 1, [NONE, 0x1f, NONE], 0x1f, Write::Acts),
    one(0x1cc, GEN3, Write::Ignored),                                           // PCRC
    row(CIAR, 18, GEN3, 0, Write::Ignored),
    row(LIAR, 18, GEN3, 0, Write::Ignored),
    row(TGC, 1, [0x0033_333f, 0x0033_333f, 0x0000_0300], 0x0022_2200, Write::Stores),
    one(TCCR, [0x0003_030f, 0x0003_030f, 0x0000_0001], Write::Acts),
    one(TSR, EVERY, Write::Ignored),
    one(0x30c, GEN3, Write::Ignored),                                           // MFA
    row(TFA, 3, AVB, 0, Write::Ignored),
    row(0x31c, 1, GEN3, 0xe300, Write::Ignored),                                // VRR
    row(0x320, 2, AVB, 1, Write::Stores),                                       // CIVR
    row(0x328, 2, AVB, 0xffff_ffff, Write::Stores),                             // CDVR
    row(0x330, 2, AVB, 0x7fff_ffff, Write::Stores),                             // CUL
    row(0x338, 2, AVB, 0x8000_0001, Write::Stores),                             // CLL
    one(DIC, DESCRIPTORS, Write::Stores),
    one(DIS, DESCRIPTORS, Write::ZeroClears),
    one(EIC, ERRORS, Write::Stores),
    one(EIS, ERRORS, Write::ZeroClears),
    one(RIC0, RX, Write::Stores),
    one(RIS0, RX, Write::ZeroClears),
    one(RIC1, RX_FIFO, Write::Stores),
    one(RIS1, RX_FIFO, Write::ZeroClears),
    one(RIC2, RX_FIFO, Write::Stores),
    one(RIS2, RX_FIFO, Write::ZeroClears),
    one(TIC, TX, Write::Stores),
    one(TIS, TX, Write::ZeroClears),
    one(ISS, EVERY, Write::Ignored),
    one(CIE, [NONE, 0x000f_0101, NONE], Write::Stores),
    one(RIC3, RX_3, Write::Stores),
    one(RIS3, RX_3, Write::ZeroClears),
    one(GCCR, [0x0079_033f, 0x0079_033f, NONE], Write::Acts),                  // reset: mode.rs
    one(0x394, AVB, Write::Stores),                                             // GMTT
    one(GPTC, AVB, Write::Stores),
    row(GTI, 1, [0x0fff_ffff, 0x0fff_ffff, NONE], 1, Write::Acts),
    row(GTO, 2, AVB, 0, Write::Stores),
    one(GTO + 8, [0xffff, 0xffff, NONE], Write::Stores),
    one(GIC, GPTP, Write::Stores),
    one(GIS, GPTP, Write::ZeroClears),
    one(GCPT, AVB, Write::Ignored),
    row(GCT, 3, AVB, 0, Write::Ignored),
    one(0x3c4, GEN3, Write::Ignored),                                           // GSR
    one(GIE, GEN3, Write::Sets(GIC)),
    one(GID, GEN3, Write::Resets(GIC)),
    one(GIL, [NONE, 0xffff_03ff, NONE], Write::Stores),
    one(0x3dc, [NONE, 0xfff, NONE], Write::Stores),                             // GACP
    row(0x3e0, 4, GEN3, 0, Write::Ignored),                                     // GPTF
    row(0x400, 16, GEN3, 0, Write::Ignored),                                    // GCAT
    one(DIL, [NONE, 0xfffe, NONE], Write::Stores),
    one(EIL, [NONE, 0x7ff, NONE], Write::Stores),
    one(TIL, [NONE, 0xf00, NONE], Write::Stores),
    one(0x450, GEN3, Write::Sets(DIC)),
    one(0x454, GEN3, Write::Resets(DIC)),
    one(0x458, GEN3, Write::Sets(EIC)),
    one(0x45c, GEN3, Write::Resets(EIC)),
    one(0x460, GEN3, Write::Sets(RIC0)),
    one(0x464, GEN3, Write::Resets(RIC0)),
    one(0x468, GEN3, Write::Sets(RIC1)),
    one(0x46c, GEN3, Write::Resets(RIC1)),
    one(0x470, GEN3, Write::Sets(RIC2)),
    one(0x474, GEN3, Write::Resets(RIC2)),
    one(0x478, GEN3, Write::Sets(TIC)),
    one(0x47c, GEN3, Write::Resets(TIC)),
    one(0x488, GEN3, Write::Sets(RIC3)),
    one(0x48c, GEN3, Write::Resets(RIC3)),
    one(ECMR, [0x04bf_0263, 0x04bf_0263, 0x077f_1073], Write::Acts),
    one(RFLR, [0x3_ffff; 3], Write::Stores),
    one(ECSR, [0x1f; 3], Write::OneClears),
    one(ECSIPR, [0x1f; 3], Write::Stores),
    one(PIR, [0x7; 3], Write::Acts),
    one(PSR, [0x1; 3], Write::Ignored),
    one(PIPR, [0x1; 3], Write::Stores),
    one(0x530, [NONE, NONE, 0x9], Write::Stores),                               // CXR31
    one(CXR35, [NONE, NONE, 0xffff_0103], Write::Acts),
    one(0x554, [0xffff, 0xffff, NONE], Write::Stores),                          // APR
    one(MPR, [0xffff; 3], Write::Acts),
    one(PFTCR, [0xffff; 3], Write::ClearsCounter),
    one(PFRCR, [0xffff; 3], Write::ClearsCounter),
    one(0x564, [0xffff, 0xffff, NONE], Write::Stores),                          // TPAUSER
    one(0x568, [0xffff, 0xffff, NONE], Write::ClearsCounter),                   // PFTTCR
    one(GECMR, [0x1, 0x1, 0x30], Write::Stores),
    one(MAHR, EVERY, Write::Stores),
    one(MALR, [0xffff; 3], Write::Stores),
    one(0x700, [NONE, ALL, ALL], Write::ClearsCounter),                         // TROCR
    one(0x708, [NONE, NONE, ALL], Write::ClearsCounter),                        // CXR41
    one(0x710, [NONE, NONE, ALL], Write::ClearsCounter),                        // CXR42
    one(CEFCR, EVERY, Write::ClearsCounter),
    one(FRECR, EVERY, Write::ClearsCounter),
    one(TSFRCR, EVERY, Write::ClearsCounter),
    one(TLFRCR, EVERY, Write::ClearsCounter),
    one(RFCR, EVERY, Write::ClearsCounter),
    one(0x768, [NONE, NONE, ALL], Write::ClearsCounter),                        // CXR55
    one(CEECR, [NONE, NONE, ALL], Write::ClearsCounter),
    one(MAFCR, EVERY, Write::ClearsCounter),
    one(0x7b4, [NONE, NONE, ALL], Write::Stores),                               // LPTXMOD2
    one(0x7c0, [NONE, NONE, ALL], Write::Stores),                               // LPTXGTH1
    one(0x7d0, [NONE, NONE, ALL], Write::Stores),                               // LPTXMTH1
    one(CSR0, [NONE, NONE, 0x3331], Write::Acts),
    one(CSR1, [NONE, NONE, 0x0f70_0071], Write::Acts),
    one(CSR2, [NONE, NONE, 0x0f70_0071], Write::Acts),
];

/// What is at an offset of a variant's block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) mask: u32,
    pub(crate) reset: u32,
    pub(crate) write: Write,
    /// First register of its row.
    pub(crate) row: u16,
}

/// Words of the block.
pub(crate) const WORDS: usize = 0x1000 / 4;

/// The map of a variant, by word.
pub(crate) fn places(variant: Variant) -> Vec<Option<Place>> {
    let which = match variant {
        Variant::Gen2 => 0,
        Variant::Gen3 => 1,
        Variant::GbEth => 2,
    };
    let mut places = vec![None; WORDS];
    for register in MAP {
        let mask = register.masks[which];
        if mask == NONE {
            continue;
        }
        for i in 0..register.count {
            let word = usize::from(register.offset / 4 + i);
            let Register { reset, write, offset: row, .. } = *register;
            places[word] = Some(Place { mask, reset, write, row });
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_registers_share_a_place() {
        let mut seen = vec![false; WORDS];
        for register in MAP {
            for i in 0..register.count {
                let word = usize::from(register.offset / 4 + i);
                assert!(!seen[word], "{:#x}", register.offset + 4 * i);
                seen[word] = true;
            }
        }
    }
}
