//! The dataplane's reasons as Linux's error numbers, and what is said on standard error.

use cofferdam_dataplane::{Ending, Refusal};
use nix::errno::Errno;
use std::collections::BTreeSet;
use std::sync::Mutex;

/// Why a connection could not be opened, or has ended; none for an orderly end.
pub fn of_ending(ending: Ending) -> Option<Errno> {
    Some(match ending {
        Ending::Closed => return None,
        Ending::Reset => Errno::ECONNRESET,
        Ending::Refused => Errno::ECONNREFUSED,
        Ending::TimedOut => Errno::ETIMEDOUT,
        Ending::Unreachable => Errno::EHOSTUNREACH,
        Ending::Aborted => Errno::ECONNABORTED,
        // Linux has no port left, too.
        Ending::NoRoom => Errno::EADDRNOTAVAIL,
        Ending::Forbidden => Errno::EACCES,
    })
}

/// Why an address was not given.
pub fn of_refusal(refusal: Refusal) -> Errno {
    match refusal {
        Refusal::InUse => Errno::EADDRINUSE,
        Refusal::NotOurs => Errno::EADDRNOTAVAIL,
        Refusal::Forbidden => Errno::EACCES,
        Refusal::Full => Errno::ENOBUFS,
        Refusal::Invalid => Errno::EINVAL,
    }
}

/// Says a sentence on standard error, once in this process.
pub fn say_once(text: &str) {
    static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let mut said = SAID.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if said.insert(text.to_owned()) {
        let line = format!("cofferdam: {text}\n");
        // SAFETY: memory of ours; a standard error that takes nothing is no reason to stop.
        unsafe { libc::write(2, line.as_ptr().cast(), line.len()) };
    }
}
