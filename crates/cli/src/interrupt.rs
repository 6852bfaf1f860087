//! Ctrl-C, SIGTERM and SIGHUP as a flag and as a file descriptor that becomes readable.
//!
//! The handler itself does nothing: commands check the flag between steps and pass the descriptor
//! to whatever waits, so that every destructor runs before the process ends.

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
    /// Takes over the signals. Call once, before anything that needs cleaning up exists.
    pub fn install() -> io::Result<Interrupt> {
        let raised = Arc::new(AtomicBool::new(false));
        let (wake, notify) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            // The flag first: a thread that is woken by the descriptor must find it set.
            signal_hook::flag::register(signal, raised.clone())?;
            signal_hook::low_level::pipe::register(signal, notify.try_clone()?)?;
        }
        Ok(Interrupt { raised, wake })
    }

    /// True once a signal has come.
    pub fn raised(&self) -> bool {
        self.raised.load(Ordering::Relaxed)
    }

    /// The flag itself, for a library that looks at it.
    pub fn flag(&self) -> Arc<AtomicBool> {
        self.raised.clone()
    }

    /// Stays readable once a signal has arrived: it is never drained.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}
