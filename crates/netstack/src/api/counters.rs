//! What the stack counts.

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Counts since the start. Each only grows.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        #[non_exhaustive]
        pub struct Counters {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counters {
            /// Name and value of each count, for metrics and tables.
            pub fn each(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name)),*].into_iter()
            }
        }
    };
}

counters! {
    /// Frames handed in.
    frames_received,
    /// Frames handed out.
    frames_sent,
    /// Frames for another host, or of a protocol that the stack does not speak.
    frames_not_ours,
    /// Frames too short, with wrong lengths or with headers that contradict themselves.
    malformed,
    /// Wrong IP, ICMP, UDP or TCP checksum.
    bad_checksum,
    /// Packets from addresses that no host may send from, and answers to no question.
    spoofed,
    /// ARP and neighbour discovery messages taken.
    neighbour_messages,
    /// Neighbours that did not answer.
    neighbours_failed,
    /// Times a neighbour was not asked for: a reader asks for as many as it may.
    neighbours_refused,
    /// Fragments taken.
    fragments,
    /// Datagrams put together again.
    reassembled,
    /// Fragments dropped: no room, overlap, too late, no buffer.
    fragments_dropped,
    /// Fragments sent.
    fragments_sent,
    /// Echo requests answered.
    echo_replies,
    /// ICMP errors received and acted on.
    icmp_errors,
    /// ICMP errors received that belong to nothing of ours.
    icmp_errors_ignored,
    /// ICMP errors sent.
    icmp_errors_sent,
    /// Paths found to carry less than the interface.
    path_mtu_reduced,
    /// Probes for longer segments sent.
    path_probes,
    /// Replies not sent: rate limit or full queue.
    replies_suppressed,
    /// Datagrams handed up.
    udp_received,
    /// Datagrams handed out.
    udp_sent,
    /// Datagrams dropped: backlog full.
    udp_dropped,
    /// Datagrams and SYNs to ports that are not bound.
    no_listener,
    /// TCP segments received for a connection, a listener or TIME_WAIT.
    segments_received,
    /// TCP segments sent, retransmissions included.
    segments_sent,
    /// TCP segments sent again.
    retransmits,
    /// Retransmission timeouts.
    timeouts,
    /// Probes for the lost end of what was sent.
    tail_probes,
    /// Fast recoveries begun.
    fast_recoveries,
    /// Duplicate acknowledgements received.
    duplicate_acks,
    /// Zero-window probes sent.
    window_probes,
    /// Keepalive probes sent.
    keepalives,
    /// Segments out of order that were kept.
    out_of_order,
    /// Segments dropped because buffers or ranges ran out.
    no_room,
    /// Segments outside the window.
    out_of_window,
    /// Segments refused by their timestamp (PAWS).
    paws_rejected,
    /// Segments without a timestamp, though timestamps were agreed on.
    timestamps_missing,
    /// Challenge acknowledgements sent (RFC 5961).
    challenge_acks,
    /// SYN cookies sent.
    cookies_sent,
    /// Connections opened by a SYN cookie.
    cookies_accepted,
    /// Acknowledgements that claimed a cookie which is not ours.
    cookies_refused,
    /// Connections that peers opened by a SYN with a cookie or data (RFC 7413).
    fast_opened,
    /// Connections that peers opened.
    accepted,
    /// Connections that we opened.
    connected,
    /// Connections dropped because backlog or table were full.
    backlog_full,
    /// RSTs sent.
    resets_sent,
    /// RSTs that ended a connection.
    resets_received,
    /// Connections that ended by time out.
    timed_out,
    /// TIME_WAIT entries used again by a new connection.
    time_wait_reused,
    /// TIME_WAIT entries forgotten because the table was full.
    time_wait_overflow,
}
