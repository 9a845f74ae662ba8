//! QEMU: the command line of a machine that boots one of our images.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;

use anyhow::{Context, Result, bail};

use crate::arch::Arch;
use crate::image;
use crate::model::{self, Model};
use crate::net::Forward;
use crate::setup;
use crate::workspace::output;

/// The network card the machine has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Nic {
    /// virtio-net: over PCI, or memory-mapped on a microvm, which has no PCI bus.
    Virtio,
    /// virtio-net over the memory-mapped transport.
    VirtioMmio,
    /// A device model of ours, attached over vfio-user.
    Model(Model),
    /// No card at all.
    None,
}

impl FromStr for Nic {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Nic> {
        let (name, chip) = text.split_once(':').unwrap_or((text, ""));
        Ok(match name {
            "virtio" if chip.is_empty() => Nic::Virtio,
            "virtio-mmio" if chip.is_empty() => Nic::VirtioMmio,
            "none" if chip.is_empty() => Nic::None,
            "rhine" => Nic::Model(Model::rhine(chip)),
            "ravb" => Nic::Model(Model::ravb(if chip.is_empty() { "gen3" } else { chip })),
            "gbeth" if chip.is_empty() => Nic::Model(Model::ravb("gbeth")),
            "gemini" => Nic::Model(Model::gemini(chip)),
            _ => bail!(
                "{text:?} is none of virtio, virtio-mmio, rhine[:CHIP], ravb[:gen2|:gen3], gbeth, gemini[:BOARD], none"
            ),
        })
    }
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
    /// A boot loader, which takes the image from a disk or the network as a board does. QEMU then gets neither image
    /// nor boot arguments, and a reset starts the loader again instead of ending the machine.
    pub firmware: Option<PathBuf>,
    /// A disk, as a file of its raw content.
    pub disk: Option<PathBuf>,
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
            cpu: arch.default_cpu().to_owned(),
            memory: 128,
            nic: Nic::Virtio,
            nic_properties: Vec::new(),
            network: Network::User(Vec::new()),
            pcap: None,
            firmware: None,
            disk: None,
            kernel: kernel.to_owned(),
            initrd: None,
            append: String::new(),
            extra: Vec::new(),
        }
    }

    /// Takes from QEMU's device tree the word that devices see the caches, since on boards they do not: the kernel then
    /// cleans and invalidates as it does there. `tree`: where to put it. aarch64's `virt` only.
    pub fn without_coherence(&mut self, tree: &Path) -> Result<()> {
        let mut plain = Machine { nic: Nic::None, ..self.clone() };
        let machine = self.machine.as_deref().unwrap_or(self.arch.default_machine());
        plain.machine = Some(format!("{machine},dumpdtb={}", tree.display()));
        output(Command::new(setup::qemu::program(self.arch)?).args(plain.arguments()))?;
        for node in ["/", "/pcie@10000000"] {
            output(Command::new("fdtput").arg("-d").arg(tree).args([node, "dma-coherent"]))
                .context("fdtput comes with device-tree-compiler")?;
        }
        self.extra.extend(["-dtb".into(), tree.into()]);
        Ok(())
    }

    /// The QEMU command. Its standard input and output are the guest's console; it ends with its parent.
    /// A card that is a device model is started here, and ends when QEMU does.
    pub fn command(&self) -> Result<Command> {
        // QEMU must not outlive us, whatever ends us: the kernel sends the signal, no handler of ours has to run.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "TERM", "--"]);
        command.arg(setup::qemu::program(self.arch)?);
        let sockets = match &self.nic {
            Nic::Model(model) => {
                let mut model = model.clone();
                // On a TAP the frames do not pass QEMU.
                if matches!(self.network, Network::Tap(_)) && model.pcap.is_none() {
                    model.pcap.clone_from(&self.pcap);
                }
                Some(model.start(&self.network)?)
            }
            _ => None,
        };
        command.args(self.arguments_with(sockets.as_ref()));
        Ok(command)
    }

    /// QEMU's arguments, for a card that is QEMU's own.
    pub fn arguments(&self) -> Vec<OsString> {
        self.arguments_with(None)
    }

    fn arguments_with(&self, sockets: Option<&model::Sockets>) -> Vec<OsString> {
        let mut machine =
            self.machine.clone().unwrap_or_else(|| self.arch.default_machine().to_owned());
        // With ACPI a microvm's devices are described in AML only; without, in boot arguments QEMU adds.
        if self.is_microvm() && !machine.contains(",acpi=") {
            machine.push_str(",acpi=off");
        }
        if sockets.is_some() {
            // A device model shares the guest's memory.
            machine.push_str(",memory-backend=ram");
        }
        let mut arguments: Vec<OsString> = Vec::new();
        let mut add = |words: &[&str]| arguments.extend(words.iter().map(OsString::from));
        add(&["-accel", "tcg", "-machine", &machine, "-cpu", &self.cpu]);
        add(&["-m", &self.memory.to_string(), "-nodefaults", "-display", "none"]);
        add(&["-serial", "stdio"]);
        if self.firmware.is_none() {
            add(&["-no-reboot"]);
        }
        match self.arch {
            Arch::X86_64 => add(&["-device", "isa-debug-exit,iobase=0xf4,iosize=0x04"]),
            Arch::Aarch64 => add(&["-semihosting-config", "enable=on,target=native"]),
            // The machine has a sound card, and no device tree of its own.
            Arch::Armv4 => {
                add(&["-semihosting-config", "enable=on,target=native", "-audio", "none"]);
                let tree = self.kernel.with_file_name(image::TREE);
                arguments.extend(["-dtb".into(), tree.into_os_string()]);
            }
        }
        let mut add = |words: &[&str]| arguments.extend(words.iter().map(OsString::from));
        if let Some(device) = self.device() {
            // QEMU's default for the memory-mapped transport is the one before virtio 1.0.
            if device.starts_with("virtio-net-device") {
                add(&["-global", "virtio-mmio.force-legacy=false"]);
            }
            add(&["-netdev", &self.netdev(), "-device", &device]);
        }
        if let Some(sockets) = sockets {
            let ram = format!("memory-backend-memfd,id=ram,size={}M,share=on", self.memory);
            add(&["-object", &ram, "-device", &sockets.device()]);
            for (n, wire) in sockets.netdevs().into_iter().enumerate() {
                // The model's wire and QEMU's own back end on one hub.
                let backend = match n {
                    0 => self.netdev(),
                    // A network of its own for each further port.
                    _ => format!("user,id=net{n},net=10.0.{}.0/24", 2 + n),
                };
                let [a, b] = [format!("wire{n}"), format!("net{n}")]
                    .map(|end| format!("hubport,id=hub-{end},hubid={n},netdev={end}"));
                add(&["-netdev", &wire, "-netdev", &a, "-netdev", &backend, "-netdev", &b]);
            }
        }
        if let Some(disk) = &self.disk {
            add(&["-device", "virtio-blk-pci,drive=disk"]);
            let mut drive = OsString::from("if=none,id=disk,format=raw,file=");
            drive.push(disk);
            arguments.extend(["-drive".into(), drive]);
        }
        match &self.firmware {
            Some(firmware) => arguments.extend(["-bios".into(), firmware.into()]),
            None => {
                arguments.extend(["-kernel".into(), self.kernel.clone().into_os_string()]);
                if let Some(initrd) = &self.initrd {
                    arguments.extend(["-initrd".into(), initrd.clone().into_os_string()]);
                }
                arguments.extend(["-append".into(), OsString::from(&self.append)]);
            }
        }
        let on_netdev = match &self.nic {
            Nic::None => false,
            Nic::Model(_) => sockets.is_some_and(|sockets| !sockets.netdevs().is_empty()),
            Nic::Virtio | Nic::VirtioMmio => true,
        };
        if let (Some(pcap), true) = (&self.pcap, on_netdev) {
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
        let device = match &self.nic {
            Nic::None | Nic::Model(_) => return None,
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
    fn cards_are_named() {
        assert_eq!("virtio".parse::<Nic>().unwrap(), Nic::Virtio);
        assert_eq!("rhine:vt6102".parse::<Nic>().unwrap(), Nic::Model(Model::rhine("vt6102")));
        assert_eq!("ravb".parse::<Nic>().unwrap(), Nic::Model(Model::ravb("gen3")));
        assert_eq!("ravb:gen2".parse::<Nic>().unwrap(), Nic::Model(Model::ravb("gen2")));
        assert_eq!("gemini".parse::<Nic>().unwrap(), Nic::Model(Model::gemini("")));
        assert_eq!("gbeth".parse::<Nic>().unwrap(), Nic::Model(Model::ravb("gbeth")));
        for wrong in ["", "virtio:x", "e1000"] {
            assert!(wrong.parse::<Nic>().is_err(), "{wrong:?} passed");
        }
    }

    #[test]
    fn machine_with_firmware_starts_over_when_it_is_reset() {
        let mut machine = Machine::new(Arch::Aarch64, Path::new("/k"));
        assert!(line(&machine).contains("-no-reboot"));
        machine.firmware = Some("/u-boot.bin".into());
        machine.disk = Some("/sd.img".into());
        let line = line(&machine);
        assert!(line.contains("-bios /u-boot.bin") && line.contains("file=/sd.img"), "{line}");
        assert!(!line.contains("-no-reboot") && !line.contains("-kernel"), "{line}");
    }

    #[test]
    fn versatile_board_is_given_its_tree() {
        let machine = Machine::new(Arch::Armv4, Path::new("/i/echo-armv4.zImage"));
        let line = line(&machine);
        assert!(line.contains("-machine versatilepb -cpu sa1110"), "{line}");
        assert!(line.contains("-dtb /i/versatilepb.dtb"), "{line}");
    }

    #[test]
    fn machine_without_card_has_no_network() {
        let mut machine = Machine::new(Arch::X86_64, Path::new("/k"));
        machine.nic = Nic::None;
        machine.pcap = Some("/p".into());
        assert!(!line(&machine).contains("net0"));
    }
}
