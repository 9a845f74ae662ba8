//! Driver for virtio network devices.
#![no_std]
