//! Which words are instructions of ARMv4 without Thumb, for code that uses no coprocessor but the system's.
//!
//! Disassemblers know what a word means on the newest processor; none was found that can be held to this one (yaxpeax-arm
//! ignores the version it is given, LLVM does not know UMULL before version 6). The space is small, so it is spelled out.
//!
//! Source: Arm Architecture Reference Manual DDI 0100I, A3: figures of the instruction set and of its extension
//! spaces; A4 says of each instruction since which version there is it.

/// What compilers put where code must not go on: in the space that is undefined on every version. [ARM A3.16.5]
const TRAP: u32 = 0xe7ff_defe;

/// Whether the word is an instruction of ARMv4.
pub(crate) fn is_instruction(word: u32) -> bool {
    let fields = |mask: u32, value: u32| word & mask == value;
    // Version 5 put BLX and PLD where the condition would say "never".
    if fields(0xf000_0000, 0xf000_0000) {
        return false;
    }
    match word >> 25 & 7 {
        // Registers, or one of the spaces around multiplication.
        0b000 if fields(0x0000_0090, 0x0000_0090) => match word >> 5 & 3 {
            0b00 => {
                fields(0x0fc0_00f0, 0x0000_0090) // MUL, MLA
                    || fields(0x0f80_00f0, 0x0080_0090) // UMULL and its kin
                    || fields(0x0fb0_0ff0, 0x0100_0090) // SWP, SWPB
            }
            0b01 => true,                          // LDRH, STRH
            _ => fields(0x0010_0000, 0x0010_0000), // LDRSB, LDRSH; stores would be LDRD, STRD
        },
        // Comparisons that set no flags: what is there instead.
        0b000 if fields(0x0190_0000, 0x0100_0000) => {
            fields(0x0fbf_0fff, 0x010f_0000) // MRS
                || fields(0x0fb0_fff0, 0x0120_f000) // MSR
        }
        0b001 if fields(0x0190_0000, 0x0100_0000) => {
            // MSR of a constant; one that writes no field is a hint of version 6.
            fields(0x0fb0_f000, 0x0320_f000) && !fields(0x000f_0000, 0)
        }
        0b000..=0b010 => true, // arithmetic; LDR, STR
        0b011 => !fields(0x0000_0010, 0x0000_0010) || word == TRAP,
        0b100 | 0b101 => true, // LDM, STM; B, BL
        // Coprocessors: the system's, one register at a time. SVC.
        0b111 => fields(0x0100_0000, 0x0100_0000) || fields(0x0000_0f10, 0x0000_0f10),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `llvm-mc --triple=armv4-none-eabi --show-encoding` (LLVM 14) has them.
    #[test]
    fn instructions_of_version_4_pass() {
        for (word, text) in [
            (0xe1a0_f00e, "mov pc, lr"),
            (0xe591_0004, "ldr r0, [r1, #4]"),
            (0xe1d1_00b2, "ldrh r0, [r1, #2]"),
            (0xe1d1_00d2, "ldrsb r0, [r1, #2]"),
            (0xe1d1_00f2, "ldrsh r0, [r1, #2]"),
            (0xe1c1_00b2, "strh r0, [r1, #2]"),
            (0xe083_2490, "umull r2, r3, r0, r4"),
            (0xe0c3_2490, "smull r2, r3, r0, r4"),
            (0xe020_2190, "mla r0, r0, r1, r2"),
            (0xe101_2090, "swp r2, r0, [r1]"),
            (0xe8bd_8010, "ldmfd sp!, {r4, pc}"),
            (0xe10f_0000, "mrs r0, cpsr"),
            (0xe121_f000, "msr cpsr_c, r0"),
            (0xe321_f0d3, "msr cpsr_c, #0xd3"),
            (0xee07_0f9a, "mcr p15, 0, r0, c7, c10, 4"),
            (0xee10_0f10, "mrc p15, 0, r0, c0, c0, 0"),
            (0xef12_3456, "svc #0x123456"),
            (0xe350_0000, "cmp r0, #0"),
            (0xe7ff_defe, "trap"),
            (0xeb00_0000, "bl"),
        ] {
            assert!(is_instruction(word), "{text}");
        }
    }

    /// As `llvm-mc --triple=armv7-none-eabi -mattr=+vfp3,+hwdiv-arm --show-encoding` (LLVM 14) has them.
    #[test]
    fn later_instructions_are_refused() {
        for (word, text) in [
            (0xe12f_ff1e, "bx lr"),
            (0xe12f_ff30, "blx r0"),
            (0xfa00_0000, "blx label"),
            (0xe16f_0f11, "clz r0, r1"),
            (0xe1c1_00d8, "ldrd r0, r1, [r1, #8]"),
            (0xe1c1_00f8, "strd r0, r1, [r1, #8]"),
            (0xe120_0070, "bkpt #0"),
            (0xf5d0_f000, "pld [r0]"),
            (0xe102_0081, "smlabb r2, r1, r0, r0"),
            (0xe102_0051, "qsub r0, r1, r2"),
            (0xe191_0f9f, "ldrex r0, [r1]"),
            (0xe181_0f92, "strex r0, r2, [r1]"),
            (0xe060_1392, "mls r0, r2, r3, r1"),
            (0xe040_1392, "umaal r1, r0, r2, r3"),
            (0xe301_0234, "movw r0, #0x1234"),
            (0xe341_0234, "movt r0, #0x1234"),
            (0xe320_f003, "wfi"),
            (0xe320_f000, "nop"),
            (0xf57f_f05f, "dmb sy"),
            (0xe6bf_0f31, "rev r0, r1"),
            (0xe6ef_0071, "uxtb r0, r1"),
            (0xe710_f211, "sdiv r0, r1, r2"),
            (0xec51_0b10, "vmov r0, r1, d0"),
            (0xed90_0b00, "vldr d0, [r0]"),
            (0xec41_0f50, "mcrr p15, 5, r0, r1, c0"),
        ] {
            assert!(!is_instruction(word), "{text}");
        }
    }
}
