//! An application as an object, and the loop that runs it over a session.

use super::{Event, Session};
use std::io;
use std::time::Duration;

/// An application: what it does about each event.
pub trait Application {
    /// Called once at the start.
    fn start(&mut self, session: &mut Session);
    /// Called for each event.
    fn event(&mut self, session: &mut Session, event: Event);
    /// Called after each batch of events.
    fn batch_done(&mut self) {}
    /// Why it cannot continue: ends [`EventLoop::run`]. Asked after each batch of events.
    fn failure(&self) -> Option<&str> {
        None
    }
}

/// Runs an application over a session, in its own process.
pub struct EventLoop<A> {
    /// The session.
    pub session: Session,
    /// The application.
    pub application: A,
}

/// Not generic: compiled with this crate, however its user is built.
pub(crate) fn hand_out(session: &mut Session, application: &mut dyn Application) -> bool {
    let mut any = false;
    while let Some(event) = session.next_event() {
        application.event(session, event);
        any = true;
    }
    if any {
        application.batch_done();
    }
    session.flush();
    any
}

impl<A: Application> EventLoop<A> {
    /// Starts the application.
    pub fn new(mut session: Session, mut application: A) -> EventLoop<A> {
        application.start(&mut session);
        session.flush();
        EventLoop {
            session,
            application,
        }
    }

    /// Handles all events that are there; true when there were any.
    pub fn turn(&mut self) -> bool {
        hand_out(&mut self.session, &mut self.application)
    }

    /// Handles events until `stop` says so; it is asked after each batch, and `interval` after
    /// the last event at the latest.
    ///
    /// # Errors
    /// When the dataplane is gone, or has ended this application, or the application fails.
    pub fn run(
        &mut self,
        interval: Duration,
        mut stop: impl FnMut(&mut A) -> bool,
    ) -> io::Result<()> {
        while !stop(&mut self.application) {
            let any = self.turn();
            if let Some(why) = self.application.failure() {
                return Err(io::Error::other(why.to_owned()));
            }
            if !any {
                self.session.wait(Some(interval))?;
            }
        }
        Ok(())
    }
}
