//! Data and datagrams from applications.

use super::Engine;
use super::bounds::{BindingKind, BoundAddress};
use super::buffers::{application_buffer, mark};
use super::domain::Domain;
use super::offence::Offence;
use crate::abi::Condition;
use cofferdam_netstack::{Chunk, Stack, Time};
use cofferdam_xsk::Port;
use std::net::{IpAddr, SocketAddr};

impl<P: Port> Engine<P> {
    /// Sends a range of the application's memory on one of its connections.
    pub(super) fn send(
        &mut self,
        now: Time,
        place: u8,
        domain: &mut Domain,
        handle: u64,
        offset: u64,
        len: u32,
    ) -> Result<(), Offence> {
        if len == 0 || domain.range(offset, len).is_none() {
            return Err(Offence::Memory);
        }
        let Some(connection) = self.find_own(place, handle)? else {
            return Ok(());
        };
        let chunk = Chunk {
            buffer: application_buffer(place, domain.seat().generation),
            // The range was checked, and memory is smaller than 4 GiB.
            offset: offset as u32,
            len,
        };
        let has_room = domain.account.has_room();
        let taken = if has_room {
            self.stack.sendv(now, connection, &[chunk])
        } else {
            Ok(0)
        };
        match taken {
            Ok(taken) if taken == len => {
                if let Some(owner) = self.owners.get_mut(connection) {
                    owner.count_sent(len);
                    domain.account.send();
                }
            }
            // The call exceeds the window, or the application's share of the tables. Later data
            // would be in the wrong place of the stream.
            Ok(_) => {
                self.tally.overruns += 1;
                let _ = self.stack.abort(now, connection);
            }
            // The connection has ended or was shut down, and the application was notified.
            Err(_) => self.tally.stale_calls += 1,
        }
        Ok(())
    }

    /// Sends a range of the application's memory as a datagram. In each case a condition tells the
    /// application when it may use the range again.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn udp_send(
        &mut self,
        now: Time,
        place: u8,
        domain: &mut Domain,
        handle: u64,
        (source, remote): (Option<IpAddr>, SocketAddr),
        (offset, len): (u64, u32),
        token: u64,
    ) -> Result<(), Offence> {
        if domain.range(offset, len).is_none() {
            return Err(Offence::Memory);
        }
        let bound = self.bounds.get_owned(handle, place);
        let cookie = bound.map_or(0, |b| b.cookie);
        let given_up = Condition::UdpSent { cookie, token };
        let Some(BoundAddress {
            kind: BindingKind::Udp(udp),
            ..
        }) = bound
        else {
            self.tally.stale_calls += 1;
            domain.deliver(given_up);
            return Ok(());
        };
        let chunk = Chunk {
            buffer: application_buffer(place, domain.seat().generation),
            offset: offset as u32,
            len,
        };
        let marked = mark(place, domain.seat().generation, token);
        let has_room = self.pools.datagrams.take(domain.client());
        let send = |stack: &mut Stack| stack.udp_sendv(now, udp, source, remote, &[chunk], marked);
        if has_room && send(&mut self.stack).is_ok() {
            domain.account.send_datagram();
            return Ok(());
        }
        if has_room {
            self.pools.datagrams.give(domain.client());
        }
        self.tally.datagrams_refused += 1;
        domain.deliver(given_up);
        Ok(())
    }
}
