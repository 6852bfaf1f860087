//! What a dataplane reports while it runs.

use cofferdam_xsk::LinkState;

/// What a dataplane has to say while it runs; one line each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Applications can attach.
    Ready,
    /// A device was set down, or came up again.
    Device {
        /// Its name.
        name: String,
        /// How it is now.
        link: LinkState,
    },
    /// This many applications were ended for breaking the rules; which was the last, and why.
    Offence {
        /// Since the last notice of this kind.
        count: u64,
        /// Application and reason.
        last: String,
    },
    /// A flow group that elastic cores move has not arrived within a second. Nothing more is moved
    /// until it has; it is ordered once.
    Stuck {
        /// The flow group.
        group: u8,
        /// The core that it is on its way to.
        core: u8,
    },
}
