//! The rows of the table, and what each promises.

use super::guests::Guest;

/// A row: which guest's which number, and the most it may be.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it says in the report.
    pub title: &'static str,
    /// Our guest that gives the number.
    pub ours: Guest,
    /// Linux' guest that gives it, and its metric there if it differs.
    pub linux: Option<Guest>,
    /// `measure.py`'s metric.
    pub metric: &'static str,
    /// `measure.py`'s key for it; none for what is measured of every boot.
    pub key: Option<&'static str>,
    /// The most it may be on aarch64.
    pub goal: f64,
}

/// Every row, in the order of the report.
pub const ROWS: [Row; 11] = [
    Row {
        name: "tx",
        title: "byte sent, TCP, TSO on, `write`",
        ours: Guest::Peer,
        linux: Some(Guest::Linux),
        metric: "TCP guest to host",
        key: Some("tx"),
        goal: 0.30,
    },
    Row {
        name: "tx-csum",
        title: "byte sent, TSO off, checksum by the card",
        ours: Guest::PeerWithoutSegmentation,
        linux: Some(Guest::LinuxWithoutSegmentation),
        metric: "TCP guest to host",
        key: Some("tx"),
        goal: 1.0,
    },
    Row {
        name: "rx",
        title: "byte received, TCP, merged frames",
        ours: Guest::Peer,
        linux: Some(Guest::Linux),
        metric: "TCP host to guest",
        key: Some("rx"),
        goal: 0.30,
    },
    Row {
        name: "udp",
        title: "UDP echo of 1472 bytes",
        ours: Guest::Peer,
        linux: Some(Guest::Linux),
        metric: "UDP echo 1472",
        key: Some("udp"),
        goal: 3_000.0,
    },
    Row {
        name: "http",
        title: "HTTP GET of 1 KiB, keep-alive",
        ours: Guest::Httpd,
        linux: Some(Guest::Linux),
        metric: "HTTP keep-alive",
        key: Some("http"),
        goal: 5_000.0,
    },
    Row {
        name: "http-idle",
        title: "the same beside 10,000 idle connections",
        ours: Guest::HttpdManyConnections,
        linux: None,
        metric: "HTTP keep-alive beside idle connections",
        key: Some("httpidle"),
        // Five per cent above the row before; `bench` puts in what that measured.
        goal: 5_250.0,
    },
    Row {
        name: "http-close",
        title: "HTTP GET, a connection each",
        ours: Guest::Httpd,
        linux: Some(Guest::Linux),
        metric: "HTTP, a connection each",
        key: Some("httpclose"),
        goal: 20_000.0,
    },
    Row {
        name: "boot",
        title: "boot, reset to first HTTP answer, static address",
        ours: Guest::Httpd,
        linux: Some(Guest::Linux),
        metric: "boot to first answer",
        key: None,
        goal: 3_000_000.0,
    },
    Row {
        name: "idle",
        title: "second of idleness",
        ours: Guest::Httpd,
        linux: Some(Guest::Linux),
        metric: "idle",
        key: None,
        goal: 1_000.0,
    },
    Row {
        name: "ram",
        title: "least RAM for httpd, MiB",
        ours: Guest::HttpdLeastRam,
        linux: Some(Guest::LinuxLeastRam),
        metric: "least RAM",
        key: None,
        goal: 8.0,
    },
    Row {
        name: "size",
        title: "httpd image, bytes",
        ours: Guest::ImageSize,
        linux: Some(Guest::LinuxImageSize),
        metric: "image size",
        key: None,
        goal: 600_000.0,
    },
];

/// The row of a name.
pub fn row(name: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_found_by_name_and_names_differ() {
        for expected in &ROWS {
            assert_eq!(row(expected.name).unwrap().title, expected.title);
        }
        assert!(row("nonesuch").is_none());
    }
}
