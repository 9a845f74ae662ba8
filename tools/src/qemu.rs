//! QEMU: the command line of a machine that boots one of our images.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;
use clap::ValueEnum;

use crate::arch::Arch;
use crate::net::Forward;
use crate::setup;

/// The network card the machine has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Nic {
    /// virtio-net: over PCI, or memory-mapped on a microvm, which has no PCI bus.
    Virtio,
    /// virtio-net over the memory-mapped transport.
    VirtioMmio,
    /// No card at all.
    None,
}

/// What the card is connected to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Network {
    /// QEMU's user networking: the guest is 10.0.2.15 behind address translation, ports are forwarded to it.
    User(Vec<Forward>),
    /// A TAP device that exists already.
    Tap(String),
    /// Any other back end, as the value of `-netdev` without its `id`.
    Other(String),
}

/// A machine for one image.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The architecture.
    pub arch: Arch,
    /// QEMU's machine type with its options; the architecture's default when none is given.
    pub machine: Option<String>,
    /// QEMU's processor model.
    pub cpu: String,
    /// RAM in MiB.
    pub memory: u32,
    /// The card.
    pub nic: Nic,
    /// More properties of the card's device, as `csum=off`.
    pub nic_properties: Vec<String>,
    /// The card's other side.
    pub network: Network,
    /// Where to record the card's frames.
    pub pcap: Option<PathBuf>,
    /// The image to boot.
    pub kernel: PathBuf,
    /// A cpio archive handed to the guest as its initial RAM disk.
    pub initrd: Option<PathBuf>,
    /// Boot arguments.
    pub append: String,
    /// More arguments for QEMU.
    pub extra: Vec<OsString>,
}

impl Machine {
    /// A machine of the architecture's default type with a virtio card on user networking without forwards.
    pub fn new(arch: Arch, kernel: &Path) -> Machine {
        Machine {
            arch,
            machine: None,
            cpu: "max".to_owned(),
            memory: 128,
            nic: Nic::Virtio,
            nic_properties: Vec::new(),
            network: Network::User(Vec::new()),
            pcap: None,
            kernel: kernel.to_owned(),
            initrd: None,
            append: String::new(),
            extra: Vec::new(),
        }
    }

    /// The QEMU command. Its standard input and output are the guest's console; it ends with its parent.
    pub fn command(&self) -> Result<Command> {
        // QEMU must not outlive us, whatever ends us: the kernel sends the signal, no handler of ours has to run.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "TERM", "--"]);
        command.arg(setup::qemu::program(self.arch)?).args(self.arguments());
        Ok(command)
    }

    /// QEMU's arguments.
    pub fn arguments(&self) -> Vec<OsString> {
        let mut machine =
            self.machine.clone().unwrap_or_else(|| self.arch.default_machine().to_owned());
        // With ACPI a microvm's devices are described in AML only; without, in boot arguments QEMU adds.
        if self.is_microvm() && !machine.contains(",acpi=") {
            machine.push_str(",acpi=off");
        }
        let mut arguments: Vec<OsString> = Vec::new();
        let mut add = |words: &[&str]| arguments.extend(words.iter().map(OsString::from));
        add(&["-accel", "tcg", "-machine", &machine, "-cpu", &self.cpu]);
        add(&["-m", &self.memory.to_string(), "-nodefaults", "-display", "none"]);
        add(&["-serial", "stdio", "-no-reboot"]);
        match self.arch {
            Arch::X86_64 => add(&["-device", "isa-debug-exit,iobase=0xf4,iosize=0x04"]),
            Arch::Aarch64 => add(&["-semihosting-config", "enable=on,target=native"]),
        }
        if let Some(device) = self.device() {
            // QEMU's default for the memory-mapped transport is the one before virtio 1.0.
            if device.starts_with("virtio-net-device") {
                add(&["-global", "virtio-mmio.force-legacy=false"]);
            }
            add(&["-netdev", &self.netdev(), "-device", &device]);
        }
        arguments.extend(["-kernel".into(), self.kernel.clone().into_os_string()]);
        if let Some(initrd) = &self.initrd {
            arguments.extend(["-initrd".into(), initrd.clone().into_os_string()]);
        }
        arguments.extend(["-append".into(), OsString::from(&self.append)]);
        if let (Some(pcap), true) = (&self.pcap, self.nic != Nic::None) {
            let mut dump = OsString::from("filter-dump,id=pcap,netdev=net0,file=");
            dump.push(pcap);
            arguments.extend(["-object".into(), dump]);
        }
        arguments.extend(self.extra.iter().cloned());
        arguments
    }

    fn is_microvm(&self) -> bool {
        self.machine.as_deref().is_some_and(|m| m.split(',').next() == Some("microvm"))
    }

    fn device(&self) -> Option<String> {
        let no_pci = self.is_microvm();
        let device = match self.nic {
            Nic::None => return None,
            Nic::Virtio if !no_pci => "virtio-net-pci,romfile=",
            Nic::Virtio | Nic::VirtioMmio => "virtio-net-device",
        };
        let mut device = format!("{device},netdev=net0");
        for property in &self.nic_properties {
            device.push(',');
            device.push_str(property);
        }
        Some(device)
    }

    fn netdev(&self) -> String {
        match &self.network {
            Network::User(forwards) => {
                let mut netdev = "user,id=net0".to_owned();
                for Forward { protocol, host, guest } in forwards {
                    netdev.push_str(&format!(",hostfwd={protocol}:127.0.0.1:{host}-:{guest}"));
                }
                netdev
            }
            Network::Tap(name) => {
                format!("tap,id=net0,ifname={name},script=no,downscript=no,vhost=off")
            }
            Network::Other(backend) => format!("{backend},id=net0"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(machine: &Machine) -> String {
        let words: Vec<_> =
            machine.arguments().iter().map(|a| a.to_string_lossy().into_owned()).collect();
        words.join(" ")
    }

    #[test]
    fn microvm_has_no_pci_card() {
        let mut machine = Machine::new(Arch::X86_64, Path::new("/k"));
        assert!(line(&machine).contains("virtio-net-pci,romfile=,netdev=net0"));
        machine.machine = Some("microvm,rtc=on".to_owned());
        assert!(line(&machine).contains("virtio-net-device,netdev=net0"));
        assert!(line(&machine).contains("-machine microvm,rtc=on,acpi=off"));
    }

    #[test]
    fn forwards_listen_on_loopback_only() {
        let mut machine = Machine::new(Arch::Aarch64, Path::new("/k"));
        machine.network =
            Network::User(vec!["8080:80".parse().unwrap(), "udp:7007:7".parse().unwrap()]);
        assert!(line(&machine).contains(
            "-netdev user,id=net0,hostfwd=tcp:127.0.0.1:8080-:80,hostfwd=udp:127.0.0.1:7007-:7 "
        ));
    }

    #[test]
    fn machine_without_card_has_no_network() {
        let mut machine = Machine::new(Arch::X86_64, Path::new("/k"));
        machine.nic = Nic::None;
        machine.pcap = Some("/p".into());
        assert!(!line(&machine).contains("net0"));
    }
}
