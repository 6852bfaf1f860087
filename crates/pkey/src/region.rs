//! The range of addresses that belongs to the host.

use crate::gate::Ends;
use crate::heap::Heap;
use crate::keys::{self, Keys, NoKeys, supported};
use crate::lock::Lock;
use crate::spans::{PAGE, Spans};
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

/// First address: above the reach of 32-bit addresses, far below programs, heaps and libraries.
pub const BASE: usize = 64 << 30;
/// First address behind the region.
pub const END: usize = 128 << 30;

/// Bytes of the state: gate, heap and tables.
const STATE_BYTES: usize = 4 << 20;
/// Address of the stack that the host runs on.
const STACK: usize = BASE + (16 << 20);
const STACK_BYTES: usize = 16 << 20;
const HEAP: usize = BASE + (1 << 30);
const MAPS: usize = BASE + (16 << 30);
/// Holes between mappings, at most.
const HOLES: usize = 32 << 10;

/// State at [`BASE`]. All zero is its valid start.
#[repr(C)]
pub(crate) struct State {
    /// First field, as the assembly expects.
    pub ends: Ends,
    /// Number of active calls of [`crate::ordinary`].
    pub ordinary: AtomicU32,
    pub heap: Lock<Heap>,
    maps: Lock<Spans<HOLES>>,
}

const _: () = assert!(size_of::<State>() <= STATE_BYTES);

/// The state. Only a thread with rights to the keys may use it, once there is a region.
pub(crate) fn state() -> &'static State {
    // SAFETY: `Region::open` has mapped and zeroed it, and nothing unmaps it. Callers are inside,
    // as no thread is before.
    unsafe { &*(BASE as *const State) }
}

/// Kinds of memory, each with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryKind {
    /// The guest may not access it.
    Private,
    /// The guest may only read it.
    Packets,
}

/// The reason why there is no region.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// There are no keys.
    #[error(transparent)]
    NoKeys(#[from] NoKeys),
    /// All keys are taken, or the kernel refuses.
    #[error("the kernel gives no protection key: {0}")]
    Keys(io::Error),
    /// A mapping lies in the range.
    #[error("the addresses {BASE:#x} to {END:#x} are in use in this process")]
    Taken,
    /// The process already has a region.
    #[error("this process has a protected region already")]
    Again,
    /// The program does not use [`crate::Allocator`].
    #[error("this program does not allocate by cofferdam's allocator (#[global_allocator])")]
    Allocator,
    /// The kernel refuses the mapping.
    #[error("cannot reserve the protected region: {0}")]
    Os(#[from] io::Error),
}

/// Region of this process. It stays once it is open, because its threads have memory in it.
#[derive(Debug)]
pub struct Region(pub(crate) ());

impl Region {
    /// Reserves the addresses and allocates the keys. From then on, this thread and threads that it
    /// starts allocate in the region.
    ///
    /// # Errors
    /// [`OpenError`]. Reserved addresses stay reserved in that case.
    pub fn open() -> Result<Region, OpenError> {
        supported()?;
        if keys::keys().is_some() {
            return Err(OpenError::Again);
        }
        reserve()?;
        let keys = Keys::alloc().map_err(OpenError::Keys)?;
        for (start, len) in [
            (BASE, STATE_BYTES),
            (STACK, STACK_BYTES),
            (HEAP, MAPS - HEAP),
        ] {
            let rights = libc::PROT_READ | libc::PROT_WRITE;
            // SAFETY: inside the reserved range, which nothing uses yet.
            unsafe { protect(start, len, rights, keys.private)? };
        }
        // Only this thread uses the state until the keys are published.
        state().heap.lock().reset(HEAP, MAPS);
        state().maps.lock().reset(MAPS, END);
        keys::publish(keys)?;
        match has(std::hint::black_box(Box::new(0_u8)).as_ref()) {
            true => Ok(Region(())),
            false => Err(OpenError::Allocator),
        }
    }
}

/// Addresses of the stack that the host runs on.
pub fn host_stack() -> std::ops::Range<usize> {
    STACK..STACK + STACK_BYTES
}

fn reserve() -> Result<(), OpenError> {
    let flags =
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
    // SAFETY: replaces nothing.
    let found = unsafe { libc::mmap(BASE as *mut _, END - BASE, libc::PROT_NONE, flags, -1, 0) };
    if found == libc::MAP_FAILED {
        let error = io::Error::last_os_error();
        return Err(match error.raw_os_error() {
            Some(libc::EEXIST) => OpenError::Taken,
            _ => OpenError::Os(error),
        });
    }
    if found as usize != BASE {
        // A kernel before 4.17 takes the address as a hint.
        // SAFETY: just mapped.
        unsafe { libc::munmap(found, END - BASE) };
        return Err(OpenError::Taken);
    }
    Ok(())
}

/// Sets rights and key of pages of this process.
///
/// # Safety
/// No code relies on other rights there.
pub(crate) unsafe fn protect(start: usize, len: usize, rights: i32, key: u32) -> io::Result<()> {
    // SAFETY: the caller's promise.
    let code = unsafe { libc::syscall(libc::SYS_pkey_mprotect, start, len, rights, key) };
    match code {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Whether an address lies in the region.
pub(crate) fn has<T: ?Sized>(at: *const T) -> bool {
    (BASE..END).contains(&at.cast::<()>().addr())
}

/// Addresses of the region for a mapping.
#[derive(Debug)]
pub(crate) struct Place {
    start: usize,
    /// Bytes of the place, with a page at its end that is never mapped.
    len: usize,
    kind: MemoryKind,
}

/// Chooses the place of the calling thread's next mapping of `len` bytes. `None`: any place will
/// do, because the thread is the guest's or there is no region.
///
/// # Errors
/// The region is full.
pub(crate) fn place(len: usize, kind: MemoryKind) -> io::Result<Option<Place>> {
    if !crate::allocator::allocates_inside() {
        return Ok(None);
    }
    let whole = len.next_multiple_of(PAGE) + PAGE;
    let found = state().maps.lock().take(whole, PAGE);
    let (start, _) = found.ok_or_else(|| io::Error::other("the protected region is full"))?;
    Ok(Some(Place {
        start,
        len: whole,
        kind,
    }))
}

impl Place {
    /// Address for `MAP_FIXED`.
    pub fn start(&self) -> *mut u8 {
        self.start as *mut u8
    }

    /// Sets the key of the mapping at this place. `rights` are mmap(2)'s.
    ///
    /// # Errors
    /// An error of the kernel.
    pub fn protect(&self, rights: i32) -> io::Result<()> {
        let Some(keys) = keys::keys() else {
            return Ok(());
        };
        let key = match self.kind {
            MemoryKind::Private => keys.private,
            MemoryKind::Packets => keys.packets,
        };
        // SAFETY: the pages are this place's alone.
        unsafe { protect(self.start, self.len - PAGE, rights, key) }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
        // SAFETY: the pages are this place's alone, and a mapping there is no longer used.
        let found = unsafe {
            libc::mmap(
                self.start as *mut _,
                self.len,
                libc::PROT_NONE,
                flags,
                -1,
                0,
            )
        };
        // A place that could not be unmapped is not used again.
        if found != libc::MAP_FAILED {
            state().maps.lock().give(self.start, self.len);
        }
    }
}

/// Counts a call of [`crate::ordinary`] that begins or ends.
pub(crate) fn count_ordinary(more: bool) {
    match more {
        true => state().ordinary.fetch_add(1, Ordering::Relaxed),
        false => state().ordinary.fetch_sub(1, Ordering::Relaxed),
    };
}
