//! Kernel's part for a program: the clock, the maps, the ring of events. Each thread has one state;
//! [`crate::Machine`] ensures that one machine exists at a time.

use crate::machine::RunningTask;
use crate::programs::{Object, world_current};
use crate::programs::{replay_irq_handler_entry, replay_irq_handler_exit, replay_softirq_raise};
use crate::softirq;
use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{c_long, c_void};

/// Device interrupt during a program. The marker of a softirq or of a packet can be interrupted at
/// any of its helper calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupt {
    /// Helper calls from now until it comes; 0 is the next one.
    pub after: u32,
    /// Duration of the handler, nanoseconds.
    pub ns: u64,
    /// Whether it raises NET_RX.
    pub network: bool,
}

const HASH: u32 = 1;
const ARRAY: u32 = 2;
const LRU_HASH: u32 = 9;

const BPF_NOEXIST: u64 = 1;
const EEXIST: c_long = 17;

pub(crate) struct KernelState {
    pub now_ns: u64,
    /// Advance of the clock at each reading, nanoseconds.
    pub tick_ns: u64,
    pub cpu: u32,
    pub cgroup: u64,
    /// Running task.
    pub runs: RunningTask,
    /// Task object, if the scheduler is replayed.
    pub task: Option<Object>,
    /// Number of events sent through the ring.
    pub events: u64,
    pub interrupt: Option<Interrupt>,
    /// Whether interrupts are off.
    pub masked: bool,
    /// Values by the map's address and the key. A value never moves.
    maps: HashMap<(usize, u64), Box<[u64]>>,
    reserved: Vec<Box<[u64]>>,
}

thread_local! {
    static STATE: RefCell<KernelState> = RefCell::new(KernelState::new());
}

impl KernelState {
    fn new() -> KernelState {
        KernelState {
            // No moment is 0, which in some fields means "never".
            now_ns: 1_000_000_000,
            tick_ns: 0,
            cpu: 0,
            cgroup: 1,
            runs: RunningTask::Idle,
            task: None,
            events: 0,
            interrupt: None,
            masked: false,
            maps: HashMap::new(),
            reserved: Vec::new(),
        }
    }
}

/// Must not span a call of a program: the programs call back.
pub(crate) fn with<T>(body: impl FnOnce(&mut KernelState) -> T) -> T {
    STATE.with_borrow_mut(body)
}

pub(crate) fn reset() {
    with(|state| *state = KernelState::new());
}

/// Value of `key` in the map at `map`. A missing one is created with zeros.
pub(crate) fn value(map: *const u8, key: u64, bytes: usize) -> *mut u64 {
    with(|state| {
        let words = || vec![0; bytes.div_ceil(8)].into_boxed_slice();
        let slot = state.maps.entry((map as usize, key));
        slot.or_insert_with(words).as_mut_ptr()
    })
}

pub(crate) fn forget(map: *const u8, key: u64) {
    with(|state| state.maps.remove(&(map as usize, key)));
}

/// Keys and values of the map at `map`, one word each.
pub(crate) fn entries(map: *const u8) -> Vec<(u64, u64)> {
    with(|state| {
        let of_map = state.maps.iter().filter(|(id, _)| id.0 == map as usize);
        of_map.map(|(id, words)| (id.1, words[0])).collect()
    })
}

/// Takes the interrupt out if it is due, so that it does not interrupt itself.
fn due(state: &mut KernelState) -> Option<Interrupt> {
    let interrupt = state.interrupt.as_mut().filter(|_| !state.masked)?;
    if interrupt.after > 0 {
        interrupt.after -= 1;
        return None;
    }
    state.interrupt.take()
}

/// Point at which a program can be interrupted.
fn interruptible() {
    let Some(interrupt) = with(due) else {
        return;
    };
    // SAFETY: the programs for a hardirq may interrupt any other program on their CPU, as they
    // do in the kernel; no borrow of the state is held.
    unsafe {
        replay_irq_handler_entry();
        with(|state| state.now_ns += interrupt.ns);
        if interrupt.network {
            replay_softirq_raise(softirq::NET_RX);
        }
        replay_irq_handler_exit();
    }
}

#[unsafe(no_mangle)]
extern "C" fn replay_clock() -> u64 {
    let now = with(|state| {
        state.now_ns += state.tick_ns;
        state.now_ns
    });
    // Interrupt after the reading: the program then uses an outdated time.
    interruptible();
    now
}

#[unsafe(no_mangle)]
extern "C" fn replay_cpu() -> u32 {
    with(|state| state.cpu)
}

#[unsafe(no_mangle)]
extern "C" fn replay_current_cgroup() -> u64 {
    with(|state| state.cgroup)
}

#[unsafe(no_mangle)]
extern "C" fn replay_current_task() -> Object {
    let (runs, task) = with(|state| (state.runs, state.task));
    if let Some(task) = task {
        return task;
    }
    // SAFETY: returns a task that is never freed.
    unsafe { world_current(runs as i32) }
}

/// # Safety
/// `key` points to `bytes` readable bytes.
unsafe fn key_of(key: *const c_void, bytes: u32) -> u64 {
    let mut word = [0; 8];
    assert!(bytes <= 8, "no map has a key of {bytes} bytes");
    // SAFETY: the caller's promise, and `word` is that long.
    unsafe { std::ptr::copy_nonoverlapping(key.cast(), word.as_mut_ptr(), bytes as usize) };
    u64::from_ne_bytes(word)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn replay_lookup(
    map: *const c_void,
    map_type: u32,
    key: *const c_void,
    key_bytes: u32,
    value_bytes: u32,
) -> *mut c_void {
    interruptible();
    // SAFETY: the shim's macro passes the size of the map's key type.
    let key = unsafe { key_of(key, key_bytes) };
    let id = (map as usize, key);
    match map_type {
        ARRAY => value(map.cast(), key, value_bytes as usize).cast(),
        HASH | LRU_HASH => with(|state| {
            let found = state.maps.get_mut(&id);
            found.map_or(std::ptr::null_mut(), |words| words.as_mut_ptr().cast())
        }),
        other => panic!("no look-up in a map of type {other}"),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn replay_update(
    map: *const c_void,
    key: *const c_void,
    key_bytes: u32,
    from: *const c_void,
    value_bytes: u32,
    flags: u64,
) -> c_long {
    interruptible();
    // SAFETY: the shim's macro passes the sizes of the map's key and value types.
    unsafe {
        let key = key_of(key, key_bytes);
        if flags & BPF_NOEXIST != 0 && with(|state| state.maps.contains_key(&(map as usize, key))) {
            return -EEXIST;
        }
        let to = value(map.cast(), key, value_bytes as usize);
        std::ptr::copy_nonoverlapping(from.cast::<u8>(), to.cast(), value_bytes as usize);
    }
    0
}

#[unsafe(no_mangle)]
extern "C" fn replay_reserve(bytes: u64) -> *mut c_void {
    with(|state| {
        let record = vec![0_u64; bytes.div_ceil(8) as usize].into_boxed_slice();
        state.reserved.push(record);
        state.reserved.last_mut().map(|r| r.as_mut_ptr().cast())
    })
    .unwrap_or(std::ptr::null_mut())
}

fn release(record: *mut c_void) {
    with(|state| {
        state
            .reserved
            .retain(|r| !std::ptr::eq(r.as_ptr().cast(), record));
    });
}

#[unsafe(no_mangle)]
extern "C" fn replay_submit(record: *mut c_void) {
    release(record);
    with(|state| state.events += 1);
}

#[unsafe(no_mangle)]
extern "C" fn replay_discard(record: *mut c_void) {
    release(record);
}
