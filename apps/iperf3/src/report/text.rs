//! Lines as iperf 3.12 prints them.

use super::{Figures, Sides, directions, interval_figures};
use crate::error::Peer;
use crate::test::{Interval, Test};
use crate::units::{Unit, octets, rate};

/// Between parts.
pub(super) const RULE: &str = "- - - - - - - - - - - - - - - - - - - - - - - - -";

/// What a direction's lines have in their second column, in a test of both.
fn tag(test: &Test, sends: bool) -> &'static str {
    match (test.parameters.bidirectional, test.role, sends) {
        (false, ..) => "",
        (true, Peer::Client, true) => "[TX-C]",
        (true, Peer::Client, false) => "[RX-C]",
        (true, Peer::Server, true) => "[TX-S]",
        (true, Peer::Server, false) => "[RX-S]",
    }
}

pub(super) fn interval_header(test: &Test) -> String {
    let both = test.parameters.bidirectional;
    let columns = match test.parameters.udp {
        false => "",
        true if !both && test.streams.iter().all(|stream| stream.is_sender) => {
            "         Total Datagrams"
        }
        true => "         Jitter    Lost/Total Datagrams",
    };
    header(both, columns)
}

fn header(both: bool, columns: &str) -> String {
    let role = if both { "[Role]" } else { "" };
    format!("[ ID]{role} Interval           Transfer     Bitrate{columns}")
}

/// The part all lines have in common.
fn common(name: &str, tag: &str, start: f64, figures: &Figures, unit: Unit) -> String {
    let end = start + figures.seconds;
    let transfer = octets(figures.octets as f64);
    let rate = rate(figures.rate(), unit);
    format!("[{name:>3}]{tag} {start:6.2}-{end:<6.2} sec  {transfer}s  {rate}s/sec")
}

/// Of a hundred, in two digits.
fn percent(value: f64) -> String {
    match value {
        0.0 => "0".to_owned(),
        value if value < 0.1 => format!("{value:.2}"),
        value if value < 9.95 => format!("{value:.1}"),
        value => format!("{value:.0}"),
    }
}

fn losses(figures: &Figures) -> String {
    let Figures { lost, packets, .. } = figures;
    let jitter = figures.jitter * 1000.0;
    format!("  {jitter:5.3} ms  {lost}/{packets} ({}%)", percent(figures.lost_percent()))
}

pub(super) fn interval(test: &Test, interval: &Interval, unit: Unit) -> Vec<String> {
    let figures = interval_figures(test, interval);
    let suffix = if interval.omitted { "(omitted)" } else { "" };
    let line = |name: &str, sends: bool, figures: &Figures| {
        let common = common(name, tag(test, sends), interval.start, figures, unit);
        match (test.parameters.udp, sends) {
            (false, _) => format!("{common}                  {suffix}"),
            (true, true) => {
                // Under the same heading as losses, in a test of both directions.
                let space = if test.parameters.bidirectional { "          " } else { "" };
                format!("{common} {space} {}  {suffix}", figures.packets)
            }
            (true, false) => format!("{common}{}  {suffix}", losses(figures)),
        }
    };
    let mut lines = Vec::new();
    for (places, sends) in directions(test) {
        for &at in &places {
            lines.push(line(&test.streams[at].number().to_string(), sends, &figures[at]));
        }
        if let Some(sum) = Figures::sum(places.iter().map(|&at| figures[at]))
            && places.len() > 1
        {
            lines.push(line("SUM", sends, &sum));
        }
    }
    lines
}

pub(super) fn summary(test: &Test, sides: &[Sides], unit: Unit) -> Vec<String> {
    let udp = test.parameters.udp;
    let counts_retransmits =
        sides.iter().any(|sides| sides.sender.is_some_and(|sender| sender.retransmits.is_some()));
    let columns = match (udp, counts_retransmits) {
        (true, _) => "         Jitter    Lost/Total Datagrams",
        (false, true) => "         Retr",
        (false, false) => "",
    };
    let mut lines = vec![RULE.to_owned(), header(test.parameters.bidirectional, columns)];
    let line = |name: &str, tag: &str, figures: &Figures, side: &str| {
        let common = common(name, tag, 0.0, figures, unit);
        match (udp, figures.retransmits) {
            (true, _) => format!("{common}{}  {side}", losses(figures)),
            (false, Some(count)) if side == "sender" => {
                format!("{common}  {count:3}             {side}")
            }
            (false, _) => format!("{common}                  {side}"),
        }
    };
    // A sender can't know of losses, nor of their spacing.
    let sent =
        |sides: &Sides| sides.sender.map(|figures| Figures { lost: 0, jitter: 0.0, ..figures });
    for (places, sends) in directions(test) {
        let tag = tag(test, sends);
        // A server tells of its own side.
        let has_sent = sends || test.role == Peer::Client;
        let has_received = !sends || test.role == Peer::Client;
        let mut both = |name: &str, sender: Option<Figures>, receiver: Option<Figures>| {
            if let Some(sender) = sender.filter(|_| has_sent) {
                lines.push(line(name, tag, &sender, "sender"));
            }
            if let Some(receiver) = receiver.filter(|_| has_received) {
                lines.push(line(name, tag, &receiver, "receiver"));
            }
        };
        for &at in &places {
            let name = test.streams[at].number().to_string();
            both(&name, sent(&sides[at]), sides[at].receiver);
        }
        if places.len() > 1 {
            let sender = Figures::sum(places.iter().filter_map(|&at| sent(&sides[at])));
            let receiver = Figures::sum(places.iter().filter_map(|&at| sides[at].receiver));
            both("SUM", sender, receiver);
        }
    }
    lines
}
