//! The other side of a judge guest: it sends a file, takes it back and compares, and echoes.

use std::io::{self, Read, Write};
use std::net::{Ipv6Addr, Shutdown, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

/// Longest wait for a guest that has stopped talking.
const PATIENCE: Duration = Duration::from_secs(60);

/// The file's bytes from `offset` on: no period a buffer or ring size could hide.
fn fill(bytes: &mut [u8], offset: u64) {
    for (i, byte) in bytes.iter_mut().enumerate() {
        let at = offset + i as u64;
        *byte = (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 29 ^ at >> 11) as u8;
    }
}

fn send(mut stream: TcpStream, len: u64) -> io::Result<()> {
    let mut chunk = vec![0; 1 << 16];
    let mut offset = 0;
    while offset < len {
        let here = chunk.len().min((len - offset) as usize);
        fill(&mut chunk[..here], offset);
        stream.write_all(&chunk[..here])?;
        offset += here as u64;
    }
    stream.shutdown(Shutdown::Write)?;
    io::copy(&mut stream, &mut io::sink()).map(drop)
}

fn compare(mut stream: TcpStream, len: u64) -> io::Result<()> {
    let (mut chunk, mut wanted) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    let mut offset = 0;
    // The guest waits for the verdict with its end open, so the length decides.
    let verdict = loop {
        if offset == len {
            break "same".to_owned();
        }
        let here = stream.read(&mut chunk)?;
        if here == 0 || here as u64 > len - offset {
            break format!("{} bytes", offset + here as u64);
        }
        fill(&mut wanted[..here], offset);
        if let Some(at) = (0..here).find(|&i| chunk[i] != wanted[i]) {
            break format!("different at {}", offset + at as u64);
        }
        offset += here as u64;
    };
    writeln!(stream, "{verdict}")?;
    stream.shutdown(Shutdown::Write)
}

fn echo(mut stream: TcpStream, _: u64) -> io::Result<()> {
    io::copy(&mut stream.try_clone()?, &mut stream)?;
    stream.shutdown(Shutdown::Write)
}

/// Serves in this network namespace until the process ends. `len` is the file's.
pub(super) fn serve(len: u64) -> io::Result<()> {
    type Service = fn(TcpStream, u64) -> io::Result<()>;
    for (port, service) in [(5002, send as Service), (5004, compare), (5005, echo)] {
        let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, port))?;
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                thread::spawn(move || {
                    let patient = stream
                        .set_read_timeout(Some(PATIENCE))
                        .and_then(|()| stream.set_write_timeout(Some(PATIENCE)));
                    // What goes wrong here the guest sees and says.
                    let _ = patient.and_then(|()| service(stream, len));
                });
            }
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_the_same_however_it_is_cut() {
        let mut whole = vec![0; 5000];
        fill(&mut whole, 0);
        let mut parts = vec![0; 5000];
        let (first, second) = parts.split_at_mut(1234);
        fill(first, 0);
        fill(second, 1234);
        assert_eq!(whole, parts);
        assert_ne!(whole[..2048], whole[2048..4096]);
    }
}
