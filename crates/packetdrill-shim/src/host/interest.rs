//! What an epoll file waits for at another file.

/// Reported whether they were requested or not.
pub const ALWAYS: i32 = libc::EPOLLERR | libc::EPOLLHUP;

/// What an epoll file knows about one other file.
#[derive(Clone, Copy, Debug)]
pub struct Interest {
    events: i32,
    data: u64,
    /// EPOLLONESHOT, and it was reported once.
    is_spent: bool,
    /// EPOLLET: the count of news when it was last reported.
    reported: Option<u64>,
}

impl Interest {
    /// As `struct epoll_event` has them.
    pub fn new(events: u32, data: u64) -> Interest {
        Interest {
            events: events as i32,
            data,
            is_spent: false,
            reported: None,
        }
    }

    /// Events and data to report of a file that is `ready` for these events and has had
    /// `news`; `None` when there is nothing to report.
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
