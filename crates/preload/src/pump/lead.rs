//! Who turns the pump: threads of the program that are about to wait, or the pump's own.
//!
//! While callers lead, one of those that wait holds the bell, and the dataplane wakes it directly.
//! The pump's thread then only sees to what the program leaves in its sockets, and takes the lead
//! again when none of the program's threads has waited for [`GRACE`]. Rejected: leaving the bell to the thread
//! and waking the caller from there, which is two switches for each message.

use super::{Name, Pump, SESSION};
use crate::internal::Internal;
use crate::settings::GRACE;
use crate::table::Set;
use cofferdam_bsd::Result;
use cofferdam_dataplane::Session;
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

/// What a caller waits for; data that comes for it is kept for it, where it reads it without the way through
/// the pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// For what an epoll set reports.
    Set(Set),
    /// For the data of this connection, in a call that blocks.
    Read(Name),
}

/// The state of it.
pub struct Lead {
    /// The pump's thread holds the bell.
    is_threads: bool,
    /// A caller waits with the bell.
    is_waited: bool,
    /// The bell was given up by the dataplane: the thread finds out why.
    is_over: bool,
    /// When a caller was last here.
    at: Instant,
    /// The thread sleeps without end.
    sleeps: bool,
    wake: Internal,
}

impl Lead {
    pub fn new() -> Result<Lead> {
        let flags = EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC;
        Ok(Lead {
            is_threads: true,
            is_waited: false,
            is_over: false,
            at: Instant::now(),
            sleeps: false,
            wake: Internal::new(OwnedFd::from(EventFd::from_flags(flags)?))?,
        })
    }

    /// What wakes the thread, by edges.
    pub fn wake(&self) -> RawFd {
        self.wake.as_raw_fd()
    }

    /// A new session: the thread holds its bell.
    pub fn is_the_threads(&mut self) {
        (self.is_threads, self.is_over) = (true, false);
    }

    fn wake_thread(&mut self) {
        if std::mem::take(&mut self.sleeps) {
            self.kick_thread();
        }
    }

    fn kick_thread(&self) {
        let _ = nix::unistd::write(self.wake.as_fd(), &1_u64.to_ne_bytes());
    }
}

/// What a caller that found nothing may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// There is something to do.
    Not,
    /// Wait for the bell as well.
    Bell(RawFd),
    /// Wait for its own descriptors: others serve the session.
    Alone,
}

impl Pump {
    /// A caller is about to wait: it does what there is to do.
    pub fn caller_turns(&mut self, home: Option<Home>) {
        self.lead.at = Instant::now();
        match home {
            Some(Home::Set(home)) => self.give_up_told(home),
            Some(Home::Read(_)) | None => self.give_up_held(Duration::ZERO),
        }
        self.turn_at(self.holds(home));
    }

    /// Where data may be held: in a set only while the library's own thread looks after what is not read
    /// soon, as it does unless it leads, or sleeps because another caller waits. What is held for a call
    /// that blocks, that call takes, or gives up before it ends.
    fn holds(&self, home: Option<Home>) -> Option<Home> {
        let looks_after = !self.lead.is_threads && !self.lead.is_waited;
        home.filter(|home| looks_after || matches!(home, Home::Read(_)))
    }

    /// It has found nothing for itself. `is_for_data`: it may wait for a connection's, not only for new
    /// connections: a thread that is busy with those, as it forks for each, serves others late.
    pub fn caller_rests(&mut self, home: Option<Home>, is_for_data: bool) -> Rest {
        if self.lead.is_waited || self.lead.is_over {
            return Rest::Alone;
        }
        if !is_for_data && !self.conns.is_empty() {
            if !self.lead.is_threads {
                self.thread_leads();
                // It has not asked for the bell to be rung.
                self.lead.kick_thread();
            }
            return Rest::Alone;
        }
        let Some(bell) = self.bell() else {
            return Rest::Alone;
        };
        if std::mem::take(&mut self.lead.is_threads) {
            self.control(libc::EPOLL_CTL_MOD, bell, 0, SESSION);
            self.lead.wake_thread();
        }
        if self.udp_has_more() || !self.session.as_mut().is_some_and(Session::sleeps) {
            self.turn_at(self.holds(home));
            return Rest::Not;
        }
        self.lead.is_waited = true;
        Rest::Bell(bell)
    }

    /// A caller with the bell was woken; `is_over`: the dataplane has given the bell up.
    pub fn caller_woken(&mut self, is_over: bool, home: Option<Home>) {
        (self.lead.is_waited, self.lead.at) = (false, Instant::now());
        self.lead.wake_thread();
        self.lead.is_over |= is_over;
        if is_over {
            self.thread_leads();
        }
        self.session_woken();
        self.turn_at(self.holds(home));
    }

    fn bell(&self) -> Option<RawFd> {
        let session = self.session.as_ref()?;
        session.descriptors().next().map(|bell| bell.as_raw_fd())
    }

    fn thread_leads(&mut self) {
        if let Some(bell) = self.bell() {
            self.control(libc::EPOLL_CTL_MOD, bell, libc::EPOLLIN, SESSION);
        }
        self.lead.is_threads = true;
    }

    fn session_woken(&mut self) {
        if let Some(session) = &mut self.session
            && let Err(why) = session.woken()
        {
            self.lose(&why.to_string());
        }
    }

    /// The thread is awake; `by_session`: by the bell or the dataplane's end.
    pub fn thread_woken(&mut self, by_session: bool) {
        self.lead.sleeps = false;
        if self.lead.is_threads || by_session {
            self.session_woken();
            self.lead.is_over = false;
        }
    }

    /// The thread does what there is to do, and takes the lead where callers have left it.
    pub fn thread_turns(&mut self) {
        let lead = &self.lead;
        if !lead.is_threads && !lead.is_waited && lead.at.elapsed() >= GRACE {
            self.thread_leads();
        }
        self.give_up_held(GRACE);
        self.turn();
    }

    /// What the pump's thread waits for, and for how long at most.
    pub fn thread_rests(&mut self) -> (RawFd, Option<Duration>) {
        let lead = &self.lead;
        let (is_threads, is_waited) = (lead.is_threads, lead.is_waited);
        let is_quiet = is_waited && lead.at.elapsed() >= GRACE;
        let has_more = self.udp_has_more();
        let timeout = match &mut self.session {
            None => {
                let now = Instant::now();
                Some(self.retry_at.saturating_duration_since(now))
            }
            Some(_) if !is_threads && !is_waited => Some(GRACE),
            Some(_) if has_more => Some(Duration::ZERO),
            // Who waits, with the bell, may have been passed over by what was just done here.
            Some(session) => match session.sleeps() {
                false => Some(Duration::ZERO),
                true if (is_threads || is_quiet) && self.held.is_empty() => None,
                true => Some(GRACE),
            },
        };
        self.lead.sleeps = timeout.is_none();
        (self.epoll.as_raw_fd(), timeout)
    }
}
