//! Epoll sets of the process that contain a descriptor, according to `fdinfo` in /proc.

use crate::real;
use nix::errno::Errno;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU64, Ordering};

/// Registration of a descriptor in an epoll set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watch {
    set: RawFd,
    events: u32,
    data: u64,
}

/// Descriptors that were added to an epoll set, one bit each. The search in /proc is slow for a
/// process with many descriptors.
static ADDED: [AtomicU64; WORDS] = [const { AtomicU64::new(0) }; WORDS];
const WORDS: usize = 1024;

/// Records that the program has added a descriptor to a set.
pub fn is_added(fd: RawFd) {
    if let Some(word) = usize::try_from(fd).ok().and_then(|fd| ADDED.get(fd / 64)) {
        word.fetch_or(1 << (fd % 64), Ordering::Relaxed);
    }
}

fn may_be_added(fd: RawFd) -> bool {
    let word = usize::try_from(fd).ok().and_then(|fd| ADDED.get(fd / 64));
    word.is_none_or(|word| word.load(Ordering::Relaxed) >> (fd % 64) & 1 == 1)
}

/// Registrations of a descriptor; none if /proc is not mounted.
pub fn of(fd: RawFd) -> Vec<Watch> {
    if !may_be_added(fd) {
        return Vec::new();
    }
    let Ok(all) = std::fs::read_dir("/proc/self/fdinfo") else {
        return Vec::new();
    };
    let sets = all.filter_map(|entry| {
        let entry = entry.ok()?;
        let set = entry.file_name().to_str()?.parse().ok()?;
        let text = std::fs::read_to_string(entry.path()).ok()?;
        Some((set, text))
    });
    sets.flat_map(|(set, text)| parse(set, fd, &text)).collect()
}

/// Parses the lines `tfd: 5 events: 19 data: 7 pos:0 …` of a set, with hexadecimal events and data
/// (proc(5)).
fn parse(set: RawFd, fd: RawFd, text: &str) -> Vec<Watch> {
    let watch = |line: &str| {
        let mut words = line.strip_prefix("tfd:")?.split_whitespace();
        let own: RawFd = words.next()?.parse().ok()?;
        let mut hex = |name| {
            let word = (words.next()? == name).then(|| words.next())??;
            u64::from_str_radix(word, 16).ok()
        };
        let (events, data) = (hex("events:")?, hex("data:")?);
        let events = u32::try_from(events).ok()?;
        (own == fd).then_some(Watch { set, events, data })
    };
    text.lines().filter_map(watch).collect()
}

impl Watch {
    /// Removes the descriptor from the set. Returns `false` if another descriptor has the number.
    pub fn remove(&self, fd: RawFd) -> bool {
        self.control(libc::EPOLL_CTL_DEL, fd)
    }

    /// Adds the descriptor with the same events and data.
    pub fn add(&self, fd: RawFd) {
        self.control(libc::EPOLL_CTL_ADD, fd);
    }

    fn control(&self, what: libc::c_int, fd: RawFd) -> bool {
        is_added(fd);
        let mut event = libc::epoll_event {
            events: self.events,
            u64: self.data,
        };
        Errno::result(real::epoll_ctl(self.set, what, fd, &raw mut event)).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    /// Promise 52.
    #[test]
    fn a_descriptor_keeps_its_events_and_data_when_moved() {
        let (one, _other, _) = crate::unix::pair(libc::SOCK_SEQPACKET).unwrap();
        let fd = one.as_raw_fd();
        // SAFETY: there are no pointers.
        let set = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        let events = (libc::EPOLLIN | libc::EPOLLRDHUP) as u32;
        let watch = Watch {
            set,
            events,
            data: 0xfeed_0000_0007,
        };
        watch.add(fd);
        let found = of(fd);
        assert_eq!(found.len(), 1, "{found:?}");
        // The kernel adds EPOLLERR and EPOLLHUP.
        assert_eq!((found[0].set, found[0].data), (set, watch.data));
        assert_eq!(found[0].events & events, events);

        // A copy keeps the old end open, but it is not in the set any more.
        let copy = crate::real::copy_above(fd, 0).unwrap();
        let (theirs, ours, _) = crate::unix::pair(libc::SOCK_SEQPACKET).unwrap();
        drop(_other);
        crate::unix::replace_watched(fd, theirs).unwrap();
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 4];
        let mut wait =
            || crate::real::epoll_pwait(set, (events.as_mut_ptr(), 4), 0, std::ptr::null());
        assert_eq!(wait(), 0);
        drop(ours);
        assert_eq!(wait(), 1);
        let data = events[0].u64;
        assert_eq!(data, watch.data);
        drop(copy);
    }

    /// Promise 52.
    #[test]
    fn lines_of_other_descriptors_and_files_are_ignored() {
        let text = "pos:\t0\nflags:\t02\nmnt_id:\t15\n\
            tfd:        7 events:       19 data:                7  pos:0 ino:1 sdev:8\n\
            tfd: 8 events: zz data: 1\ntfd: 7\n";
        let expected = Watch {
            set: 3,
            events: 0x19,
            data: 7,
        };
        assert_eq!(parse(3, 7, text), [expected]);
        assert_eq!(parse(3, 8, text), []);
        assert_eq!(parse(3, 9, "pos: 0\n"), []);
    }
}
