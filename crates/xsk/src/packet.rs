//! Numbers of frames, and packets in them.

/// Index of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Frame(pub u32);

/// A packet in a frame: `len` bytes from `start` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The frame.
    pub frame: Frame,
    /// First byte of the packet in the frame.
    pub start: u32,
    /// Length in bytes, from the Ethernet header on.
    pub len: u32,
}
