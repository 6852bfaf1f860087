//! Applications as objects, and the loop that runs one over a session.

use super::{Event, Session};
use std::io;
use std::time::Duration;

/// An application, with its reactions to events.
pub trait Application {
    /// Called once at the start.
    fn start(&mut self, session: &mut Session);
    /// Called for each event.
    fn event(&mut self, session: &mut Session, event: Event);
    /// Called after each batch of events.
    fn batch_done(&mut self) {}
    /// Reason for which the application cannot continue, which ends [`EventLoop::run`]. Asked after
    /// each batch of events.
    fn failure(&self) -> Option<&str> {
        None
    }
}

/// A loop that runs an application over a session, in its own process.
pub struct EventLoop<A> {
    /// Session of the application.
    pub session: Session,
    /// The application.
    pub application: A,
}

/// Passes all pending events to an application. It is not generic, so that it is compiled with this
/// crate's settings.
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

    /// Handles all pending events. Returns whether there were any.
    pub fn turn(&mut self) -> bool {
        hand_out(&mut self.session, &mut self.application)
    }

    /// Handles events until `stop` returns true. It is asked after each batch, and at least every
    /// `interval`.
    ///
    /// # Errors
    /// The dataplane has ended, or has ended this application, or the application fails.
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
