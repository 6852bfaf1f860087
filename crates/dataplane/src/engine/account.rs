//! What the stack has of one application's, on one core.

/// Connections, ranges of memory and datagrams.
#[derive(Debug)]
pub(super) struct Account {
    connections: u32,
    /// Ranges of its memory that the stack refers to.
    ranges: u32,
    most_ranges: u32,
    datagrams: u32,
}

impl Account {
    /// Nothing; the stack may refer to `most_ranges`.
    pub fn new(most_ranges: u32) -> Account {
        Account {
            connections: 0,
            ranges: 0,
            most_ranges,
            datagrams: 0,
        }
    }

    /// It owns a connection with `ranges`.
    pub fn open(&mut self, ranges: u32) {
        self.connections += 1;
        self.ranges += ranges;
    }

    /// It no longer owns a connection with `ranges`.
    pub fn close(&mut self, ranges: u32) {
        self.connections -= 1;
        self.ranges -= ranges;
    }

    /// Its connections.
    pub fn connections(&self) -> u32 {
        self.connections
    }

    /// Whether the stack may refer to one range more.
    pub fn has_room(&self) -> bool {
        self.ranges < self.most_ranges
    }

    /// The stack has taken a range.
    pub fn send(&mut self) {
        self.ranges += 1;
    }

    /// So many ranges are acknowledged.
    pub fn acknowledge(&mut self, ranges: u32) {
        self.ranges -= ranges;
    }

    /// The stack has taken a datagram.
    pub fn send_datagram(&mut self) {
        self.datagrams += 1;
    }

    /// A datagram is sent, or given up.
    pub fn end_datagram(&mut self) {
        self.datagrams -= 1;
    }

    /// Whether the stack refers to nothing of it.
    pub fn is_empty(&self) -> bool {
        self.connections == 0 && self.datagrams == 0
    }
}
