//! Reasons for which an application is ended.

use crate::tuning::turns::MOST_UNREAD;

/// Reason for which an application was ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Offence {
    /// The application has ended, or has closed its socket.
    #[error("it is gone")]
    Gone,
    /// A ring has an impossible index.
    #[error("it wrote an impossible index into its rings")]
    Ring,
    /// An entry is not a call.
    #[error("it wrote an entry into its ring that is not a call")]
    Call,
    /// A range lies outside its memory.
    #[error("it referred to memory that is not its own")]
    Memory,
    /// The application does not have the frame.
    #[error("it returned a frame that it did not hold")]
    Frame,
    /// The connection belongs to another application.
    #[error("it referred to a connection of another application")]
    Connection,
    /// The application does not read its conditions.
    #[error("it left {MOST_UNREAD} conditions unread")]
    Deaf,
    /// The application faulted or failed on the dataplane's thread.
    #[error("it faulted")]
    Fault,
    /// Waking the application costs too much, because its bell has too many waiters.
    #[error("waking it takes too long: thousands of epoll watches wait at its bell")]
    Bell,
}

impl Offence {
    /// All reasons.
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
