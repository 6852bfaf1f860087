//! Pump of the process, created by the first call that needs it.

use crate::errors::say_once;
use crate::inside::Inside;
use crate::pump::{self, Pump};
use crate::settings::Settings;
use cofferdam_bsd::Result;
use nix::errno::Errno;
use nix::sys::signal::{SigSet, SigmaskHow, pthread_sigmask};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub use crate::pump::{Home, Rest};

/// Largest backlog of a listener, whatever the program requests: Linux's default limit.
pub const MOST_BACKLOG: u32 = 4096;

/// The pump. See [`SharedPump`] for the reason why threads may share it.
static PUMP: Mutex<Option<SharedPump>> = Mutex::new(None);
static CHANGED: Condvar = Condvar::new();

/// Whether there is a pump. Most waits of most processes can skip the lock.
static HAS_PUMP: AtomicBool = AtomicBool::new(false);

/// Whether this process has a pump.
pub fn has_pump() -> bool {
    HAS_PUMP.load(Ordering::Relaxed)
}

/// Settings and key with which the parent was attached.
type ParentSession = Option<(Settings, Option<String>)>;

static INHERITED: Mutex<ParentSession> = Mutex::new(None);

fn inherited() -> MutexGuard<'static, ParentSession> {
    INHERITED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Pump that several threads use.
struct SharedPump(Pump);

// SAFETY: a session must stay on one thread only because its parts share reference counts without
// locks. All of them are in the pump, which is used under the lock.
unsafe impl Send for SharedPump {}

fn lock() -> MutexGuard<'static, Option<SharedPump>> {
    PUMP.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Process that owns the library's memory: a child of vfork(2) runs in its parent's memory.
static OWNER: AtomicI32 = AtomicI32::new(0);

/// Makes this process the owner of the library's memory.
pub fn claim_memory() {
    OWNER.store(std::process::id() as i32, Ordering::Relaxed);
}

/// Whether this process owns the library's memory.
pub fn is_owner() -> bool {
    OWNER.load(Ordering::Relaxed) == std::process::id() as i32
}

/// Uses the pump, if there is one.
pub fn with_pump<T>(body: impl FnOnce(&mut Pump) -> T) -> Option<T> {
    lock().as_mut().map(|owned| body(&mut owned.0))
}

/// Uses the pump, and attaches first if necessary.
///
/// # Errors
///
/// `ENETDOWN` if there is no dataplane or it refuses; the reason is on standard error.
pub fn attached<T>(body: impl FnOnce(&mut Pump) -> T) -> Result<T> {
    let mut pump = lock();
    if pump.is_none() {
        // The program may have changed its environment since the fork.
        let inherited = inherited().clone();
        let read = || Settings::read().map(|settings| (settings, None));
        let (settings, key) = inherited.or_else(read).ok_or(Errno::ENETDOWN)?;
        let new_pump = Pump::new(settings, key).map_err(|why| {
            say_once(&format!("cannot attach to the dataplane: {why}"));
            Errno::ENETDOWN
        })?;
        *pump = Some(SharedPump(new_pump));
        HAS_PUMP.store(true, Ordering::Relaxed);
        start();
    }
    let owned = pump.as_mut().ok_or(Errno::ENETDOWN)?;
    Ok(body(&mut owned.0))
}

/// Uses the pump after each answer of the dataplane until `body` returns a result.
///
/// # Errors
///
/// `ENETDOWN` after the time limit.
pub fn wait<T>(limit: Duration, mut body: impl FnMut(&mut Pump) -> Option<T>) -> Result<T> {
    let until = std::time::Instant::now() + limit;
    let mut pump = lock();
    loop {
        let owned = pump.as_mut().ok_or(Errno::ENETDOWN)?;
        if let Some(answer) = body(&mut owned.0) {
            return Ok(answer);
        }
        let left = until.saturating_duration_since(std::time::Instant::now());
        if left.is_zero() {
            return Err(Errno::ENETDOWN);
        }
        let waited = CHANGED.wait_timeout(pump, left);
        pump = waited.unwrap_or_else(PoisonError::into_inner).0;
    }
}

/// Wakes the threads in [`wait`].
pub fn changed() {
    CHANGED.notify_all();
}

/// Starts the pump's thread, with all signals blocked.
fn start() {
    let mut before = SigSet::empty();
    let all = SigSet::all();
    let _ = pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&all), Some(&mut before));
    let thread = std::thread::Builder::new()
        .name("cofferdam".to_owned())
        .stack_size(256 << 10);
    let started = thread.spawn(|| {
        let _inside = Inside::enter();
        pump::run();
    });
    if let Err(error) = started {
        say_once(&format!("no thread for the dataplane's session: {error}"));
    }
    let _ = pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&before), None);
}

/// Lock on the pump during a fork.
pub struct PumpLock(MutexGuard<'static, Option<SharedPump>>);

/// Locks the pump; see [`PumpLock`].
pub fn hold() -> PumpLock {
    let mut pump = lock();
    if let Some(owned) = pump.as_mut() {
        // The child can only read data from the pair.
        owned.0.deliver_buffered(Duration::ZERO);
    }
    PumpLock(pump)
}

/// Disables the pump in a child that can neither use nor drop its parent's.
pub fn forget() {
    HAS_PUMP.store(false, Ordering::Relaxed);
}

impl PumpLock {
    /// Drops the pump in the child: the session and the library's ends belong to the parent.
    pub fn drop_in_child(mut self) {
        HAS_PUMP.store(false, Ordering::Relaxed);
        if let Some(owned) = self.0.take() {
            *inherited() = Some(owned.0.for_children());
        }
    }
}
