//! Errors of ports.

use std::io;

/// A device, socket or packet memory that could not be set up, or that failed.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    /// A system call failed.
    #[error("{what} on {device}: {source}")]
    Os {
        /// The operation that failed.
        what: &'static str,
        /// Name of the device, or a substitute.
        device: String,
        /// Error of the kernel.
        #[source]
        source: io::Error,
    },
    /// This network namespace has no such device.
    #[error("there is no network device {0} here: see `ip link`")]
    NoDevice(String),
    /// The device was removed while in use.
    #[error("{0} is gone: it was removed, or moved to another network namespace")]
    Gone(String),
    /// The device has fewer queues.
    #[error("{device} has no queue {queue}: see `ls /sys/class/net/{device}/queues`")]
    NoQueue {
        /// Name of the device.
        device: String,
        /// Number of the queue.
        queue: u32,
    },
    /// The queue has an AF_XDP socket already, or the device has another XDP program.
    #[error(
        "{0} is in use by another XDP program or AF_XDP socket: stop it first (see `ip link show \
            {0}`)"
    )]
    Busy(String),
    /// The kernel or the device lacks AF_XDP.
    #[error("{device} offers no AF_XDP sockets: {why}")]
    Unsupported {
        /// Name of the device.
        device: String,
        /// The part that is missing.
        why: String,
    },
    /// Frames would not fit the buffers.
    #[error(
        "{device} has an MTU of {mtu_bytes} bytes; buffers of {room_bytes} bytes hold no such \
            frame: lower the MTU or use larger frames"
    )]
    Mtu {
        /// Name of the device.
        device: String,
        /// MTU of the device.
        mtu_bytes: u32,
        /// Bytes that a buffer holds.
        room_bytes: u32,
    },
    /// Packets would need several frames, on a device that several sockets share.
    #[error(
        "{device} has an MTU of {mtu_bytes} bytes; with several cores, and on every device after \
            the first, a packet must fit one frame, which holds {room_bytes} bytes: lower the MTU, \
            or use larger frames"
    )]
    MtuOfSeveral {
        /// Name of the device.
        device: String,
        /// MTU of the device.
        mtu_bytes: u32,
        /// Bytes that a frame holds.
        room_bytes: u32,
    },
    /// The program could not be loaded.
    #[error("the redirecting program for {device}: {source}")]
    Load {
        /// Name of the device.
        device: String,
        /// Cause of the failure.
        #[source]
        source: cofferdam_bpf::LoadError,
    },
    /// The program's maps could not be written.
    #[error("the redirecting program on {device}: {source}")]
    Program {
        /// Name of the device.
        device: String,
        /// Cause of the failure.
        #[source]
        source: cofferdam_bpf::MapError,
    },
}

impl PortError {
    /// Whether the kernel refused for lack of rights.
    pub fn is_denied(&self) -> bool {
        match self {
            PortError::Os { source, .. } => source.kind() == io::ErrorKind::PermissionDenied,
            PortError::Load { source, .. } => {
                matches!(source, cofferdam_bpf::LoadError::Permission)
            }
            _ => false,
        }
    }

    pub(crate) fn os(what: &'static str, device: &str, source: io::Error) -> PortError {
        match source.raw_os_error() {
            Some(libc::EBUSY) => PortError::Busy(device.to_owned()),
            Some(libc::ENODEV | libc::ENXIO) => PortError::NoDevice(device.to_owned()),
            Some(libc::EOPNOTSUPP | libc::EAFNOSUPPORT | libc::EPROTONOSUPPORT) => {
                PortError::Unsupported {
                    device: device.to_owned(),
                    why: format!("{what}: {source}"),
                }
            }
            _ => PortError::Os {
                what,
                device: device.to_owned(),
                source,
            },
        }
    }
}
