//! Attachment of an application to its dataplane over a Unix socket: a request, and an answer with
//! the descriptors of the shared memory. If the dataplane ends the application later, it sends the
//! reason before it closes the socket.

use crate::bell::BellEnd;
use crate::channel::{MappedChannel, Outside, Sizes};
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
use std::path::{Path, PathBuf};

/// Bytes of the largest answer.
const MOST_ANSWER_BYTES: usize = 64 << 10;
/// Bytes of the largest request.
pub(crate) const MOST_REQUEST_BYTES: usize = 4096;
/// Version of the interface: rings, descriptors and messages. A dataplane refuses any other
/// version.
pub const INTERFACE_VERSION: u32 = 5;
/// Descriptors of an answer that do not depend on the number of cores.
const DESCRIPTORS: usize = 3;
const DESCRIPTORS_A_CORE: usize = 2;
/// Descriptors of an answer, at most.
const MOST_DESCRIPTORS: usize = DESCRIPTORS + DESCRIPTORS_A_CORE * MOST_CORES;

/// Request of a client.
#[derive(Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Request {
    /// Attaches as this application of the configuration.
    Attach {
        /// [`INTERFACE_VERSION`] of the client.
        version: u32,
        /// Name of the application.
        application: String,
        /// Key of the application, instead of its user.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
    },
    /// Returns the counts.
    Status {},
    /// Move a flow group to a core.
    Move {
        /// The flow group.
        group: u8,
        /// The core.
        core: u8,
    },
}

/// Answer to a request.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    /// The application is attached; the descriptors come with the answer.
    Attached(Sizes),
    /// Counts of the dataplane.
    Status(serde_json::Value),
    /// The flow group has reached its core.
    Moved {
        /// The core that had it.
        from: u8,
    },
    /// The request is refused, for this reason.
    Refused(String),
    /// The dataplane has ended an attached application, and closes its socket.
    Ended {
        /// The offence of the application.
        reason: String,
    },
}

/// Error of a request to the dataplane: to attach, for its counts, or to move a flow group.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// No dataplane listens there.
    #[error("no dataplane answers on {path}: {source}; start one with `cofferdam dataplane run`")]
    Connect {
        /// Path of the socket.
        path: String,
        /// Error of the system call.
        #[source]
        source: io::Error,
    },
    /// The dataplane refused the request.
    #[error("the dataplane refused: {0}")]
    Refused(String),
    /// The answer is not the expected one.
    #[error("the dataplane's answer is invalid: {0}")]
    Answer(String),
    /// There is no memory, or no descriptor.
    #[error("cannot map the dataplane's memory: {0}")]
    Os(#[from] io::Error),
}

impl Session {
    /// Attaches to the dataplane that listens on `path`, as `application` of its configuration.
    pub fn attach(path: &Path, application: &str) -> Result<Session, RequestError> {
        let (mapped, socket) = Session::request_attachment(path, application, None)?;
        Ok(Session::new(mapped, Some(socket)))
    }

    /// Attaches as [`Session::attach`] does, with the key of a session of this application
    /// ([`Session::key`]). It is for a forked process that runs as another user than the
    /// application.
    ///
    /// # Errors
    /// Errors of [`Session::attach`]; the key belongs to a dataplane that has ended.
    pub fn attach_by_key(
        path: &Path,
        application: &str,
        key: &str,
    ) -> Result<Session, RequestError> {
        let (mapped, socket) =
            Session::request_attachment(path, application, Some(key.to_owned()))?;
        Ok(Session::new(mapped, Some(socket)))
    }

    /// Requests the attachment. Returns the shared memory and the socket: when it closes, the
    /// dataplane ends the application.
    pub(crate) fn request_attachment(
        path: &Path,
        application: &str,
        key: Option<String>,
    ) -> Result<(MappedChannel, OwnedFd), RequestError> {
        let request = Request::Attach {
            version: INTERFACE_VERSION,
            application: application.to_owned(),
            key,
        };
        let (socket, answer, descriptors) = send_request(path, &request)?;
        match answer {
            Answer::Attached(sizes) => {
                let outside = unpack(sizes, descriptors)?;
                Ok((outside.map()?, socket))
            }
            Answer::Refused(why) => Err(RequestError::Refused(why)),
            other => Err(RequestError::Answer(format!("{other:?}"))),
        }
    }
}

/// Path of root's own socket, next to the one at `path`.
pub(crate) fn root_socket(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".root");
    PathBuf::from(name)
}

/// Counts of the dataplane that listens on `path`, as JSON (schema cofferdam.dataplane/1).
pub fn status(path: &Path) -> Result<serde_json::Value, RequestError> {
    match send_root_request(path, &Request::Status {})? {
        Answer::Status(value) => Ok(value),
        Answer::Refused(why) => Err(RequestError::Refused(why)),
        other => Err(RequestError::Answer(format!("{other:?}"))),
    }
}

/// Moves flow group `group` of the dataplane that listens on `path` to core `core`, and waits
/// until it is there. Returns the core that had it.
pub fn move_group(path: &Path, group: u8, core: u8) -> Result<u8, RequestError> {
    match send_root_request(path, &Request::Move { group, core })? {
        Answer::Moved { from } => Ok(from),
        Answer::Refused(why) => Err(RequestError::Refused(why)),
        other => Err(RequestError::Answer(format!("{other:?}"))),
    }
}

/// Sends a request to root's socket, or to the socket of all users if the caller cannot open that.
fn send_root_request(path: &Path, request: &Request) -> Result<Answer, RequestError> {
    let answer = match send_request(&root_socket(path), request) {
        Err(RequestError::Connect { source, .. }) if source.kind() == io::ErrorKind::TimedOut => {
            let path = path.display().to_string();
            Err(RequestError::Connect { path, source })
        }
        Err(RequestError::Connect { .. }) => send_request(path, request),
        other => other,
    };
    answer.map(|(_, answer, _)| answer)
}

/// Sends a request to the socket at `path`. Returns the socket, the answer and its descriptors.
fn send_request(
    path: &Path,
    request: &Request,
) -> Result<(OwnedFd, Answer, Vec<OwnedFd>), RequestError> {
    let failed = |source: io::Error| RequestError::Connect {
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
    // A stopped dataplane accepts no connection, so that connect(2) itself has to wait.
    nix::sys::socket::setsockopt(&socket, sockopt::SendTimeout, &patience)
        .and_then(|()| nix::sys::socket::setsockopt(&socket, sockopt::ReceiveTimeout, &patience))
        .map_err(|e| failed(e.into()))?;
    connect(socket.as_raw_fd(), &address).map_err(|e| failed(e.into()))?;
    let text = serde_json::to_vec(request).map_err(|e| failed(e.into()))?;
    let sent = nix::sys::socket::send(socket.as_raw_fd(), &text, MsgFlags::MSG_NOSIGNAL);
    sent.map_err(|e| failed(e.into()))?;
    let (text, descriptors) = receive(&socket).map_err(failed)?;
    let answer = serde_json::from_slice(&text).map_err(|e| RequestError::Answer(e.to_string()))?;
    Ok((socket, answer, descriptors))
}

/// Receives one message with its descriptors.
fn receive(socket: &OwnedFd) -> io::Result<(Vec<u8>, Vec<OwnedFd>)> {
    let mut bytes = vec![0; MOST_ANSWER_BYTES];
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

/// Reason why the dataplane has closed an application's socket; `None` if the dataplane has ended.
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

fn unpack(sizes: Sizes, descriptors: Vec<OwnedFd>) -> Result<Outside, RequestError> {
    let count = descriptors.len();
    let cores = sizes.cores as usize;
    let expected = DESCRIPTORS + DESCRIPTORS_A_CORE * cores.min(MOST_CORES);
    let mut all = descriptors.into_iter();
    let (Some(area), Some(inbox), Some(bell), true) =
        (all.next(), all.next(), all.next(), count == expected)
    else {
        return Err(RequestError::Answer(format!(
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
