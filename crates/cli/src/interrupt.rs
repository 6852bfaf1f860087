//! SIGINT, SIGTERM and SIGHUP as a flag, and as a file descriptor that becomes readable.
//!
//! The handler itself does nothing. Commands check the flag between steps and pass the descriptor
//! to every wait, so that all destructors run before the process ends.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The signals that end a command.
#[derive(Debug)]
pub struct Interrupt {
    raised: Arc<AtomicBool>,
    wake: UnixStream,
}

impl Interrupt {
    /// Takes over the signals. To be called once, before anything exists that needs cleaning up.
    pub fn install() -> io::Result<Interrupt> {
        let raised = Arc::new(AtomicBool::new(false));
        let (wake, notify) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            // The flag first: a thread that the descriptor wakes must find it set.
            signal_hook::flag::register(signal, raised.clone())?;
            signal_hook::low_level::pipe::register(signal, notify.try_clone()?)?;
        }
        Ok(Interrupt { raised, wake })
    }

    /// Whether a signal has come.
    pub fn raised(&self) -> bool {
        self.raised.load(Ordering::Relaxed)
    }

    /// The flag itself, for a library that checks it.
    pub fn flag(&self) -> Arc<AtomicBool> {
        self.raised.clone()
    }

    /// Stays readable once a signal has arrived: it is never drained.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}
