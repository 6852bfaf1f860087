//! Counters of the stack.

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Counts since the start. A count never decreases.
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
    /// Frames that the caller passed to the stack.
    frames_received,
    /// Frames that the stack passed to the caller.
    frames_sent,
    /// Frames for another host, or of a protocol that the stack does not speak.
    frames_not_ours,
    /// Frames that are too short, or have wrong lengths or contradictory headers.
    malformed,
    /// Wrong IP, ICMP, UDP or TCP checksum.
    bad_checksum,
    /// Packets from addresses that no host may send from, and unsolicited neighbour answers.
    spoofed,
    /// Accepted ARP and neighbour discovery messages.
    neighbour_messages,
    /// Neighbours that did not answer.
    neighbours_failed,
    /// Neighbour resolutions refused because the reader already had its most in progress.
    neighbours_refused,
    /// Accepted fragments.
    fragments,
    /// Reassembled datagrams.
    reassembled,
    /// Dropped fragments: table full, overlap, timeout or no buffer.
    fragments_dropped,
    /// Fragments sent.
    fragments_sent,
    /// Echo requests answered.
    echo_replies,
    /// ICMP errors received that changed a connection, a path or a socket.
    icmp_errors,
    /// ICMP errors received that quote no packet of this stack.
    icmp_errors_ignored,
    /// ICMP errors sent.
    icmp_errors_sent,
    /// Reductions of a path MTU below the interface's MTU.
    path_mtu_reduced,
    /// Probes sent for a larger segment size.
    path_probes,
    /// Replies suppressed by the rate limit or a full queue.
    replies_suppressed,
    /// Datagrams passed to applications.
    udp_received,
    /// Datagrams sent.
    udp_sent,
    /// Datagrams dropped because the socket's backlog was full.
    udp_dropped,
    /// Datagrams and SYNs to unbound ports.
    no_listener,
    /// TCP segments received for a connection, a listener or TIME_WAIT.
    segments_received,
    /// TCP segments sent, retransmissions included.
    segments_sent,
    /// TCP segments retransmitted.
    retransmits,
    /// Retransmission timeouts.
    timeouts,
    /// Tail loss probes sent (RFC 8985, 7).
    tail_probes,
    /// Fast recoveries entered.
    fast_recoveries,
    /// Duplicate acknowledgements received.
    duplicate_acks,
    /// Zero-window probes sent.
    window_probes,
    /// Keepalive probes sent.
    keepalives,
    /// Out-of-order segments buffered.
    out_of_order,
    /// Segments dropped because buffers or ranges ran out.
    no_room,
    /// Segments outside of the receive window.
    out_of_window,
    /// Segments refused because of their timestamp (PAWS, RFC 7323, 5).
    paws_rejected,
    /// Segments without a timestamp although timestamps were negotiated.
    timestamps_missing,
    /// Challenge acknowledgements sent (RFC 5961).
    challenge_acks,
    /// SYN cookies sent.
    cookies_sent,
    /// Connections opened with a SYN cookie.
    cookies_accepted,
    /// Acknowledgements with an invalid SYN cookie.
    cookies_refused,
    /// Connections that peers opened with Fast Open (RFC 7413).
    fast_opened,
    /// Connections that peers opened.
    accepted,
    /// Connections that this stack opened.
    connected,
    /// Connections dropped because the backlog or the table was full.
    backlog_full,
    /// RSTs sent.
    resets_sent,
    /// RSTs that ended a connection.
    resets_received,
    /// Connections that ended with a timeout.
    timed_out,
    /// TIME_WAIT entries replaced by a new connection of the same 4-tuple.
    time_wait_reused,
    /// TIME_WAIT entries forgotten because the table was full.
    time_wait_overflow,
}
