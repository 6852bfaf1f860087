//! Sizes and thresholds of the stack that are neither a setting ([`crate::Config`] has those, with
//! their defaults) nor a number of a wire format: the unit, where the value comes from, and what
//! changes when it is moved.

/// Distinct readers: a bit for each in one word. Whoever opens connections or sends
/// datagrams is one too, so that no reader takes all questions for neighbours.
pub const READERS: u8 = 32;

/// Acknowledgements.
pub(crate) mod acks {
    use std::time::Duration;

    /// What the count of answers is set to when an expected one did not come. Lower: an application
    /// that is slow once is not waited for during more requests.
    pub const ANSWER_MISSED: i8 = -8;
    /// Least time between acknowledgements that answer unacceptable segments of one connection: two
    /// stacks that disagree must not answer each other endlessly (RFC 5961, 7). Shorter: more
    /// segments a second in such a storm; longer: an honest peer learns later where it stands.
    pub const CHALLENGE_INTERVAL: Duration = Duration::from_millis(100);
}

/// Loss.
pub(crate) mod loss {
    use std::time::Duration;

    /// Time from the last segment to a tail loss probe, beyond two round trips. On a path of
    /// microseconds a receiver that was busy for a moment would be asked needlessly. Shorter: more
    /// such probes; longer: a lost tail is repaired later. Linux waits two ticks of its timer.
    pub const TAIL_PROBE_SLACK: Duration = Duration::from_millis(2);
    /// Least time to a probe while a loss is repaired: what was sent again may be lost again, which
    /// is rare, and the round trip was measured before there was loss. Shorter: more is sent twice.
    pub const REPAIR_PROBE_LEAST: Duration = Duration::from_millis(10);
    /// Segments by which one acknowledgement opens the window at most in slow start (L of RFC 3465,
    /// 2.3; 8 as RFC 9406, 4.3, has it without pacing). More: a stretched acknowledgement lets a
    /// larger burst out; fewer: receivers that acknowledge rarely are served slowly.
    pub const SLOW_START_SEGMENTS: u32 = 45;
    /// Moments of sending that are remembered for what is under way (RFC 8985). More: 8 bytes each, in
    /// two logs a connection; fewer: neighbours share the later moment sooner, and their loss is
    /// found later.
    pub const SEND_TIMES: usize = 16;
    /// Quarters of the least round trip that reordering is waited for, beyond the first (RFC 8985,
    /// 6.2, step 4, stops at the smoothed round trip, which is less on most paths).
    pub const REORDER_MOST: u8 = 250;
    /// Recoveries without a needless retransmission after which the wait is a quarter again
    /// (RFC 8985, 6.2, step 4: 16).
    pub const REORDER_KEPT: u8 = 16;
    /// Ranges of SACK that are remembered for one connection. Further ones are forgotten from the
    /// top, which only costs a retransmission. More: every connection takes 8 bytes more for each.
    pub const SACK_RANGES: usize = 16;
    /// Milliseconds, 17 minutes: the echo of an older timestamp measures no round trip. Longer: one
    /// stale echo can stall a connection for as long.
    pub const ECHO_LIMIT_MS: u32 = 1 << 20;
}

/// Paths that drop large packets without a word (RFC 2923, 2.1; RFC 4821).
pub(crate) mod black_hole {
    /// Timeouts in a row for full segments after which shorter ones are tried (RFC 9293, 3.8.3, R1;
    /// Linux's `tcp_retries1`). Fewer: an outage shortens segments for good.
    pub const TIMEOUTS: u8 = 3;
    /// Full segments behind a probe, whose arrival tells that it is lost.
    pub const SEGMENTS_BEHIND: u32 = 4;
    /// Bytes within which the longest segment is found (Linux's `tcp_probe_threshold`). Fewer: more
    /// probes that are lost.
    pub const CLOSE_ENOUGH_BYTES: u16 = 8;
    /// Bytes of the shorter segments without options (Linux's `tcp_base_mss`); half of it, and so on,
    /// after each timeout more.
    pub const BASE_MSS_V4_BYTES: u16 = 1024;
    /// Bytes of the shortest: what the least path MTU that is used carries.
    pub const LEAST_MSS_V4_BYTES: u16 = 512;
    /// The same for IPv6, where every path carries 1280 bytes.
    pub const LEAST_MSS_V6_BYTES: u16 = 1220;
}

/// What a peer may make us believe.
pub(crate) mod belief {
    use std::time::Duration;

    /// Bytes. Smallest segment size that is believed: smaller ones make a packet of each byte
    /// (CVE-2019-11479). Linux's least is 48 too.
    pub const LEAST_MSS_BYTES: u16 = 48;
    /// Bytes. Least MTU of a link (RFC 791, 3.2; RFC 8200, 5): a router that reports less is not
    /// believed at all.
    pub const LEAST_LINK_V4_BYTES: u32 = 68;
    /// See [`LEAST_LINK_V4_BYTES`].
    pub const LEAST_LINK_V6_BYTES: u32 = 1280;
    /// Bytes. Least path MTU that is used for IPv4: smaller values are attacks (CVE-2004-1060).
    /// Linux's default of `min_pmtu` is 552 too.
    pub const LEAST_PATH_V4_BYTES: u32 = 552;
    /// How long a smaller path MTU is believed (RFC 1981, 4, recommends ten minutes). Longer: a
    /// path that has recovered is used in small packets; shorter: more packets are lost asking.
    pub const PATH_KEPT: Duration = Duration::from_secs(600);
    /// Paths whose MTU is remembered, one a place of a hash. More: 32 bytes each; fewer: two peers
    /// share a place more often, and drive each other out.
    pub const PATHS: usize = 256;
    /// IPv6 extension headers that are followed: a packet of a thousand is an attack (RFC 8504,
    /// 5.3).
    pub const MOST_EXTENSION_HEADERS: usize = 8;
    /// Fragments of one datagram: 64 KiB at the usual MTU are 45. More: a datagram of tiny
    /// fragments keeps its place longer.
    pub const MOST_FRAGMENTS: usize = 64;
    /// How long fragments wait for the others. RFC 8200 says 60 s, RFC 1122 60 to 120 s; with few
    /// places half of it serves more senders.
    pub const REASSEMBLY_TIME: Duration = Duration::from_secs(30);
    /// Seconds in a step of a SYN cookie's clock (Linux: 60). Its low five bits are in the cookie.
    pub const COOKIE_STEP_S: u64 = 64;
    /// Steps for which a cookie is good, the current one included: 64 to 128 s. More: more guesses
    /// for a forger.
    pub const COOKIE_STEPS: u64 = 2;
}

/// TCP Fast Open.
pub(crate) mod fast_open {
    /// Servers whose cookies are remembered, one a place of a hash. More: 40 bytes each; fewer: two
    /// servers share a place more often, and a cookie is asked for again.
    pub const SERVERS: usize = 256;
}

/// Answers to packets that belong to nothing: for each kind, ICMP and RST (RFC 4443, 2.4 f;
/// RFC 5961, 7).
pub(crate) mod answers {
    /// Answers a second. The RFCs ask for a limit and name none. More: a flood of strange packets
    /// costs more.
    pub const RATE_PER_S: u64 = 1000;
    /// Answers at once. Fewer: a burst of honest clients of a closed port waits for timeouts.
    pub const BURST: u64 = 100;
}

/// Neighbours.
pub(crate) mod neighbours {
    use std::time::Duration;

    /// How long a confirmed address is used before one question asks again (RFC 4861, 10:
    /// REACHABLE_TIME).
    pub const REACHABLE: Duration = Duration::from_secs(30);
    /// Between questions to all hosts (RFC 4861, 10: RETRANS_TIMER), and between doubts about one
    /// neighbour.
    pub const RETRANSMIT: Duration = Duration::from_secs(1);
    /// Between questions to the station that had the address. Longer: a neighbour that has moved is
    /// found later; shorter: one that was busy is asked for at all hosts, where another may answer.
    pub const PROBE: Duration = Duration::from_millis(500);
    /// Questions to that station before all hosts are asked (RFC 1122, 2.3.2.1: two polls).
    pub const PROBES: u8 = 2;
    /// Questions to all hosts before a neighbour counts as absent (RFC 4861, 10:
    /// MAX_MULTICAST_SOLICIT).
    pub const TRIES: u8 = 3;
    /// Timeouts in a row of one connection after which the neighbour that its segments go to is asked
    /// whether it is still there (RFC 1122, 2.3.2.1, (4): advice from above). Fewer: more questions
    /// where peers are slow.
    pub const SILENT_TIMEOUTS: u8 = 2;
    /// Unknown neighbours that each reader may ask for at a time, however small the table. Fewer:
    /// one absent peer keeps a small dataplane from finding others.
    pub const LEAST_ASKING: u32 = 4;
}

/// Timers.
pub(crate) mod timers {
    /// Timers whose time on the wheel is stale that [`crate::Stack::sleep_until`] puts right in one
    /// call. Fewer: the caller wakes more often for nothing; more: one call takes longer.
    pub const STALE_AT_ONCE: usize = 64;
    /// Timers of one slot of the wheel that are looked at to find its first. More: an exacter
    /// wake-up, in more time.
    pub const LOOKED_AT: usize = 64;
}
