//! Network devices of the host and inside containers, over rtnetlink.

mod system;

pub(crate) use system::SystemNetwork;

use crate::HostError;
use crate::netlink::LinkMessage;
use cofferdam_types::NetnsId;
use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;

/// Where the other end of a device lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PeerSpace {
    /// No other end, or in the same namespace.
    Same,
    /// In the host's namespace.
    Host,
    /// In another namespace; which, if known.
    Other(Option<NetnsId>),
}

/// A device inside a container's namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InnerLink {
    pub link: LinkMessage,
    pub peer_space: PeerSpace,
}

/// What was found inside one namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Inside {
    /// The number the host's namespace knows it by, once a device links the two.
    pub nsid: Option<i32>,
    pub links: Vec<InnerLink>,
}

/// A change that the kernel reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LinkEvent {
    /// A device was made, changed or removed in the host's namespace (`nsid` `None`), or in
    /// the one that the host knows by `nsid`.
    Link {
        nsid: Option<i32>,
        link: LinkMessage,
    },
    /// The number `nsid` is free again.
    NsidGone(i32),
    /// Messages were lost: read everything again.
    Lost,
}

/// A namespace to look into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Door {
    pub netns: NetnsId,
    /// A file that stands for it, such as `/proc/PID/ns/net`.
    pub file: PathBuf,
}

/// Lists further namespaces; asked only when a device's other end is in neither of two.
pub(crate) type Others<'a> = &'a (dyn Fn() -> Vec<Door> + Sync);

/// The network side of a host; tests put a made-up one in its place.
pub(crate) trait Network: Send {
    /// Readable when [`Network::drain`] has something.
    fn fd(&self) -> BorrowedFd<'_>;
    /// Takes all pending events, without waiting.
    fn drain(&mut self) -> Vec<LinkEvent>;
    /// All devices of the host's namespace.
    fn host_links(&mut self) -> Result<Vec<LinkMessage>, HostError>;
    /// Looks into each namespace of `doors`; those that are gone are left out. `others` are
    /// namespaces in which the other end of a device may lie.
    fn look_inside(&mut self, doors: &[Door], others: Others<'_>) -> HashMap<NetnsId, Inside>;
}
