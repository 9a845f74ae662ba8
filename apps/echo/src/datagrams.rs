//! The UDP half of the echo service.

use std::io;
use std::net::UdpSocket;

/// Datagrams answered before the connections get their turn.
const TURN: usize = 64;

/// Ports of services that answer whatever they get [RFC 862 to 865]: an answer to one of them, provoked by a forged
/// datagram, would go back and forth for ever.
const ANSWERING: [u16; 4] = [7, 13, 17, 19];

/// Answers what has arrived. True if there may be more. A datagram that can't be sent back now is lost, as datagrams are.
pub(crate) fn turn(socket: &UdpSocket, buffer: &mut [u8]) -> bool {
    for _ in 0..TURN {
        match socket.recv_from(buffer) {
            Ok((_, peer)) if ANSWERING.contains(&peer.port()) => {}
            Ok((length, peer)) => {
                let _ = socket.send_to(&buffer[..length], peer);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
            // The error of an earlier answer, such as a refused port; it has nothing to do with what comes next.
            Err(_) => {}
        }
    }
    true
}
