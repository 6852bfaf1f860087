//! Search for a free local port, in parts.

/// Progress of a search for a free local port; see [`Stack::connect_by`](crate::Stack::connect_by).
#[derive(Debug, Clone, Copy, Default)]
pub struct PortSearch {
    /// Number of ports that the next part may examine. The search subtracts each examined port.
    pub most: u32,
    /// Position in the order of ports at which the search began.
    pub(crate) first: Option<u16>,
    /// Ports examined in all parts together.
    pub(crate) tried: u32,
}

impl PortSearch {
    /// A search that may examine every port in one part.
    pub(crate) const fn complete() -> Self {
        Self {
            most: u32::MAX,
            first: None,
            tried: 0,
        }
    }
}
