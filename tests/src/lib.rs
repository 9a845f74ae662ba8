//! End to end: images in QEMU against Linux.
