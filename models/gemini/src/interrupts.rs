//! Interrupt registers (docs/hardware/gemini.md 4.1, 4.2): five groups of 32 causes that latch whether
//! enabled or not, each routed to one of two level outputs.

/// A cause: group and bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// A frame that asked for it has left a software queue.
    TxEof {
        port: usize,
        queue: usize,
    },
    /// A software queue has run empty (INF).
    TxFin {
        port: usize,
        queue: usize,
    },
    /// A receive descriptor breaks the protocol.
    RxPerr(usize),
    /// Receive DMA reached no memory.
    RxDerr(usize),
    /// The same for the transmitter.
    TxPerr(usize),
    TxDerr(usize),
    /// A frame has come to a port's default queue.
    Received(usize),
    /// The software free queue is at or below its threshold.
    FreeQueueEmpty,
    /// The PHY's in-band status changed.
    StatusChange(usize),
    /// A frame was lost for want of buffers.
    RxOverrun(usize),
    /// We sent an XON.
    TxPauseOff(usize),
    /// The peer's pause is over.
    RxPauseOff(usize),
    /// We sent an XOFF.
    TxPauseOn(usize),
    /// The peer wants a pause.
    RxPauseOn(usize),
    /// A counter is half full.
    MibHalfFull(usize),
}

impl Cause {
    fn place(self) -> (usize, usize) {
        match self {
            Cause::TxEof { port, queue } => (0, 6 * port + queue),
            Cause::TxFin { port, queue } => (0, 12 + 6 * port + queue),
            Cause::RxPerr(port) => (0, 24 + 2 * port),
            Cause::RxDerr(port) => (0, 25 + 2 * port),
            Cause::TxPerr(port) => (0, 28 + 2 * port),
            Cause::TxDerr(port) => (0, 29 + 2 * port),
            Cause::Received(port) => (1, port),
            Cause::FreeQueueEmpty => (4, 0),
            Cause::StatusChange(port) => (4, 16 + 8 * port),
            Cause::RxOverrun(port) => (4, 17 + 8 * port),
            Cause::TxPauseOff(port) => (4, 18 + 8 * port),
            Cause::RxPauseOff(port) => (4, 19 + 8 * port),
            Cause::TxPauseOn(port) => (4, 20 + 8 * port),
            Cause::RxPauseOn(port) => (4, 21 + 8 * port),
            Cause::MibHalfFull(port) => (4, 22 + 8 * port),
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Group {
    status: u32,
    enable: u32,
    select: u32,
}

/// All five.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Interrupts([Group; 5]);

impl Interrupts {
    pub(crate) fn raise(&mut self, cause: Cause) {
        let (group, bit) = cause.place();
        self.0[group].status |= 1 << bit;
    }

    /// Register at `offset` bytes from the first status register.
    pub(crate) fn read(&self, offset: u16) -> u32 {
        let Some(group) = self.0.get(usize::from(offset / 16)) else { return 0 };
        match offset & 0xc {
            0 => group.status,
            4 => group.enable,
            8 => group.select,
            _ => 0,
        }
    }

    /// Writes the bits of `mask`; those of a status register clear.
    pub(crate) fn write(&mut self, offset: u16, value: u32, mask: u32) {
        let Some(group) = self.0.get_mut(usize::from(offset / 16)) else { return };
        match offset & 0xc {
            0 => group.status &= !(value & mask),
            4 => group.enable = group.enable & !mask | value & mask,
            8 => group.select = group.select & !mask | value & mask,
            _ => {}
        }
    }

    /// Levels of INT0 and INT1.
    pub(crate) fn lines(&self) -> [bool; 2] {
        let pending = |select: fn(u32) -> u32| {
            self.0.iter().any(|g| g.status & g.enable & select(g.select) != 0)
        };
        [pending(|select| !select), pending(|select| select)]
    }
}
