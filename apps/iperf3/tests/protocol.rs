//! The server's protocol, spoken by hand: what Debian's iperf3 never says, and what older and newer ones do.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::thread;
use std::time::Duration;

use iperf3::Server;
use iperf3::options::{Command, parse};

// iperf_api.h
const TEST_START: u8 = 1;
const TEST_RUNNING: u8 = 2;
const TEST_END: u8 = 4;
const PARAM_EXCHANGE: u8 = 9;
const CREATE_STREAMS: u8 = 10;
const EXCHANGE_RESULTS: u8 = 13;
const DISPLAY_RESULTS: u8 = 14;
const IPERF_DONE: u8 = 16;
const ACCESS_DENIED: u8 = 0xff;
const SERVER_ERROR: u8 = 0xfe;

const COOKIE: &[u8; 37] = b"abcdefghijklmnopqrstuvwxyz2345674321\0";

/// Starts a server; where it listens.
fn server() -> SocketAddr {
    let line = "-s -p 0 -B 127.0.0.1 -i 0 -J";
    let command = parse(line.split(' ').map(Into::into)).unwrap();
    let Command::Run(options) = command else { panic!("{line} is a server's") };
    let server = Server::bind(&options).unwrap();
    let address = server.addresses().next().unwrap();
    thread::spawn(move || server.run());
    address
}

struct Client(TcpStream);

impl Client {
    fn connect(server: SocketAddr) -> Client {
        let stream = TcpStream::connect(server).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        Client(stream)
    }

    fn greeted(server: SocketAddr) -> Client {
        let mut client = Client::connect(server);
        client.send(COOKIE);
        client.expect(PARAM_EXCHANGE);
        client
    }

    fn send(&mut self, octets: &[u8]) {
        self.0.write_all(octets).unwrap();
    }

    fn send_json(&mut self, text: &str) {
        self.send(&(text.len() as u32).to_be_bytes());
        self.send(text.as_bytes());
    }

    fn read<const N: usize>(&mut self) -> [u8; N] {
        let mut octets = [0; N];
        self.0.read_exact(&mut octets).expect("the server answers");
        octets
    }

    fn read_json(&mut self) -> serde_json::Value {
        let length = u32::from_be_bytes(self.read());
        let mut text = vec![0; length as usize];
        self.0.read_exact(&mut text).unwrap();
        serde_json::from_slice(&text).unwrap()
    }

    #[track_caller]
    fn expect(&mut self, state: u8) {
        assert_eq!(self.read::<1>(), [state]);
    }

    /// The server gives the test up and says by which number.
    #[track_caller]
    fn expect_error(&mut self, code: i32) {
        self.expect(SERVER_ERROR);
        assert_eq!(i32::from_be_bytes(self.read()), code);
        self.read::<4>();
        self.expect_end();
    }

    #[track_caller]
    fn expect_end(&mut self) {
        match self.0.read(&mut [0; 16]) {
            Ok(0) => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
            other => panic!("{other:?}"),
        }
    }
}

/// Connects until the server has got over the test before.
fn next_client(server: SocketAddr) -> Client {
    for _ in 0..100 {
        let mut client = Client::connect(server);
        client.send(COOKIE);
        if client.read::<1>() == [PARAM_EXCHANGE] {
            return client;
        }
        thread::sleep(Duration::from_millis(20));
    }
    panic!("the server stays busy");
}

#[test]
fn a_test_by_hand() {
    let server = server();
    let mut client = Client::greeted(server);
    client.send_json(r#"{"tcp":true,"omit":0,"time":0,"num":5,"parallel":1,"len":5}"#);
    client.expect(CREATE_STREAMS);
    let mut stranger = Client::connect(server);
    stranger.send(&[b'x'; 37]);
    stranger.expect(ACCESS_DENIED);
    stranger.expect_end();
    let mut stream = Client::connect(server);
    // In two pieces, as a network may deliver it.
    stream.send(&COOKIE[..20]);
    thread::sleep(Duration::from_millis(20));
    stream.send(&COOKIE[20..]);
    client.expect(TEST_START);
    client.expect(TEST_RUNNING);
    client.send(&[TEST_END]);
    client.expect(EXCHANGE_RESULTS);
    client.send_json(
        r#"{"cpu_util_total":0,"cpu_util_user":0,"cpu_util_system":0,"sender_has_retransmits":0,"streams":
        [{"id":1,"bytes":5,"retransmits":0,"jitter":0,"errors":0,"packets":0}]}"#,
    );
    // What was under way at the end counts.
    thread::sleep(Duration::from_millis(50));
    stream.send(b"12345");
    let results = client.read_json();
    assert_eq!(results["streams"][0]["id"], 1);
    assert_eq!(results["streams"][0]["bytes"], 5);
    client.expect(DISPLAY_RESULTS);
    client.send(&[IPERF_DONE]);
    client.expect_end();
    next_client(server);
}

/// iperf 3.9 and earlier greet by the number 123456789.
#[test]
fn datagrams_of_older_clients_are_understood() {
    let server = server();
    let mut client = Client::greeted(server);
    client.send_json(r#"{"udp":true,"omit":0,"time":1,"parallel":2,"len":16,"bandwidth":1000}"#);
    client.expect(CREATE_STREAMS);
    let sockets = [(); 2].map(|()| {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        socket.connect(server).unwrap();
        let mut answer = [0; 16];
        // The second time as if the answer had been lost: it is no further stream.
        for _ in 0..2 {
            socket.send(&123_456_789_u32.to_le_bytes()).unwrap();
            assert_eq!(socket.recv(&mut answer).unwrap(), 4);
            assert_eq!(&answer[..4], b"6789");
        }
        socket
    });
    client.expect(TEST_START);
    client.expect(TEST_RUNNING);
    let datagram = |number: u32| [[0; 4], [0; 4], number.to_be_bytes(), [0; 4]].concat();
    for number in [1, 2, 5] {
        sockets[0].send(&datagram(number)).unwrap();
    }
    sockets[1].send(&datagram(1)).unwrap();
    sockets[1].send(b"short").unwrap();
    client.send(&[TEST_END]);
    client.expect(EXCHANGE_RESULTS);
    client.send_json(
        r#"{"cpu_util_total":0,"cpu_util_user":0,"cpu_util_system":0,"sender_has_retransmits":0,"streams":
        [{"id":1,"bytes":48,"retransmits":-1,"jitter":0,"errors":0,"packets":5},
         {"id":3,"bytes":16,"retransmits":18446744073709551615,"jitter":0,"errors":0,"packets":1}]}"#,
    );
    let results = client.read_json();
    let stream = |at: usize, name: &str| results["streams"][at][name].as_u64().unwrap();
    let all =
        |at| (stream(at, "id"), stream(at, "bytes"), stream(at, "packets"), stream(at, "errors"));
    assert_eq!((all(0), all(1)), ((1, 48, 5, 2), (3, 16, 1, 0)));
}

#[test]
fn what_makes_no_sense_is_refused_by_number_and_the_next_client_served() {
    let server = server();
    // iperf_api.h: IERECVPARAMS, IENUMSTREAMS, IEPROTOCOL.
    for (text, code) in [("[", 114), (r#"{"tcp":1,"parallel":1000}"#, 6), (r#"{"sctp":true}"#, 131)]
    {
        let mut client = next_client(server);
        client.send_json(text);
        client.expect_error(code);
    }
    let mut client = next_client(server);
    client.send(&[0xff; 4]);
    client.expect_error(114);
    // A state nobody has heard of, and one that isn't due: IEMESSAGE.
    for state in [99, TEST_END] {
        let mut client = next_client(server);
        client.send_json(r#"{"tcp":true,"num":1}"#);
        client.expect(CREATE_STREAMS);
        client.send(&[state]);
        client.expect_error(110);
    }
    // Results without a stream: IERECVRESULTS.
    let mut client = next_client(server);
    client.send_json(r#"{"tcp":true,"num":1}"#);
    client.expect(CREATE_STREAMS);
    let mut stream = Client::connect(server);
    stream.send(COOKIE);
    client.expect(TEST_START);
    client.expect(TEST_RUNNING);
    client.send(&[TEST_END]);
    client.expect(EXCHANGE_RESULTS);
    client.send_json("{}");
    client.expect_error(117);
    next_client(server);
}

#[test]
fn those_who_say_nothing_keep_nobody_out() {
    let server = server();
    let silent: Vec<Client> = (0..100).map(|_| Client::connect(server)).collect();
    let mut half = Client::connect(server);
    half.send(&COOKIE[..36]);
    let client = next_client(server);
    drop((silent, half, client));
    // Gone without a word.
    next_client(server);
}
