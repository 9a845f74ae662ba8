//! The resources: what is asked for, and the answer.

use std::borrow::Cow;
use std::time::Instant;

use trireme::network::{self, Feature, SwitchError};

use crate::exposition;
use crate::gate::{Gate, Verdict};
use crate::metrics;
use crate::snapshot::Snapshot;

/// The page, compressed by `build.rs`.
const PAGE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/page.html.gz"));
const PAGE_FIELDS: &str = concat!(
    "Content-Type: text/html; charset=utf-8\r\nContent-Encoding: gzip\r\nVary: Accept-Encoding\r\nContent-Security-Policy: ",
    include_str!(concat!(env!("OUT_DIR"), "/policy.txt")),
    "\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\nCache-Control: no-cache\r\n"
);

/// A request, as far as it matters here.
#[derive(Clone, Copy, Debug, Default)]
pub struct Request<'a> {
    /// The method, as sent.
    pub method: &'a str,
    /// The path below the place where the status is mounted, without a slash in front, and without a query: empty for
    /// the page itself.
    pub path: &'a str,
    /// The value of the Authorization field.
    pub authorization: Option<&'a [u8]>,
    /// The client takes gzip.
    pub accepts_gzip: bool,
}

/// An answer. Whoever sends it adds Content-Length, and leaves the body off for HEAD.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// Status code.
    pub status: u16,
    /// Header fields, each with its line end.
    pub fields: Cow<'static, str>,
    /// The content.
    pub body: Cow<'static, [u8]>,
}

impl Response {
    fn text(status: u16, fields: &str, text: &str) -> Response {
        Response {
            status,
            fields: format!(
                "Content-Type: text/plain; charset=utf-8\r\nCache-Control: no-store\r\n{fields}"
            )
            .into(),
            body: format!("{text}\n").into_bytes().into(),
        }
    }
}

/// What was done here, for the metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) can_switch: bool,
    pub(crate) done: u64,
    pub(crate) refused: u64,
    pub(crate) missing: u64,
    pub(crate) wrong: u64,
    pub(crate) limited: u64,
}

/// Page, metrics and switches, without a server around them.
pub struct Status {
    gate: Gate,
    done: u64,
    refused: u64,
}

impl Status {
    /// With the token in [`TOKEN`](crate::TOKEN). A token that cannot be one is named on standard error and not used.
    pub fn from_environment() -> Status {
        Status::with(Gate::from_environment(Instant::now()))
    }

    pub(crate) fn with(gate: Gate) -> Status {
        Status { gate, done: 0, refused: 0 }
    }

    /// Answers a request that arrived `now`.
    pub fn answer(&mut self, request: &Request<'_>, now: Instant) -> Response {
        let reading = matches!(request.method, "GET" | "HEAD");
        match request.path {
            "" if reading && request.accepts_gzip => {
                Response { status: 200, fields: PAGE_FIELDS.into(), body: PAGE.into() }
            }
            "" if reading => Response::text(
                406,
                "Vary: Accept-Encoding\r\n",
                "This page is there in gzip only; metrics is plain text.",
            ),
            "metrics" if reading => Response {
                status: 200,
                fields: format!(
                    "Content-Type: {}\r\nCache-Control: no-store\r\n",
                    exposition::MEDIA_TYPE
                )
                .into(),
                body: metrics::render(&Snapshot::take(), &self.tally()).into_bytes().into(),
            },
            "" | "metrics" => Response::text(405, "Allow: GET, HEAD\r\n", "Only to be read."),
            path => match path.strip_prefix("feature/") {
                Some(_) if request.method != "POST" => {
                    Response::text(405, "Allow: POST\r\n", "Only to be posted.")
                }
                Some(order) => self.switch(order, request.authorization, now),
                None => Response::text(404, "", "There is no such thing here."),
            },
        }
    }

    /// `DEVICE/NAME/on|off`.
    fn switch(&mut self, order: &str, authorization: Option<&[u8]>, now: Instant) -> Response {
        match self.gate.judge(authorization, now) {
            Verdict::Open => {}
            Verdict::Shut => {
                return Response::text(
                    403,
                    "",
                    "This machine was given no token: nothing can be switched.",
                );
            }
            Verdict::Missing => {
                return Response::text(401, "WWW-Authenticate: Bearer\r\n", "A token is needed.");
            }
            Verdict::Wrong => {
                let fields = "WWW-Authenticate: Bearer error=\"invalid_token\"\r\n";
                return Response::text(401, fields, "This is not the token.");
            }
            Verdict::Limited => {
                let text =
                    "Too many wrong tokens came: this one was not looked at. Wait ten seconds.";
                return Response::text(429, "Retry-After: 10\r\n", text);
            }
        }
        let mut words = order.split('/');
        let (device, feature, state) = (words.next(), words.next(), words.next());
        let (Some(device), Some(feature), Some(state @ ("on" | "off")), None) =
            (device, feature.and_then(Feature::by_name), state, words.next())
        else {
            self.refused += 1;
            return Response::text(404, "", "feature/DEVICE/NAME/on or off, by ethtool's names.");
        };
        match network::set_feature(device, feature, state == "on") {
            Ok(()) => {
                self.done += 1;
                Response::text(200, "", &format!("{device}: {} {state}", feature.name()))
            }
            Err(error) => {
                self.refused += 1;
                let status = if error == SwitchError::NoSuchInterface { 404 } else { 409 };
                Response::text(status, "", &format!("{device}: {}: {error}", feature.name()))
            }
        }
    }

    fn tally(&self) -> Tally {
        let Status { gate, done, refused } = self;
        Tally {
            can_switch: gate.can_open(),
            done: *done,
            refused: *refused,
            missing: gate.missing,
            wrong: gate.wrong,
            limited: gate.limited,
        }
    }
}
