//! The architectures an image can be built for, and what each needs from cargo, the linker and QEMU.

use std::path::Path;

use clap::ValueEnum;

/// An architecture with a `std` target and a QEMU machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum)]
pub enum Arch {
    /// PCs: booted through the PVH note of an ELF file.
    #[value(name = "x86_64")]
    X86_64,
    /// 64-bit ARM: booted as a Linux `Image`.
    #[value(name = "aarch64")]
    Aarch64,
    /// 32-bit ARM without Thumb, as in Gemini: booted as a zImage.
    #[value(name = "armv4")]
    Armv4,
}

impl Arch {
    /// Every architecture, in the order tests and benches go through them.
    pub const ALL: [Arch; 3] = [Arch::X86_64, Arch::Aarch64, Arch::Armv4];

    /// Those that benches compare with Linux.
    pub const BENCHED: [Arch; 2] = [Arch::X86_64, Arch::Aarch64];

    /// The name in target triples and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Arch::X86_64 => "x86_64",
            Arch::Aarch64 => "aarch64",
            Arch::Armv4 => "armv4",
        }
    }

    /// The end of the name of its QEMU.
    pub fn emulator(self) -> &'static str {
        match self {
            Arch::X86_64 | Arch::Aarch64 => self.name(),
            Arch::Armv4 => "arm",
        }
    }

    /// The `rustc` target.
    pub fn target(self) -> &'static str {
        match self {
            Arch::X86_64 => "x86_64-unknown-hermit",
            Arch::Aarch64 => "aarch64-unknown-hermit",
            Arch::Armv4 => "armv4-unknown-hermit",
        }
    }

    /// What cargo is to be told to build for the target.
    ///
    /// The compiler's own aarch64 target forbids unaligned accesses, for code that runs without the MMU. There is
    /// none here, and parsing packets by single bytes costs a fifth of all instructions and of the image: the
    /// target in `targets/` is the same without that. For ARMv4 the compiler has none.
    pub fn target_arguments(self, root: &Path) -> Vec<String> {
        let target = match self {
            Arch::X86_64 => return vec!["--target".to_owned(), self.target().to_owned()],
            _ => root.join("targets").join(format!("{}.json", self.target())),
        };
        vec!["-Zjson-target-spec".to_owned(), "--target".to_owned(), target.display().to_string()]
    }

    /// QEMU's machine type when none is asked for.
    pub fn default_machine(self) -> &'static str {
        match self {
            Arch::X86_64 => "q35",
            Arch::Aarch64 => "virt",
            Arch::Armv4 => "versatilepb",
        }
    }

    /// QEMU's processor model when none is asked for. That of ARMv4 has neither Thumb nor anything of version 5, so what
    /// a Gemini could not execute, it does not either.
    pub fn default_cpu(self) -> &'static str {
        match self {
            Arch::X86_64 | Arch::Aarch64 => "max",
            Arch::Armv4 => "sa1110",
        }
    }

    /// Flags for every crate of an image, `std` included. `root` is the repository.
    ///
    /// Frame pointers make backtraces possible without unwind tables. x86_64 is linked where PVH loads it; aarch64
    /// is position-independent, since boards have their memory in different places; ARMv4's have it at 0.
    pub fn rustflags(self, root: &Path) -> Vec<String> {
        let script = root.join("targets").join(format!("{}.ld", self.name()));
        let script = format!("-Clink-arg=-T{}", script.display());
        let own = match self {
            Arch::X86_64 | Arch::Armv4 => "-Crelocation-model=static",
            Arch::Aarch64 => "-Clink-arg=--pack-dyn-relocs=relr",
        };
        vec![script, "-Cforce-frame-pointers=yes".to_owned(), own.to_owned()]
    }

    /// What the guest passed to `exit`, from QEMU's own exit status.
    ///
    /// On x86_64 the `isa-debug-exit` device makes `(code << 1) | 1` of it, so an even status is QEMU's: 0 is a
    /// guest that switched itself off. On ARM semihosting passes the code through.
    pub fn guest_status(self, qemu: i32) -> i32 {
        match self {
            Arch::X86_64 if qemu & 1 == 1 => qemu >> 1,
            _ => qemu,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_exit_status_is_undone() {
        assert_eq!(Arch::X86_64.guest_status((7 << 1) | 1), 7);
        assert_eq!(Arch::X86_64.guest_status(1), 0);
        assert_eq!(Arch::X86_64.guest_status(0), 0);
        assert_eq!(Arch::Aarch64.guest_status(7), 7);
        assert_eq!(Arch::Armv4.guest_status(7), 7);
    }
}
