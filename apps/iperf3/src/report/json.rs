//! JSON with the names that iperf 3.12 uses.

use serde_json::{Map, Value, json};

use super::{Figures, Sides, directions, interval_figures};
use crate::error::Peer;
use crate::parameters::Parameters;
use crate::results::Results;
use crate::test::{Interval, Test};

pub(super) fn test_start(parameters: &Parameters) -> Value {
    json!({
        "protocol": if parameters.udp { "UDP" } else { "TCP" },
        "num_streams": parameters.parallel,
        "blksize": parameters.length,
        "omit": parameters.omit,
        "duration": parameters.time,
        "bytes": parameters.bytes.unwrap_or(0),
        "blocks": parameters.blocks.unwrap_or(0),
        "reverse": i32::from(parameters.reverse),
        "bidir": i32::from(parameters.bidirectional),
        "tos": 0,
        "target_bitrate": parameters.rate,
    })
}

/// What every object of figures has.
fn common(start: f64, figures: &Figures) -> Map<String, Value> {
    let mut map = Map::new();
    for (name, value) in [
        ("start", json!(start)),
        ("end", json!(start + figures.seconds)),
        ("seconds", json!(figures.seconds)),
        ("bytes", json!(figures.octets)),
        ("bits_per_second", json!(figures.rate() * 8.0)),
    ] {
        map.insert(name.to_owned(), value);
    }
    map
}

fn losses(map: &mut Map<String, Value>, figures: &Figures) {
    for (name, value) in [
        ("jitter_ms", json!(figures.jitter * 1000.0)),
        ("lost_packets", json!(figures.lost)),
        ("packets", json!(figures.packets)),
        ("lost_percent", json!(figures.lost_percent())),
    ] {
        map.insert(name.to_owned(), value);
    }
}

fn put(map: &mut Map<String, Value>, name: &str, value: Value) {
    map.insert(name.to_owned(), value);
}

pub(super) fn interval(test: &Test, interval: &Interval) -> Value {
    let figures = interval_figures(test, interval);
    let object = |sends: bool, figures: &Figures| {
        let mut map = common(interval.start, figures);
        match (test.parameters.udp, sends) {
            (true, true) => put(&mut map, "packets", json!(figures.packets)),
            (true, false) => losses(&mut map, figures),
            (false, _) => {}
        }
        put(&mut map, "omitted", json!(interval.omitted));
        put(&mut map, "sender", json!(sends));
        map
    };
    let streams: Value = (test.streams.iter().zip(&figures))
        .map(|(stream, figures)| {
            let mut map = Map::new();
            put(&mut map, "socket", json!(stream.number()));
            map.extend(object(stream.is_sender, figures));
            Value::Object(map)
        })
        .collect();
    let mut value = json!({ "streams": streams });
    for ((places, sends), name) in directions(test).zip(["sum", "sum_bidir_reverse"]) {
        if let Some(sum) = Figures::sum(places.iter().map(|&at| figures[at])) {
            value[name] = Value::Object(object(sends, &sum));
        }
    }
    value
}

pub(super) fn end(test: &Test, sides: &[Sides], peer: Option<&Results>) -> Value {
    let udp = test.parameters.udp;
    let object = |number: Option<u64>, figures: &Figures, sends: bool, of_sender: bool| {
        let mut map = Map::new();
        if let Some(number) = number {
            put(&mut map, "socket", json!(number));
        }
        map.extend(common(0.0, figures));
        if udp {
            losses(&mut map, figures);
        } else if let Some(count) = figures.retransmits.filter(|_| of_sender) {
            put(&mut map, "retransmits", json!(count));
        }
        put(&mut map, "sender", json!(sends));
        map
    };
    let nothing = Figures::default();
    let streams: Value = (test.streams.iter().zip(sides))
        .map(|(stream, sides)| {
            let number = Some(stream.number());
            let sender = sides.sender.unwrap_or(nothing);
            let receiver = sides.receiver.unwrap_or(nothing);
            if udp {
                // What was sent, and what became of it.
                let whole = Figures { octets: sender.octets, seconds: sender.seconds, ..receiver };
                let mut map = object(number, &whole, stream.is_sender, false);
                put(&mut map, "out_of_order", json!(receiver.out_of_order));
                json!({ "udp": map })
            } else {
                json!({
                    "sender": object(number, &sender, stream.is_sender, true),
                    "receiver": object(number, &receiver, stream.is_sender, false),
                })
            }
        })
        .collect();
    let mut value = json!({ "streams": streams });
    for ((places, sends), suffix) in directions(test).zip(["", "_bidir_reverse"]) {
        let sum = |side: fn(&Sides) -> Option<Figures>| {
            Figures::sum(places.iter().filter_map(|&at| side(&sides[at]))).unwrap_or(nothing)
        };
        let (sent, received) = (sum(|sides| sides.sender), sum(|sides| sides.receiver));
        if udp {
            let whole = Figures { octets: sent.octets, seconds: sent.seconds, ..received };
            value[format!("sum{suffix}")] = Value::Object(object(None, &whole, sends, false));
        }
        let sent = Figures { lost: 0, jitter: 0.0, ..sent };
        value[format!("sum_sent{suffix}")] = Value::Object(object(None, &sent, sends, true));
        value[format!("sum_received{suffix}")] =
            Value::Object(object(None, &received, sends, false));
    }
    let (host, remote) = (test.cpu(), peer.map_or([0.0; 3], |peer| peer.cpu));
    value["cpu_utilization_percent"] = json!({
        "host_total": host[0], "host_user": host[1], "host_system": host[2],
        "remote_total": remote[0], "remote_user": remote[1], "remote_system": remote[2],
    });
    if let Some(peer) = peer {
        let name = if test.role == Peer::Client && test.parameters.reverse {
            "sender_tcp_congestion"
        } else {
            "receiver_tcp_congestion"
        };
        if let Some(congestion) = peer.congestion.as_ref().filter(|_| !udp) {
            value[name] = json!(congestion);
        }
        if let Some(output) = &peer.output {
            value["server_output_text"] = json!(output);
        }
    }
    value
}
