//! Two rings in one shared file: calls from the application, conditions to it.
//!
//! Each index has a cache line of its own and one writer. The dataplane keeps its own indices in
//! its own memory and reads only the other side's from the shared memory. A wrong index of an
//! application is detected by its distance, and harms only that application.

use crate::abi::Entry;
use cofferdam_pkey::MemoryKind;
use cofferdam_xsk::{Access, Mapping};
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering, fence};

/// Entries of each ring.
pub(crate) const ENTRIES: u32 = 8192;
const LINE: usize = 64;
/// An entry in words.
const WORDS: usize = size_of::<Entry>() / 8;
const HEADER: usize = 4096;
const RING: usize = ENTRIES as usize * size_of::<Entry>();
const LEN: usize = HEADER + 2 * RING;

/// Offsets of the shared words, in cache lines.
#[derive(Clone, Copy)]
enum Word {
    CallsWritten = 0,
    CallsRead = 1,
    ConditionsWritten = 2,
    ConditionsRead = 3,
    ApplicationSleeps = 4,
    DataplaneSleeps = 5,
}

/// Creates a shared file of fixed size, so that no reader finds it shorter.
pub(crate) fn sealed_file(name: &str, len: usize) -> io::Result<OwnedFd> {
    let file = memfd_create(name, MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING)?;
    nix::unistd::ftruncate(&file, i64::try_from(len).map_err(io::Error::other)?)?;
    let seals = SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SEAL;
    fcntl(&file, FcntlArg::F_ADD_SEALS(seals))?;
    Ok(file)
}

/// Creates the file of the two rings.
pub(crate) fn ring_file() -> io::Result<OwnedFd> {
    sealed_file("cofferdam-rings", LEN)
}

struct SharedRings(Mapping);

impl SharedRings {
    fn word(&self, word: Word) -> &AtomicU32 {
        // SAFETY: the word lies inside the first page of the mapping, aligned to a cache line;
        // both sides use it atomically.
        unsafe { &*self.0.base().as_ptr().add(word as usize * LINE).cast() }
    }

    fn call(&self, index: u32) -> *mut Entry {
        self.entry(HEADER, index)
    }

    fn condition(&self, index: u32) -> *mut Entry {
        self.entry(HEADER + RING, index)
    }

    fn entry(&self, ring: usize, index: u32) -> *mut Entry {
        let place = ring + (index % ENTRIES) as usize * size_of::<Entry>();
        // SAFETY: the modulus keeps the entry inside the mapping of LEN bytes; HEADER and RING
        // are multiples of the entry's alignment.
        unsafe { self.0.base().as_ptr().add(place).cast() }
    }
}

/// Error for an index of the other side that is further away than the length of the ring.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Nonsense;

/// End of the dataplane.
pub(crate) struct DataplaneEnd {
    shared: SharedRings,
    calls_read: u32,
    conditions_written: u32,
    published: u32,
}

impl DataplaneEnd {
    /// Maps the rings without touching them.
    pub fn map(file: BorrowedFd<'_>) -> io::Result<DataplaneEnd> {
        Ok(DataplaneEnd {
            shared: SharedRings(Mapping::lent(
                file,
                LEN,
                Access::Write,
                MemoryKind::Private,
            )?),
            calls_read: 0,
            conditions_written: 0,
            published: 0,
        })
    }

    /// See [`Mapping::discard_at_end`].
    pub fn discard_at_end(&self) {
        self.shared.0.discard_at_end();
    }

    /// Number of pending calls.
    pub fn waiting(&self) -> Result<u32, Nonsense> {
        let written = self.shared.word(Word::CallsWritten).load(Ordering::Acquire);
        let waiting = written.wrapping_sub(self.calls_read);
        if waiting > ENTRIES {
            return Err(Nonsense);
        }
        Ok(waiting)
    }

    /// Copies the next call, which must be pending. It is copied once, so that the checked entry is
    /// the one that is used.
    pub fn take(&mut self) -> Entry {
        let place = self.shared.call(self.calls_read).cast::<[u64; WORDS]>();
        // SAFETY: inside the mapping; the application may write meanwhile, so the copy may be
        // of mixed bytes, all of which are valid integers. By words: a volatile copy of the
        // entry itself would go by its fields, and by single bytes in the array among them.
        let words = unsafe { place.read_volatile() };
        self.calls_read = self.calls_read.wrapping_add(1);
        // SAFETY: an entry has the size of the words, and integers only.
        unsafe { std::mem::transmute::<[u64; WORDS], Entry>(words) }
    }

    /// Releases the copied entries.
    pub fn release(&self) {
        self.shared
            .word(Word::CallsRead)
            .store(self.calls_read, Ordering::Release);
    }

    /// Number of conditions that can be written.
    pub fn room(&self) -> Result<u32, Nonsense> {
        let read = self
            .shared
            .word(Word::ConditionsRead)
            .load(Ordering::Acquire);
        let unread = self.conditions_written.wrapping_sub(read);
        if unread > ENTRIES {
            return Err(Nonsense);
        }
        Ok(ENTRIES - unread)
    }

    /// Number of conditions that the application has not read.
    pub fn unread(&self) -> u32 {
        ENTRIES - self.room().unwrap_or(ENTRIES)
    }

    /// Writes a condition, for which `room` must have shown a place.
    pub fn push(&mut self, entry: Entry) {
        // SAFETY: inside the mapping; only another process may read it meanwhile.
        unsafe { self.shared.condition(self.conditions_written).write(entry) };
        self.conditions_written = self.conditions_written.wrapping_add(1);
    }

    /// Publishes the conditions. Returns true if the application sleeps and must be woken.
    pub fn publish(&mut self) -> bool {
        if self.published == self.conditions_written {
            return false;
        }
        self.published = self.conditions_written;
        let word = self.shared.word(Word::ConditionsWritten);
        word.store(self.conditions_written, Ordering::Release);
        // Either the sleeper reads the new index, or this side reads that it sleeps.
        fence(Ordering::SeqCst);
        let sleeps = self.shared.word(Word::ApplicationSleeps);
        sleeps.load(Ordering::Relaxed) != 0 && sleeps.swap(0, Ordering::Relaxed) != 0
    }

    /// Publishes whether the dataplane sleeps. Returns true if no call is pending.
    pub fn sleep(&self, sleeps: bool) -> bool {
        self.shared
            .word(Word::DataplaneSleeps)
            .store(u32::from(sleeps), Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.waiting() == Ok(0)
    }
}

/// End of the application.
pub(crate) struct ApplicationEnd {
    shared: SharedRings,
    calls_written: u32,
    published: u32,
    conditions_read: u32,
}

impl ApplicationEnd {
    pub fn map(file: BorrowedFd<'_>) -> io::Result<ApplicationEnd> {
        Ok(ApplicationEnd {
            shared: SharedRings(Mapping::new(file, 0, LEN, Access::Write)?),
            calls_written: 0,
            published: 0,
            conditions_read: 0,
        })
    }

    /// Writes a call. Returns false if the ring is full.
    pub fn push(&mut self, entry: Entry) -> bool {
        if self.unread() >= ENTRIES {
            return false;
        }
        // SAFETY: inside the mapping; the dataplane has read this entry.
        unsafe { self.shared.call(self.calls_written).write(entry) };
        self.calls_written = self.calls_written.wrapping_add(1);
        true
    }

    /// Whether the program has overwritten its own indices, so that no call arrives any more. A
    /// sleeping dataplane has not detected that, and must be woken to report it.
    pub fn is_broken(&self) -> bool {
        self.unread() > ENTRIES
    }

    /// Number of calls that the dataplane has not read, by its index.
    fn unread(&self) -> u32 {
        let read = self.shared.word(Word::CallsRead).load(Ordering::Acquire);
        self.calls_written.wrapping_sub(read)
    }

    /// Publishes the calls. Returns true if the dataplane sleeps and must be woken.
    pub fn publish(&mut self) -> bool {
        if self.published == self.calls_written {
            return false;
        }
        self.published = self.calls_written;
        self.shared
            .word(Word::CallsWritten)
            .store(self.calls_written, Ordering::Release);
        fence(Ordering::SeqCst);
        let sleeps = self.shared.word(Word::DataplaneSleeps);
        sleeps.load(Ordering::Relaxed) != 0 && sleeps.swap(0, Ordering::Relaxed) != 0
    }

    /// Takes the next condition.
    pub fn take(&mut self) -> Option<Entry> {
        if self.is_empty() {
            return None;
        }
        // SAFETY: inside the mapping, and written: the index was read with acquire.
        let entry = unsafe { self.shared.condition(self.conditions_read).read() };
        self.conditions_read = self.conditions_read.wrapping_add(1);
        Some(entry)
    }

    /// Releases the taken entries.
    pub fn release(&self) {
        self.shared
            .word(Word::ConditionsRead)
            .store(self.conditions_read, Ordering::Release);
    }

    /// Publishes whether the application sleeps. Returns true if no condition is pending.
    pub fn sleep(&self, sleeps: bool) -> bool {
        self.shared
            .word(Word::ApplicationSleeps)
            .store(u32::from(sleeps), Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.is_empty()
    }

    /// Whether the dataplane sleeps.
    pub fn dataplane_sleeps(&self) -> bool {
        let sleeps = self.shared.word(Word::DataplaneSleeps);
        sleeps.load(Ordering::Relaxed) != 0
    }

    /// Whether no condition is pending. An index beyond the length of the ring counts as none: a
    /// program that has overwritten its rings would otherwise read up to 2^32 invalid entries for
    /// seconds, and not learn that the dataplane has ended it.
    pub fn is_empty(&self) -> bool {
        let written = self
            .shared
            .word(Word::ConditionsWritten)
            .load(Ordering::Acquire);
        let unread = written.wrapping_sub(self.conditions_read);
        unread == 0 || unread > ENTRIES
    }

    /// Memory of the rings.
    pub fn mapping(&self) -> &Mapping {
        &self.shared.0
    }

    /// Writes a word as a hostile application would.
    pub fn corrupt(&self, value: u32) {
        self.shared
            .word(Word::CallsWritten)
            .store(value, Ordering::Release);
        self.shared
            .word(Word::ConditionsRead)
            .store(value, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    fn ends() -> (DataplaneEnd, ApplicationEnd) {
        let file = ring_file().expect("a file");
        let dataplane = DataplaneEnd::map(file.as_fd()).expect("mapped");
        (
            dataplane,
            ApplicationEnd::map(file.as_fd()).expect("mapped"),
        )
    }

    #[test]
    fn entries_go_through_in_order_and_a_full_ring_refuses() {
        let (mut dataplane, mut application) = ends();
        let entry = |cookie| Entry {
            cookie,
            ..Entry::default()
        };
        for round in 0..3_u64 {
            for n in 0..u64::from(ENTRIES) {
                assert!(application.push(entry(round * 100_000 + n)));
            }
            assert!(!application.push(entry(0)), "full");
            assert_eq!(
                dataplane.waiting(),
                Ok(0),
                "nothing is seen before it is shown"
            );
            assert!(!application.publish(), "neither side sleeps");
            assert_eq!(dataplane.waiting(), Ok(ENTRIES));
            for n in 0..u64::from(ENTRIES) {
                assert_eq!(dataplane.take().cookie, round * 100_000 + n);
            }
            dataplane.release();
        }
    }

    /// Promise 52.
    #[test]
    fn an_application_that_writes_over_its_ring_reads_no_nonsense() {
        let (mut dataplane, mut application) = ends();
        dataplane.push(Entry::default());
        dataplane.publish();
        assert!(!application.is_empty());
        let written = application.shared.word(Word::ConditionsWritten);
        written.store(0xa5a5_a5a5, Ordering::Relaxed);
        assert!(application.is_empty());
        assert!(application.take().is_none());
        // Nor does it go to sleep.
        assert!(application.sleep(true));
        assert!(!application.is_broken());
        let read = application.shared.word(Word::CallsRead);
        read.store(0xa5a5_a5a5, Ordering::Relaxed);
        assert!(application.is_broken() && !application.push(Entry::default()));
        dataplane.push(Entry::default());
        assert!(dataplane.publish(), "it is woken");
        assert!(application.take().is_some(), "the dataplane's index counts");
        assert!(application.take().is_some());
        assert!(application.take().is_none());
    }

    /// Promise 54.
    #[test]
    fn only_a_sleeper_is_woken_and_only_once() {
        let (mut dataplane, mut application) = ends();
        dataplane.push(Entry::default());
        assert!(!dataplane.publish(), "the application is awake");
        assert!(
            !application.sleep(true),
            "something waits: it must not sleep"
        );
        assert!(application.take().is_some());
        assert!(application.sleep(true));
        dataplane.push(Entry::default());
        assert!(dataplane.publish(), "it sleeps now");
        dataplane.push(Entry::default());
        assert!(!dataplane.publish(), "it was woken already");
    }

    #[test]
    fn an_impossible_index_is_detected() {
        let (dataplane, application) = ends();
        application.corrupt(ENTRIES + 1);
        assert_eq!(dataplane.waiting(), Err(Nonsense));
        application.corrupt(ENTRIES);
        assert_eq!(dataplane.waiting(), Ok(ENTRIES));
        application.corrupt(u32::MAX);
        assert_eq!(dataplane.waiting(), Err(Nonsense));
        application.corrupt(5);
        assert_eq!(
            dataplane.room(),
            Err(Nonsense),
            "it cannot have read what was not written"
        );
    }
}
