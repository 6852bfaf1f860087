//! Sizes and thresholds of the ports: the unit, the source of the value, and the effect of a
//! change.

use std::time::Duration;

/// Frames of one packet: the kernel accepts 17 (MAX_SKB_FRAGS). More: it refuses the packet.
pub const MOST_PARTS: u32 = 16;
/// Ranges of payload in one large packet, at most. More: the kernel copies a longer list; fewer:
/// applications that send small pieces get smaller packets.
pub const MOST_LARGE_PARTS: usize = 62;
/// Bytes of large packets that are pending in the kernel. More: a slow device delays packets
/// longer; fewer: bursts of several connections are lost.
pub const SEGMENTER_SEND_BYTES: i32 = 8 << 20;
/// Time that a socket waits for its queue. The queue of a killed owner stays bound until the kernel
/// has released its memory.
pub const BUSY_PATIENCE: Duration = Duration::from_secs(2);
/// Time between attempts to bind. Shorter: more sockets are made, as each attempt needs one.
pub const BUSY_LOOK: Duration = Duration::from_millis(10);
/// Packets that a pipe holds in each direction. More: memory; fewer: a batch of 256 finds it full.
pub const PIPE_SLOTS: u32 = 512;
/// Bytes of a pipe's packet.
pub const PIPE_SLOT_BYTES: usize = 2048;
