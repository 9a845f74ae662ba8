//! End to end: images in QEMU against Linux.
//!
//! A test takes an image (built once, [`images`]), boots it ([`guest`]) in a network of its own ([`network`]) and
//! talks to it with the programs people use: curl, ab, wrk, ping, tcpdump. Every wait has a limit, and a test that
//! fails shows the guest's console.

pub mod board;
pub mod browser;
pub mod capture;
pub mod console;
pub mod echo;
pub mod files;
pub mod guest;
pub mod images;
pub mod iperf3;
pub mod network;
pub mod program;
pub mod relay;
pub mod services;
pub mod vlan;
pub mod web;
