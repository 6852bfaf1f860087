//! Further threads of the host, with stack and thread-local storage in the region.

use crate::pages::Pages;
use crate::region::MemoryKind;
use std::ffi::{CString, c_void};
use std::io;

/// Bytes of a thread's stack.
const STACK_BYTES: usize = 2 << 20;

/// A running thread. Dropping it joins it.
#[derive(Debug)]
pub struct Thread {
    id: libc::pthread_t,
    /// Stack of the thread, unmapped after it.
    _stack: Pages,
}

// SAFETY: an id may be joined by any thread, once, which `&mut` and `Drop` see to.
unsafe impl Send for Thread {}

type Body = Box<dyn FnOnce() + Send>;

extern "C" fn run(body: *mut c_void) -> *mut c_void {
    // SAFETY: the box that `spawn` gave away.
    let body = unsafe { Box::from_raw(body.cast::<(CString, Body)>()) };
    let (name, body) = *body;
    // SAFETY: names this thread; longer names are cut off.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
    // The hook has reported a panic. It must not unwind into the C library.
    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
    std::ptr::null_mut()
}

impl Thread {
    /// Starts `body` in a thread whose memory all lies in the region.
    ///
    /// # Safety
    /// Borrows of `body` outlive the returned value, which must be dropped.
    ///
    /// # Errors
    /// There is no memory, or there are too many threads.
    pub unsafe fn spawn<'a>(name: &str, body: impl FnOnce() + Send + 'a) -> io::Result<Thread> {
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK;
        let stack = Pages::map((None, 0), STACK_BYTES, (rights, flags), MemoryKind::Private)?;
        let body: Box<dyn FnOnce() + Send + 'a> = Box::new(body);
        // SAFETY: only the lifetime changes; the caller's promise.
        let body: Body = unsafe { std::mem::transmute(body) };
        let name = CString::new(name).unwrap_or_default();
        let body = Box::into_raw(Box::new((name, body)));
        let mut id = 0;
        // SAFETY: the attributes are initialised before use; the stack is the new thread's alone.
        let code = unsafe {
            let mut attributes: libc::pthread_attr_t = std::mem::zeroed();
            libc::pthread_attr_init(&raw mut attributes);
            libc::pthread_attr_setstack(
                &raw mut attributes,
                stack.base().as_ptr().cast(),
                stack.len(),
            );
            let code = libc::pthread_create(&raw mut id, &raw const attributes, run, body.cast());
            libc::pthread_attr_destroy(&raw mut attributes);
            code
        };
        if code != 0 {
            // SAFETY: nobody else has taken it.
            drop(unsafe { Box::from_raw(body) });
            return Err(io::Error::from_raw_os_error(code));
        }
        Ok(Thread { id, _stack: stack })
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        // SAFETY: started by `spawn`, and joined here alone.
        unsafe { libc::pthread_join(self.id, std::ptr::null_mut()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_runs_on_its_own_stack_and_is_joined() {
        let mut done = (0_usize, String::new());
        let body = || {
            let here = 0_u8;
            let comm = std::fs::read_to_string("/proc/thread-self/comm");
            done = (&raw const here as usize, comm.unwrap_or_default());
        };
        // SAFETY: dropped below, before what it borrows.
        let thread = unsafe { Thread::spawn("control", body) }.expect("started");
        let base = thread._stack.base().as_ptr() as usize;
        drop(thread);
        assert!((base..base + STACK_BYTES).contains(&done.0));
        assert_eq!(done.1, "control\n");
    }
}
