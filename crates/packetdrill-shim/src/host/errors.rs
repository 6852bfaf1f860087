//! Errors of the stack as the error numbers that Linux returns.

use cofferdam_netstack::{BindError, ConnectError, UdpSendError};
use nix::errno::Errno;

/// Result of a system call.
pub type Result<T> = std::result::Result<T, Errno>;

/// Errors of `bind(2)` and `listen(2)`.
pub(super) fn bind_failure(error: BindError) -> Errno {
    match error {
        BindError::InUse(_) => Errno::EADDRINUSE,
        BindError::NotOurs(_) => Errno::EADDRNOTAVAIL,
        BindError::NoPort => Errno::EINVAL,
        BindError::Full(_) => Errno::ENOBUFS,
    }
}

/// Errors of `connect(2)`.
pub(super) fn connect_failure(error: ConnectError) -> Errno {
    match error {
        ConnectError::Remote(_) | ConnectError::NoRoute(_) => Errno::ENETUNREACH,
        ConnectError::NotOurs(_) | ConnectError::InUse(_) => Errno::EADDRNOTAVAIL,
        ConnectError::Full(_) => Errno::ENOBUFS,
    }
}

/// Errors of `sendto(2)`.
pub(super) fn send_failure(error: UdpSendError) -> Errno {
    match error {
        UdpSendError::TooLong { .. } => Errno::EMSGSIZE,
        UdpSendError::NoRoute(_) => Errno::ENETUNREACH,
        UdpSendError::Full | UdpSendError::TooManyChunks(_) => Errno::ENOBUFS,
        UdpSendError::Gone => Errno::EBADF,
    }
}
