//! A ring from one core to another: one writer, one reader, in order, without locks.

use crate::tuning::turns::LANE_ENTRIES;
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// An index in a cache line of its own; two lines, because CPUs fetch them in pairs.
#[repr(align(128))]
#[derive(Default)]
struct Index(AtomicU32);

struct SharedEntries<T> {
    written: Index,
    read: Index,
    slots: Box<[UnsafeCell<MaybeUninit<T>>]>,
}

// SAFETY: a slot is touched by the writer only while it lies outside read..written, and by the
// reader only while it lies inside; each index has one writer, is stored with release and loaded
// with acquire. `lane` makes one writer and one reader, which are not Clone.
unsafe impl<T: Send> Sync for SharedEntries<T> {}
// SAFETY: the entries may be sent, and nothing else in it is bound to a thread.
unsafe impl<T: Send> Send for SharedEntries<T> {}

impl<T> SharedEntries<T> {
    fn slot(&self, index: u32) -> *mut MaybeUninit<T> {
        self.slots[(index % LANE_ENTRIES) as usize].get()
    }
}

impl<T> Drop for SharedEntries<T> {
    fn drop(&mut self) {
        let written = self.written.0.load(Ordering::Acquire);
        let mut next = self.read.0.load(Ordering::Acquire);
        while next != written {
            // SAFETY: it lies inside read..written, so it was written and not read; no one else
            // has the lane any more.
            unsafe { (*self.slot(next)).assume_init_drop() };
            next = next.wrapping_add(1);
        }
    }
}

/// End of the writer.
pub(crate) struct Writer<T> {
    shared: Arc<SharedEntries<T>>,
    written: u32,
    published: u32,
    /// Index of the reader, as last read.
    read: u32,
}

/// End of the reader.
pub(crate) struct Reader<T> {
    shared: Arc<SharedEntries<T>>,
    read: u32,
    /// Index of the writer, as last read.
    written: u32,
}

/// Creates a lane.
pub(crate) fn lane<T>() -> (Writer<T>, Reader<T>) {
    let shared = Arc::new(SharedEntries {
        written: Index::default(),
        read: Index::default(),
        slots: (0..LANE_ENTRIES)
            .map(|_| UnsafeCell::new(MaybeUninit::uninit()))
            .collect(),
    });
    let writer = Writer {
        shared: shared.clone(),
        written: 0,
        published: 0,
        read: 0,
    };
    let reader = Reader {
        shared,
        read: 0,
        written: 0,
    };
    (writer, reader)
}

impl<T> Writer<T> {
    /// Number of entries that can be written. Reads the other core's cache line only if fewer than
    /// `wanted` are known to be free.
    pub fn room(&mut self, wanted: u32) -> u32 {
        if LANE_ENTRIES - self.written.wrapping_sub(self.read) < wanted {
            self.read = self.shared.read.0.load(Ordering::Acquire);
        }
        LANE_ENTRIES - self.written.wrapping_sub(self.read)
    }

    /// Writes an entry, to be published by [`Writer::publish`]. Returns it if the lane is full.
    pub fn push(&mut self, entry: T) -> Result<(), T> {
        if self.room(1) == 0 {
            return Err(entry);
        }
        // SAFETY: the slot lies outside read..written: it is the writer's, and holds nothing.
        unsafe { (*self.shared.slot(self.written)).write(entry) };
        self.written = self.written.wrapping_add(1);
        Ok(())
    }

    /// Publishes the written entries. Returns false if there are none.
    pub fn publish(&mut self) -> bool {
        if self.published == self.written {
            return false;
        }
        self.published = self.written;
        self.shared.written.0.store(self.written, Ordering::Release);
        true
    }
}

impl<T> Drop for Writer<T> {
    fn drop(&mut self) {
        // The lane drops entries that were written and not published.
        self.publish();
    }
}

impl<T> Reader<T> {
    /// Takes the next entry.
    pub fn pop(&mut self) -> Option<T> {
        if self.read == self.written {
            self.written = self.shared.written.0.load(Ordering::Acquire);
            if self.read == self.written {
                return None;
            }
        }
        // SAFETY: the slot lies inside read..written, so it was written, and the writer leaves it
        // alone until `read` moves past it; it is read once.
        let entry = unsafe { (*self.shared.slot(self.read)).assume_init_read() };
        self.read = self.read.wrapping_add(1);
        self.shared.read.0.store(self.read, Ordering::Release);
        Some(entry)
    }

    /// Number of pending entries.
    pub fn len(&self) -> u32 {
        let written = self.shared.written.0.load(Ordering::Acquire);
        written.wrapping_sub(self.read)
    }

    /// Whether no entry is pending.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise 54.
    #[test]
    fn entries_cross_threads_in_order_and_none_is_lost() {
        let (mut writer, mut reader) = lane::<Box<u32>>();
        for n in 0..LANE_ENTRIES {
            assert!(writer.push(Box::new(n)).is_ok());
        }
        assert_eq!(writer.push(Box::new(7)), Err(Box::new(7)), "full");
        assert!(reader.pop().is_none(), "nothing is seen before it is shown");
        assert!(writer.publish() && !writer.publish());
        assert!((0..LANE_ENTRIES).all(|n| reader.pop() == Some(Box::new(n))));
        let thread = std::thread::spawn(move || {
            let mut n = 0;
            while n < 100_000 {
                match writer.push(Box::new(n)) {
                    Ok(()) => n += 1,
                    Err(_) => std::thread::yield_now(),
                }
                writer.publish();
            }
        });
        let mut next = 0;
        while next < 100_000 {
            match reader.pop() {
                Some(n) => {
                    assert_eq!(*n, next);
                    next += 1;
                }
                None => std::thread::yield_now(),
            }
        }
        thread.join().expect("the writer ends");
        assert!(reader.is_empty());
    }

    /// Promise 54.
    #[test]
    fn what_was_not_read_is_dropped_with_the_lane() {
        let entry = Arc::new(());
        let (mut writer, mut reader) = lane();
        for _ in 0..5 {
            assert!(writer.push(entry.clone()).is_ok());
        }
        writer.publish();
        drop(reader.pop());
        assert_eq!(Arc::strong_count(&entry), 5);
        drop((writer, reader));
        assert_eq!(Arc::strong_count(&entry), 1);
    }
}
