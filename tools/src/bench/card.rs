//! Our load program on the model of a card.

use std::fs;

use anyhow::Result;

use super::Measurement;
use super::guests::{load_offset, measure_py, results};
use crate::app::App;
use crate::arch::Arch;
use crate::model::Model;
use crate::net::{GUEST_MAC, GUEST_V4, HOST_V4};
use crate::qemu::{Machine, Nic};
use crate::{image, setup, workspace};

/// Payload of a full TCP segment, in bytes: MTU 1500, headers without options.
pub(super) const SEGMENT: f64 = 1460.0;
/// RAM, in MiB.
const RAM: u32 = 64;

/// A card and the machine it is in.
pub(super) struct Card {
    /// The card.
    pub(super) model: Model,
    /// The machine's architecture.
    pub(super) arch: Arch,
    /// QEMU's name of its processor.
    pub(super) cpu: &'static str,
    /// Boot arguments besides the address.
    pub(super) append: String,
    /// Bytes sent each way, as often as is measured.
    pub(super) bytes: u64,
    /// DMA goes past the caches, as on the boards.
    pub(super) noncoherent: bool,
}

/// `measure.py`'s numbers of the keys, with where the instructions went.
pub(super) fn measure(card: &Card, keys: &str, repeat: u32) -> Result<Vec<Measurement>> {
    let image = image::build(&App::find(Some("peer"), None)?, card.arch, None)?;
    let folder =
        workspace::target_directory().join(format!("trireme/bench-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let mut machine = Machine::new(card.arch, &image.boot);
    machine.cpu = card.cpu.to_owned();
    machine.memory = RAM;
    machine.nic = Nic::None;
    // The model shares the guest's memory.
    machine.machine = Some(format!("{},memory-backend=ram", card.arch.default_machine()));
    machine.append = format!("ip={GUEST_V4}::{HOST_V4}:255.255.255.0:::off {}", card.append);
    let ram = format!("memory-backend-memfd,id=ram,size={RAM}M,share=on");
    machine.extra = ["-icount", "shift=0", "-object", &ram].map(Into::into).to_vec();
    if card.noncoherent {
        machine.without_coherence(&folder.join("tree"))?;
    }

    let mut command = measure_py();
    command.args(["custom", "--ports", "tx=5002,rx=5001,udp=7", "--ready", "listening"]);
    command.args(["--metrics", keys, "--repeat", &repeat.to_string()]);
    command.args(["--bytes", &card.bytes.to_string(), "--count", "500"]);
    command.args(["--ram", &RAM.to_string(), "--boot-timeout", "60"]);
    command.arg("--elf").arg(&image.elf);
    command.arg(format!("--elf-offset={:#x}", load_offset(card.arch)));
    command.arg("--").arg(workspace::root().join("tools/bench/card.sh")).arg("@TAP@");
    command.args(machine.arguments());
    let model = card.model.command()?;
    command.env("QEMU", setup::qemu::program(card.arch)?);
    command.env("MODEL", format!("{} --mac {GUEST_MAC}", workspace::shown(&model)));
    command.env("CARD", folder.join("card"));
    let measured = results(command);
    fs::remove_dir_all(folder)?;
    measured
}
