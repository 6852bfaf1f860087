//! The process' pump: made when the first call needs it.

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

/// Connections that may wait at a listener, whatever the program asks for; Linux's default limit.
pub const MOST_BACKLOG: u32 = 4096;

/// The pump, and whether it can be sent to another thread is its owner's word: see [`Owned`].
static PUMP: Mutex<Option<Owned>> = Mutex::new(None);
static CHANGED: Condvar = Condvar::new();

/// Whether there is one: most waits of most processes need not ask under the lock.
static HAS_PUMP: AtomicBool = AtomicBool::new(false);

/// See [`HAS_PUMP`].
pub fn has_pump() -> bool {
    HAS_PUMP.load(Ordering::Relaxed)
}

/// Where this process attaches, as whom, and by which key, where its parent was attached.
type Inherited = Option<(Settings, Option<String>)>;

static INHERITED: Mutex<Inherited> = Mutex::new(None);

fn inherited() -> MutexGuard<'static, Inherited> {
    INHERITED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A pump that goes from thread to thread.
struct Owned(Pump);

// SAFETY: what keeps a session from other threads is that its parts share counts without locks.
// All of them are in the pump, which is only used under the lock.
unsafe impl Send for Owned {}

fn lock() -> MutexGuard<'static, Option<Owned>> {
    PUMP.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The process that the library's memory belongs to: a child of vfork(2) runs in its parent's.
static OWNER: AtomicI32 = AtomicI32::new(0);

/// This process owns the library's memory from now on.
pub fn owns() {
    OWNER.store(std::process::id() as i32, Ordering::Relaxed);
}

/// Whether it does.
pub fn is_owner() -> bool {
    OWNER.load(Ordering::Relaxed) == std::process::id() as i32
}

/// Uses the pump, if there is one.
pub fn with_pump<T>(body: impl FnOnce(&mut Pump) -> T) -> Option<T> {
    lock().as_mut().map(|owned| body(&mut owned.0))
}

/// Uses the pump; attaches first if need be.
///
/// # Errors
/// `ENETDOWN`: there is no dataplane, or it refuses; the reason is on standard error.
pub fn attached<T>(body: impl FnOnce(&mut Pump) -> T) -> Result<T> {
    let mut pump = lock();
    if pump.is_none() {
        // A program may have changed its environment since.
        let inherited = inherited().clone();
        let read = || Settings::read().map(|settings| (settings, None));
        let (settings, key) = inherited.or_else(read).ok_or(Errno::ENETDOWN)?;
        let made = Pump::new(settings, key).map_err(|why| {
            say_once(&format!("cannot attach to the dataplane: {why}"));
            Errno::ENETDOWN
        })?;
        *pump = Some(Owned(made));
        HAS_PUMP.store(true, Ordering::Relaxed);
        start();
    }
    let owned = pump.as_mut().ok_or(Errno::ENETDOWN)?;
    Ok(body(&mut owned.0))
}

/// Uses the pump until `body` has an answer, each time that one has come.
///
/// # Errors
/// `ENETDOWN` when none comes.
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

/// Wakes those that [`wait`].
pub fn changed() {
    CHANGED.notify_all();
}

/// The pump's thread, to which no signal of the program's is delivered.
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

/// Holds the pump while the process forks.
pub struct Held(MutexGuard<'static, Option<Owned>>);

/// See [`Held`].
pub fn hold() -> Held {
    let mut held = lock();
    if let Some(owned) = held.as_mut() {
        // The child reads from the pair.
        owned.0.give_up_held(Duration::ZERO);
    }
    Held(held)
}

/// In a child whose parent's pump cannot be used or dropped.
pub fn forget() {
    HAS_PUMP.store(false, Ordering::Relaxed);
}

impl Held {
    /// In the child: the session and the other ends are the parent's.
    pub fn drop_in_child(mut self) {
        HAS_PUMP.store(false, Ordering::Relaxed);
        if let Some(owned) = self.0.take() {
            *inherited() = Some(owned.0.for_children());
        }
    }
}
