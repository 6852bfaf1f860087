//! Every size and threshold of the dataplane: its unit, where the value comes from, and what
//! changes when it is moved. What a user can set is in [`crate::config`].

use cofferdam_netstack::Keepalive;
use std::time::Duration;

/// Applications that one dataplane serves at most. A place is a bit of the stack's readers
/// ([`cofferdam_netstack::READERS`]) and a byte of its tokens. More: each turn looks at more rings.
pub const MOST_APPLICATIONS: usize = 16;
/// Largest batch bound, in packets: four times IX's, which is the default. Larger: the packets of a
/// batch leave the caches before they are processed, and the classes of batch sizes end here.
pub const MOST_BATCH: u32 = 256;
/// Cores of one dataplane at most: handles carry the core in five bits.
pub const MOST_CORES: usize = 32;

/// When silent peers are asked whether they are there: Linux's times (RFC 1122, 4.2.3.6). Shorter: more
/// packets for idle connections; longer: those of peers that are gone keep their places longer.
pub(crate) const KEEPALIVE: Keepalive = Keepalive {
    idle: Duration::from_secs(7200),
    interval: Duration::from_secs(75),
    probes: 9,
};

/// Segments of a burst that one acknowledgement may stand for. More: fewer packets back; fewer: the
/// sender's window opens in smaller steps. Linux merges as many in one receive poll.
pub(crate) const BURST_SEGMENTS: u8 = 16;

/// How often a busy loop shows its counters. More often: more of its time goes into them; rarer:
/// the control plane's busy shares and queue delays are off by more.
pub(crate) const SHOW_EVERY: Duration = Duration::from_millis(10);

/// The loop of one core.
pub(crate) mod turns {
    /// Units of work that are done for one application in one turn: no application keeps the loop
    /// to itself. A call is one, and so is each port that a search for a free one looks at. More:
    /// others' packets wait longer; fewer: an application with many small calls needs more turns.
    pub const MOST_UNITS: u32 = 1024;
    /// Places of a table that are looked through for one unit: they lie side by side.
    pub const PLACES_A_UNIT: u32 = 32;
    /// Places of the connections' table that are looked through in one turn for an application that
    /// has ended, and connections that are reset. More: others wait longer for its end.
    pub const ENDED_AT_ONCE: (usize, usize) = (8192, 128);
    /// Conditions that wait for room in an application's ring: a longer queue is an application
    /// that does not read, and ends it. Four rings' entries. More: its memory is the dataplane's.
    pub const MOST_UNREAD: usize = 32768;
    /// Part of the frames that an application may hold of the dataplane's memory, where it reads in
    /// place; the stack keeps [`STACK_PART`] at most, and what is left is for what arrives and what
    /// is sent, however greedy both are.
    pub const HELD_PART: (u32, u32) = (3, 8);
    /// See [`HELD_PART`].
    pub const STACK_PART: (u32, u32) = (1, 4);
    /// Part of what it may hold that an application which held all must come down to before its
    /// peers' windows open again. Higher: windows open and close with every few frames; lower: the
    /// application runs dry first.
    pub const RESUME_PART: (u32, u32) = (3, 4);
    /// Payload of a segment that the next one of its connection is waited for within the turn's sending.
    /// Smaller: segments that stand alone are looked at twice; larger: peers with a small segment
    /// size get no large packets.
    pub const LEAST_TRAIN_SEGMENT_BYTES: usize = 512;
    /// Entries of the lane from one core to another, and packets that wait for a flow group on its
    /// way. More: memory for each pair of cores; fewer: bursts are lost on the way.
    pub const LANE_ENTRIES: u32 = 4096;
}

/// When a loop stops polling.
pub(crate) mod idle {
    use std::time::Duration;

    /// Weight of the newest gap in the mean. Higher: one burst decides; lower: a change of the
    /// traffic is seen later.
    pub const NEWEST: f64 = 1.0 / 8.0;
    /// A gap counts as at most this multiple of the longest poll: one long silence must not make
    /// the next minute slow.
    pub const LONGEST_GAP: f64 = 4.0;
    /// How long a loop polls after work where the next is far away: what belongs together often
    /// comes close. Longer: CPU time for nothing; shorter: the second packet of a pair finds it
    /// asleep.
    pub const MOMENT: Duration = Duration::from_micros(50);
    /// When to try again to send what the device refused, where another core takes back what this
    /// one has sent. Longer: a full ring drains later; shorter: more wake-ups while a device is
    /// down.
    pub const STUCK: Duration = Duration::from_millis(1);
}

/// The control plane.
pub(crate) mod control {
    use std::time::Duration;

    /// How long a flow group may take to arrive. It does within microseconds; on a core that sleeps
    /// deeply, or shares its CPU, later. Shorter: moves on a busy host count as stuck.
    pub const MOVE_PATIENCE: Duration = Duration::from_secs(1);
    /// Between looks whether a flow group has arrived. Shorter: the control thread takes more CPU
    /// time while a plan is carried out; longer: a plan of many moves takes longer.
    pub const MOVE_LOOK: Duration = Duration::from_micros(50);
    /// How long a move by hand waits for one of the planner's before it is refused. Status requests
    /// wait as long, so it stays below the 100 ms in which they are answered.
    pub const MOVE_TURN: Duration = Duration::from_millis(50);
    /// Longest time that one turn of the control plane moves groups. Longer: requests wait longer;
    /// shorter: plans take longer.
    pub const MOVE_BUDGET: Duration = Duration::from_millis(5);
    /// Milliseconds. Longest wait of the control plane for a client: `stop`, which may be set
    /// without waking it, is seen within it. Shorter: an idle dataplane wakes more often.
    pub const LONGEST_WAIT_MS: u8 = 50;
    /// Milliseconds. The same while a plan is carried out.
    pub const BUSY_WAIT_MS: u8 = 1;
    /// Sockets that wait for their request at the same time. Each is a descriptor.
    pub const MOST_ASKING: usize = 64;
    /// Of them, those of one user other than root: no user keeps others out.
    pub const MOST_ASKING_A_USER: usize = 8;
    /// Connections accepted in one turn: clients that are connected have their turn too.
    pub const ACCEPT_AT_ONCE: usize = 64;
    /// Requests to attach that wait for their turn. Each is a descriptor.
    pub const MOST_WAITING: usize = 128;
    /// Of them, those of one user other than root. More: a user's own requests wait longer; fewer:
    /// a server that starts many processes at once is asked to try again.
    pub const MOST_WAITING_A_USER: usize = 32;
    /// A client that connects must send its request within this time. Longer: silent clients keep
    /// their places longer.
    pub const ASKING_PATIENCE: Duration = Duration::from_secs(1);
}

/// What a ring of an application's bell may cost.
pub(crate) mod bell {
    use std::time::Duration;

    /// Time from a cheap ring within which the loop rings by itself. An application adds a watch in
    /// half a microsecond at least, and that much longer is the next ring: so this is the longest
    /// ring of the loop. Longer: such a stall is longer; shorter: applications that are woken
    /// rarely wait for another thread more often.
    pub const TRUSTED_FOR: Duration = Duration::from_millis(10);
    /// A ring is cheap below this: it takes some 10 µs. Lower: a loop that was interrupted while it
    /// rang counts; higher: more watches go unnoticed.
    pub const CHEAP: Duration = Duration::from_micros(500);
    /// How long no session of an application is rung by the loop after a ring that was not cheap.
    /// Longer: one that was only interrupted is woken by a thread for longer; shorter: such stalls
    /// come more often.
    pub const DISTRUSTED_FOR: Duration = Duration::from_secs(60);
    /// CPU time of a ring that no application needs: thousands of watches.
    pub const DEAR: Duration = Duration::from_millis(1);
    /// Such rings in a row that end an application. Fewer: time that a hypervisor steals might do
    /// it.
    pub const MOST_DEAR: u32 = 3;
}

/// The planner of elastic cores. Simulated: see `elastic/tests.rs`.
pub(crate) mod elastic {
    /// A core goes only at a load below this part of that at which it came. Higher: at a constant
    /// load a core may come and go; lower: cores stay longer than they are needed.
    pub const LESS: f64 = 0.75;
    /// Cores whose busy shares are so far apart are evened out. Lower: groups move for the scatter
    /// of an interval.
    pub const FAR: f64 = 0.2;
    /// A core comes only when it takes this part of the busiest core's load, at least. Lower: cores
    /// come that take no load.
    pub const LEAST_GAIN: f64 = 0.1;
    /// A core is given flow groups until its table of connections is full to this part: others open
    /// while groups move.
    pub const FULL: f64 = 0.75;
    /// A core is filled to at most this multiple of its share. Lower: large groups fit nowhere;
    /// higher: loads stay uneven.
    pub const SLACK: f64 = 1.1;
    /// Pauses. A core that comes back so soon after one has gone went too early: the next one's
    /// going waits twice as long.
    pub const TOO_EARLY: u32 = 8;
    /// Pauses. The longest such wait.
    pub const LONGEST: u32 = 64;
}

/// Memory.
pub(crate) mod memory {
    /// Buffers of 64 KiB for packets that fit no frame: datagrams that came in fragments.
    pub const SPANS: u32 = 16;
    /// The same where the device's MTU is larger than a frame: whole windows of segments lie there.
    pub const SPANS_FOR_LARGE_MTU: u32 = 256;
    /// Part of the frames that a device's ring has, of all cores together.
    pub const RING_PART: u32 = 4;
    /// Least entries of a device's ring.
    pub const LEAST_RING_ENTRIES: u32 = 64;
    /// Most. More would spread what is received over more memory than caches have.
    pub const MOST_RING_ENTRIES: u32 = 16_384;
    /// Frames that a core needs at least: a ring's, and some to work with.
    pub const LEAST_FRAMES: u32 = 256;
}

/// An application's side.
pub(crate) mod session {
    use std::time::Duration;

    /// Between two looks of [`crate::Session::check`] whether the dataplane is there: a system call
    /// each. Longer: the end of a dataplane is noticed later.
    pub const CHECK: Duration = Duration::from_millis(100);
    /// How long an application that shares the loop's CPU yields it before it sleeps. Longer: it is in the
    /// scheduler's way for nothing; shorter: packets that are rarer wake it.
    pub const LINGER: Duration = Duration::from_millis(10);
    /// Datagrams of a session that may be on their way to the device, however small its application's
    /// share of the table is. More: a burst finds the table full, and its end is lost; fewer: an
    /// application waits for each few datagrams.
    pub const LEAST_DATAGRAMS: u32 = 64;
    /// Memory that a connection may hold before its peer has acknowledged anything: twice the first
    /// window (RFC 6928). More: fewer peers that acknowledge nothing fill the memory; less:
    /// connections begin slower.
    pub const START_BYTES: u32 = 32 << 10;
    /// Memory that each connection may have, however little is free. More: fewer connections have
    /// theirs; less: they send smaller segments when memory is short.
    pub const FLOOR_BYTES: u32 = 2048;
    /// The memory by this is for what each connection may have at least; calls to send likewise.
    pub const RESERVE_PART: u32 = 8;
    /// No connection has more of what is free beyond the reserve than all of it by this. Higher:
    /// few connections that send much have less each; lower: the first ones leave less to the next.
    pub const SHARE_PART: u32 = 8;
    /// A connection that holds memory is reset when the memory is short and nothing of it was
    /// acknowledged for so long: three retransmissions. Longer: others wait longer for memory;
    /// shorter: peers that have lost packets are reset.
    pub const STALLED_FOR: Duration = Duration::from_secs(2);
    /// How often connections are looked at for that, while the memory is short.
    pub const LOOK_EVERY: Duration = Duration::from_millis(50);
    /// Connections that are looked at each time.
    pub const LOOK_AT_ONCE: usize = 1024;
    /// Cookie of the timer for it: the largest of 48 bits, which applications do not have.
    pub const LOOK_TIMER: u64 = (1 << 48) - 1;
    /// Seconds. Longest wait for an answer on the control socket, which comes within 100 ms.
    pub const ANSWER_PATIENCE_S: i64 = 5;
}
