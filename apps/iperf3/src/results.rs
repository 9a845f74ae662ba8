//! What each side tells the other at the end.

use serde_json::{Value, json};

use crate::error::Error;

/// A side's results.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Results {
    /// Use of the CPU in percent: in all, by the program, by the system for it.
    pub(crate) cpu: [f64; 3],
    /// The sending side counts retransmissions.
    pub(crate) has_retransmits: bool,
    /// The congestion control's name.
    pub(crate) congestion: Option<String>,
    /// Its console's output, if asked for.
    pub(crate) output: Option<String>,
    pub(crate) streams: Vec<StreamResults>,
}

/// One stream's.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct StreamResults {
    pub(crate) id: u64,
    pub(crate) octets: u64,
    pub(crate) retransmits: Option<u64>,
    /// In seconds.
    pub(crate) jitter: f64,
    pub(crate) lost: u64,
    pub(crate) packets: u64,
    /// Of the packets, those before counting began; not told by versions before 3.14.
    pub(crate) omitted: Option<(u64, u64)>,
    /// How long it took, in seconds.
    pub(crate) seconds: f64,
}

impl Results {
    pub(crate) fn to_json(&self) -> Value {
        let stream = |stream: &StreamResults| {
            let (omitted_lost, omitted_packets) = stream.omitted.unwrap_or_default();
            json!({
                "id": stream.id,
                "bytes": stream.octets,
                "retransmits": stream.retransmits.map_or(-1, |count| count as i64),
                "jitter": stream.jitter,
                "errors": stream.lost,
                "omitted_errors": omitted_lost,
                "packets": stream.packets,
                "omitted_packets": omitted_packets,
                "start_time": 0,
                "end_time": stream.seconds,
            })
        };
        let mut value = json!({
            "cpu_util_total": self.cpu[0],
            "cpu_util_user": self.cpu[1],
            "cpu_util_system": self.cpu[2],
            "sender_has_retransmits": i32::from(self.has_retransmits),
        });
        if let Some(name) = &self.congestion {
            value["congestion_used"] = json!(name);
        }
        if let Some(text) = &self.output {
            value["server_output_text"] = json!(text);
        }
        value["streams"] = self.streams.iter().map(stream).collect();
        value
    }

    /// `ids`: the streams there have to be; theirs are put in that order.
    pub(crate) fn from_json(
        value: &Value,
        ids: impl Iterator<Item = u64>,
    ) -> Result<Results, Error> {
        let broken = |what: &str| Error::Results(format!("no valid {what}"));
        let float = |value: &Value, name: &str| {
            value[name].as_f64().filter(|float| float.is_finite()).ok_or_else(|| broken(name))
        };
        let whole = |value: &Value, name: &str| match &value[name] {
            number if number.as_u64().is_some() => Ok(number.as_u64().unwrap_or(0)),
            // cJSON writes large numbers as floats; below nothing there is nothing.
            number => number.as_f64().map(|float| float as u64).ok_or_else(|| broken(name)),
        };
        let theirs = value["streams"].as_array().ok_or_else(|| broken("streams"))?;
        let text = |name: &str| value[name].as_str().map(str::to_owned);
        let mut results = Results {
            cpu: [
                float(value, "cpu_util_total")?,
                float(value, "cpu_util_user")?,
                float(value, "cpu_util_system")?,
            ],
            // -1: it doesn't send.
            has_retransmits: value["sender_has_retransmits"].as_f64() == Some(1.0),
            congestion: text("congestion_used"),
            output: text("server_output_text")
                .or_else(|| value.get("server_output_json").map(Value::to_string)),
            streams: Vec::new(),
        };
        for id in ids {
            let stream = theirs
                .iter()
                .find(|stream| stream["id"].as_f64() == Some(id as f64))
                .ok_or_else(|| Error::Results(format!("stream {id} is missing")))?;
            let omitted = match stream.get("omitted_packets") {
                Some(_) => {
                    Some((whole(stream, "omitted_errors")?, whole(stream, "omitted_packets")?))
                }
                None => None,
            };
            // -1 is none, and some write it as an unsigned number.
            let retransmits = stream["retransmits"].as_f64().unwrap_or(-1.0);
            results.streams.push(StreamResults {
                id,
                octets: whole(stream, "bytes")?,
                retransmits: (0.0..1e18).contains(&retransmits).then_some(retransmits as u64),
                jitter: float(stream, "jitter")?,
                lost: whole(stream, "errors")?,
                packets: whole(stream, "packets")?,
                omitted,
                seconds: stream["end_time"].as_f64().unwrap_or(0.0)
                    - stream["start_time"].as_f64().unwrap_or(0.0),
            });
        }
        Ok(results)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What iperf 3.12 sent, but for its console's output.
    const SENT: &str = r#"{"cpu_util_total":9.3726421817836272,"cpu_util_user":0.673540171996009,"cpu_util_system":8.7006224164964134,"sender_has_retransmits":1,"congestion_used":"bbr","server_output_text":"Accepted","streams":[{"id":1,"bytes":645120,"retransmits":18446744073709551615,"jitter":0,"errors":0,"packets":0,"start_time":0,"end_time":0.052243},{"id":3,"bytes":665600,"retransmits":2,"jitter":0,"errors":0,"packets":0,"start_time":0,"end_time":0.052248}]}"#;

    #[test]
    fn results_of_iperf3_are_understood() {
        let value = serde_json::from_str(SENT).unwrap();
        let results = Results::from_json(&value, [3, 1].into_iter()).unwrap();
        let stream = |id, octets, retransmits, seconds| StreamResults {
            id,
            octets,
            retransmits,
            seconds,
            ..StreamResults::default()
        };
        assert_eq!(
            results,
            Results {
                cpu: [9.372_642_181_783_627, 0.673540171996009, 8.700_622_416_496_413],
                has_retransmits: true,
                congestion: Some("bbr".to_owned()),
                output: Some("Accepted".to_owned()),
                streams: vec![
                    stream(3, 665_600, Some(2), 0.052248),
                    stream(1, 645_120, None, 0.052243)
                ],
            }
        );
        let missing = Results::from_json(&value, [4].into_iter()).unwrap_err();
        assert_eq!(missing.to_string(), "unable to receive results: stream 4 is missing");
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["{}", "[]", "null", r#"{"streams":[]}"#, &SENT.replace("645120", "\"x\"")] {
            let value = serde_json::from_str(text).unwrap();
            assert!(Results::from_json(&value, [1].into_iter()).is_err(), "{text}");
        }
    }
}
