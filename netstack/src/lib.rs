//! Trireme's network stack: smoltcp, the offload policy, sockets and addresses.
#![no_std]
