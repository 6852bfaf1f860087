//! Queue of requests to attach, each of which costs the control plane more than any other.
//!
//! Users take turns, so that no user's requests delay another's. One request is served in a turn of
//! the control plane, and all other requests before it. A client that has closed its socket costs
//! nothing.

use crate::tuning::control::{MOST_WAITING, MOST_WAITING_A_USER};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};

/// A request to attach.
pub(super) struct AttachRequest {
    pub fd: OwnedFd,
    pub uid: u32,
    pub version: u32,
    pub application: String,
    pub key: Option<String>,
}

/// Pending requests, the oldest first.
#[derive(Default)]
pub(super) struct AttachQueue {
    waiting: VecDeque<AttachRequest>,
    /// User of the request that was served last.
    last: Option<u32>,
}

impl AttachQueue {
    /// Whether no request is pending.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Appends a request. Returns it if too many requests are pending, of its user or in total.
    pub fn push(&mut self, request: AttachRequest) -> Result<(), AttachRequest> {
        if has_hung_up(&request.fd) {
            return Ok(());
        }
        if self.is_full(request.uid) {
            // At a user's own limit only its own requests matter, so that a flood of them costs no
            // more.
            let is_greedy = self.is_greedy(request.uid);
            let is_meant = |uid: u32| !is_greedy || uid == request.uid;
            (self.waiting).retain(|other| !is_meant(other.uid) || !has_hung_up(&other.fd));
        }
        if self.is_full(request.uid) {
            return Err(request);
        }
        self.waiting.push_back(request);
        Ok(())
    }

    fn is_full(&self, uid: u32) -> bool {
        self.is_greedy(uid) || self.waiting.len() >= MOST_WAITING
    }

    /// Whether a user other than root has as many requests pending as one user may.
    fn is_greedy(&self, uid: u32) -> bool {
        let own = self.waiting.iter().filter(|other| other.uid == uid);
        uid != 0 && own.count() >= MOST_WAITING_A_USER
    }

    /// Takes the oldest request of the user whose turn it is. Drops requests of clients that have
    /// closed their socket.
    pub fn next(&mut self) -> Option<AttachRequest> {
        while let Some(uid) = self.next_user() {
            let place = self.waiting.iter().position(|other| other.uid == uid)?;
            let request = self.waiting.remove(place)?;
            if !has_hung_up(&request.fd) {
                self.last = Some(uid);
                return Some(request);
            }
        }
        None
    }

    /// User whose turn it is: the next higher number after the last user's, and the lowest one
    /// after the highest.
    fn next_user(&self) -> Option<u32> {
        let users = self.waiting.iter().map(|request| request.uid);
        let last = self.last;
        users.min_by_key(|uid| (last.is_some_and(|last| *uid <= last), *uid))
    }
}

/// Whether the other end of a client's socket is closed.
fn has_hung_up(fd: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(fd.as_fd(), PollFlags::empty())];
    let polled = poll(&mut fds, PollTimeout::ZERO);
    polled.is_err() || fds[0].any() != Some(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};

    fn request(uid: u32, number: u32) -> (AttachRequest, OwnedFd) {
        let kind = (AddressFamily::Unix, SockType::SeqPacket);
        let pair = socketpair(kind.0, kind.1, None, SockFlag::empty());
        let (fd, theirs) = pair.expect("a pair");
        let request = AttachRequest {
            fd,
            uid,
            version: number,
            application: String::new(),
            key: None,
        };
        (request, theirs)
    }

    /// Promise 71.
    #[test]
    fn users_take_turns_and_closed_clients_are_skipped() {
        let mut queue = AttachQueue::default();
        let mut ends = Vec::new();
        for (number, uid) in (0..).zip([9, 9, 9, 9, 9, 0, 7, 7, 9]) {
            let (request, end) = request(uid, number);
            assert!(queue.push(request).is_ok());
            ends.push(end);
        }
        // The first two clients of user 9 have closed their sockets.
        ends.drain(..2);
        let order: Vec<(u32, u32)> = std::iter::from_fn(|| queue.next())
            .map(|request| (request.uid, request.version))
            .collect();
        let expected = [(0, 5), (7, 6), (9, 2), (7, 7), (9, 3), (9, 4), (9, 8)];
        assert_eq!(order, expected);
        assert!(queue.is_empty());
    }

    /// Promise 71.
    #[test]
    fn no_user_takes_the_places_of_others_or_root() {
        let mut queue = AttachQueue::default();
        let mut ends = Vec::new();
        let mut push = |uid| {
            let (request, end) = request(uid, 0);
            ends.push(end);
            queue.push(request).is_ok()
        };
        let accepted = (0..MOST_WAITING).filter(|_| push(9)).count();
        assert_eq!(accepted, MOST_WAITING_A_USER);
        assert!(push(7) && push(0));
        let accepted = (0..MOST_WAITING).filter(|_| push(0)).count();
        assert_eq!(accepted, MOST_WAITING - MOST_WAITING_A_USER - 2);
        // Closed clients take no place.
        drop(ends);
        let (request, _end) = request(9, 1);
        assert!(queue.push(request).is_ok());
    }
}
