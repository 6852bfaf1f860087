//! Loss of a session, and attachment to a restarted dataplane.

use super::Pump;
use crate::accept_message::AcceptMessage;
use crate::errors::say_once;
use crate::internal;
use crate::process;
use crate::settings::{RETRY, Settings};
use cofferdam_dataplane::Session;
use nix::errno::Errno;
use std::os::fd::RawFd;
use std::time::Instant;

impl Pump {
    /// Handles the end of the session.
    pub(super) fn handle_session_end(&mut self, why: &str) {
        say_once(&format!(
            "{why}; its connections are reset, and this process attaches again as soon as it can"
        ));
        self.session = None;
        internal::forget_closed(&std::mem::take(&mut self.numbers));
        self.retry_at = Instant::now() + RETRY;
        self.of_place.clear();
        self.of_bound.clear();
        self.infos.clear();
        // Another session uses the same names.
        self.answers.clear();
        for name in self.conns.names() {
            if let Some(conn) = self.conns.get_mut(name)
                && conn.connection().is_some()
            {
                conn.handle_end(Some(Errno::ENETDOWN));
                self.dirty.push(name);
            }
        }
        self.udp_handle_session_end();
        for name in self.listeners.names() {
            if let Some(listener) = self.listeners.get_mut(name) {
                listener.put(AcceptMessage::Failure(Errno::ENETDOWN as i32), None);
            }
        }
        process::changed();
    }

    /// Attaches to a restarted dataplane, and binds the listeners' addresses again.
    pub(super) fn attach_again(&mut self) {
        self.retry_at = Instant::now() + RETRY;
        // See `Pump::new` for the key.
        let Ok(attached) = attach(&self.settings, None) else {
            return;
        };
        self.use_session(attached);
        self.udp_request_again();
        for name in self.listeners.names() {
            let bounds = match self.listeners.get_mut(name) {
                Some(listener) => std::mem::take(&mut listener.bounds),
                None => continue,
            };
            for (_, local) in bounds {
                let is_standby = self.inherited.is_none();
                self.listen_at(name, local, process::MOST_BACKLOG, is_standby);
            }
        }
    }
}

/// Session, and its descriptors in the library's range.
pub type SessionParts = (Session, Vec<RawFd>);

pub fn attach(settings: &Settings, key: Option<&str>) -> std::result::Result<SessionParts, String> {
    let (socket, name) = (&settings.socket, &settings.name);
    let session = match key {
        Some(key) => Session::attach_by_key(socket, name, key),
        None => Session::attach(socket, name),
    };
    let mut session = session.map_err(|e| e.to_string())?;
    let moved = session.move_descriptors(internal::base());
    let moved = moved.map_err(|e| format!("no descriptor is free: {e}"))?;
    internal::adopt(&moved);
    Ok((session, moved))
}
