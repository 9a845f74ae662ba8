//! `ss`: sockets, in iproute2's layout.
//!
//! Writing to a string cannot fail, so results of `write!` are dropped throughout.

use alloc::format;
use alloc::string::{String, ToString};
use core::fmt::Write;
use core::net::SocketAddr;

use trireme_netstack::{Kind, SocketInfo, SocketState};

use super::words::{Item, getopt};
use crate::net;

const USAGE: &str = "\
Usage: ss [ OPTIONS ]
   -a, --all       all sockets
   -l, --listening listening sockets, and datagram sockets without a peer
   -t, --tcp       TCP only
   -u, --udp       UDP only
   -4, -6          one family only
   -m, --memory    bytes in buffers
   -n, --numeric   names are never shown
   -s, --summary   numbers of sockets
   -H, --no-header no heading
";

fn state_name(state: SocketState) -> &'static str {
    match state {
        SocketState::Closed | SocketState::Datagram => "UNCONN",
        SocketState::Listen(_) => "LISTEN",
        SocketState::SynSent => "SYN-SENT",
        SocketState::SynReceived => "SYN-RECV",
        SocketState::Established => "ESTAB",
        SocketState::FinWait1 => "FIN-WAIT-1",
        SocketState::FinWait2 => "FIN-WAIT-2",
        SocketState::CloseWait => "CLOSE-WAIT",
        SocketState::Closing => "CLOSING",
        SocketState::LastAck => "LAST-ACK",
        SocketState::TimeWait => "TIME-WAIT",
    }
}

/// What to show of the states: as in iproute2, those with a peer unless asked for others.
#[derive(Clone, Copy, PartialEq, Eq)]
enum States {
    Connected,
    Listening,
    All,
}

impl States {
    fn include(self, socket: &SocketInfo) -> bool {
        let waits = match socket.state {
            SocketState::Closed | SocketState::Listen(_) => true,
            SocketState::Datagram => socket.peer.is_none(),
            _ => false,
        };
        let fading = matches!(socket.state, SocketState::TimeWait | SocketState::SynReceived);
        match self {
            States::All => true,
            States::Listening => waits,
            States::Connected => !waits && !fading,
        }
    }
}

/// `ss`.
pub fn run(words: &[&str], out: &mut String) -> Result<(), String> {
    let long = [
        ("all", 'a'),
        ("listening", 'l'),
        ("tcp", 't'),
        ("udp", 'u'),
        ("ipv4", '4'),
        ("ipv6", '6'),
        ("memory", 'm'),
        ("numeric", 'n'),
        ("summary", 's'),
        ("no-header", 'H'),
        ("help", 'h'),
    ];
    let mut states = States::Connected;
    let (mut tcp, mut udp, mut v4, mut v6) = (false, false, false, false);
    let (mut memory, mut header) = (false, true);
    for item in getopt("ss", words, "", "altu46mnsHh", &long).map_err(|error| error + USAGE)? {
        match item {
            Item::Option('a', _) => states = States::All,
            Item::Option('l', _) => states = States::Listening,
            Item::Option('t', _) => tcp = true,
            Item::Option('u', _) => udp = true,
            Item::Option('4', _) => v4 = true,
            Item::Option('6', _) => v6 = true,
            Item::Option('m', _) => memory = true,
            Item::Option('H', _) => header = false,
            Item::Option('s', _) => {
                summary(out);
                return Ok(());
            }
            Item::Option('h', _) => {
                out.push_str(USAGE);
                return Ok(());
            }
            Item::Option(..) => {}
            Item::Operand(word) => {
                return Err(format!("Error: an inet prefix is expected rather than \"{word}\".\n"));
            }
        }
    }
    let both = tcp == udp;
    if header {
        let net = if both { "Netid " } else { "" };
        let _ = writeln!(
            out,
            "{net}State      Recv-Q Send-Q {:>24} {:>24}",
            "Local Address:Port", "Peer Address:Port"
        );
    }
    for socket in net::look(|stack| stack.sockets()) {
        let is_tcp = socket.kind == Kind::Stream;
        let family = v4 == v6 || v4 == socket.local.is_ipv4();
        if !states.include(&socket) || !family || !both && tcp != is_tcp {
            continue;
        }
        if both {
            out.push_str(if is_tcp { "tcp   " } else { "udp   " });
        }
        // Of a listener: connections that wait to be accepted.
        let waiting = match socket.state {
            SocketState::Listen(queued) => queued,
            _ => socket.received,
        };
        let (state, unsent) = (state_name(socket.state), socket.unsent);
        let (local, peer) = (shown(Some(socket.local)), shown(socket.peer));
        let _ = writeln!(out, "{state:10} {waiting:<6} {unsent:<6} {local:>24} {peer:>24}");
        if memory {
            let _ = writeln!(out, "\t skmem:(r{},w{})", socket.received, socket.unsent);
        }
    }
    Ok(())
}

fn shown(address: Option<SocketAddr>) -> String {
    match address {
        None => "*:*".to_string(),
        Some(address) => address.to_string(),
    }
}

fn summary(out: &mut String) {
    let sockets = net::look(|stack| stack.sockets());
    let count = |wanted: &dyn Fn(&SocketInfo) -> bool| sockets.iter().filter(|s| wanted(s)).count();
    let tcp = count(&|socket| socket.kind == Kind::Stream);
    let established = count(&|socket| socket.state == SocketState::Established);
    let closed = count(&|socket| socket.state == SocketState::Closed);
    let time_wait = count(&|socket| socket.state == SocketState::TimeWait);
    let _ = writeln!(out, "Total: {}", sockets.len());
    let _ =
        writeln!(out, "TCP:   {tcp} (estab {established}, closed {closed}, timewait {time_wait})");
    let _ = writeln!(out, "UDP:   {}", sockets.len() - tcp);
}
