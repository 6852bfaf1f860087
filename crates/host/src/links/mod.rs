//! Network devices of the host and inside containers, over rtnetlink.

mod system;

pub(crate) use system::SystemNetwork;

use crate::HostError;
use crate::netlink::LinkMessage;
use cofferdam_types::NetnsId;
use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;

/// Namespace of the other end of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PeerSpace {
    /// No other end, or in the same namespace.
    Same,
    /// In the host's namespace.
    Host,
    /// In another namespace, which may be unknown.
    Other(Option<NetnsId>),
}

/// Device inside a container's namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InnerLink {
    pub link: LinkMessage,
    pub peer_space: PeerSpace,
}

/// Contents of one namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Inside {
    /// Number of the namespace in the host's namespace, once a device links the two.
    pub nsid: Option<i32>,
    pub links: Vec<InnerLink>,
}

/// A change that the kernel reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LinkEvent {
    /// A device was made, changed or removed in the host's namespace (`nsid` is `None`), or in the
    /// namespace with the host's number `nsid`.
    Link {
        nsid: Option<i32>,
        link: LinkMessage,
    },
    /// The number `nsid` is free again.
    NsidGone(i32),
    /// Messages were lost: read everything again.
    Lost,
}

/// Namespace to visit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Door {
    pub netns: NetnsId,
    /// File of the namespace, such as `/proc/PID/ns/net`.
    pub file: PathBuf,
}

/// Lists further namespaces; called only if a device's other end is in neither of two.
pub(crate) type Others<'a> = &'a (dyn Fn() -> Vec<Door> + Sync);

/// Network side of a host; tests replace it by a synthetic one.
pub(crate) trait Network: Send {
    /// Returns a descriptor that is readable when [`Network::drain`] has events.
    fn fd(&self) -> BorrowedFd<'_>;
    /// Takes all pending events, without waiting.
    fn drain(&mut self) -> Vec<LinkEvent>;
    /// Lists all devices of the host's namespace.
    fn host_links(&mut self) -> Result<Vec<LinkMessage>, HostError>;
    /// Visits each namespace of `doors`; leaves out namespaces that have ended. `others` are
    /// namespaces that may have the other end of a device.
    fn look_inside(&mut self, doors: &[Door], others: Others<'_>) -> HashMap<NetnsId, Inside>;
}
