//! Orders of other threads to a loop.

use super::domain::Domain;

/// An order of another thread to a loop.
pub(crate) enum Order {
    /// Attach this application.
    Attach(Box<Domain>),
    /// Fetch this flow group from the core that has it.
    Fetch(u8),
    /// Run the checks of a turn, because something has changed.
    Check,
}
