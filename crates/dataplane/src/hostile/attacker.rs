//! A hostile application. It attaches as any other, and then does what its rights do not cover, by
//! calls, by the shared memory and by its descriptors.

use super::entry;
use crate::abi::{Call, Condition, Ending, Entry, Sharing};
use crate::attach::{RequestError, reason};
use crate::channel::MappedChannel;
use crate::ring::ENTRIES;
use crate::session::Session;
use cofferdam_netstack::ConnectionOptions;
use cofferdam_xsk::Mapping;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

/// An attached hostile application.
pub struct Attacker {
    mapped: MappedChannel,
    socket: OwnedFd,
    /// Frames that it has not released.
    frames: Vec<(usize, bool, u32)>,
    handles: Vec<u64>,
    bounds: Vec<u64>,
    /// Conditions read.
    pub read: u64,
    /// `UdpSent` conditions read.
    pub sent: u64,
    /// Timers reported.
    pub timers: u64,
    /// Addresses bound, and refused.
    pub bound: (u64, u64),
    /// Connections refused for lack of a place.
    pub no_room: u64,
}

impl Attacker {
    /// Attaches.
    ///
    /// # Errors
    /// Errors of [`Session::attach`].
    pub fn attach(path: &Path, application: &str) -> Result<Attacker, RequestError> {
        let (mapped, socket) = Session::request_attachment(path, application, None)?;
        Ok(Attacker::new(mapped, socket))
    }

    pub(crate) fn new(mapped: MappedChannel, socket: OwnedFd) -> Attacker {
        Attacker {
            mapped,
            socket,
            frames: Vec::new(),
            handles: Vec::new(),
            bounds: Vec::new(),
            read: 0,
            sent: 0,
            timers: 0,
            bound: (0, 0),
            no_room: 0,
        }
    }

    /// Makes a call. Returns false if the ring is full.
    pub fn call(&mut self, call: Call) -> bool {
        self.mapped.first().push(Entry::from(call))
    }

    /// Publishes its calls, and wakes the dataplane.
    pub fn show(&mut self) {
        for (end, door) in &mut self.mapped.cores {
            end.publish();
            // A door that the attacker has filled would block it.
            let mut fds = [PollFd::new(door.as_fd(), PollFlags::POLLOUT)];
            if poll(&mut fds, PollTimeout::ZERO).is_ok_and(|ready| ready > 0) {
                let _ = door.write(1);
            }
        }
    }

    /// Reads the pending conditions, and releases no frame.
    pub fn take(&mut self) {
        for core in 0..self.mapped.cores.len() {
            // After a hole in the index, the ring seems to have four thousand million entries.
            for _ in 0..ENTRIES {
                let Some(entry) = self.mapped.cores[core].0.take() else {
                    break;
                };
                self.read += 1;
                self.take_condition(core, Condition::decode(&entry));
            }
            self.mapped.cores[core].0.release();
        }
    }

    fn take_condition(&mut self, core: usize, condition: Option<Condition>) {
        match condition {
            Some(Condition::Bound { result, .. }) => match result {
                Ok(handle) => {
                    self.bound.0 += 1;
                    self.bounds.push(handle);
                }
                Err(_) => self.bound.1 += 1,
            },
            Some(Condition::Knock { handle, .. } | Condition::Connected { handle, .. }) => {
                self.handles.push(handle);
            }
            Some(Condition::Recv { frame, .. }) => self.frames.push((core, false, frame)),
            Some(Condition::UdpRecv { frame, .. }) => self.frames.push((core, true, frame)),
            Some(Condition::UdpSent { .. }) => self.sent += 1,
            Some(Condition::Timer { .. }) => self.timers += 1,
            Some(Condition::Dead { reason, .. }) => {
                self.no_room += u64::from(reason == Ending::NoRoom);
            }
            _ => {}
        }
    }

    /// Name of the last address that it bound.
    pub fn last_bound(&self) -> Option<u64> {
        self.bounds.last().copied()
    }

    /// Makes each shared descriptor blocking, and fills it.
    pub fn block_and_fill(&self) {
        let doors = self.mapped.cores.iter().map(|(_, door)| door.as_fd());
        for fd in doors.chain([self.mapped.bell.as_fd()]) {
            let _ = fcntl(fd, FcntlArg::F_SETFL(OFlag::O_NONBLOCK));
            // The counter of an eventfd, or the bytes of a socket.
            while nix::unistd::write(fd, &(u64::MAX - 1).to_ne_bytes()).is_ok() {}
            let _ = fcntl(fd, FcntlArg::F_SETFL(OFlag::empty()));
        }
        let _ = fcntl(&self.socket, FcntlArg::F_SETFL(OFlag::empty()));
    }

    /// Marks itself as asleep, so that the next condition rings its bell.
    pub fn fall_asleep(&self) {
        for (end, _) in &self.mapped.cores {
            end.sleep(true);
        }
    }

    /// Writes a wrong value into its indices.
    pub fn corrupt(&self, value: u32) {
        self.mapped.cores[0].0.corrupt(value);
    }

    /// Frees pages of the shared memory during the dataplane's reads and writes.
    pub fn punch(&self) {
        let punch = |map: &Mapping| {
            // SAFETY: the mapping's own range; what goes is data, which reads as zeros then.
            unsafe { libc::madvise(map.base().as_ptr().cast(), map.len(), libc::MADV_REMOVE) };
        };
        punch(&self.mapped.area);
        punch(&self.mapped.inbox);
        self.mapped
            .cores
            .iter()
            .for_each(|(end, _)| punch(end.mapping()));
    }

    /// Waits for the reason of its end, up to `limit`; `None` if it was not ended, an empty text if
    /// there is no reason.
    pub fn ended(&self, limit: Duration) -> Option<String> {
        let mut fds = [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)];
        let limit = PollTimeout::try_from(limit).unwrap_or(PollTimeout::MAX);
        let is_ready = poll(&mut fds, limit).is_ok_and(|count| count > 0);
        is_ready.then(|| reason(&self.socket).unwrap_or_default())
    }

    /// Whether the dataplane closes the socket within `limit`. The control thread sends the reason
    /// first and closes its end a moment later.
    pub fn hangs_up(&self, limit: Duration) -> bool {
        let mut fds = [PollFd::new(self.socket.as_fd(), PollFlags::empty())];
        let limit = PollTimeout::try_from(limit).unwrap_or(PollTimeout::MAX);
        poll(&mut fds, limit).is_ok_and(|count| count > 0)
            && (fds[0].revents()).is_some_and(|events| events.contains(PollFlags::POLLHUP))
    }

    /// Does one step of a hostile history, which `words` choose. `ports` are its own, `peers` the
    /// addresses that it sends to. Returns whether the step may be an offence.
    pub fn act(&mut self, words: [u64; 8], ports: &[SocketAddr], peers: &[SocketAddr]) -> bool {
        let pick = |from: &[SocketAddr], word: u64| from[word as usize % from.len()];
        let handle = |own: &[u64], word: u64| match own.len() {
            0 => word % 8,
            len => own[word as usize % len],
        };
        let [what, a, b, c, d, ..] = words;
        let (offset, len) = (c % (1 << 19), d as u32 % 2000 + 1);
        let (connection, bound) = (handle(&self.handles, a), handle(&self.bounds, a));
        let call = match what % 32 {
            0..3 => Call::UdpBind {
                local: pick(ports, a),
                cookie: b,
            },
            3..5 => Call::Listen {
                local: pick(ports, a),
                backlog: b as u32,
                cookie: b,
                // Some of the addresses are shared.
                sharing: Sharing {
                    group: c % 3,
                    is_standby: d % 2 == 0,
                },
            },
            5 => Call::Unbind { handle: bound },
            6..8 => Call::Connect {
                remote: pick(peers, a),
                cookie: b,
                options: ConnectionOptions::default(),
            },
            8 => match b % 4 {
                0 => Call::Options {
                    handle: connection,
                    options: ConnectionOptions {
                        user_timeout: Some(Duration::from_millis(c % 10_000 + 1)),
                        segment_bytes: Some(d as u16 % 2000 + 88),
                        ..ConnectionOptions::default()
                    },
                },
                _ => Call::Info { handle: connection },
            },
            9..14 => Call::UdpSend {
                handle: bound,
                remote: pick(peers, b),
                // Own address, another's, an unknown one, and none.
                source: match d / 2000 % 4 {
                    0 => None,
                    1 => Some(pick(peers, a).ip()),
                    2 => Some(pick(ports, a).ip()),
                    _ => Some(IpAddr::from(
                        (u128::from(a) << 64 | u128::from(b)).to_be_bytes(),
                    )),
                },
                offset,
                len,
                token: d,
            },
            14..16 => Call::Timer {
                delay_ns: b % 10_000_000_000,
                cookie: c,
            },
            16..19 => Call::Accept {
                handle: connection,
                cookie: b,
            },
            19..21 => Call::Send {
                handle: connection,
                offset,
                len,
            },
            21 => Call::Reject { handle: connection },
            22 => Call::Close { handle: connection },
            23 => Call::Abort { handle: connection },
            24..26 => {
                let Some((core, is_datagram, frame)) = self.frames.pop() else {
                    return false;
                };
                let call = match is_datagram {
                    true => Call::UdpRecvDone { frame },
                    false => Call::RecvDone { frame },
                };
                self.mapped.cores[core].0.push(Entry::from(call));
                return false;
            }
            26 => {
                self.fall_asleep();
                return false;
            }
            27 => {
                self.block_and_fill();
                return false;
            }
            28 => {
                self.punch();
                return false;
            }
            29 => Call::Passed {
                group: a as u8 % 128,
            },
            30 => {
                let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_ne_bytes()).collect();
                self.mapped.first().push(entry(&bytes));
                return true;
            }
            _ if a % 8 == 0 => {
                self.corrupt(b as u32);
                return true;
            }
            _ => return false,
        };
        self.call(call);
        false
    }
}

/// Makes an honest application write an entry that is not a call.
pub fn offend(session: &mut Session) {
    let entry = Entry {
        kind: 999,
        ..Entry::default()
    };
    session.push(0, entry);
}
