//! Signals of the program while one of its threads is in the library.

use crate::real::SIGNALS_BYTES;
use libc::{c_int, sigset_t};
use std::mem::MaybeUninit;

/// Guard during which no signal handler runs in this thread. A handler that forks, as PostgreSQL's
/// do, would wait for locks of its own thread.
pub struct SignalGuard(MaybeUninit<sigset_t>);

impl SignalGuard {
    /// Blocks all signals.
    pub fn all() -> SignalGuard {
        let (all, mut before) = (u64::MAX, MaybeUninit::<sigset_t>::zeroed());
        set((&raw const all).cast(), before.as_mut_ptr());
        SignalGuard(before)
    }

    /// Mask before the guard, for calls that wait with it (ppoll(2)).
    pub fn before(&self) -> *const sigset_t {
        self.0.as_ptr()
    }
}

impl Drop for SignalGuard {
    fn drop(&mut self) {
        set(self.before(), std::ptr::null_mut());
    }
}

fn set(signals: *const sigset_t, before: *mut sigset_t) {
    let how: c_int = libc::SIG_SETMASK;
    // SAFETY: both pointers are valid for a set that is larger than the kernel's, or null. The C
    // library's function would leave out its own signals, whose handlers take locks too.
    unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            how,
            signals,
            before,
            SIGNALS_BYTES,
        )
    };
}

/// Whether a signal handler of the program ends blocking calls (`SA_RESTART` not set).
pub fn may_end_calls() -> bool {
    (1..=libc::SIGRTMAX()).any(|signal| {
        let mut action = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: the pointer is valid for the answer.
        let result = unsafe { libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) };
        // SAFETY: the value is filled or all zeros.
        let action = unsafe { action.assume_init() };
        let is_handled = !matches!(action.sa_sigaction, libc::SIG_DFL | libc::SIG_IGN);
        result == 0 && is_handled && action.sa_flags & libc::SA_RESTART == 0
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::signal::{SigHandler, SigSet, Signal, raise, signal};
    use std::sync::atomic::{AtomicU32, Ordering};

    static SEEN: AtomicU32 = AtomicU32::new(0);

    extern "C" fn see(_: c_int) {
        SEEN.fetch_add(1, Ordering::Relaxed);
    }

    /// Promise 52.
    #[test]
    fn handlers_wait_until_the_thread_has_left_the_library() {
        // SAFETY: the handler only counts.
        unsafe { signal(Signal::SIGUSR2, SigHandler::Handler(see)) }.unwrap();
        let before = SigSet::thread_get_mask().unwrap();
        let guard = SignalGuard::all();
        raise(Signal::SIGUSR2).unwrap();
        assert_eq!(SEEN.load(Ordering::Relaxed), 0);
        drop(guard);
        assert_eq!(SEEN.load(Ordering::Relaxed), 1);
        assert_eq!(SigSet::thread_get_mask().unwrap(), before);
    }
}
