//! What a test is to be: told to the server by the client in JSON.

use serde_json::{Map, Value, json};

use crate::error::{Error, code};
use crate::tuning::Tuning;

/// Most streams in a direction [iperf.h: MAX_STREAMS].
pub(crate) const STREAM_LIMIT: u32 = 128;
/// Longest block, in octets [iperf.h: MAX_BLOCKSIZE].
pub(crate) const BLOCK_LIMIT: u64 = 1 << 20;
/// Shortest and longest datagram's payload, in octets [iperf.h].
pub(crate) const DATAGRAM: std::ops::RangeInclusive<u64> = 16..=65_507;
/// Longest test, in seconds [iperf.h: MAX_TIME].
pub(crate) const TIME_LIMIT: u64 = 86_400;
/// Longest part left out, in seconds [iperf.h: MAX_OMIT_TIME].
pub(crate) const OMIT_LIMIT: u64 = 600;
/// Longest burst, in blocks [iperf.h: MAX_BURST].
pub(crate) const BURST_LIMIT: u64 = 1000;
/// Largest segment to ask for, in octets [iperf.h: MAX_MSS].
pub(crate) const MSS_LIMIT: u64 = 9 * 1024;
/// Largest socket buffer to ask for, in octets [iperf.h: MAX_TCP_BUFFER].
pub(crate) const WINDOW_LIMIT: u64 = 512 << 20;
/// A block of TCP if none is named, in octets.
pub(crate) const TCP_BLOCK: u32 = 128 << 10;
/// A datagram's payload if none is named and the path's segment size isn't known, in octets.
pub(crate) const UDP_BLOCK: u32 = 1460;
/// Datagrams are sent at this rate if none is named, in bits a second.
pub(crate) const UDP_RATE: u64 = 1 << 20;

/// A test's parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameters {
    /// UDP instead of TCP.
    pub udp: bool,
    /// Seconds at the beginning that don't count.
    pub omit: u32,
    /// Seconds; 0 if something else ends the test.
    pub time: u32,
    /// Octets after which the test ends.
    pub bytes: Option<u64>,
    /// Blocks after which the test ends.
    pub blocks: Option<u64>,
    /// Largest segment.
    pub mss: Option<u32>,
    /// Small segments at once.
    pub no_delay: bool,
    /// Streams in a direction.
    pub parallel: u32,
    /// The server sends.
    pub reverse: bool,
    /// Both send.
    pub bidirectional: bool,
    /// Size of socket buffers, in octets.
    pub window: Option<u32>,
    /// Octets in a block or datagram.
    pub length: u32,
    /// Bits a second and stream; 0: as fast as it goes.
    pub rate: u64,
    /// Blocks between two looks at the rate; 0: look at each.
    pub burst: u32,
    /// Microseconds between two looks at the rate.
    pub pacing_timer: u32,
    /// Datagrams are counted in 64 bits.
    pub wide_counters: bool,
    /// The client wants the server's console output.
    pub server_output: bool,
    /// Put before each line.
    pub title: Option<String>,
    /// For the JSON of both.
    pub extra_data: Option<String>,
    /// What the client asks for and can't be had here: named on the console.
    pub ignored: Vec<&'static str>,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            udp: false,
            omit: 0,
            time: 10,
            bytes: None,
            blocks: None,
            mss: None,
            no_delay: false,
            parallel: 1,
            reverse: false,
            bidirectional: false,
            window: None,
            length: TCP_BLOCK,
            rate: 0,
            burst: 0,
            pacing_timer: 1000,
            wide_counters: false,
            server_output: false,
            title: None,
            extra_data: None,
            ignored: Vec::new(),
        }
    }
}

impl Parameters {
    /// As a client sends them.
    pub(crate) fn to_json(&self) -> Value {
        let mut map = Map::new();
        let mut put = |name: &str, value: Value| map.insert(name.to_owned(), value);
        put(if self.udp { "udp" } else { "tcp" }, json!(true));
        put("omit", json!(self.omit));
        put("time", json!(self.time));
        put("num", json!(self.bytes.unwrap_or(0)));
        put("blockcount", json!(self.blocks.unwrap_or(0)));
        if let Some(mss) = self.mss {
            put("MSS", json!(mss));
        }
        put("parallel", json!(self.parallel));
        for (name, is_on) in [
            ("nodelay", self.no_delay),
            ("reverse", self.reverse),
            ("bidirectional", self.bidirectional),
        ] {
            if is_on {
                put(name, json!(true));
            }
        }
        if let Some(window) = self.window {
            put("window", json!(window));
        }
        put("len", json!(self.length));
        if self.rate > 0 {
            put("bandwidth", json!(self.rate));
        }
        put("pacing_timer", json!(self.pacing_timer));
        if self.burst > 0 {
            put("burst", json!(self.burst));
        }
        if self.wide_counters {
            put("udp_counters_64bit", json!(1));
        }
        if self.server_output {
            put("get_server_output", json!(1));
        }
        for (name, text) in [("title", &self.title), ("extra_data", &self.extra_data)] {
            if let Some(text) = text {
                put(name, json!(text));
            }
        }
        put("client_version", json!(VERSION));
        Value::Object(map)
    }

    /// As a server gets them. Everything is bounded here.
    pub(crate) fn from_json(value: &Value) -> Result<Parameters, Error> {
        let refuse = |code, what: &str| Err(Error::Parameters(code, what.to_owned()));
        let Some(map) = value.as_object() else {
            return refuse(code::PARAMETERS, "no JSON object");
        };
        let flag = |name: &str| match map.get(name) {
            None | Some(Value::Null | Value::Bool(false)) => false,
            Some(number) => number.as_f64() != Some(0.0),
        };
        let number = |name: &'static str, limit: u64, code| match map.get(name) {
            None => Ok(0),
            Some(value) => {
                // Numbers above 2^53 come as floats from some.
                let value = value.as_u64().or_else(|| {
                    value.as_f64().filter(|float| *float >= 0.0).map(|float| float as u64)
                });
                value.filter(|value| *value <= limit).ok_or_else(|| {
                    Error::Parameters(code, format!("{name} is no number up to {limit}"))
                })
            }
        };
        let text = |name: &str| match map.get(name).and_then(Value::as_str) {
            Some(text) if text.len() <= 1024 => Some(text.to_owned()),
            _ => None,
        };
        let udp = flag("udp");
        if flag("sctp") || (udp == flag("tcp")) {
            return refuse(code::PROTOCOL, "neither TCP nor UDP");
        }
        let nonzero = |value: u64| (value > 0).then_some(value);
        let length = match number("len", BLOCK_LIMIT, code::BLOCK_SIZE)? {
            0 if udp => u64::from(UDP_BLOCK),
            0 => u64::from(TCP_BLOCK),
            length => length,
        };
        if udp && !DATAGRAM.contains(&length) {
            return refuse(code::UDP_BLOCK_SIZE, "len is no datagram's");
        }
        let parameters = Parameters {
            udp,
            omit: number("omit", OMIT_LIMIT, code::OMIT)? as u32,
            time: number("time", TIME_LIMIT, code::DURATION)? as u32,
            bytes: nonzero(number("num", u64::MAX, code::PARAMETERS)?),
            blocks: nonzero(number("blockcount", u64::MAX, code::PARAMETERS)?),
            mss: nonzero(number("MSS", MSS_LIMIT, code::MSS)?).map(|mss| mss as u32),
            no_delay: flag("nodelay"),
            parallel: number("parallel", STREAM_LIMIT.into(), code::STREAM_COUNT)?.max(1) as u32,
            reverse: flag("reverse"),
            bidirectional: flag("bidirectional"),
            window: nonzero(number("window", WINDOW_LIMIT, code::BUFFER_SIZE)?).map(|w| w as u32),
            length: length as u32,
            rate: number("bandwidth", u64::MAX, code::PARAMETERS)?,
            burst: number("burst", BURST_LIMIT, code::BURST)? as u32,
            pacing_timer: match number("pacing_timer", 1_000_000, code::PARAMETERS)? {
                0 => 1000,
                timer => timer as u32,
            },
            wide_counters: flag("udp_counters_64bit"),
            server_output: flag("get_server_output"),
            title: text("title"),
            extra_data: text("extra_data"),
            ignored: ["TOS", "flowlabel", "congestion", "fqrate", "dont_fragment", "authtoken"]
                .into_iter()
                .filter(|name| flag(name))
                .collect(),
        };
        if parameters.reverse && parameters.bidirectional {
            return refuse(code::PARAMETERS, "reverse and bidirectional at once");
        }
        Ok(parameters)
    }

    /// What is to be set on the streams' sockets. A datagram has no segments.
    pub(crate) fn tuning(&self) -> Tuning {
        Tuning { mss: self.mss.filter(|_| !self.udp), window: self.window }
    }

    /// Streams in all.
    pub(crate) fn streams(&self) -> u32 {
        if self.bidirectional { 2 * self.parallel } else { self.parallel }
    }
}

/// Our version, where the protocol has a place for one.
pub(crate) const VERSION: &str = concat!("trireme-", env!("CARGO_PKG_VERSION"));

#[cfg(test)]
mod tests {
    use super::*;

    /// What iperf 3.12 sent for `-n 1M --bidir -P 2 -w 100K -M 1000 -N -b 100M -l 10K --get-server-output -S 8 -O 1
    /// --title hallo --extra-data eee`.
    const SENT: &str = r#"{"tcp":true,"omit":1,"time":0,"num":1048576,"blockcount":0,"MSS":1000,"nodelay":true,"parallel":2,"bidirectional":true,"window":102400,"len":10240,"bandwidth":100000000,"pacing_timer":1000,"TOS":8,"title":"hallo","extra_data":"eee","get_server_output":1,"client_version":"3.12"}"#;

    #[test]
    fn parameters_of_iperf3_are_understood() {
        let parsed = Parameters::from_json(&serde_json::from_str(SENT).unwrap()).unwrap();
        let expected = Parameters {
            omit: 1,
            time: 0,
            bytes: Some(1 << 20),
            mss: Some(1000),
            no_delay: true,
            parallel: 2,
            bidirectional: true,
            window: Some(102_400),
            length: 10_240,
            rate: 100_000_000,
            server_output: true,
            title: Some("hallo".to_owned()),
            extra_data: Some("eee".to_owned()),
            ignored: vec!["TOS"],
            ..Parameters::default()
        };
        assert_eq!(parsed, expected);
        let again = Parameters::from_json(&expected.to_json()).unwrap();
        assert_eq!(again, Parameters { ignored: Vec::new(), ..expected });
    }

    #[test]
    fn what_is_too_much_is_refused_by_iperf3s_number() {
        for (text, expected) in [
            ("[]", code::PARAMETERS),
            ("{}", code::PROTOCOL),
            (r#"{"tcp":true,"udp":true}"#, code::PROTOCOL),
            (r#"{"sctp":true}"#, code::PROTOCOL),
            (r#"{"tcp":true,"parallel":129}"#, code::STREAM_COUNT),
            (r#"{"tcp":true,"len":1048577}"#, code::BLOCK_SIZE),
            (r#"{"tcp":true,"len":-1}"#, code::BLOCK_SIZE),
            (r#"{"tcp":true,"len":"x"}"#, code::BLOCK_SIZE),
            (r#"{"udp":true,"len":65508}"#, code::UDP_BLOCK_SIZE),
            (r#"{"udp":true,"len":15}"#, code::UDP_BLOCK_SIZE),
            (r#"{"tcp":true,"time":86401}"#, code::DURATION),
            (r#"{"tcp":true,"omit":601}"#, code::OMIT),
            (r#"{"tcp":true,"burst":1001}"#, code::BURST),
            (r#"{"tcp":true,"MSS":9217}"#, code::MSS),
            (r#"{"tcp":true,"window":1e10}"#, code::BUFFER_SIZE),
            (r#"{"tcp":true,"reverse":true,"bidirectional":true}"#, code::PARAMETERS),
        ] {
            let refused = Parameters::from_json(&serde_json::from_str(text).unwrap());
            assert_eq!(refused.unwrap_err().code(), expected, "{text}");
        }
    }
}
