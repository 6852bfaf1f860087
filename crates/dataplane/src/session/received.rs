//! Received data, which is read where the device put it.

use crate::abi::{Call, Entry};
use cofferdam_xsk::Mapping;
use std::cell::RefCell;
use std::ops::Deref;
use std::rc::Rc;

/// The received memory, and the frames that the application has released.
pub(super) struct Inbox {
    map: Mapping,
    /// Calls, and the core of each.
    done: RefCell<Vec<(usize, Entry)>>,
}

impl Inbox {
    pub fn new(map: Mapping) -> Inbox {
        Inbox {
            map,
            done: RefCell::new(Vec::with_capacity(4096)),
        }
    }

    /// Next call that releases a frame, and its core.
    pub fn next_done(&self) -> Option<(usize, Entry)> {
        self.done.borrow_mut().pop()
    }
}

/// Received bytes. They stay in place until this is dropped, which releases the frame and, for TCP,
/// opens the window.
pub struct ReceivedData {
    inbox: Rc<Inbox>,
    done: (usize, Call),
    offset: usize,
    len: usize,
}

impl ReceivedData {
    pub(super) fn new(
        inbox: &Rc<Inbox>,
        done: (usize, Call),
        offset: u64,
        len: u32,
    ) -> ReceivedData {
        let (offset, len) = (offset as usize, len as usize);
        let fits = offset
            .checked_add(len)
            .is_some_and(|end| end <= inbox.map.len());
        ReceivedData {
            inbox: inbox.clone(),
            done,
            offset,
            len: if fits { len } else { 0 },
        }
    }
}

impl Deref for ReceivedData {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the range lies inside the mapping (checked in `new`), which lives as long as
        // the inbox; the dataplane writes to the frame only after `drop` has released it.
        unsafe {
            let first = self
                .inbox
                .map
                .base()
                .as_ptr()
                .add(self.offset.min(self.inbox.map.len()));
            std::slice::from_raw_parts(first, self.len)
        }
    }
}

impl Drop for ReceivedData {
    fn drop(&mut self) {
        let (core, call) = self.done;
        self.inbox.done.borrow_mut().push((core, call.into()));
    }
}

impl std::fmt::Debug for ReceivedData {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Received({} bytes)", self.len)
    }
}
