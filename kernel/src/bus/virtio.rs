//! virtio devices on PCI and in memory: the transports of the crate `virtio_drivers`, and what it
//! leaves to a kernel: interrupts, and a doorbell that costs one access instead of three.

use core::fmt;
use core::mem::ManuallyDrop;
use core::ops::Range;

use trireme_nic::Registers;
use virtio_drivers::transport::mmio::{MmioError, MmioTransport};
use virtio_drivers::transport::pci::bus::{DeviceFunction, PciRoot};
use virtio_drivers::transport::pci::{PciTransport, VirtioPciError};
use virtio_drivers::transport::{
    DeviceStatus, DeviceType, InterruptStatus, SomeTransport, Transport,
};
use virtio_drivers::{Error, PhysAddr};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::KernelHal;
use super::host::{Host, Space};
use super::pci::{Configuration, Function};
use super::registers::MappedRegisters;
use crate::arch::{self, MapError, Msi, Trigger};
use crate::interrupt::{self, Source};

/// Vendor of virtio devices on PCI.
pub const VENDOR: u16 = 0x1af4;

/// Queues whose doorbells are kept; a network card has three.
const QUEUES: usize = 3;
/// Register blocks larger than this are not a network card's or an entropy source's.
const LARGEST_BAR: u64 = 16 << 20;

// Vendor-specific capability and its types. [VIRTIO 4.1.4]
const VENDOR_CAPABILITY: u8 = 9;
const COMMON: u8 = 1;
const NOTIFY: u8 = 2;
const LAST_NEEDED: u8 = 4;
// Fields of the common configuration the crate does not reach. [VIRTIO 4.1.4.3]
const CONFIG_VECTOR: usize = 0x10;
const QUEUE_SELECT: usize = 0x16;
const QUEUE_VECTOR: usize = 0x1a;
const QUEUE_NOTIFY_OFFSET: usize = 0x1e;
const NO_VECTOR: u16 = 0xffff;

/// Entries of the MSI-X table: configuration changes, and all queues.
const CONFIG_ENTRY: u16 = 0;
const QUEUE_ENTRY: u16 = 1;

/// Why a virtio device cannot be reached.
#[derive(Clone, Debug)]
pub enum Unreachable {
    /// Its capabilities make no sense, or BARs are not what they claim.
    Capabilities,
    /// Firmware gave a BAR no address.
    Unassigned(u8),
    /// Its registers cannot be mapped.
    Mapping(MapError),
    /// It cannot interrupt.
    NoInterrupt,
    /// The PCI transport says.
    Pci(VirtioPciError),
    /// The MMIO transport says.
    Mmio(MmioError),
}

impl fmt::Display for Unreachable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unreachable::Capabilities => f.write_str("its capabilities make no sense"),
            Unreachable::Unassigned(bar) => write!(f, "BAR {bar} was given no address"),
            Unreachable::Mapping(error) => write!(f, "registers: {error}"),
            Unreachable::NoInterrupt => f.write_str("it has no interrupt"),
            Unreachable::Pci(error) => error.fmt(f),
            Unreachable::Mmio(error) => error.fmt(f),
        }
    }
}

impl From<MapError> for Unreachable {
    fn from(error: MapError) -> Self {
        Unreachable::Mapping(error)
    }
}

/// How a device says that it has work.
enum Interrupts {
    /// It does not; whoever asks it looks.
    None,
    /// By a line, with the cause in a register that wants reading. `seen`: its count then.
    Line { line: u32, seen: u32 },
    /// By messages, one for configuration changes (and its count when seen) and one for all queues.
    Messages { config: u32, seen: u32 },
}

/// A doorbell register: where it is in its block.
type Doorbell = Option<(MappedRegisters, usize)>;

/// A device's PCI capabilities, as far as they are used here and not by the crate.
struct PciParts {
    common: MappedRegisters,
    notify: MappedRegisters,
    notify_multiplier: usize,
    messages: bool,
}

/// A virtio device's transport, interrupts attached.
///
/// Dropping it does not touch the device: drivers reset theirs, and the crate's own way waits for ever.
pub struct VirtioTransport {
    inner: ManuallyDrop<SomeTransport<'static>>,
    interrupts: Interrupts,
    doorbells: [Doorbell; QUEUES],
    pci: Option<PciParts>,
}

// SAFETY: registers can be accessed from any thread, and there is one CPU.
unsafe impl Send for VirtioTransport {}

/// A virtio capability whose block was checked to lie in a mapped BAR.
struct Block {
    kind: u8,
    registers: MappedRegisters,
    /// The word after the capability's common part.
    extra: u32,
}

/// Reads and checks a function's virtio capabilities; maps what they point to.
fn blocks(
    space: &Space,
    function: &Function,
    mut each: impl FnMut(Block),
) -> Result<(), Unreachable> {
    let list = function.capabilities(space).ok_or(Unreachable::Capabilities)?;
    for (_, offset) in list.into_iter().filter(|(id, _)| *id == VENDOR_CAPABILITY) {
        let word = |at: u8| offset.checked_add(at).map(|at| space.read(function.address, at));
        let (Some(head), Some(bar), Some(start), Some(len)) = (word(0), word(4), word(8), word(12))
        else {
            return Err(Unreachable::Capabilities);
        };
        let kind = (head >> 24) as u8;
        if !(COMMON..=LAST_NEEDED).contains(&kind) {
            continue;
        }
        let bar = bar as u8;
        let memory = function.memory(bar).ok_or(Unreachable::Unassigned(bar))?;
        let size = memory.end - memory.start;
        if u64::from(start) + u64::from(len) > size || size > LARGEST_BAR {
            return Err(Unreachable::Capabilities);
        }
        // All of the BAR is mapped; the crate then maps its parts again, which cannot fail.
        MappedRegisters::map(memory.clone())?;
        let start = memory.start + u64::from(start);
        let registers = MappedRegisters::map(start..start + u64::from(len))?;
        each(Block { kind, registers, extra: word(16).unwrap_or(0) });
    }
    Ok(())
}

impl VirtioTransport {
    /// Reaches a virtio device on PCI. `source`: who is to hear of its interrupts; `None`: nobody.
    pub fn pci(
        host: &Host,
        function: &Function,
        source: Option<Source>,
    ) -> Result<VirtioTransport, Unreachable> {
        let mut space = host.space();
        let (mut common, mut notify) = (None, None);
        // As in the crate, the first of a kind counts. [VIRTIO 4.1.4.1]
        blocks(&space, function, |block| match block.kind {
            COMMON if common.is_none() => common = Some(block),
            NOTIFY if notify.is_none() => notify = Some(block),
            _ => {}
        })?;
        function.enable(&mut space, false);
        let address = DeviceFunction {
            bus: function.address.bus,
            device: function.address.device,
            function: function.address.function,
        };
        let inner = PciTransport::new::<KernelHal, Space>(&mut PciRoot::new(space), address)
            .map_err(Unreachable::Pci)?;
        // From here on its `drop`, which waits for the device for ever, is out of reach.
        let inner = ManuallyDrop::new(inner.into());
        let (Some(common), Some(notify)) = (common, notify) else {
            return Err(Unreachable::Capabilities);
        };
        let interrupts = match source {
            None => Interrupts::None,
            Some(source) => match messages(&mut space, function, source)? {
                Some(messages) => messages,
                None => {
                    let (line, trigger) = host.line(function).ok_or(Unreachable::NoInterrupt)?;
                    function.enable(&mut space, true);
                    by_line(line, trigger, source)?
                }
            },
        };
        let pci = PciParts {
            common: common.registers,
            notify: notify.registers,
            notify_multiplier: notify.extra as usize,
            messages: matches!(interrupts, Interrupts::Messages { .. }),
        };
        Ok(VirtioTransport { inner, interrupts, doorbells: [None; QUEUES], pci: Some(pci) })
    }

    /// Reaches a virtio device at a fixed place. `Ok(None)`: there is none of this kind.
    pub fn mmio(
        registers: Range<u64>,
        line: u32,
        trigger: Trigger,
        kind: DeviceType,
        source: Option<Source>,
    ) -> Result<Option<VirtioTransport>, Unreachable> {
        // [VIRTIO 4.2.2]: the device's kind, 0 in an empty slot.
        let len = registers.end - registers.start;
        if len < 0x200 {
            return Err(Unreachable::Mmio(MmioError::MmioRegionTooSmall));
        }
        let block = MappedRegisters::map(registers.clone())?;
        if block.read32(8) != kind as u32 {
            return Ok(None);
        }
        let header = arch::map_device(registers.start, len as usize)?;
        // SAFETY: mapped for good, aligned to a word, `virtio_mmio::parse` and the device tree see to that;
        // the block above is not used from here on.
        let inner = unsafe { MmioTransport::new(header.cast(), len as usize) };
        let inner = inner.map_err(Unreachable::Mmio)?;
        let interrupts = match source {
            Some(source) => by_line(line, trigger, source)?,
            None => Interrupts::None,
        };
        Ok(Some(VirtioTransport {
            inner: ManuallyDrop::new(inner.into()),
            interrupts,
            doorbells: [None; QUEUES],
            pci: None,
        }))
    }

    /// Which of the two it is, for people.
    pub fn kind(&self) -> &'static str {
        match self.interrupts {
            Interrupts::Messages { .. } => "PCI, MSI-X",
            _ if self.pci.is_some() => "PCI, INTx",
            _ => "MMIO",
        }
    }
}

fn by_line(line: u32, trigger: Trigger, source: Source) -> Result<Interrupts, Unreachable> {
    if !interrupt::is_valid(line) {
        return Err(Unreachable::NoInterrupt);
    }
    interrupt::attach(line, trigger, source);
    Ok(Interrupts::Line { line, seen: interrupt::count(line) })
}

/// Sets MSI-X up, if function and machine have it.
fn messages(
    space: &mut Space,
    function: &Function,
    source: Source,
) -> Result<Option<Interrupts>, Unreachable> {
    let Some(msi_x) = function.msi_x(space).filter(|msi_x| msi_x.vectors > QUEUE_ENTRY) else {
        return Ok(None);
    };
    let (Some(memory), Some(config), Some(queues)) =
        (function.memory(msi_x.bar), arch::msi_allocate(), arch::msi_allocate())
    else {
        return Ok(None);
    };
    let start = memory.start + u64::from(msi_x.table);
    let table = MappedRegisters::map(start..start + 16 * u64::from(msi_x.vectors))?;
    let fill = |entry: u16, msi: Msi| {
        // Address, data, vector control with the mask bit. [PCI 6.8.2.6 to 6.8.2.9]
        let at = 16 * usize::from(entry);
        table.write32(at, msi.address as u32);
        table.write32(at + 4, (msi.address >> 32) as u32);
        table.write32(at + 8, msi.data);
        table.write32(at + 12, 0);
        interrupt::attach(msi.line, Trigger::Edge, source);
    };
    fill(CONFIG_ENTRY, config);
    fill(QUEUE_ENTRY, queues);
    function.enable_msi_x(space, &msi_x);
    let config = config.line;
    Ok(Some(Interrupts::Messages { config, seen: interrupt::count(config) }))
}

impl PciParts {
    /// Ties the vectors to a queue, and finds its doorbell. Called with every set-up of a queue: a reset
    /// of the device unties them.
    fn set_up_queue(&self, queue: u16) -> Doorbell {
        self.common.write16(QUEUE_SELECT, queue);
        if self.messages {
            self.common.write16(CONFIG_VECTOR, CONFIG_ENTRY);
            self.common.write16(QUEUE_VECTOR, QUEUE_ENTRY);
            if self.common.read16(QUEUE_VECTOR) == NO_VECTOR {
                log::warn!("virtio: the device has no vector left for queue {queue}");
            }
        }
        let offset = usize::from(self.common.read16(QUEUE_NOTIFY_OFFSET));
        let at = offset.checked_mul(self.notify_multiplier)?;
        let fits = at.is_multiple_of(2) && self.notify.contains(at, 2);
        fits.then_some((self.notify, at))
    }
}

impl Transport for VirtioTransport {
    fn notify(&mut self, queue: u16) {
        match self.doorbells.get(usize::from(queue)) {
            Some(Some((registers, at))) => registers.write16(*at, queue),
            // A PCI device whose doorbell lies outside its block has none.
            _ if self.pci.is_some() => {}
            _ => self.inner.notify(queue),
        }
    }

    fn queue_set(
        &mut self,
        queue: u16,
        size: u32,
        descriptors: PhysAddr,
        driver_area: PhysAddr,
        device_area: PhysAddr,
    ) {
        if let Some(pci) = &self.pci {
            let doorbell = pci.set_up_queue(queue);
            if let Some(slot) = self.doorbells.get_mut(usize::from(queue)) {
                *slot = doorbell;
            }
        }
        self.inner.queue_set(queue, size, descriptors, driver_area, device_area);
    }

    fn ack_interrupt(&mut self) -> InterruptStatus {
        match &mut self.interrupts {
            Interrupts::None => InterruptStatus::empty(),
            Interrupts::Line { line, seen } => {
                let count = interrupt::count(*line);
                if count == *seen {
                    return InterruptStatus::empty();
                }
                *seen = count;
                self.inner.ack_interrupt()
            }
            Interrupts::Messages { config, seen } => {
                let count = interrupt::count(*config);
                if count == *seen {
                    return InterruptStatus::QUEUE_INTERRUPT;
                }
                *seen = count;
                InterruptStatus::all()
            }
        }
    }

    fn device_type(&self) -> DeviceType {
        self.inner.device_type()
    }
    fn read_device_features(&mut self) -> u64 {
        self.inner.read_device_features()
    }
    fn write_driver_features(&mut self, features: u64) {
        self.inner.write_driver_features(features);
    }
    fn max_queue_size(&mut self, queue: u16) -> u32 {
        self.inner.max_queue_size(queue)
    }
    fn get_status(&self) -> DeviceStatus {
        self.inner.get_status()
    }
    fn set_status(&mut self, status: DeviceStatus) {
        self.inner.set_status(status);
    }
    fn set_guest_page_size(&mut self, size: u32) {
        self.inner.set_guest_page_size(size);
    }
    fn requires_legacy_layout(&self) -> bool {
        self.inner.requires_legacy_layout()
    }
    fn queue_unset(&mut self, queue: u16) {
        self.inner.queue_unset(queue);
    }
    fn queue_used(&mut self, queue: u16) -> bool {
        self.inner.queue_used(queue)
    }
    fn read_config_generation(&self) -> u32 {
        self.inner.read_config_generation()
    }
    fn read_config_space<V: FromBytes + IntoBytes>(&self, offset: usize) -> Result<V, Error> {
        self.inner.read_config_space(offset)
    }
    fn write_config_space<V: IntoBytes + Immutable>(
        &mut self,
        offset: usize,
        value: V,
    ) -> Result<(), Error> {
        self.inner.write_config_space(offset, value)
    }
}
