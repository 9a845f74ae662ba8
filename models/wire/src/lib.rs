//! The wire side of Trireme's device models: TAP, QEMU stream sockets, pcap, in memory.
