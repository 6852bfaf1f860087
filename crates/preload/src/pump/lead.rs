//! Choice of the thread that runs the pump: threads of the program that are about to wait, or the
//! pump's own.
//!
//! While callers lead, one that waits has the bell, and the dataplane wakes it directly. The pump's
//! thread then only handles data that the program leaves in its sockets. It takes the lead when no
//! thread of the program has waited for [`GRACE`]. Rejected: the bell stays with the pump's thread,
//! which wakes the caller. That costs two context switches for each message.

use super::{Name, Pump, SESSION};
use crate::internal::Internal;
use crate::settings::GRACE;
use crate::table::Set;
use cofferdam_bsd::Result;
use cofferdam_dataplane::Session;
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

/// Source that a caller waits for. Its data is buffered for the caller, which reads it without the
/// pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// Connections of an epoll set.
    Set(Set),
    /// Data of this connection, in a blocking call.
    Read(Name),
}

/// State of the lead.
pub struct Lead {
    /// Whether the pump's thread has the bell.
    is_threads: bool,
    /// Whether a caller waits with the bell.
    is_waited: bool,
    /// Whether the dataplane has closed the bell; the pump's thread finds the reason.
    is_over: bool,
    /// Time of a caller's last visit.
    at: Instant,
    /// Whether the pump's thread sleeps without a time limit.
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

    /// Descriptor that wakes the pump's thread (edge-triggered).
    pub fn wake(&self) -> RawFd {
        self.wake.as_raw_fd()
    }

    /// Gives the bell of a new session to the pump's thread.
    pub fn give_bell_to_thread(&mut self) {
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

/// Instruction for a caller that has found nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// There is work to do.
    Not,
    /// Wait for the bell too.
    Bell(RawFd),
    /// Wait for the own descriptors only: another thread serves the session.
    Alone,
}

impl Pump {
    /// Does the pending work for a caller that is about to wait.
    pub fn run_for_caller(&mut self, home: Option<Home>) {
        self.lead.at = Instant::now();
        match home {
            Some(Home::Set(home)) => self.deliver_reported(home),
            Some(Home::Read(_)) | None => self.deliver_buffered(Duration::ZERO),
        }
        self.process_for(self.buffering_set(home));
    }

    /// Source for which data may be buffered. An epoll set qualifies only while the pump's thread
    /// watches for unread data: not while it leads, and not while it sleeps because another caller
    /// waits. A blocking call qualifies always, because it reads the data or gives it up before it
    /// ends.
    fn buffering_set(&self, home: Option<Home>) -> Option<Home> {
        let looks_after = !self.lead.is_threads && !self.lead.is_waited;
        home.filter(|home| looks_after || matches!(home, Home::Read(_)))
    }

    /// Instruction for a caller that has found nothing for itself. `is_for_data`: it may wait for a
    /// connection's data. A caller that waits only for new connections must not lead, as it would
    /// serve the others late, for example when it forks for each.
    pub fn prepare_caller_wait(&mut self, home: Option<Home>, is_for_data: bool) -> Rest {
        if self.lead.is_waited || self.lead.is_over {
            return Rest::Alone;
        }
        if !is_for_data && !self.conns.is_empty() {
            if !self.lead.is_threads {
                self.lead_in_thread();
                // The pump's thread has not asked the dataplane to ring.
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
            self.process_for(self.buffering_set(home));
            return Rest::Not;
        }
        self.lead.is_waited = true;
        Rest::Bell(bell)
    }

    /// Handles the wake-up of a caller with the bell. `is_over`: the dataplane has closed the bell.
    pub fn handle_caller_wake(&mut self, is_over: bool, home: Option<Home>) {
        (self.lead.is_waited, self.lead.at) = (false, Instant::now());
        self.lead.wake_thread();
        self.lead.is_over |= is_over;
        if is_over {
            self.lead_in_thread();
        }
        self.session_woken();
        self.process_for(self.buffering_set(home));
    }

    fn bell(&self) -> Option<RawFd> {
        let session = self.session.as_ref()?;
        session.descriptors().next().map(|bell| bell.as_raw_fd())
    }

    fn lead_in_thread(&mut self) {
        if let Some(bell) = self.bell() {
            self.control(libc::EPOLL_CTL_MOD, bell, libc::EPOLLIN, SESSION);
        }
        self.lead.is_threads = true;
    }

    fn session_woken(&mut self) {
        if let Some(session) = &mut self.session
            && let Err(why) = session.woken()
        {
            self.handle_session_end(&why.to_string());
        }
    }

    /// Handles the wake-up of the pump's thread. `by_session`: the bell or the dataplane's end woke
    /// it.
    pub fn handle_thread_wake(&mut self, by_session: bool) {
        self.lead.sleeps = false;
        if self.lead.is_threads || by_session {
            self.session_woken();
            self.lead.is_over = false;
        }
    }

    /// Does the pending work in the pump's thread, which takes the lead if callers have left it.
    pub fn run_in_thread(&mut self) {
        let lead = &self.lead;
        if !lead.is_threads && !lead.is_waited && lead.at.elapsed() >= GRACE {
            self.lead_in_thread();
        }
        self.deliver_buffered(GRACE);
        self.process_all();
    }

    /// Descriptor that the pump's thread waits for, and the time limit.
    pub fn prepare_thread_wait(&mut self) -> (RawFd, Option<Duration>) {
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
            // The work of this thread may have missed a caller that waits with the bell.
            Some(session) => match session.sleeps() {
                false => Some(Duration::ZERO),
                true if (is_threads || is_quiet) && self.buffered.is_empty() => None,
                true => Some(GRACE),
            },
        };
        self.lead.sleeps = timeout.is_none();
        (self.epoll.as_raw_fd(), timeout)
    }
}
