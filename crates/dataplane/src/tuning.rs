//! Sizes and thresholds of the dataplane: the unit, the source of the value, and the effect of a
//! change. [`crate::config`] has the settings of a user.

use cofferdam_netstack::Keepalive;
use std::time::Duration;

/// Applications of one dataplane, at most. A place is a bit of the stack's readers
/// ([`cofferdam_netstack::READERS`]) and a byte of its tokens. More: each turn looks at more rings.
pub const MOST_APPLICATIONS: usize = 16;
/// Packets of a batch, at most: four times IX's bound, which is the default. Larger: the packets of
/// a batch leave the caches before they are processed, and the classes of batch sizes end here.
pub const MOST_BATCH: u32 = 256;
/// Cores of one dataplane, at most: handles have five bits for the core.
pub const MOST_CORES: usize = 32;

/// Times at which silent peers are probed, as in Linux (RFC 1122, 4.2.3.6). Shorter: more packets
/// for idle connections; longer: connections of vanished peers keep their places longer.
pub(crate) const KEEPALIVE: Keepalive = Keepalive {
    idle: Duration::from_secs(7200),
    interval: Duration::from_secs(75),
    probes: 9,
};

/// Segments of a burst per acknowledgement. More: fewer packets back; fewer: the sender's window
/// opens in smaller steps. Linux merges as many in one receive poll.
pub(crate) const BURST_SEGMENTS: u8 = 16;

/// Interval at which a busy loop publishes its counters. Shorter: it costs more of the loop's time;
/// longer: the control plane's busy shares and queue delays are less exact.
pub(crate) const SHOW_EVERY: Duration = Duration::from_millis(10);

/// The loop of one core.
pub(crate) mod turns {
    /// Units of work for one application in one turn, so that none keeps the loop to itself. A call
    /// is a unit, and so is each port that the search for a free one looks at. More: others'
    /// packets wait longer; fewer: an application with many small calls needs more turns.
    pub const MOST_UNITS: u32 = 1024;
    /// Places of a table in one unit; they are adjacent in memory.
    pub const PLACES_A_UNIT: u32 = 32;
    /// Places of the table of connections that a turn looks at for an ended application, and
    /// connections that it resets. More: others wait longer.
    pub const ENDED_AT_ONCE: (usize, usize) = (8192, 128);
    /// Conditions that may be buffered for an application's full ring: four rings. An application
    /// with more does not read, and is ended. More: they take the dataplane's memory.
    pub const MOST_UNREAD: usize = 32768;
    /// Part of the dataplane's frames that an application may have, where it reads in place. The
    /// stack has at most [`STACK_PART`], and the rest is for packets that arrive or are sent,
    /// however greedy both are.
    pub const HELD_PART: (u32, u32) = (3, 8);
    /// See [`HELD_PART`].
    pub const STACK_PART: (u32, u32) = (1, 4);
    /// Part of its frames to which a full application must come down before its peers' windows open
    /// again. Higher: windows open and close every few frames; lower: the application runs out of
    /// data first.
    pub const RESUME_PART: (u32, u32) = (3, 4);
    /// Payload of a segment from which on it waits for the next one within a turn. Smaller: single
    /// segments are checked twice; larger: peers with small segments get no large packets.
    pub const LEAST_TRAIN_SEGMENT_BYTES: usize = 512;
    /// Entries of the lane from one core to another, and messages for a moving flow group. More:
    /// memory for each pair of cores; fewer: bursts are lost on the way.
    pub const LANE_ENTRIES: u32 = 4096;
}

/// Eviction of connections that rest.
pub(crate) mod eviction {
    use std::time::Duration;

    /// Time without progress after which a connection rests. Longer: newcomers wait longer where
    /// all peers have equally many connections; shorter: slow but active connections are reset.
    pub const REST: Duration = Duration::from_secs(1);
    /// Connections that one eviction compares. More: the choice is better; fewer: a newcomer costs
    /// less.
    pub const CANDIDATES: u32 = 64;
    /// Places of the table of connections that all evictions of a turn look at, at most. More:
    /// other applications' packets wait longer; fewer: newcomers of a burst are refused.
    pub const PLACES_A_TURN: u32 = 8192;
    /// The table of connections has this part of its places more, for half-open connections and
    /// for those whose end is not reported yet. Larger: more memory; smaller: SYN cookies are sent
    /// earlier.
    pub const SPARE_PART: u32 = 4;
}

/// End of polling.
pub(crate) mod idle {
    use std::time::Duration;

    /// Weight of the newest gap in the mean. Higher: one burst decides; lower: changes of the
    /// traffic count later.
    pub const NEWEST: f64 = 1.0 / 8.0;
    /// Multiple of the longest poll to which a gap is cut, so that one long silence does not make
    /// the next minute slow.
    pub const LONGEST_GAP: f64 = 4.0;
    /// Time to poll after work if the next work is far away, because related packets often arrive
    /// together. Longer: wasted CPU time; shorter: the second packet of a pair finds the loop
    /// asleep.
    pub const MOMENT: Duration = Duration::from_micros(50);
    /// Time until packets that the device refused are sent again, if another core takes the frames
    /// that this one has sent. Longer: a full ring drains later; shorter: more wake-ups while a
    /// device is down.
    pub const STUCK: Duration = Duration::from_millis(1);
}

/// The control plane.
pub(crate) mod control {
    use std::time::Duration;

    /// Time limit for the arrival of a flow group. It arrives within microseconds; later on a core
    /// that sleeps deeply or shares its CPU. Shorter: moves on a busy host count as stuck.
    pub const MOVE_PATIENCE: Duration = Duration::from_secs(1);
    /// Interval of checks whether a flow group has arrived. Shorter: the control thread takes more
    /// CPU time during a plan; longer: a plan of many moves takes longer.
    pub const MOVE_LOOK: Duration = Duration::from_micros(50);
    /// Time that a requested move waits for one of the planner's before it is refused. Status
    /// requests wait as long, so that it is below their limit of 100 ms.
    pub const MOVE_TURN: Duration = Duration::from_millis(50);
    /// Time for moves in one turn of the control plane. Longer: requests wait longer; shorter:
    /// plans take longer.
    pub const MOVE_BUDGET: Duration = Duration::from_millis(5);
    /// Longest wait of the control plane for a client, in milliseconds. It notices `stop` within
    /// this time, which may be set without a wake-up. Shorter: an idle dataplane wakes more often.
    pub const LONGEST_WAIT_MS: u8 = 50;
    /// Longest wait during a plan, in milliseconds.
    pub const BUSY_WAIT_MS: u8 = 1;
    /// Connected clients without a request. Each is a descriptor.
    pub const MOST_ASKING: usize = 64;
    /// Connected clients without a request of one user other than root, so that no user keeps
    /// others out.
    pub const MOST_ASKING_A_USER: usize = 8;
    /// Connections accepted at one socket in one turn: a quarter of the longest backlog that the
    /// kernel allows. More: clients that are connected wait longer for their turn; fewer: a client
    /// behind a flood of connections waits for more turns.
    pub const ACCEPT_AT_ONCE: usize = 1024;
    /// Requests to attach that are pending. Each is a descriptor.
    pub const MOST_WAITING: usize = 128;
    /// Pending requests to attach of one user other than root. More: a user's own requests wait
    /// longer; fewer: a server that starts many processes at once is refused.
    pub const MOST_WAITING_A_USER: usize = 32;
    /// Time within which a connected client must send its request. Longer: silent clients keep
    /// their places longer.
    pub const ASKING_PATIENCE: Duration = Duration::from_secs(1);
}

/// Limits of the cost of a bell.
pub(crate) mod bell {
    use std::time::Duration;

    /// Time from a cheap ring within which the loop rings by itself. An application needs half a
    /// microsecond to add a watch, and each watch costs a ring the same time, so that this is also
    /// the loop's longest ring. Longer: longer stalls; shorter: applications that are rarely woken
    /// wait for another thread more often.
    pub const TRUSTED_FOR: Duration = Duration::from_millis(10);
    /// Longest duration of a cheap ring; a ring without watches takes 10 µs. Lower: an interrupted
    /// loop counts as an expensive ring; higher: more watches are not noticed.
    pub const CHEAP: Duration = Duration::from_micros(500);
    /// Time without rings of the loop for an application after an expensive ring. Longer: an
    /// application that was only interrupted is woken by a thread for longer; shorter: stalls
    /// repeat more often.
    pub const DISTRUSTED_FOR: Duration = Duration::from_secs(60);
    /// CPU time of an expensive ring, which has thousands of watches.
    pub const DEAR: Duration = Duration::from_millis(1);
    /// Consecutive expensive rings that end an application. Fewer: time that a hypervisor steals
    /// could end one.
    pub const MOST_DEAR: u32 = 3;
}

/// Planner of elastic cores. The values are simulated in `elastic/tests.rs`.
pub(crate) mod elastic {
    /// Part of the load at which a core was added, below which it is removed. Higher: at a constant
    /// load a core may come and go; lower: cores stay longer than needed.
    pub const LESS: f64 = 0.75;
    /// Difference of busy shares from which on loads are balanced. Lower: groups move because of
    /// noise.
    pub const FAR: f64 = 0.2;
    /// Part of the busiest core's load that a new core must take, at least. Lower: cores without
    /// load are added.
    pub const LEAST_GAIN: f64 = 0.1;
    /// Part of its table of connections to which a core is filled, because connections open while
    /// groups move.
    pub const FULL: f64 = 0.75;
    /// Multiple of its share to which a core is filled, at most. Lower: large groups fit nowhere;
    /// higher: loads stay uneven.
    pub const SLACK: f64 = 1.1;
    /// Pauses. A core that is added again within so many pauses after a removal was removed too
    /// early, and the next removal waits twice as long.
    pub const TOO_EARLY: u32 = 8;
    /// Pauses. Longest wait before a removal.
    pub const LONGEST: u32 = 64;
}

/// Memory.
pub(crate) mod memory {
    /// Buffers of 64 KiB for datagrams that arrive in fragments.
    pub const SPANS: u32 = 16;
    /// Buffers if the device's MTU is larger than a frame: they store whole windows of segments.
    pub const SPANS_FOR_LARGE_MTU: u32 = 256;
    /// Part of the frames in a device's ring, of all cores together.
    pub const RING_PART: u32 = 4;
    /// Least entries of a device's ring.
    pub const LEAST_RING_ENTRIES: u32 = 64;
    /// Entries of a device's ring, at most. More: received packets would cover more memory than the
    /// caches have.
    pub const MOST_RING_ENTRIES: u32 = 16_384;
    /// Frames of a core, at least: those of a ring, and some to work with.
    pub const LEAST_FRAMES: u32 = 256;
}

/// Session of an application.
pub(crate) mod session {
    use std::time::Duration;

    /// Interval at which [`crate::Session::check`] looks for the dataplane, by a system call.
    /// Longer: the end of a dataplane is noticed later.
    pub const CHECK: Duration = Duration::from_millis(100);
    /// Time that an application yields the loop's CPU before it sleeps. Longer: it costs the
    /// scheduler work without use; shorter: rare packets wake it.
    pub const LINGER: Duration = Duration::from_millis(10);
    /// Pending datagrams of a session, at least, however small its share of the table. More: a
    /// burst finds the table full and loses its end; fewer: an application waits for every few
    /// datagrams.
    pub const LEAST_DATAGRAMS: u32 = 64;
    /// Memory of a connection before its peer has acknowledged anything: twice the first window
    /// (RFC 6928). More: fewer peers that acknowledge nothing fill the memory; less: connections
    /// start slower.
    pub const START_BYTES: u32 = 32 << 10;
    /// Memory that each connection may have in any case. More: fewer connections get it; less:
    /// connections send smaller segments when memory is short.
    pub const FLOOR_BYTES: u32 = 2048;
    /// Divisor of the memory, and of the sends, for the reserve.
    pub const RESERVE_PART: u32 = 8;
    /// Divisor of the free memory beyond the reserve for the limit of one connection. Higher:
    /// single large senders have less; lower: the first ones leave less to the next.
    pub const SHARE_PART: u32 = 8;
    /// Time without an acknowledgement after which a connection is reset if memory is short: three
    /// retransmissions. Longer: others wait longer for memory; shorter: peers that have lost
    /// packets are reset.
    pub const STALLED_FOR: Duration = Duration::from_secs(2);
    /// Interval of the checks for stalled connections while memory is short.
    pub const LOOK_EVERY: Duration = Duration::from_millis(50);
    /// Connections in each check.
    pub const LOOK_AT_ONCE: usize = 1024;
    /// Cookie of the timer for the checks: the largest of 48 bits, which applications do not have.
    pub const LOOK_TIMER: u64 = (1 << 48) - 1;
    /// Longest wait for an answer of the control socket in seconds. It answers within 100 ms.
    pub const ANSWER_PATIENCE_S: i64 = 5;
}
