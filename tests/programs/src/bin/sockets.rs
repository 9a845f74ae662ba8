//! Goes through what `std::net` offers and prints each answer on a line of its own, so that the answers of an
//! appliance and of Linux can be compared as text.
//!
//! Arguments: an address of this machine, the address of a peer that offers TCP echo and UDP echo on port 7, and an
//! address on the same network that nobody has.

use std::env;
use std::fmt::Debug;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::{
    IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs, UdpSocket,
};
use std::time::{Duration, Instant};

use trireme_test_programs as _;

/// The port of both echo services.
const ECHO: u16 = 7;
/// A port nobody listens on.
const CLOSED: u16 = 9;
const SHORT: Duration = Duration::from_millis(200);
const LONG: Duration = Duration::from_secs(5);

fn main() -> io::Result<()> {
    let mut addresses = env::args().skip(1).map(|text| text.parse().expect("an IP address"));
    let mut next = || -> IpAddr { addresses.next().expect("three addresses") };
    let (own, peer, nobody) = (next(), next(), next());
    tcp_options((peer, ECHO).into())?;
    tcp_data((peer, ECHO).into())?;
    tcp_errors(peer, nobody)?;
    listener(own)?;
    udp_options(own)?;
    udp_data(own, peer)?;
    udp_errors(own, peer)?;
    names();
    println!("end of answers");
    Ok(())
}

/// Prints one answer: the value, or the error's kind and number.
fn answer<T: Debug>(what: &str, result: io::Result<T>) {
    match result {
        Ok(value) => println!("{what}: {value:?}"),
        Err(error) => println!("{what}: {:?} {:?}", error.kind(), error.raw_os_error()),
    }
}

fn tcp_options(echo: SocketAddr) -> io::Result<()> {
    let stream = TcpStream::connect(echo)?;
    answer("peer address", stream.peer_addr());
    answer("local port is set", stream.local_addr().map(|a| a.port() != 0));
    answer("nodelay at first", stream.nodelay());
    answer("set nodelay", stream.set_nodelay(true));
    answer("nodelay then", stream.nodelay());
    answer("ttl at first", stream.ttl());
    answer("set ttl", stream.set_ttl(33));
    answer("ttl then", stream.ttl());
    answer("ttl of 0", stream.set_ttl(0));
    answer("ttl of 256", stream.set_ttl(256));
    answer("read timeout at first", stream.read_timeout());
    answer("set read timeout", stream.set_read_timeout(Some(SHORT)));
    answer("read timeout then", stream.read_timeout());
    answer("read timeout of 0", stream.set_read_timeout(Some(Duration::ZERO)));
    answer("set write timeout", stream.set_write_timeout(Some(LONG)));
    answer("write timeout then", stream.write_timeout());
    answer("no write timeout", stream.set_write_timeout(None));
    answer("write timeout after", stream.write_timeout());
    answer("pending error", stream.take_error().map(|e| e.map(|e| e.kind())));
    Ok(())
}

fn tcp_data(echo: SocketAddr) -> io::Result<()> {
    let mut stream = TcpStream::connect(echo)?;
    stream.set_read_timeout(Some(SHORT))?;
    let mut buffer = [0; 64];
    let start = Instant::now();
    answer("read with nothing there", stream.read(&mut buffer));
    let waited = start.elapsed();
    println!("it waited: {}", waited >= SHORT && waited < SHORT * 10);
    stream.set_nonblocking(true)?;
    answer("nonblocking read", stream.read(&mut buffer));
    answer("nonblocking peek", stream.peek(&mut buffer));
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(LONG))?;
    stream.write_all(b"one two")?;
    answer("peek", stream.peek(&mut buffer[..3]).map(|n| buffer[..n].to_vec()));
    answer("read after peek", stream.read_exact(&mut buffer[..7]).map(|()| buffer[..7].to_vec()));
    answer("empty write", stream.write(b""));
    answer("empty read", stream.read(&mut []));
    answer(
        "gather",
        stream.write_vectored(&[IoSlice::new(b"abc"), IoSlice::new(b""), IoSlice::new(b"de")]),
    );
    let (mut a, mut b) = ([0; 2], [0; 3]);
    while stream.peek(&mut buffer)? < 5 {}
    answer(
        "scatter",
        stream.read_vectored(&mut [IoSliceMut::new(&mut a), IoSliceMut::new(&mut b)]),
    );
    println!("scattered: {a:?} {b:?}");
    let mut second = stream.try_clone()?;
    drop(stream);
    second.write_all(b"clone")?;
    answer("read by a clone", second.read_exact(&mut buffer[..5]).map(|()| buffer[..5].to_vec()));
    answer("shutdown write", second.shutdown(Shutdown::Write));
    answer("write after it", second.write(b"x"));
    answer("end of stream", second.read(&mut buffer));
    answer("end of stream again", second.read(&mut buffer));

    let mut third = TcpStream::connect(echo)?;
    answer("shutdown read", third.shutdown(Shutdown::Read));
    answer("read after it", third.read(&mut buffer));
    answer("write after it", third.write(b"still"));
    answer("shutdown both", third.shutdown(Shutdown::Both));
    Ok(())
}

fn tcp_errors(peer: IpAddr, nobody: IpAddr) -> io::Result<()> {
    answer("connect to a closed port", TcpStream::connect((peer, CLOSED)).map(drop));
    let closed = SocketAddr::new(peer, CLOSED);
    answer("the same with a timeout", TcpStream::connect_timeout(&closed, LONG).map(drop));
    let start = Instant::now();
    let silent = SocketAddr::new(nobody, ECHO);
    answer("connect to nobody", TcpStream::connect_timeout(&silent, SHORT).map(drop));
    println!("it took its time: {}", start.elapsed() >= SHORT && start.elapsed() < SHORT * 10);
    answer("timeout of 0", TcpStream::connect_timeout(&closed, Duration::ZERO).map(drop));
    Ok(())
}

fn listener(own: IpAddr) -> io::Result<()> {
    let listener = TcpListener::bind((own, 0))?;
    let address = listener.local_addr()?;
    println!("a port was chosen: {}", address.port() != 0);
    answer("bind the same again", TcpListener::bind(address).map(drop));
    answer("bind a foreign address", TcpListener::bind((Ipv4Addr::new(192, 0, 2, 1), 0)).map(drop));
    answer("set ttl", listener.set_ttl(5));
    answer("ttl", listener.ttl());
    answer("pending error", listener.take_error().map(|e| e.map(|e| e.kind())));
    listener.set_nonblocking(true)?;
    answer("accept with nobody there", listener.accept().map(drop));
    drop(listener);
    answer("bind it after close", TcpListener::bind(address).map(drop));
    answer("bind any", TcpListener::bind("0.0.0.0:0").and_then(|l| l.local_addr()).map(|a| a.ip()));
    answer(
        "bind any, IPv6",
        TcpListener::bind("[::]:0").and_then(|l| l.local_addr()).map(|a| a.ip()),
    );
    Ok(())
}

fn udp_options(own: IpAddr) -> io::Result<()> {
    let socket = UdpSocket::bind((own, 0))?;
    answer("broadcast at first", socket.broadcast());
    answer("broadcast without leave", socket.send_to(b"x", "255.255.255.255:7"));
    answer("set broadcast", socket.set_broadcast(true));
    answer("broadcast then", socket.broadcast());
    answer("broadcast with leave", socket.send_to(b"x", "255.255.255.255:9"));
    answer("ttl at first", socket.ttl());
    answer("set ttl", socket.set_ttl(9));
    answer("ttl then", socket.ttl());
    answer("multicast ttl at first", socket.multicast_ttl_v4());
    answer("set multicast ttl", socket.set_multicast_ttl_v4(4));
    answer("multicast ttl then", socket.multicast_ttl_v4());
    answer("multicast loop at first", socket.multicast_loop_v4());
    answer("set multicast loop", socket.set_multicast_loop_v4(false));
    answer("multicast loop then", socket.multicast_loop_v4());
    let group = Ipv4Addr::new(239, 7, 7, 7);
    answer("join", socket.join_multicast_v4(&group, &Ipv4Addr::UNSPECIFIED));
    answer("join again", socket.join_multicast_v4(&group, &Ipv4Addr::UNSPECIFIED));
    answer("leave", socket.leave_multicast_v4(&group, &Ipv4Addr::UNSPECIFIED));
    answer("leave again", socket.leave_multicast_v4(&group, &Ipv4Addr::UNSPECIFIED));
    answer(
        "join what is no group",
        socket.join_multicast_v4(&Ipv4Addr::new(10, 1, 1, 1), &Ipv4Addr::UNSPECIFIED),
    );
    answer("read timeout at first", socket.read_timeout());
    answer("set read timeout", socket.set_read_timeout(Some(SHORT)));
    answer("read timeout then", socket.read_timeout());
    answer("write timeout of 0", socket.set_write_timeout(Some(Duration::ZERO)));
    answer("pending error", socket.take_error().map(|e| e.map(|e| e.kind())));
    answer("peer address", socket.peer_addr());
    Ok(())
}

fn udp_data(own: IpAddr, peer: IpAddr) -> io::Result<()> {
    let socket = UdpSocket::bind((own, 0))?;
    let mut buffer = vec![0; 70_000];
    socket.set_read_timeout(Some(SHORT))?;
    answer("receive with nothing there", socket.recv_from(&mut buffer).map(drop));
    socket.set_nonblocking(true)?;
    answer("nonblocking receive", socket.recv_from(&mut buffer).map(drop));
    socket.set_nonblocking(false)?;
    socket.set_read_timeout(Some(LONG))?;
    answer("send to", socket.send_to(b"datagram", (peer, ECHO)));
    answer("peek from", socket.peek_from(&mut buffer).map(|(n, a)| (buffer[..n].to_vec(), a)));
    answer(
        "receive less than there is",
        socket.recv_from(&mut buffer[..4]).map(|(n, a)| (buffer[..n].to_vec(), a)),
    );
    answer("send nothing", socket.send_to(b"", (peer, ECHO)));
    answer("receive nothing", socket.recv_from(&mut buffer));
    answer("connect", socket.connect((peer, ECHO)));
    answer("peer address", socket.peer_addr());
    for size in [1, 1472, 1473, 9000, 60_000] {
        answer(&format!("send {size}"), socket.send(&vec![b'a'; size]));
        answer(&format!("receive {size}"), socket.recv(&mut buffer));
    }
    let second = socket.try_clone()?;
    answer("send by a clone", second.send(b"again"));
    answer("receive by it", second.recv(&mut buffer));
    Ok(())
}

fn udp_errors(own: IpAddr, peer: IpAddr) -> io::Result<()> {
    let socket = UdpSocket::bind((own, 0))?;
    socket.set_read_timeout(Some(LONG))?;
    answer("send without a peer", socket.send(b"x"));
    answer("too large", socket.send_to(&[0; 65_508], (peer, ECHO)));
    answer("bind the same again", UdpSocket::bind(socket.local_addr()?).map(drop));
    answer("send to port 0", socket.send_to(b"x", (peer, 0)));
    socket.connect((peer, CLOSED))?;
    answer("send to a closed port", socket.send(b"x"));
    answer("receive its refusal", socket.recv(&mut [0; 8]));
    Ok(())
}

fn names() {
    let lookup = |text: &str| text.to_socket_addrs().map(|a| a.collect::<Vec<_>>());
    answer("literal address", lookup("192.0.2.7:80"));
    answer("literal IPv6 address", lookup("[2001:db8::1]:80"));
    answer("no port", lookup("192.0.2.7").map_err(|e| io::Error::from(e.kind())));
}
