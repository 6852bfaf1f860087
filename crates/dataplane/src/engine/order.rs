//! What other threads ask of a loop.

use super::domain::Domain;

/// What other threads ask of a loop.
pub(crate) enum Order {
    /// Serve this application.
    Attach(Box<Domain>),
    /// Take this flow group from the core that has it.
    Fetch(u8),
    /// Look up: something has changed that the loop checks each turn.
    Look,
}
