//! Batched calls of the applications. Each is checked, then executed.

use super::Engine;
use super::buffers::mark;
use super::domain::Domain;
use super::inbox_frames::FrameContent;
use super::offence::Offence;
use super::owners::Owner;
use crate::abi::{self, Call, Condition, Ending, Sharing};
use crate::handle;
use crate::policy::Transport;
use crate::tuning::MOST_APPLICATIONS;
use crate::tuning::turns::{MOST_UNITS, PLACES_A_UNIT};
use cofferdam_netstack::{ConnectError, ConnectionId, ConnectionOptions, PortSearch, Time, UdpId};
use cofferdam_xsk::Port;
use std::net::SocketAddr;
use std::time::Duration;

/// Pending call to open a connection, while the search for its port continues.
pub(super) struct PendingConnect {
    remote: SocketAddr,
    cookie: u64,
    options: ConnectionOptions,
    search: PortSearch,
}

impl<P: Port> Engine<P> {
    /// Executes the applications' calls, and continues the clean-up of applications that have
    /// ended. Returns the number of calls and of clean-ups that still reset connections.
    pub(super) fn take_calls(&mut self, now: Time) -> usize {
        let (mut done, mut cleaned_up) = (0, 0);
        for place in 0..MOST_APPLICATIONS as u8 {
            let Some(mut domain) = self.domains.take(place) else {
                continue;
            };
            if domain.life().has_ended() {
                domain.terminate(self.reason_of(&domain));
            }
            if !domain.is_leaving() {
                done += self.calls_of(now, place, &mut domain);
            }
            if !domain.is_leaving() || !self.clean_up(now, place, &mut domain) {
                cleaned_up += usize::from(domain.is_leaving() && domain.account.connections() > 0);
                self.domains.insert(domain);
            } else {
                self.cores.hub().retire(domain);
            }
        }
        self.tally.calls += done as u64;
        done + cleaned_up
    }

    /// Reason for which an application that has ended elsewhere ends on this core. An offence that
    /// no core has seen counts on the first.
    fn reason_of(&self, domain: &Domain) -> Offence {
        match domain.life().offence() {
            Some(Offence::Bell) if self.cores.id() == 0 => Offence::Bell,
            _ => Offence::Gone,
        }
    }

    fn calls_of(&mut self, now: Time, place: u8, domain: &mut Domain) -> usize {
        let Ok(waiting) = domain.end().waiting() else {
            domain.terminate(Offence::Ring);
            return 0;
        };
        let many = self.cores.is_many();
        let mut left = waiting;
        if many {
            // A call may become a message to another core, and no message may be lost.
            left = left.min(self.cores.room());
        }
        let mut done = 0;
        domain.units = MOST_UNITS;
        if let Some(pending_connect) = domain.pending_connect.take() {
            self.resume(now, place, domain, pending_connect);
            done += 1;
        }
        while left > 0 && domain.units > 0 && domain.pending_connect.is_none() {
            left -= 1;
            done += 1;
            domain.spend(1);
            let entry = domain.end().take();
            let outcome = match Call::decode(&entry) {
                Some(call) if many && self.divert(domain, &call, entry) => Ok(()),
                Some(call) => self.call(now, place, domain, call),
                None => Err(Offence::Call),
            };
            if let Err(offence) = outcome {
                domain.terminate(offence);
                break;
            }
        }
        if done > 0 {
            domain.end().release();
        }
        done
    }

    pub(super) fn call(
        &mut self,
        now: Time,
        place: u8,
        domain: &mut Domain,
        call: Call,
    ) -> Result<(), Offence> {
        match call {
            Call::Listen {
                local,
                backlog,
                cookie,
                sharing,
            } => {
                domain.spend(self.bounds.count() / PLACES_A_UNIT);
                let at = (local, sharing);
                let result = self.bind((place, domain), Transport::Tcp, at, backlog, cookie);
                domain.deliver(Condition::Bound { cookie, result });
            }
            Call::UdpBind { local, cookie } => {
                domain.spend(self.bounds.count() / PLACES_A_UNIT);
                let at = (local, Sharing::default());
                let result = self.bind((place, domain), Transport::Udp, at, 0, cookie);
                domain.deliver(Condition::Bound { cookie, result });
            }
            Call::Unbind { handle } => {
                let looked_through = self.unbind(now, place, domain.client(), handle);
                domain.spend(looked_through / PLACES_A_UNIT);
            }
            Call::Connect {
                remote,
                cookie,
                options,
            } => {
                let pending_connect = PendingConnect {
                    remote,
                    cookie,
                    options,
                    search: PortSearch::default(),
                };
                self.resume(now, place, domain, pending_connect);
            }
            Call::Accept { handle, cookie } => {
                let Some(connection) = self.find_own(place, handle)? else {
                    domain.deliver(Condition::Dead {
                        cookie,
                        handle,
                        reason: Ending::Reset,
                    });
                    return Ok(());
                };
                match self.stack.accept(now, connection, cookie) {
                    Ok(window) => {
                        if let Some(owner) = self.owners.get_mut(connection) {
                            owner.cookie = cookie;
                        }
                        let limit_bytes = u64::from(window);
                        domain.deliver(Condition::Sent {
                            cookie,
                            handle,
                            bytes: 0,
                            ranges: 0,
                            limit_bytes,
                        });
                    }
                    Err(_) => {
                        self.forget(domain, connection);
                        domain.deliver(Condition::Dead {
                            cookie,
                            handle,
                            reason: Ending::Reset,
                        });
                    }
                }
            }
            Call::Reject { handle } => {
                if let Some(connection) = self.find_own(place, handle)?
                    && self.stack.reject(now, connection).is_ok()
                {
                    self.forget(domain, connection);
                }
            }
            Call::Send {
                handle,
                offset,
                len,
            } => {
                return self.send(now, place, domain, handle, offset, len);
            }
            Call::RecvDone { frame } | Call::UdpRecvDone { frame } => {
                let content = domain.release(&mut self.memory, frame);
                if domain.inbox.has_room_again() {
                    self.stack.resume_reader(place);
                }
                match content {
                    FrameContent::Nothing => return Err(Offence::Frame),
                    FrameContent::Segment { handle, len } => {
                        self.recv_done(now, handle, len);
                    }
                    FrameContent::Datagram { handle } => {
                        self.stack.udp_recv_done(UdpId::from_bits(handle), 1);
                    }
                }
            }
            // These calls may follow an end that the application has not read yet.
            Call::Shutdown { handle } => {
                if let Some(connection) = self.find_own(place, handle)? {
                    let _ = self.stack.shutdown(now, connection);
                }
            }
            Call::Close { handle } => {
                if let Some(connection) = self.find_own(place, handle)? {
                    let _ = self.stack.close(now, connection);
                }
            }
            Call::Abort { handle } => {
                if let Some(connection) = self.find_own(place, handle)? {
                    let _ = self.stack.abort(now, connection);
                }
            }
            Call::Options { handle, options } => {
                if let Some(connection) = self.find_own(place, handle)? {
                    let _ = self.stack.set_options(now, connection, options);
                }
            }
            Call::Info { handle } => {
                let connection = self.find_own(place, handle)?;
                self.report(domain, connection);
            }
            Call::UdpSend {
                handle,
                remote,
                source,
                offset,
                len,
                token,
            } => {
                let way = (source, remote);
                self.udp_send(now, place, domain, handle, way, (offset, len), token)?;
            }
            Call::Timer { delay_ns, cookie } => {
                let at = now + Duration::from_nanos(delay_ns);
                let marked = mark(place, domain.seat().generation, cookie);
                let has_room = self.pools.timers.take(domain.client());
                if !has_room || self.stack.set_timer(at, marked).is_none() {
                    if has_room {
                        self.pools.timers.give(domain.client());
                    }
                    // Without a place the timer fires at once: early is better than never.
                    self.tally.timers_refused += 1;
                    domain.deliver(Condition::Timer { cookie });
                }
            }
            // The call follows all calls that were made where the group was before.
            Call::Passed { group } => domain.deliver(Condition::Settled { group }),
        }
        Ok(())
    }

    /// Connection of the application in `place` with this handle; `None` if it has ended. A
    /// connection of another application is an offence.
    pub(super) fn find_own(
        &mut self,
        place: u8,
        handle: u64,
    ) -> Result<Option<ConnectionId>, Offence> {
        let found = self.local(handle);
        let owner = found.and_then(|connection| self.owners.get_mut(connection));
        match owner {
            Some(owner) if owner.domain == place => Ok(found),
            Some(_) => Err(Offence::Connection),
            None => {
                self.tally.stale_calls += 1;
                Ok(None)
            }
        }
    }

    /// Connection of this core's stack with this name, opened here or moved here from another core.
    pub(super) fn local(&self, handle: u64) -> Option<ConnectionId> {
        let connection = handle::connection(handle);
        if handle::core(handle) == self.cores.id() && self.owners.has(connection, handle) {
            return Some(connection);
        }
        if !self.cores.is_many() {
            return None;
        }
        self.cores.guest(handle)
    }

    /// Name of a connection that this core's stack has just opened.
    pub(super) fn name(&self, connection: ConnectionId) -> u64 {
        let group = self.stack.group_of(connection).unwrap_or_default();
        handle::encode(self.cores.id(), group, connection)
    }

    pub(super) fn forget(&mut self, domain: &mut Domain, connection: ConnectionId) {
        if let Some(owner) = self.owners.remove(connection) {
            self.cores.forget_guest(owner.handle);
            self.pools.connections.give(domain.client());
            domain.account.close(owner.ranges);
        }
    }

    /// Reports the state of a connection. The end of a connection was reported already.
    fn report(&mut self, domain: &mut Domain, connection: Option<ConnectionId>) {
        let Some(connection) = connection else {
            return;
        };
        let owner = self.owners.get_mut(connection);
        let names = owner.map(|owner| (owner.cookie, owner.handle));
        let (Some((cookie, handle)), Some(info)) = (names, self.stack.connection(connection))
        else {
            return;
        };
        for (part, words) in (0..).zip(abi::parts(&info)) {
            domain.spend(1);
            domain.deliver(Condition::Info {
                cookie,
                handle,
                part,
                words,
            });
        }
    }

    /// Opens a connection, or continues the search for its port in the next turn.
    fn resume(
        &mut self,
        now: Time,
        place: u8,
        domain: &mut Domain,
        mut pending_connect: PendingConnect,
    ) {
        let PendingConnect {
            remote,
            cookie,
            options,
            ref mut search,
        } = pending_connect;
        let refused = |reason| Condition::Dead {
            cookie,
            handle: 0,
            reason,
        };
        if !domain.rights().connect {
            return domain.deliver(refused(Ending::Forbidden));
        }
        let client = domain.client();
        if !self.take_connection_place(now, client, None, Some(&mut *domain)) {
            return domain.deliver(refused(Ending::NoRoom));
        }
        // The unit of the call covers the first port.
        search.most = domain.units + 1;
        let connected = self.stack.connect_by(now, remote, cookie, search);
        domain.units = search.most.min(domain.units);
        if !matches!(connected, Ok(Some(_))) {
            self.pools.connections.give(domain.client());
        }
        match connected {
            Ok(Some(connection)) => {
                let handle = self.name(connection);
                let owner = Owner::new(handle, place, cookie, now);
                self.owners.set(connection, owner);
                self.stack.set_reader(connection, place);
                let _ = self.stack.set_options(now, connection, options);
                domain.account.open(0);
            }
            Ok(None) => domain.pending_connect = Some(pending_connect),
            Err(ConnectError::Full(_) | ConnectError::InUse(_)) => {
                domain.deliver(refused(Ending::NoRoom));
            }
            Err(_) => domain.deliver(refused(Ending::Unreachable)),
        }
    }
}
