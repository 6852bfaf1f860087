//! Notices of a running dataplane.

use cofferdam_xsk::LinkState;

/// A notice of a running dataplane, for one line of text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Applications can attach.
    Ready,
    /// A device was set down, or came up again.
    Device {
        /// Name of the device.
        name: String,
        /// State of its link.
        link: LinkState,
    },
    /// Applications were ended for breaking the rules.
    Offence {
        /// Number of them since the previous notice of this kind.
        count: u64,
        /// Name and reason of the last one.
        last: String,
    },
    /// A flow group that elastic cores move has not arrived within a second. No other group moves
    /// until it has.
    Stuck {
        /// The flow group.
        group: u8,
        /// Core that the group is to reach.
        core: u8,
    },
}
