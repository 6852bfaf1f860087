//! Sizes and thresholds of the stack that are neither settings ([`crate::Config`] has those, with
//! their defaults) nor numbers of a wire format. Each has its unit, its source and the effect of a
//! change.

/// Number of distinct readers, one bit each in a word. Code that opens connections or sends
/// datagrams counts as a reader too, so that no reader uses up all neighbour resolutions.
pub const READERS: u8 = 32;

/// Acknowledgements.
pub(crate) mod acks {
    use std::time::Duration;

    /// Value of the answer counter after an expected answer did not come. Lower: the stack waits
    /// for fewer answers of an application that is slow once.
    pub const ANSWER_MISSED: i8 = -8;
    /// Shortest time between the acknowledgements that answer unacceptable segments of one
    /// connection. It ends an endless exchange of two stacks that disagree (RFC 5961, 7). Shorter:
    /// more segments per second in such an exchange; longer: a correct peer synchronizes later.
    pub const CHALLENGE_INTERVAL: Duration = Duration::from_millis(100);
}

/// Loss detection.
pub(crate) mod loss {
    use std::time::Duration;

    /// Time from the last segment to a tail loss probe in addition to two round trips. Without it,
    /// a receiver that is busy for a moment on a path of microseconds causes needless probes.
    /// Shorter: more probes; longer: a lost tail is repaired later. Linux waits two timer ticks.
    pub const TAIL_PROBE_SLACK: Duration = Duration::from_millis(2);
    /// Shortest time to a probe during recovery. A retransmission is rarely lost again, and the
    /// round trip was measured before the loss. Shorter: more data is sent twice.
    pub const REPAIR_PROBE_LEAST: Duration = Duration::from_millis(10);
    /// Most segments by which one acknowledgement grows the congestion window in slow start (L of
    /// RFC 3465, 2.3; RFC 9406, 4.3, allows any number with pacing and 8 without). More: a
    /// stretched acknowledgement causes a larger burst; fewer: receivers that acknowledge rarely
    /// are slow.
    pub const SLOW_START_SEGMENTS: u32 = 45;
    /// Transmission times that are remembered for the data in flight (RFC 8985). More: 8 bytes
    /// each, in two logs per connection; fewer: neighbouring segments share the later time, and
    /// their loss is detected later.
    pub const SEND_TIMES: usize = 16;
    /// Largest reordering window in quarters of the smallest round trip (RFC 8985, 6.2, step 4,
    /// stops at the smoothed round trip, which is less on most paths).
    pub const REORDER_MOST: u8 = 250;
    /// Recoveries without a spurious retransmission after which the reordering window is a quarter
    /// of a round trip again (RFC 8985, 6.2, step 4: 16).
    pub const REORDER_KEPT: u8 = 16;
    /// SACK ranges that are remembered for a connection. The stack forgets the highest ones beyond
    /// that, which only costs a retransmission. More: 8 bytes per connection and range.
    pub const SACK_RANGES: usize = 16;
    /// Largest age in milliseconds (17 minutes) of an echoed timestamp from which a round trip is
    /// measured. Longer: one stale echo can stall a connection for that time.
    pub const ECHO_LIMIT_MS: u32 = 1 << 20;
}

/// Paths that silently drop large packets (black holes; RFC 2923, 2.1; RFC 4821).
pub(crate) mod black_hole {
    /// Consecutive timeouts of full segments after which the stack sends shorter ones (R1 of RFC
    /// 9293, 3.8.3; Linux's `tcp_retries1`). Fewer: an outage shortens segments permanently.
    pub const TIMEOUTS: u8 = 3;
    /// Full segments sent behind a probe. Their acknowledgement shows that the probe is lost.
    pub const SEGMENTS_BEHIND: u32 = 4;
    /// Precision in bytes of the search for the largest segment (Linux's `tcp_probe_threshold`).
    /// Smaller: more lost probes.
    pub const CLOSE_ENOUGH_BYTES: u16 = 8;
    /// First shorter segment size in bytes without options (Linux's `tcp_base_mss`). Each further
    /// timeout halves it.
    pub const BASE_MSS_V4_BYTES: u16 = 1024;
    /// Smallest segment size in bytes: the payload of the smallest path MTU in use.
    pub const LEAST_MSS_V4_BYTES: u16 = 512;
    /// Smallest segment size in bytes for IPv6: every path carries packets of 1280 bytes.
    pub const LEAST_MSS_V6_BYTES: u16 = 1220;
}

/// Limits on what the stack believes a peer.
pub(crate) mod belief {
    use std::time::Duration;

    /// Smallest segment size in bytes that the stack believes. A smaller one makes a packet of
    /// every byte (CVE-2019-11479). Linux's minimum is 48 too.
    pub const LEAST_MSS_BYTES: u16 = 48;
    /// Smallest MTU of a link in bytes (RFC 791, 3.2; RFC 8200, 5). The stack ignores a router that
    /// reports less.
    pub const LEAST_LINK_V4_BYTES: u32 = 68;
    /// Smallest MTU of a link in bytes for IPv6; see [`LEAST_LINK_V4_BYTES`].
    pub const LEAST_LINK_V6_BYTES: u32 = 1280;
    /// Smallest path MTU in bytes in use for IPv4: smaller values are attacks (CVE-2004-1060).
    /// Linux's default of `min_pmtu` is 552 too.
    pub const LEAST_PATH_V4_BYTES: u32 = 552;
    /// Lifetime of a reduced path MTU (RFC 1981, 4, recommends ten minutes). Longer: a path that
    /// has recovered carries small packets for longer; shorter: more packets are lost in probing.
    pub const PATH_KEPT: Duration = Duration::from_secs(600);
    /// Paths whose MTU is remembered, indexed by a hash. More: 32 bytes each; fewer: more peers
    /// share an entry and replace each other.
    pub const PATHS: usize = 256;
    /// IPv6 extension headers that the stack follows; a packet with more is an attack (RFC 8504,
    /// 5.3).
    pub const MOST_EXTENSION_HEADERS: usize = 8;
    /// Fragments of one datagram: 64 KiB are 45 fragments of the usual MTU. More: a datagram of
    /// tiny fragments occupies its entry for longer.
    pub const MOST_FRAGMENTS: usize = 64;
    /// Lifetime of an incomplete datagram. RFC 8200 says 60 s, RFC 1122 60 to 120 s. There are few
    /// entries, and half of that time serves more senders.
    pub const REASSEMBLY_TIME: Duration = Duration::from_secs(30);
    /// Seconds in a step of a SYN cookie's clock (Linux: 60). The cookie contains the low five
    /// bits.
    pub const COOKIE_STEP_S: u64 = 64;
    /// Number of steps for which a cookie is valid, the current one included: 64 to 128 s. More:
    /// more guesses for a forger.
    pub const COOKIE_STEPS: u64 = 2;
}

/// TCP Fast Open.
pub(crate) mod fast_open {
    /// Servers whose cookies are remembered, indexed by a hash. More: 40 bytes each; fewer: more
    /// servers share an entry, and a cookie is requested again.
    pub const SERVERS: usize = 256;
}

/// Answers to packets of no connection or socket, for ICMP and RST separately (RFC 4443, 2.4 f; RFC
/// 5961, 7).
pub(crate) mod answers {
    /// Answers per second. The RFCs require a limit without a number. More: a flood of unexpected
    /// packets costs more.
    pub const RATE_PER_S: u64 = 1000;
    /// Answers in one burst. Fewer: a burst of correct clients of a closed port waits for timeouts.
    pub const BURST: u64 = 100;
}

/// Neighbour resolution.
pub(crate) mod neighbours {
    use std::time::Duration;

    /// Time for which a confirmed address is used before one probe (RFC 4861, 10: REACHABLE_TIME).
    pub const REACHABLE: Duration = Duration::from_secs(30);
    /// Time between multicast solicitations (RFC 4861, 10: RETRANS_TIMER), and between suspicions
    /// of one neighbour.
    pub const RETRANSMIT: Duration = Duration::from_secs(1);
    /// Time between unicast probes of the last station of an address. Longer: a neighbour that
    /// moved is found later; shorter: a busy station loses its address to another that answers the
    /// multicast.
    pub const PROBE: Duration = Duration::from_millis(500);
    /// Unicast probes before the first multicast (RFC 1122, 2.3.2.1: two polls).
    pub const PROBES: u8 = 2;
    /// Multicast solicitations before a neighbour counts as absent (RFC 4861, 10:
    /// MAX_MULTICAST_SOLICIT).
    pub const TRIES: u8 = 3;
    /// Consecutive timeouts of a connection after which the stack probes the neighbour of its path
    /// (RFC 1122, 2.3.2.1, (4): advice from above). Fewer: more probes where peers are slow.
    pub const SILENT_TIMEOUTS: u8 = 2;
    /// Concurrent resolutions that each reader may have, however small the table. Fewer: one absent
    /// peer keeps a small dataplane from finding others.
    pub const LEAST_ASKING: u32 = 4;
}

/// Timers.
pub(crate) mod timers {
    /// Stale timers of the wheel that one call of [`crate::Stack::sleep_until`] corrects. Fewer:
    /// the caller wakes more often for nothing; more: one call takes longer.
    pub const STALE_AT_ONCE: usize = 64;
    /// Timers of one slot that are examined to find its first. More: a more exact wake-up, in more
    /// time.
    pub const LOOKED_AT: usize = 64;
}
