//! What an appliance can say of itself: metrics for Prometheus, and a page for people.
//!
//! A program adds both, on a port of their own, with one line:
//!
//! ```no_run
//! trireme_status::serve("0.0.0.0:9100")?;
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! `/metrics` is then the [text exposition format] and `/` a self-contained page that draws it, live. A program with a web
//! server of its own mounts [`Status`] below a path instead.
//!
//! - **Reading is free, switching is not.** Anyone who can reach the port may read. A feature of a card is switched by
//!   `POST feature/DEVICE/NAME/on|off` with `Authorization: Bearer TOKEN`, and only if the machine was given a token when
//!   it was built or booted ([`TOKEN`]). Browsers send that field for no other page's sake, so no other page can use it.
//! - **The page has no data of its own**: it draws what `metrics` says.
//! - **On Linux** the same source runs and says that the program owns no cards.
//!
//! [text exposition format]: https://prometheus.io/docs/instrumenting/exposition_formats/

#![deny(unsafe_code)]

mod exposition;
mod gate;
mod metrics;
mod serve;
mod snapshot;
mod status;

pub use gate::TOKEN;
pub use serve::serve;
pub use status::{Request, Response, Status};
