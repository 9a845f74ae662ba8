//! File descriptors and what they refer to.
//!
//! As in POSIX, a descriptor refers to an *open description*, shared by duplicates: the non-blocking flag and
//! the file position are there. A description lives until its last descriptor is closed and the last call
//! that uses it has returned.

use alloc::rc::Rc;
use core::cell::Cell;

use hermit_abi::errno::{EBADF, EINVAL, EMFILE, ENOMEM};

use crate::cell::Kernel;
use crate::cpio::Entry;
use crate::net::Socket;
use crate::slots::{Full, Slots};
use crate::thread::wait::WaitList;

/// A positive error number, as in `hermit_abi::errno`.
pub type Errno = i32;

/// Descriptors at most: more than memory for sockets.
const LIMIT: usize = 65_536;

/// What is open.
pub enum Object {
    /// The console's keyboard.
    Input,
    /// The console's screen.
    Output,
    /// A socket.
    Socket(Socket),
    /// An event counter.
    Event(EventCounter),
    /// A file or directory of the image.
    File(OpenFile),
}

/// State of an `eventfd`.
pub struct EventCounter {
    /// Below `u64::MAX`.
    pub count: Cell<u64>,
    /// Reads take one instead of all.
    pub semaphore: bool,
}

/// An open file or directory.
pub struct OpenFile {
    /// The path it was found by, for directories.
    pub path: alloc::string::String,
    /// What was found.
    pub entry: Entry<'static>,
    /// Byte offset of the next read, or index of the next directory entry.
    pub position: Cell<usize>,
}

/// An open description.
pub struct Description {
    /// What is open.
    pub object: Object,
    /// Calls answer EAGAIN instead of waiting.
    pub nonblocking: Cell<bool>,
    /// Threads waiting for the object (not used for the console, which is one for all descriptors).
    pub waiters: WaitList,
}

impl Description {
    /// A description to be given a descriptor.
    pub fn new(object: Object, nonblocking: bool) -> Rc<Description> {
        Rc::new(Description {
            object,
            nonblocking: Cell::new(nonblocking),
            waiters: WaitList::new(),
        })
    }

    /// The socket, if it is one.
    pub fn socket(&self) -> Option<&Socket> {
        match &self.object {
            Object::Socket(socket) => Some(socket),
            _ => None,
        }
    }
}

struct Table {
    slots: Slots<Rc<Description>>,
}

// SAFETY: the `Rc`s and cells inside are reached by kernel code only, which runs with preemption off on the one
// CPU: a system call holds a guard for as long as it holds a reference.
unsafe impl Send for Table {}

static TABLE: Kernel<Table> = Kernel::new(Table { slots: Slots::new(LIMIT) });

/// Opens the three standard descriptors.
pub fn initialize() {
    for object in [Object::Input, Object::Output, Object::Output] {
        // The table is empty, and there was memory for the thread-locals just before.
        let _ = insert(Description::new(object, false));
    }
}

/// Gives a description the lowest free descriptor.
pub fn insert(description: Rc<Description>) -> Result<i32, Errno> {
    insert_from(0, description)
}

/// Gives a description the lowest free descriptor from `from` on.
pub fn insert_from(from: i32, description: Rc<Description>) -> Result<i32, Errno> {
    let from = usize::try_from(from).map_err(|_| EINVAL)?;
    let inserted = TABLE.with(|table| table.slots.insert(from, description));
    match inserted {
        Ok(fd) => Ok(fd as i32),
        Err(Full::Limit) => Err(EMFILE),
        Err(Full::NoMemory) => Err(ENOMEM),
    }
}

/// What a descriptor refers to. The caller keeps preemption off while it holds it.
pub fn get(fd: i32) -> Result<Rc<Description>, Errno> {
    let index = usize::try_from(fd).map_err(|_| EBADF)?;
    TABLE.with(|table| table.slots.get(index).cloned()).ok_or(EBADF)
}

/// Closes a descriptor. If it was the description's last, the description ends with the last call in it.
pub fn close(fd: i32) -> Result<(), Errno> {
    let index = usize::try_from(fd).map_err(|_| EBADF)?;
    let gone = TABLE.with(|table| table.slots.remove(index)).ok_or(EBADF)?;
    drop(gone);
    Ok(())
}

/// Whether the table is in the middle of something: only true for code that runs because of a panic there.
pub fn is_busy() -> bool {
    TABLE.try_with(|_| ()).is_none()
}
