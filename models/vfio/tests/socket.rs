//! Speaks the socket protocol to a running server, well and badly.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;
use trireme_vfio::{Bar, ConfigSpace, Context, Device, Options, serve};
use trireme_wire::{FrameSource, Wire, pair};
use vfio_user::Client;

// From the VFIO user API: region and interrupt indices, flags.
const CONFIG: u32 = 7;
const DATA_NONE: u32 = 1;
const DATA_EVENTFD: u32 = 4;
const ACTION_UNMASK: u32 = 16;
const ACTION_TRIGGER: u32 = 32;

/// 0: interrupt level. 4: DMA address. 8: write copies the word at the address to here, plus one,
/// and back; reads give it. A received frame sets the level; writing 12 sends a frame of that size.
#[derive(Default)]
struct Probe {
    level: u32,
    address: u32,
    value: u32,
    out: Vec<Vec<u8>>,
}

impl Device for Probe {
    fn config_space(&self) -> ConfigSpace {
        ConfigSpace::new(0x1234, 0x5678, 0x02_0000, 1).with_bar(0, Bar::Memory { size: 256 })
    }
    fn read(&mut self, _: usize, offset: u64, data: &mut [u8], _: Context<'_>) {
        let value = match offset {
            0 => self.level,
            4 => self.address,
            _ => self.value,
        };
        data.copy_from_slice(&value.to_le_bytes()[..data.len()]);
    }
    fn write(&mut self, _: usize, offset: u64, data: &[u8], context: Context<'_>) {
        let value = data.try_into().map_or(0, u32::from_le_bytes);
        match offset {
            0 => self.level = value,
            4 => self.address = value,
            8 => {
                let address = u64::from(self.address);
                self.value = match context.memory.read32(address) {
                    Ok(word) => word + 1,
                    Err(_) => 0xbad,
                };
                let _ = context.memory.write32(address, self.value);
            }
            _ => self.out.push(vec![0x55; value as usize]),
        }
    }
    fn receive(&mut self, frame: &[u8], _: Context<'_>) {
        self.level = frame.len() as u32;
    }
    fn advance(&mut self, _: Context<'_>) -> Option<Duration> {
        None
    }
    fn take_frame(&mut self) -> Option<Vec<u8>> {
        self.out.pop()
    }
    fn interrupt(&self) -> bool {
        self.level != 0
    }
    fn reset(&mut self) {
        *self = Probe::default();
    }
}

fn start(name: &str) -> (PathBuf, Wire) {
    let socket = std::env::temp_dir().join(format!("trireme-vfio-{}-{name}", std::process::id()));
    let _ = std::fs::remove_file(&socket);
    let options = Options { socket: socket.clone(), once: false };
    let (ours, theirs) = pair(8);
    std::thread::spawn(move || serve(&options, Probe::default(), theirs, |_| ()).unwrap());
    for _ in 0..500 {
        if socket.exists() {
            break;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    (socket, ours)
}

fn connect(socket: &Path) -> Client {
    // The socket exists a moment before it listens.
    for _ in 0..500 {
        if let Ok(client) = Client::new(socket) {
            return client;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    panic!("no server at {socket:?}");
}

fn eventfd() -> File {
    // SAFETY: no pointers; a new descriptor belongs to nobody else.
    unsafe { File::from_raw_fd(libc::eventfd(0, 0)) }
}

fn memfd(len: u64) -> File {
    // SAFETY: the name is a C string; a new descriptor belongs to nobody else; no other pointers.
    let file = unsafe {
        let file = File::from_raw_fd(libc::memfd_create(c"ram".as_ptr(), libc::MFD_ALLOW_SEALING));
        libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, 0);
        file
    };
    file.set_len(len).unwrap();
    // SAFETY: no pointers.
    assert_eq!(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, libc::F_SEAL_SHRINK) }, 0);
    file
}

fn word(client: &mut Client, offset: u64) -> u32 {
    let mut data = [0; 4];
    client.region_read(0, offset, &mut data).unwrap();
    u32::from_le_bytes(data)
}

fn set(client: &mut Client, offset: u64, value: u32) {
    client.region_write(0, offset, &value.to_le_bytes()).unwrap();
}

#[test]
fn regions_dma_and_frames_work_over_the_socket() {
    let (socket, mut wire) = start("works");
    let mut client = connect(&socket);
    assert_eq!(client.region(0).unwrap().size, 256);
    assert_eq!(client.region(1).unwrap().size, 0);
    assert_eq!(client.region(CONFIG).unwrap().size, 256);
    let mut id = [0; 4];
    client.region_read(CONFIG, 0, &mut id).unwrap();
    assert_eq!(id, [0x34, 0x12, 0x78, 0x56]);
    client.region_write(CONFIG, 4, &[6, 0]).unwrap();

    let ram = memfd(8192);
    client.dma_map(4096, 0x1_0000, 4096, ram.as_raw_fd()).unwrap();
    use std::os::unix::fs::FileExt;
    ram.write_all_at(&41u32.to_le_bytes(), 4096 + 8).unwrap();
    set(&mut client, 4, 0x1_0008);
    set(&mut client, 8, 0);
    assert_eq!(word(&mut client, 8), 42);
    let mut back = [0; 4];
    ram.read_exact_at(&mut back, 4096 + 8).unwrap();
    assert_eq!(back, [42, 0, 0, 0]);
    client.dma_unmap(0x1_0000, 4096).unwrap();
    set(&mut client, 8, 0);
    assert_eq!(word(&mut client, 8), 0xbad, "unmapped memory is out of reach");

    set(&mut client, 12, 77);
    let mut frame = Vec::new();
    assert!(wire.source.receive(&mut frame).unwrap());
    assert_eq!(frame, vec![0x55; 77]);
}

#[test]
fn intx_is_a_level_looked_at_again_on_unmask() {
    let (socket, mut wire) = start("intx");
    let mut client = connect(&socket);
    client.region_write(CONFIG, 4, &[6, 0]).unwrap();
    let mut event = eventfd();
    client.set_irqs(0, DATA_EVENTFD | ACTION_TRIGGER, 0, 1, &[event.as_raw_fd()]).unwrap();
    let mut fired = |label: &str, want: u64| {
        // SAFETY: plain integers; the set outlives the call.
        let mut poll = libc::pollfd { fd: event.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let wait = if want == 0 { 20 } else { 2000 };
        // SAFETY: one pollfd, which outlives the call.
        let ready = unsafe { libc::poll(&mut poll, 1, wait) } > 0;
        let mut count = [0; 8];
        if ready {
            event.read_exact(&mut count).unwrap();
        }
        assert_eq!(u64::from_ne_bytes(count), want, "{label}");
    };
    fired("idle", 0);
    wire.sink.send(&[0; 60]).unwrap();
    fired("frame", 1);
    wire.sink.send(&[0; 60]).unwrap();
    fired("masked itself", 0);
    client.set_irqs(0, DATA_NONE | ACTION_UNMASK, 0, 1, &[]).unwrap();
    fired("still asserted on unmask", 1);
    set(&mut client, 0, 0);
    client.set_irqs(0, DATA_NONE | ACTION_UNMASK, 0, 1, &[]).unwrap();
    fired("deasserted", 0);
    set(&mut client, 0, 1);
    fired("asserted by a register write", 1);
}

#[test]
fn the_device_is_reset_between_clients() {
    let (socket, _wire) = start("twice");
    let mut client = connect(&socket);
    client.region_write(CONFIG, 4, &[6, 0]).unwrap();
    set(&mut client, 0, 5);
    drop(client);
    let mut client = connect(&socket);
    assert_eq!(word(&mut client, 0), 0xffff_ffff, "memory decoding is off again");
    client.region_write(CONFIG, 4, &[6, 0]).unwrap();
    assert_eq!(word(&mut client, 0), 0);
}

/// A message: id, command, size, flags 0, error 0, body.
fn message(command: u16, size: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![1, 0];
    bytes.extend_from_slice(&command.to_le_bytes());
    bytes.extend_from_slice(&size.to_le_bytes());
    bytes.extend_from_slice(&[0; 8]);
    bytes.extend_from_slice(body);
    bytes
}

#[test]
fn malformed_messages_end_at_most_their_own_connection() {
    let (socket, _wire) = start("hostile");
    drop(connect(&socket));
    let access = |region: u32, offset: u64, count: u32| {
        let mut body = offset.to_le_bytes().to_vec();
        body.extend_from_slice(&region.to_le_bytes());
        body.extend_from_slice(&count.to_le_bytes());
        body
    };
    let attacks: Vec<Vec<u8>> = vec![
        message(1, 0, &[0; 4]), // version shorter than its header
        message(1, 24, &[0, 0, 1, 0, b'x', b'y', b'z', b'!']), // no terminating zero
        message(0, 16, &[]),
        message(0xffff, 16, &[]),
        message(9, 32, &access(0, 0, 0x7fff_ffff)), // read of 2 GiB
        message(9, 32, &access(0, u64::MAX, 4)),
        message(9, 32, &access(99, 0, 4)),
        message(10, 33, &[access(1, 0, 1), vec![1]].concat()), // BAR that is not there
        message(10, 35, &[access(0, 1, 3), vec![1; 3]].concat()),
        message(8, 36, &[[0xff; 20]].concat()),
        message(2, 48, &[0xff; 32]),
        message(3, 40, &[0xff; 24]),
        vec![0xff; 64],
    ];
    for attack in attacks {
        let mut stream = UnixStream::connect(&socket).unwrap();
        stream.write_all(&attack).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let _ = stream.read_to_end(&mut Vec::new());
    }
    let mut client = connect(&socket);
    client.region_write(CONFIG, 4, &[6, 0]).unwrap();
    set(&mut client, 0, 3);
    assert_eq!(word(&mut client, 0), 3);
}
