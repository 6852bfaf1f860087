//! Resources of one application in the stack of one core.

/// Numbers of connections, ranges of memory and datagrams.
#[derive(Debug)]
pub(super) struct Account {
    connections: u32,
    /// Ranges of its memory that the stack refers to.
    ranges: u32,
    most_ranges: u32,
    datagrams: u32,
}

impl Account {
    /// An empty account; the stack may refer to `most_ranges`.
    pub fn new(most_ranges: u32) -> Account {
        Account {
            connections: 0,
            ranges: 0,
            most_ranges,
            datagrams: 0,
        }
    }

    /// Counts a connection with `ranges` that the application gets.
    pub fn open(&mut self, ranges: u32) {
        self.connections += 1;
        self.ranges += ranges;
    }

    /// Counts a connection with `ranges` that the application loses.
    pub fn close(&mut self, ranges: u32) {
        self.connections -= 1;
        self.ranges -= ranges;
    }

    /// Number of its connections.
    pub fn connections(&self) -> u32 {
        self.connections
    }

    /// Whether the stack may refer to another range.
    pub fn has_room(&self) -> bool {
        self.ranges < self.most_ranges
    }

    /// Counts a range that the stack has taken.
    pub fn send(&mut self) {
        self.ranges += 1;
    }

    /// Counts ranges that were acknowledged.
    pub fn acknowledge(&mut self, ranges: u32) {
        self.ranges -= ranges;
    }

    /// Counts a datagram that the stack has taken.
    pub fn send_datagram(&mut self) {
        self.datagrams += 1;
    }

    /// Counts a datagram that was sent or dropped.
    pub fn end_datagram(&mut self) {
        self.datagrams -= 1;
    }

    /// Whether the stack refers to nothing of the application.
    pub fn is_empty(&self) -> bool {
        self.connections == 0 && self.datagrams == 0
    }
}
