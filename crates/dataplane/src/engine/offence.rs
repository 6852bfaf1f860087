//! What an application can be ended for.

use crate::tuning::turns::MOST_UNREAD;

/// Why an application was ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Offence {
    /// It ended itself, or closed its socket.
    #[error("it is gone")]
    Gone,
    /// An index of its rings cannot be.
    #[error("it wrote an impossible index into its rings")]
    Ring,
    /// An entry is no call.
    #[error("it wrote an entry into its ring that is not a call")]
    Call,
    /// A range outside its memory.
    #[error("it referred to memory that is not its own")]
    Memory,
    /// A frame that it does not hold.
    #[error("it returned a frame that it did not hold")]
    Frame,
    /// A connection of another application.
    #[error("it referred to a connection of another application")]
    Connection,
    /// It does not read its conditions.
    #[error("it left {MOST_UNREAD} conditions unread")]
    Deaf,
    /// It faulted, or failed, where the dataplane's thread runs it.
    #[error("it faulted")]
    Fault,
    /// Waking it costs too much: too many wait at its bell.
    #[error("waking it takes too long: thousands of epoll watches wait at its bell")]
    Bell,
}

impl Offence {
    /// All that an application can be ended for.
    pub const ALL: [Offence; 8] = [
        Offence::Ring,
        Offence::Call,
        Offence::Memory,
        Offence::Frame,
        Offence::Connection,
        Offence::Deaf,
        Offence::Fault,
        Offence::Bell,
    ];
}
