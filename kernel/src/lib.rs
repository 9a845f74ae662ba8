//! The Trireme kernel: an ordinary crate that makes a std program a network appliance.
#![no_std]
