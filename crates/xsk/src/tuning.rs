//! Sizes and thresholds of the ports: the unit, where the value comes from, and what changes when it
//! is moved.

use std::time::Duration;

/// Frames that one packet is sent in: the kernel takes 17 (MAX_SKB_FRAGS). More: it refuses the
/// packet.
pub const MOST_PARTS: u32 = 16;
/// Ranges of payload that one large packet is gathered from at most. More: a longer list for the kernel
/// to copy; fewer: applications that send in small pieces get smaller packets.
pub const MOST_LARGE_PARTS: usize = 62;
/// Bytes of large packets that wait in the kernel for the device. More: a slow device delays what is sent
/// by more; fewer: bursts of several connections are lost.
pub const SEGMENTER_SEND_BYTES: i32 = 8 << 20;
/// How long a socket waits for its queue. That of a killed owner stays bound for a moment, until the
/// kernel has released its memory.
pub const BUSY_PATIENCE: Duration = Duration::from_secs(2);
/// Between tries to bind. Shorter: more sockets made for nothing, as each try needs a new one.
pub const BUSY_LOOK: Duration = Duration::from_millis(10);
/// Packets that a pipe holds each way. More: memory; fewer: a batch bound of 256 finds it full.
pub const PIPE_SLOTS: u32 = 512;
/// Bytes of a pipe's packet.
pub const PIPE_SLOT_BYTES: usize = 2048;
