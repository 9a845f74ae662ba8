//! Buses devices are found on.
