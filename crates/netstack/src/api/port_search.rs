//! A search for a free local port, in parts.

/// How far a search for a free local port is: see
/// [`Stack::connect_by`](crate::Stack::connect_by).
#[derive(Debug, Clone, Copy, Default)]
pub struct PortSearch {
    /// Ports that it may look at now; those that it has looked at are taken off.
    pub most: u32,
    /// Place in the order of ports at which it began.
    pub(crate) first: Option<u16>,
    /// Ports that it has looked at, in all parts together.
    pub(crate) tried: u32,
}

impl PortSearch {
    /// A search that ends in one part.
    pub(crate) const fn complete() -> Self {
        Self {
            most: u32::MAX,
            first: None,
            tried: 0,
        }
    }
}
