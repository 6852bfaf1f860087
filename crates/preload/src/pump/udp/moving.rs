//! Transfer of datagrams: from the dataplane and the kernel to the program, and from the program's
//! pairs.

use super::UdpSockets;
use crate::heading::{self, Heading};
use crate::pump::{Name, Pump};
use crate::{real, unix};
use cofferdam_bsd::with_bytes;
use cofferdam_dataplane::{BoundAddress, ReceivedData};
use nix::errno::Errno;
use std::io::IoSliceMut;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd};

/// Datagrams of a kernel socket or of a pair that are moved before others have their turn.
const MOST_AT_ONCE: usize = 256;

/// Part of a pair's datagrams that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CollectOutcome {
    All,
    Part,
    NoRoom,
}

impl Pump {
    /// Delivers a datagram of the dataplane.
    pub(in crate::pump) fn datagram(
        &mut self,
        bound: BoundAddress,
        data: &ReceivedData,
        (remote, local): (SocketAddr, IpAddr),
    ) {
        let heading = Heading {
            remote,
            local,
            interface: self.udp.interface_of(local),
            scope: 0,
            error: 0,
        };
        while let Some(name) = self.taker(bound, (remote, local)) {
            let Some(socket) = self.udp.sockets.get_mut(name) else {
                return;
            };
            socket.record_datagram(remote, false);
            if socket.deliver(&heading, data) {
                return;
            }
            // The program has just closed the socket, so the datagram is for another.
            self.udp_woken(name, true);
        }
    }

    fn taker(&mut self, bound: BoundAddress, from: (SocketAddr, IpAddr)) -> Option<Name> {
        let UdpSockets {
            sockets, places, ..
        } = &mut self.udp;
        places.taker(bound, from, |name| {
            let socket = sockets.get_mut(name)?;
            Some((socket.shown.with(|state| *state), socket.reuse.port))
        })
    }

    /// Handles an event of the library's end of a pair.
    pub(in crate::pump) fn udp_woken(&mut self, name: Name, is_closed: bool) {
        if is_closed {
            // Datagrams in the pair are sent first.
            self.udp_collect(name);
            self.drop_udp(name);
        } else {
            self.udp.unsent.push(name);
        }
    }

    pub(in crate::pump) fn udp_kernel_woken(&mut self, name: Name) {
        self.udp.unheard.push(name);
    }

    /// Moves a limited number of datagrams: from kernel sockets to the program, and from pairs to
    /// their destinations.
    pub(in crate::pump) fn udp_move_datagrams(&mut self) {
        for name in std::mem::take(&mut self.udp.unheard) {
            if self.udp_receive_from_kernel(name) {
                self.udp.unheard.push(name);
            }
        }
        for name in std::mem::take(&mut self.udp.unsent) {
            match self.udp_collect(name) {
                CollectOutcome::All => {}
                CollectOutcome::Part => self.udp.unsent.push(name),
                // The next event of the session frees space.
                CollectOutcome::NoRoom => self.udp.unsent_for_room.push(name),
            }
        }
        if self.has_room() {
            let waiting = std::mem::take(&mut self.udp.unsent_for_room);
            self.udp.unsent.extend(waiting);
        }
    }

    /// Whether more datagrams can be moved at once.
    pub(in crate::pump) fn udp_has_more(&self) -> bool {
        !self.udp.unheard.is_empty() || !self.udp.unsent.is_empty()
    }

    /// Moves datagrams from the kernel socket to the program. Returns whether there are more.
    fn udp_receive_from_kernel(&mut self, name: Name) -> bool {
        let Some(socket) = self.udp.sockets.get_mut(name) else {
            return false;
        };
        for _ in 0..MOST_AT_ONCE {
            match socket.next_of_kernel(&mut self.buffer) {
                Ok((heading, len)) => {
                    let peer = socket.shown.with(|state| state.peer);
                    if peer.is_none_or(|peer| peer.is_kernels && peer.remote == heading.remote) {
                        socket.record_datagram(heading.remote, true);
                        let _ = socket.deliver(&heading, &self.buffer[..len]);
                    }
                }
                Err(Errno::EAGAIN) => return false,
                Err(Errno::EINTR) => {}
                // The error belongs to an earlier datagram; the following ones cause no other
                // event.
                Err(error) => {
                    let _ = socket.deliver(&Heading::of_error(error as i32), &[]);
                }
            }
        }
        true
    }

    /// Moves datagrams from a pair to their destinations.
    fn udp_collect(&mut self, name: Name) -> CollectOutcome {
        let mut buffer = std::mem::take(&mut self.buffer);
        let collected = self.udp_collect_into(name, &mut buffer);
        self.buffer = buffer;
        collected
    }

    fn udp_collect_into(&mut self, name: Name, buffer: &mut [u8]) -> CollectOutcome {
        for _ in 0..MOST_AT_ONCE {
            let has_room = self.has_room();
            let Some(socket) = self.udp.sockets.get_mut(name) else {
                return CollectOutcome::All;
            };
            if !has_room && self.session.is_some() {
                return CollectOutcome::NoRoom;
            }
            let mut bytes = [0; heading::BYTES];
            let got = {
                let parts = &mut [IoSliceMut::new(&mut bytes), IoSliceMut::new(buffer)];
                unix::receive_parts(socket.end.as_fd(), parts)
            };
            let Ok(got) = got else {
                socket.has_spilled = false;
                return CollectOutcome::All;
            };
            if got == 0 {
                // The program has shut down its end for writing.
                return CollectOutcome::All;
            }
            let heading = Heading::decode(&bytes[..got.min(heading::BYTES)]);
            let data = &buffer[..got.saturating_sub(heading::BYTES)];
            let Some(heading) = heading else {
                socket.shown.drop_one();
                continue;
            };
            let source = Some(heading.local).filter(|ip| !ip.is_unspecified());
            let state = socket.shown.with(|state| *state);
            let (kernel, is_v6) = (socket.kernel.as_raw_fd(), socket.is_v6);
            let bound = socket.address_for(heading.remote.ip(), source);
            if self.is_kernels(name, &state, heading.remote, source) {
                with_bytes(heading.remote, is_v6, |name| {
                    let to = (name.as_ptr().cast(), name.len() as libc::socklen_t);
                    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
                    real::sendto(kernel, data.as_ptr().cast(), data.len(), flags, to);
                });
            } else if let (Some(session), Some(bound)) = (&mut self.session, bound) {
                session.send_datagram_from(bound, source, heading.remote, data);
            }
        }
        CollectOutcome::Part
    }
}
