//! One file in the interest list of an epoll file.

/// Events that are always reported.
pub const ALWAYS: i32 = libc::EPOLLERR | libc::EPOLLHUP;

/// An entry of an epoll file's interest list.
#[derive(Clone, Copy, Debug)]
pub struct Interest {
    events: i32,
    data: u64,
    /// Disabled by EPOLLONESHOT after its first report.
    is_spent: bool,
    /// EPOLLET: number of changes at the last report.
    reported: Option<u64>,
}

impl Interest {
    /// Creates an entry with the fields of `struct epoll_event`.
    pub fn new(events: u32, data: u64) -> Interest {
        Interest {
            events: events as i32,
            data,
            is_spent: false,
            reported: None,
        }
    }

    /// Events and data to report, given the events for which the file is `ready` and its number of
    /// changes (`news`). `None` if there is nothing to report.
    pub fn report(&mut self, ready: i32, news: u64) -> Option<(u32, u64)> {
        let ready = ready & (self.events | ALWAYS);
        let is_edge = self.events & libc::EPOLLET != 0;
        if ready == 0 || self.is_spent || (is_edge && self.reported == Some(news)) {
            return None;
        }
        self.reported = Some(news);
        self.is_spent = self.events & libc::EPOLLONESHOT != 0;
        Some((ready as u32, self.data))
    }
}
