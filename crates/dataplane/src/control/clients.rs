//! Clients of the control socket: connected ones without a request, and attached applications.

use crate::attach::{Answer, MOST_REQUEST_BYTES, answer};
use crate::engine::Life;
use crate::tuning::control::{ACCEPT_AT_ONCE, ASKING_PATIENCE, MOST_ASKING, MOST_ASKING_A_USER};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags};
use nix::sys::socket::{MsgFlags, SockFlag, accept4, getsockopt, recv, sockopt::PeerCredentials};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

/// A client that is connected and has sent no request.
struct SilentClient {
    fd: OwnedFd,
    uid: u32,
    until: Instant,
}

/// An attached application. The end of its socket is its own end.
struct AttachedClient {
    fd: OwnedFd,
    life: Arc<Life>,
}

/// A request of a client.
pub(super) struct ClientRequest {
    pub fd: OwnedFd,
    pub uid: u32,
    pub bytes: Vec<u8>,
}

/// State of a client's socket.
enum ClientRead {
    /// The client has sent nothing yet.
    Nothing,
    Request(Vec<u8>),
    /// The client has hung up without a request.
    End,
}

/// Reads the request of a client, without waiting for it.
fn receive(fd: &OwnedFd) -> ClientRead {
    let mut bytes = [0; MOST_REQUEST_BYTES];
    match recv(fd.as_raw_fd(), &mut bytes, MsgFlags::MSG_DONTWAIT) {
        Err(Errno::EAGAIN) => ClientRead::Nothing,
        Err(_) | Ok(0) => ClientRead::End,
        Ok(len) => ClientRead::Request(bytes.get(..len).unwrap_or_default().to_vec()),
    }
}

/// Clients of the control socket.
#[derive(Default)]
pub(super) struct Clients {
    /// Clients without a request, the oldest first.
    asking: Vec<SilentClient>,
    attached: Vec<AttachedClient>,
}

impl Clients {
    /// Descriptors to poll, in the order in which [`Clients::take`] expects their state.
    pub fn poll_fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        let asking = self.asking.iter().map(|client| &client.fd);
        let fds = asking.chain(self.attached.iter().map(|client| &client.fd));
        fds.map(|fd| PollFd::new(fd.as_fd(), PollFlags::POLLIN))
    }

    /// Reads from the clients that are `ready`. Returns their requests, and whether an application
    /// has ended.
    pub fn take(&mut self, ready: &[bool]) -> (Vec<ClientRequest>, bool) {
        let now = Instant::now();
        let mut ready = ready.iter().copied().chain(std::iter::repeat(false));
        let mut requests = Vec::new();
        let mut asking = Vec::new();
        for client in self.asking.drain(..) {
            if ready.next() != Some(true) {
                asking.extend((now < client.until).then_some(client));
                continue;
            }
            match receive(&client.fd) {
                ClientRead::Nothing => asking.push(client),
                ClientRead::End => {}
                ClientRead::Request(bytes) => {
                    let SilentClient { fd, uid, .. } = client;
                    requests.push(ClientRequest { fd, uid, bytes });
                }
            }
        }
        self.asking = asking;
        let before = self.attached.len();
        self.attached.retain(|client| {
            let is_ready = ready.next() == Some(true);
            if let Some(offence) = client.life.offence() {
                // An application that does not read the reason needs none.
                let reason = offence.to_string();
                let _ = answer(&client.fd, &Answer::Ended { reason }, None);
                return false;
            }
            if is_ready {
                // An attached application sends nothing. It has ended, or breaks the rules.
                client.life.end();
            }
            !is_ready
        });
        (requests, self.attached.len() < before)
    }

    /// Adds an attached application.
    pub fn attach(&mut self, fd: OwnedFd, life: Arc<Life>) {
        self.attached.push(AttachedClient { fd, life });
    }

    /// Accepts connections that are pending at `listener`. Returns the requests that have already
    /// arrived: their clients need no place among those without a request.
    pub fn accept(&mut self, listener: &impl AsFd) -> Vec<ClientRequest> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let mut requests = Vec::new();
        for _ in 0..ACCEPT_AT_ONCE {
            let Ok(fd) = accept4(listener.as_fd().as_raw_fd(), flags) else {
                break;
            };
            // SAFETY: the kernel has just made this descriptor for us.
            let fd = unsafe { OwnedFd::from_raw_fd(fd) };
            let Ok(peer) = getsockopt(&fd, PeerCredentials) else {
                continue;
            };
            match receive(&fd) {
                ClientRead::Nothing => self.admit(fd, peer.uid()),
                ClientRead::End => {}
                ClientRead::Request(bytes) => requests.push(ClientRequest {
                    fd,
                    uid: peer.uid(),
                    bytes,
                }),
            }
        }
        requests
    }

    /// Admits a connection without a request. If there are too many, the oldest of them is closed:
    /// one of the same user or, if all places are taken, of any user but root.
    fn admit(&mut self, fd: OwnedFd, uid: u32) {
        let own = self.asking.iter().filter(|client| client.uid == uid);
        let is_greedy = uid != 0 && own.count() >= MOST_ASKING_A_USER;
        let goes = match (is_greedy, self.asking.len() >= MOST_ASKING) {
            (true, _) => self.asking.iter().position(|client| client.uid == uid),
            (_, true) => match self.asking.iter().position(|client| client.uid != 0) {
                // All connections are root's.
                None if uid == 0 => Some(0),
                None => return,
                found => found,
            },
            _ => None,
        };
        if let Some(place) = goes {
            self.asking.remove(place);
        }
        self.asking.push(SilentClient {
            fd,
            uid,
            until: Instant::now() + ASKING_PATIENCE,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::socket::{AddressFamily, SockType, socketpair};

    fn socket() -> OwnedFd {
        let (one, _) = socketpair(
            AddressFamily::Unix,
            SockType::SeqPacket,
            None,
            SockFlag::empty(),
        )
        .expect("a pair");
        one
    }

    fn users(clients: &Clients) -> Vec<u32> {
        clients.asking.iter().map(|client| client.uid).collect()
    }

    /// Promise 71.
    #[test]
    fn a_connection_without_a_request_in_time_is_closed() {
        let mut clients = Clients::default();
        let before = Instant::now();
        clients.admit(socket(), 1);
        clients.admit(socket(), 2);
        let until = clients.asking[0].until;
        assert!(until >= before + ASKING_PATIENCE && until <= Instant::now() + ASKING_PATIENCE);
        // The first connection has timed out. Neither has sent anything.
        clients.asking[0].until = before;
        let (requests, _) = clients.take(&[false, false]);
        assert!(requests.is_empty());
        assert_eq!(users(&clients), [2]);
    }

    /// Promise 71.
    #[test]
    fn a_user_at_its_limit_loses_its_oldest_connection() {
        let mut clients = Clients::default();
        clients.admit(socket(), 7);
        for _ in 0..MOST_ASKING {
            clients.admit(socket(), 1000);
        }
        let users = users(&clients);
        assert_eq!(users[0], 7);
        assert_eq!(users.len(), 1 + MOST_ASKING_A_USER);
    }

    /// Promise 71.
    #[test]
    fn many_users_keep_neither_each_other_nor_root_out() {
        let mut clients = Clients::default();
        clients.admit(socket(), 0);
        for uid in 1..1000 {
            clients.admit(socket(), uid);
        }
        assert_eq!(users(&clients).len(), MOST_ASKING);
        assert_eq!(users(&clients)[0], 0, "root is not driven out");
        assert_eq!(users(&clients)[MOST_ASKING - 1], 999, "the newest is in");
        for _ in 0..2 * MOST_ASKING {
            clients.admit(socket(), 0);
        }
        assert_eq!(users(&clients), [0; MOST_ASKING], "root gets in");
        clients.admit(socket(), 1000);
        assert_eq!(users(&clients), [0; MOST_ASKING]);
        let newest = socket();
        let number = newest.as_raw_fd();
        clients.admit(newest, 0);
        let asking = clients.asking.last().expect("all places are taken");
        assert_eq!(asking.fd.as_raw_fd(), number, "root makes room for itself");
    }
}
