//! Options of the sockets that carry a test's data.

use std::io;
#[cfg(not(target_os = "hermit"))]
use std::os::fd::AsFd as Descriptor;
#[cfg(target_os = "hermit")]
use std::os::fd::AsRawFd as Descriptor;

/// What is to be set before a socket connects or listens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tuning {
    /// Largest segment, in octets.
    pub(crate) mss: Option<u32>,
    /// Size of the socket's buffers, in octets.
    pub(crate) window: Option<u32>,
}

impl Tuning {
    /// Whether there is nothing to set.
    pub(crate) fn is_plain(&self) -> bool {
        *self == Tuning::default()
    }

    pub(crate) fn apply(&self, socket: &impl Descriptor) -> io::Result<()> {
        let named = |what: &'static str| {
            move |error: io::Error| io::Error::new(error.kind(), format!("{what}: {error}"))
        };
        if let Some(mss) = self.mss {
            sockets::set_tcp_mss(socket, mss).map_err(named("unable to set TCP MSS"))?;
        }
        if let Some(window) = self.window {
            let size = window as usize;
            let set = sockets::set_send_buffer_size(socket, size)
                .and_then(|()| sockets::set_recv_buffer_size(socket, size));
            set.map_err(named("unable to set socket buffer size"))?;
        }
        Ok(())
    }
}
