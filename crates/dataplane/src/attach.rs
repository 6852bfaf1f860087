//! How an application comes to its dataplane: a Unix socket, one message each way, and the
//! descriptors of the shared memory with the answer.

use crate::bell::BellEnd;
use crate::channel::{Mapped, Outside, Sizes};
use crate::session::Session;
use crate::tuning::MOST_CORES;
use crate::tuning::session::ANSWER_PATIENCE_S;
use nix::cmsg_space;
use nix::sys::eventfd::EventFd;
use nix::sys::socket::{
    AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType, UnixAddr,
    connect, recv, recvmsg, sendmsg, socket, sockopt,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::path::Path;

/// Largest message.
const LARGEST: usize = 64 << 10;
/// Largest request: what is longer is none.
pub(crate) const MOST_REQUEST_BYTES: usize = 4096;
/// Version of what a dataplane and its applications share: rings, descriptors and messages. A
/// dataplane refuses another.
pub const INTERFACE_VERSION: u32 = 5;
/// Descriptors that come with an answer: of the application, and of each core.
const DESCRIPTORS: usize = 3;
const DESCRIPTORS_A_CORE: usize = 2;
/// Most that come.
const MOST_DESCRIPTORS: usize = DESCRIPTORS + DESCRIPTORS_A_CORE * MOST_CORES;

/// What a client asks.
#[derive(Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Request {
    /// Be served as this application of the configuration.
    Attach {
        /// Of [`INTERFACE_VERSION`].
        version: u32,
        /// Name of the application.
        application: String,
        /// Of a process of this application, in place of its user.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
    },
    /// Tell what was counted.
    Status {},
    /// Move a flow group to a core.
    Move {
        /// The flow group.
        group: u8,
        /// The core.
        core: u8,
    },
}

/// The answer.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    /// Attached; the descriptors come along.
    Attached(Sizes),
    /// What was counted.
    Status(serde_json::Value),
    /// The flow group is where it was to go.
    Moved {
        /// The core that had it.
        from: u8,
    },
    /// Refused, and why.
    Refused(String),
    /// To an attached application: it is ended, and why. The dataplane hangs up.
    Ended {
        /// What it did.
        reason: String,
    },
}

/// An application that could not attach.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// No dataplane listens there.
    #[error("no dataplane answers on {path}: {source}; start one with `cofferdam dataplane run`")]
    Connect {
        /// The socket.
        path: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The dataplane refused.
    #[error("the dataplane refused: {0}")]
    Refused(String),
    /// It answered something else.
    #[error("the dataplane's answer is invalid: {0}")]
    Answer(String),
    /// No memory, no descriptors.
    #[error("cannot map the dataplane's memory: {0}")]
    Os(#[from] io::Error),
}

impl Session {
    /// Attaches to the dataplane that listens on `path`, as `application` of its configuration.
    pub fn attach(path: &Path, application: &str) -> Result<Session, AttachError> {
        let (mapped, socket) = Session::ask_to_attach(path, application, None)?;
        Ok(Session::new(mapped, Some(socket)))
    }

    /// As [`Session::attach`], with the key of a session of this application ([`Session::key`]): for a
    /// process that was forked by it, and runs as another user than the application's by now.
    ///
    /// # Errors
    /// As [`Session::attach`]; the key is of a dataplane that has ended.
    pub fn attach_by_key(
        path: &Path,
        application: &str,
        key: &str,
    ) -> Result<Session, AttachError> {
        let (mapped, socket) = Session::ask_to_attach(path, application, Some(key.to_owned()))?;
        Ok(Session::new(mapped, Some(socket)))
    }

    /// What is shared, and the socket whose end is the application's.
    pub(crate) fn ask_to_attach(
        path: &Path,
        application: &str,
        key: Option<String>,
    ) -> Result<(Mapped, OwnedFd), AttachError> {
        let request = Request::Attach {
            version: INTERFACE_VERSION,
            application: application.to_owned(),
            key,
        };
        let (socket, answer, descriptors) = ask(path, &request)?;
        match answer {
            Answer::Attached(sizes) => {
                let outside = unpack(sizes, descriptors)?;
                Ok((outside.map()?, socket))
            }
            Answer::Refused(why) => Err(AttachError::Refused(why)),
            other => Err(AttachError::Answer(format!("{other:?}"))),
        }
    }
}

/// What the dataplane that listens on `path` has counted, as JSON (schema
/// cofferdam.dataplane/1).
pub fn status(path: &Path) -> Result<serde_json::Value, AttachError> {
    match ask(path, &Request::Status {})?.1 {
        Answer::Status(value) => Ok(value),
        Answer::Refused(why) => Err(AttachError::Refused(why)),
        other => Err(AttachError::Answer(format!("{other:?}"))),
    }
}

/// Moves flow group `group` of the dataplane that listens on `path` to core `core`, and waits
/// until it is there. Returns the core that had it.
pub fn move_group(path: &Path, group: u8, core: u8) -> Result<u8, AttachError> {
    match ask(path, &Request::Move { group, core })?.1 {
        Answer::Moved { from } => Ok(from),
        Answer::Refused(why) => Err(AttachError::Refused(why)),
        other => Err(AttachError::Answer(format!("{other:?}"))),
    }
}

fn ask(path: &Path, request: &Request) -> Result<(OwnedFd, Answer, Vec<OwnedFd>), AttachError> {
    let failed = |source: io::Error| AttachError::Connect {
        path: path.display().to_string(),
        source: match source.kind() {
            io::ErrorKind::WouldBlock => io::Error::new(
                io::ErrorKind::TimedOut,
                format!("no answer within {ANSWER_PATIENCE_S} s"),
            ),
            _ => source,
        },
    };
    let socket = socket(
        AddressFamily::Unix,
        SockType::SeqPacket,
        SockFlag::SOCK_CLOEXEC,
        None,
    )
    .map_err(|e| failed(e.into()))?;
    let address = UnixAddr::new(path).map_err(|e| failed(e.into()))?;
    let patience = nix::sys::time::TimeVal::new(ANSWER_PATIENCE_S, 0);
    // A dataplane that is stopped accepts nobody: then the connection itself has to wait.
    nix::sys::socket::setsockopt(&socket, sockopt::SendTimeout, &patience)
        .and_then(|()| nix::sys::socket::setsockopt(&socket, sockopt::ReceiveTimeout, &patience))
        .map_err(|e| failed(e.into()))?;
    connect(socket.as_raw_fd(), &address).map_err(|e| failed(e.into()))?;
    let text = serde_json::to_vec(request).map_err(|e| failed(e.into()))?;
    let sent = nix::sys::socket::send(socket.as_raw_fd(), &text, MsgFlags::MSG_NOSIGNAL);
    sent.map_err(|e| failed(e.into()))?;
    let (text, descriptors) = receive(&socket).map_err(failed)?;
    let answer = serde_json::from_slice(&text).map_err(|e| AttachError::Answer(e.to_string()))?;
    Ok((socket, answer, descriptors))
}

/// One message with its descriptors.
fn receive(socket: &OwnedFd) -> io::Result<(Vec<u8>, Vec<OwnedFd>)> {
    let mut bytes = vec![0; LARGEST];
    let mut space = cmsg_space!([RawFd; MOST_DESCRIPTORS]);
    let mut descriptors = Vec::new();
    let len = {
        let mut parts = [IoSliceMut::new(&mut bytes)];
        let flags = MsgFlags::MSG_CMSG_CLOEXEC;
        let message = recvmsg::<UnixAddr>(socket.as_raw_fd(), &mut parts, Some(&mut space), flags)?;
        for control in message.cmsgs()? {
            if let ControlMessageOwned::ScmRights(fds) = control {
                // SAFETY: the kernel has just installed these descriptors for us.
                descriptors.extend(
                    fds.into_iter()
                        .map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }),
                );
            }
        }
        message.bytes
    };
    bytes.truncate(len);
    Ok((bytes, descriptors))
}

/// Why the dataplane has hung up on an application: `None` when it is gone itself.
pub(crate) fn reason(socket: &OwnedFd) -> Option<String> {
    let mut bytes = [0; 4096];
    let len = recv(socket.as_raw_fd(), &mut bytes, MsgFlags::MSG_DONTWAIT).ok()?;
    match serde_json::from_slice(bytes.get(..len)?).ok()? {
        Answer::Ended { reason } => Some(reason),
        _ => None,
    }
}

/// Sends an answer, with the descriptors of the application's side.
pub(crate) fn answer(
    socket: &OwnedFd,
    answer: &Answer,
    outside: Option<&Outside>,
) -> io::Result<()> {
    let text = serde_json::to_vec(answer)?;
    let fds: Vec<RawFd> = outside.map_or_else(Vec::new, |o| {
        let mut all = vec![o.area.as_fd(), o.inbox.as_fd(), o.bell.as_fd()];
        for (rings, door) in &o.cores {
            all.extend([rings.as_fd(), door.as_fd()]);
        }
        all.iter().map(AsRawFd::as_raw_fd).collect()
    });
    let rights = [ControlMessage::ScmRights(&fds)];
    let control: &[ControlMessage<'_>] = if fds.is_empty() { &[] } else { &rights };
    let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
    sendmsg::<UnixAddr>(
        socket.as_raw_fd(),
        &[IoSlice::new(&text)],
        control,
        flags,
        None,
    )?;
    Ok(())
}

fn unpack(sizes: Sizes, descriptors: Vec<OwnedFd>) -> Result<Outside, AttachError> {
    let count = descriptors.len();
    let cores = sizes.cores as usize;
    let expected = DESCRIPTORS + DESCRIPTORS_A_CORE * cores.min(MOST_CORES);
    let mut all = descriptors.into_iter();
    let (Some(area), Some(inbox), Some(bell), true) =
        (all.next(), all.next(), all.next(), count == expected)
    else {
        return Err(AttachError::Answer(format!(
            "{count} descriptors arrived instead of {expected}"
        )));
    };
    // SAFETY: the dataplane, which runs as root, sends eventfds here; another descriptor would
    // fail at its first use.
    let event = |fd| unsafe { EventFd::from_owned_fd(fd) };
    let pairs = std::iter::from_fn(|| Some((all.next()?, event(all.next()?))));
    Ok(Outside {
        cores: pairs.collect(),
        area,
        inbox,
        bell: BellEnd::from_owned_fd(bell),
        sizes,
    })
}
