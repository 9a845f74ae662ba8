//! A PCI function: a device core behind its configuration space.

use crate::{Bar, ConfigSpace, Context, Device, DmaError, GuestMemory};
use std::cell::Cell;
use std::time::Duration;

/// The access is not one the function can take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadAccess;

/// Core and configuration. Memory and time come with each call.
pub struct Function<D> {
    device: D,
    config: ConfigSpace,
}

/// Guest memory as far as the bus-master bit lets it through; remembers failures.
struct Gate<'a> {
    memory: &'a dyn GuestMemory,
    open: bool,
    failed: Cell<bool>,
}

impl Gate<'_> {
    fn check<T>(&self, result: Result<T, DmaError>) -> Result<T, DmaError> {
        self.failed.set(self.failed.get() || result.is_err());
        result
    }
}

impl GuestMemory for Gate<'_> {
    fn read(&self, address: u64, data: &mut [u8]) -> Result<(), DmaError> {
        if !self.open {
            return Err(DmaError { address, len: data.len() });
        }
        self.check(self.memory.read(address, data))
    }

    fn write(&self, address: u64, data: &[u8]) -> Result<(), DmaError> {
        if !self.open {
            return Err(DmaError { address, len: data.len() });
        }
        self.check(self.memory.write(address, data))
    }
}

impl<D: Device> Function<D> {
    /// The function after power-up.
    pub fn new(device: D) -> Function<D> {
        let config = device.config_space();
        Function { device, config }
    }

    /// The core.
    pub fn device(&self) -> &D {
        &self.device
    }

    /// The core, to turn its switches.
    pub fn device_mut(&mut self) -> &mut D {
        &mut self.device
    }

    /// The BARs.
    pub fn bars(&self) -> &[Option<Bar>; 6] {
        self.config.bars()
    }

    /// Level of INTA.
    pub fn interrupt(&self) -> bool {
        self.config.may_interrupt() && self.device.interrupt()
    }

    /// PCI reset.
    pub fn reset(&mut self) {
        self.device.reset();
        self.config = self.device.config_space();
    }

    /// Reads configuration space.
    pub fn read_config(&self, offset: u64, data: &mut [u8]) {
        self.config.read(offset, data, self.device.interrupt());
    }

    /// Writes configuration space.
    pub fn write_config(&mut self, offset: u64, data: &[u8]) {
        if let Some(state) = self.config.write(offset, data).power {
            self.device.power(state);
        }
        for (i, &value) in data.iter().enumerate() {
            let Ok(at) = u8::try_from(offset.saturating_add(i as u64)) else { break };
            if at >= 0x40 {
                self.device.config_written(at, value);
            }
        }
    }

    fn bar(&self, index: usize, offset: u64, len: usize) -> Result<Bar, BadAccess> {
        let bar = self.config.bars().get(index).copied().flatten().ok_or(BadAccess)?;
        let size = u64::from(bar.size());
        let fits = offset <= size && len as u64 <= size - offset;
        // A bus cycle is a naturally aligned 1, 2 or 4 bytes; QEMU may merge two into 8.
        let cycle = matches!(len, 1 | 2 | 4 | 8) && offset.is_multiple_of(len as u64);
        if fits && cycle { Ok(bar) } else { Err(BadAccess) }
    }

    fn with<R>(
        &mut self,
        memory: &dyn GuestMemory,
        now: Duration,
        call: impl FnOnce(&mut D, Context<'_>) -> R,
    ) -> R {
        let gate = Gate { memory, open: self.config.is_bus_master(), failed: Cell::new(false) };
        let result = call(&mut self.device, Context { memory: &gate, now });
        if gate.failed.get() {
            self.config.received_master_abort();
        }
        result
    }

    /// Reads a BAR. Where decoding is off nobody answers: all ones.
    pub fn read_bar(
        &mut self,
        bar: usize,
        offset: u64,
        data: &mut [u8],
        memory: &dyn GuestMemory,
        now: Duration,
    ) -> Result<(), BadAccess> {
        let which = self.bar(bar, offset, data.len())?;
        if !self.config.decodes(which) {
            data.fill(0xff);
            return Ok(());
        }
        self.with(memory, now, |device, context| device.read(bar, offset, data, context));
        Ok(())
    }

    /// Writes a BAR. Where decoding is off nobody listens.
    pub fn write_bar(
        &mut self,
        bar: usize,
        offset: u64,
        data: &[u8],
        memory: &dyn GuestMemory,
        now: Duration,
    ) -> Result<(), BadAccess> {
        let which = self.bar(bar, offset, data.len())?;
        if self.config.decodes(which) {
            self.with(memory, now, |device, context| device.write(bar, offset, data, context));
        }
        Ok(())
    }

    /// A frame arrives from wire `wire`.
    pub fn receive(&mut self, wire: usize, frame: &[u8], memory: &dyn GuestMemory, now: Duration) {
        self.with(memory, now, |device, context| device.receive_on(wire, frame, context));
    }

    /// Time passes; see [`Device::advance`].
    pub fn advance(&mut self, memory: &dyn GuestMemory, now: Duration) -> Option<Duration> {
        self.with(memory, now, |device, context| device.advance(context))
    }

    /// The next frame, and the wire it is for.
    pub fn take_frame(&mut self) -> Option<(usize, Vec<u8>)> {
        self.device.take_frame_for()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PowerState;
    use std::cell::RefCell;

    /// One 32-bit register that copies a guest word when written; interrupts when it is not zero.
    #[derive(Default)]
    struct Copier {
        value: u32,
        power: Vec<PowerState>,
    }

    impl Device for Copier {
        fn config_space(&self) -> ConfigSpace {
            ConfigSpace::new(1, 2, 0x02_8000, 0)
                .with_bar(0, Bar::Memory { size: 16 })
                .with_power_management(0x40, 2)
        }
        fn read(&mut self, _: usize, _: u64, data: &mut [u8], _: Context<'_>) {
            data.copy_from_slice(&self.value.to_le_bytes()[..data.len()]);
        }
        fn write(&mut self, _: usize, _: u64, data: &[u8], context: Context<'_>) {
            self.value = context.memory.read32(u64::from(data[0])).unwrap_or(0xdead);
        }
        fn receive(&mut self, _: &[u8], _: Context<'_>) {}
        fn advance(&mut self, _: Context<'_>) -> Option<Duration> {
            None
        }
        fn take_frame(&mut self) -> Option<Vec<u8>> {
            None
        }
        fn interrupt(&self) -> bool {
            self.value != 0
        }
        fn reset(&mut self) {
            self.value = 0;
        }
        fn power(&mut self, state: PowerState) {
            self.power.push(state);
        }
    }

    struct Ram(RefCell<Vec<u8>>);
    impl GuestMemory for Ram {
        fn read(&self, address: u64, data: &mut [u8]) -> Result<(), DmaError> {
            let error = DmaError { address, len: data.len() };
            let ram = self.0.borrow();
            let from = ram.get(address as usize..address as usize + data.len()).ok_or(error)?;
            data.copy_from_slice(from);
            Ok(())
        }
        fn write(&self, address: u64, data: &[u8]) -> Result<(), DmaError> {
            Err(DmaError { address, len: data.len() })
        }
    }

    fn write(function: &mut Function<Copier>, ram: &Ram, value: u8) {
        function.write_bar(0, 0, &[value, 0, 0, 0], ram, Duration::ZERO).unwrap();
    }

    fn read(function: &mut Function<Copier>, ram: &Ram) -> u32 {
        let mut data = [0; 4];
        function.read_bar(0, 0, &mut data, ram, Duration::ZERO).unwrap();
        u32::from_le_bytes(data)
    }

    #[test]
    fn nothing_is_decoded_or_mastered_until_the_command_register_says_so() {
        let ram = Ram(RefCell::new(vec![7, 0, 0, 0, 0, 0, 0, 0]));
        let mut function = Function::new(Copier::default());
        write(&mut function, &ram, 0);
        assert_eq!(read(&mut function, &ram), 0xffff_ffff);
        function.write_config(4, &[2, 0]);
        assert_eq!(read(&mut function, &ram), 0);
        write(&mut function, &ram, 0);
        assert_eq!(read(&mut function, &ram), 0xdead, "no bus master yet");
        function.write_config(4, &[6, 0]);
        write(&mut function, &ram, 0);
        assert_eq!(read(&mut function, &ram), 7);
    }

    #[test]
    fn intx_follows_level_and_disable_bit() {
        let ram = Ram(RefCell::new(vec![7, 0, 0, 0]));
        let mut function = Function::new(Copier::default());
        function.write_config(4, &[6, 0]);
        write(&mut function, &ram, 0);
        assert!(function.interrupt());
        function.write_config(4, &[6, 4]);
        assert!(!function.interrupt());
        function.reset();
        assert!(!function.interrupt());
        assert_eq!(function.bars()[0], Some(Bar::Memory { size: 16 }));
    }

    #[test]
    fn a_failed_dma_leaves_received_master_abort() {
        let ram = Ram(RefCell::new(vec![0; 4]));
        let mut function = Function::new(Copier::default());
        function.write_config(4, &[6, 0]);
        write(&mut function, &ram, 200);
        let mut status = [0; 2];
        function.read_config(6, &mut status);
        assert_eq!(status[1] & 0x20, 0x20);
    }

    #[test]
    fn accesses_that_are_no_bus_cycle_are_refused() {
        let ram = Ram(RefCell::new(vec![]));
        let mut function = Function::new(Copier::default());
        function.write_config(4, &[6, 0]);
        for (bar, offset, len) in [
            (0, 16, 1),
            (0, 15, 2),
            (0, 1, 2),
            (0, 0, 3),
            (0, 0, 16),
            (1, 0, 4),
            (9, 0, 4),
            (0, u64::MAX, 1),
        ] {
            let result = function.read_bar(bar, offset, &mut vec![0; len], &ram, Duration::ZERO);
            assert_eq!(result, Err(BadAccess), "{bar} {offset} {len}");
        }
    }

    #[test]
    fn power_changes_reach_the_core_once() {
        let mut function = Function::new(Copier::default());
        function.write_config(0x44, &[3, 0]);
        function.write_config(0x44, &[3, 0]);
        function.write_config(0x44, &[0, 0]);
        assert_eq!(function.device().power, [PowerState::D3Hot, PowerState::D0]);
    }
}
