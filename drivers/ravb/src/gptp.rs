//! The clock of gPTP and the timestamps of frames. [RV 2.6, 3.7, 3.8]

use crate::desc;
use crate::nic::{Ravb, TransmitQueue};
use crate::receive::Home;
use crate::regs::{self, Gccr, Tccr};
use trireme_nic::{
    Buffer, Dma, Nic, Ptp, PtpError, PtpTime, ReceivedFrame, Registers, TransmitRequest,
};
use trireme_registers::wait_until;

/// Longest time the clock takes for a command.
const COMMAND_US: u32 = 10_000;
/// Tags have ten bits.
const TAGS: u16 = 1 << 10;
/// Times of sent frames kept for the stack; more are lost.
pub(crate) const MAX_SENT: usize = 32;
/// Frames whose time is waited for; of more the oldest are given up.
pub(crate) const MAX_TIMED: usize = 64;
/// Nanoseconds in a second: more of them are no time.
const SECOND: u32 = 1_000_000_000;
/// Entries a timestamp FIFO can say to have. [RV 3.7]
const MAX_FIFO: u32 = 7;
/// Largest adjustment, as Linux has it. [RV 3.8]
const MAX_PPB: i32 = 50_000_000;

/// GTI for a clock: nanoseconds a cycle, times 2^20. `None`: not within its 28 bits. [RV 2.1]
pub(crate) fn increment(clock_hz: u32, ppb: i32) -> Option<u32> {
    let billion = 1_000_000_000u64;
    let nominal = (billion << 20).checked_div(clock_hz.into())?;
    let adjusted = nominal.checked_mul((billion as i64 + i64::from(ppb)) as u64)? / billion;
    u32::try_from(adjusted).ok().filter(|tiv| (0x20..=0x0fff_ffff).contains(tiv))
}

impl<R: Registers, D: Dma> Ravb<R, D> {
    fn command_done(&self, busy: Gccr) -> Result<(), PtpError> {
        wait_until(&*self.delay, "gPTP command", COMMAND_US, || {
            !regs::GCCR.read(&self.bar).intersects(busy)
        })
        .map_err(|timeout| {
            log::warn!("ravb: {timeout:?}");
            PtpError::Timeout
        })
    }

    /// Takes the times of sent frames out of the card's FIFO. [RV 3.7]
    ///
    /// What no frame waits for is not believed, so there are never more times than frames. The FIFO keeps the
    /// order frames were sent in and drops its oldest: frames before one whose time is there have lost theirs.
    pub(crate) fn take_timestamps(&mut self) {
        regs::TIS.ack(&self.bar, regs::TIS_TFU);
        for _ in 0..MAX_FIFO {
            if regs::TSR.read(&self.bar) >> 8 & 7 == 0 {
                break;
            }
            let high = regs::TFA2.read(&self.bar);
            let time = PtpTime {
                seconds: u64::from(high & 0xffff) << 32 | u64::from(regs::TFA1.read(&self.bar)),
                nanoseconds: regs::TFA0.read(&self.bar),
            };
            let base = regs::TCCR.read(&self.bar);
            // Start requests that read one are left alone: a zero has no effect. [RV 2.4]
            regs::TCCR.write(&self.bar, (base - Tccr::TSRQ) | Tccr::TFR);
            let tag = (high >> 16 & 0x3ff) as u16;
            let waiting = self.timed.iter().position(|&other| other == tag);
            let (Some(before), 0..SECOND) = (waiting, time.nanoseconds) else {
                self.counters.tx_timestamps_odd += 1;
                continue;
            };
            self.timed.drain(..=before);
            self.counters.tx_timestamps_lost += before as u64;
            if self.sent.len() == MAX_SENT {
                self.sent.pop_front();
                self.counters.tx_timestamps_lost += 1;
            }
            self.counters.tx_timestamps += 1;
            self.sent.push_back((tag.into(), time));
        }
    }
}

impl<R: Registers, D: Dma + Send> Ptp for Ravb<R, D> {
    fn now(&mut self) -> Result<PtpTime, PtpError> {
        self.command_done(Gccr::TCR)?;
        regs::GCCR.modify(&self.bar, |bits| bits | Gccr::CAPTURE);
        self.command_done(Gccr::TCR)?;
        let nanoseconds = regs::GCT0.read(&self.bar);
        let low = regs::GCT1.read(&self.bar);
        let high = regs::GCT2.read(&self.bar) & 0xffff;
        match nanoseconds {
            0..SECOND => {
                Ok(PtpTime { seconds: u64::from(high) << 32 | u64::from(low), nanoseconds })
            }
            _ => Err(PtpError::OutOfRange),
        }
    }

    fn set(&mut self, time: PtpTime) -> Result<(), PtpError> {
        if time.seconds >> 48 != 0 || time.nanoseconds >= SECOND {
            return Err(PtpError::OutOfRange);
        }
        self.command_done(Gccr::TCR | Gccr::LTO)?;
        regs::GCCR.modify(&self.bar, |bits| (bits - Gccr::TCR) | Gccr::RESET);
        self.command_done(Gccr::TCR)?;
        regs::GTO0.write(&self.bar, time.nanoseconds);
        regs::GTO1.write(&self.bar, time.seconds as u32);
        regs::GTO2.write(&self.bar, (time.seconds >> 32) as u32);
        regs::GCCR.modify(&self.bar, |bits| bits | Gccr::LTO);
        // Until then it shows the time since it was reset.
        self.command_done(Gccr::LTO)
    }

    fn adjust(&mut self, ppb: i32) -> Result<(), PtpError> {
        let increment = increment(self.gptp_clock_hz, ppb)
            .filter(|_| ppb.checked_abs().is_some_and(|ppb| ppb <= MAX_PPB))
            .ok_or(PtpError::OutOfRange)?;
        // Not while a load is pending. [RV E50]
        self.command_done(Gccr::LTI)?;
        regs::GTI.write(&self.bar, increment);
        regs::GCCR.modify(&self.bar, |bits| bits | Gccr::LTI);
        self.gptp_increment = increment;
        Ok(())
    }

    fn max_adjustment(&self) -> i32 {
        MAX_PPB
    }

    fn received_at(&self, frame: &ReceivedFrame) -> Option<PtpTime> {
        let queue = self.rx.get(Self::queue_of(frame.slot))?;
        let Home::Ring { first, count } = Home::unpack(frame.slot) else { return None };
        let (nanoseconds, seconds) = queue.ring.timestamp(first + count - 1)?;
        // The card may write anything.
        (nanoseconds < SECOND).then_some(PtpTime { seconds, nanoseconds })
    }

    fn transmit_timed(&mut self, buffer: Buffer, request: &TransmitRequest) -> u32 {
        let tag = self.next_tag;
        self.next_tag = (tag + 1) % TAGS;
        if self.timed.len() == MAX_TIMED {
            self.timed.pop_front();
            self.counters.tx_timestamps_lost += 1;
        }
        self.timed.push_back(tag);
        self.queue(buffer, request, TransmitQueue::NetworkControl, desc::stamped(tag));
        tag.into()
    }

    fn sent_at(&mut self) -> Option<(u32, PtpTime)> {
        if self.sent.is_empty() && self.link().up {
            self.take_timestamps();
        }
        self.sent.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn increments_are_nanoseconds_a_cycle() {
        // [RV 3.2 A 20]: floor((10^9 << 20) / clock); 7.5 ns at 133.33 MHz.
        assert_eq!(increment(133_333_333, 0), Some(0x0078_0000));
        assert_eq!(increment(125_000_000, 0), Some(8 << 20));
        assert_eq!(increment(125_000_000, 1_000_000), Some((8 << 20) + 8388));
        assert_eq!(increment(125_000_000, -1_000_000), Some((8 << 20) - 8389));
        assert_eq!(increment(0, 0), None);
        assert_eq!(increment(1_000_000, 0), None, "above 28 bits");
    }
}
