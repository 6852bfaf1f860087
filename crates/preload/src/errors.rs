//! Linux error numbers of the dataplane's reasons, and messages on standard error.

use cofferdam_dataplane::{Ending, Refusal};
use nix::errno::Errno;
use std::collections::BTreeSet;
use std::sync::Mutex;

/// Error of a connection that could not be opened or has ended; `None` for an orderly end.
pub fn of_ending(ending: Ending) -> Option<Errno> {
    Some(match ending {
        Ending::Closed => return None,
        Ending::Reset => Errno::ECONNRESET,
        Ending::Refused => Errno::ECONNREFUSED,
        Ending::TimedOut => Errno::ETIMEDOUT,
        Ending::Unreachable => Errno::EHOSTUNREACH,
        Ending::Aborted => Errno::ECONNABORTED,
        // Linux too runs out of local ports.
        Ending::NoRoom => Errno::EADDRNOTAVAIL,
        Ending::Forbidden => Errno::EACCES,
    })
}

/// Error of an address that was not bound.
pub fn of_refusal(refusal: Refusal) -> Errno {
    match refusal {
        Refusal::InUse => Errno::EADDRINUSE,
        Refusal::NotOurs => Errno::EADDRNOTAVAIL,
        Refusal::Forbidden => Errno::EACCES,
        Refusal::Full => Errno::ENOBUFS,
        Refusal::Invalid => Errno::EINVAL,
    }
}

/// Writes a message to standard error, once per process.
pub fn say_once(text: &str) {
    static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let mut printed = SAID.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if printed.insert(text.to_owned()) {
        let line = format!("cofferdam: {text}\n");
        // SAFETY: the memory is valid. A failing standard error is no reason to stop.
        unsafe { libc::write(2, line.as_ptr().cast(), line.len()) };
    }
}
