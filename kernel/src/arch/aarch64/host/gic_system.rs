//! The CPU interface of version 3, which a test answers for.

use std::cell::RefCell;

/// What is behind the system registers.
pub(super) trait Interface {
    fn affinity(&self) -> u64;
    fn enable(&mut self) -> bool;
    fn acknowledge(&mut self) -> u32;
    fn end(&mut self, line: u32);
}

thread_local! {
    static BEHIND: RefCell<Option<Box<dyn Interface>>> = const { RefCell::new(None) };
}

/// Puts a model there, for this thread.
pub(super) fn install(model: Box<dyn Interface>) {
    BEHIND.with(|behind| *behind.borrow_mut() = Some(model));
}

fn with<R>(ask: impl FnOnce(&mut dyn Interface) -> R) -> R {
    BEHIND.with(|behind| ask(behind.borrow_mut().as_mut().expect("a model").as_mut()))
}

pub(super) fn affinity() -> u64 {
    with(|model| model.affinity())
}

pub(super) fn enable() -> bool {
    with(|model| model.enable())
}

pub(super) fn acknowledge() -> u32 {
    with(|model| model.acknowledge())
}

pub(super) fn end(line: u32) {
    with(|model| model.end(line));
}
