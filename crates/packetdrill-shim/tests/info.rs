//! `TCP_INFO` through the table: the fields that scripts check.
#![allow(
    clippy::macro_metavars_in_unsafe,
    reason = "`call!` takes plain values; what they point at is said at its definition"
)]

mod support;

use cofferdam_lab::fixtures::time_limit;
use libc::{c_int, c_void};
use std::mem::MaybeUninit;
use std::time::Duration;
use support::segment::{Segment, flags};
use support::{Calls, PEER_ISN, Player};

const LIMIT: Duration = Duration::from_secs(60);
const MSS: usize = 1000;

/// Reads TCP_INFO in the C library's declaration, whose layout is not ours.
fn info(calls: Calls, file: c_int) -> libc::tcp_info {
    let mut info = MaybeUninit::<libc::tcp_info>::zeroed();
    let mut len = size_of_val(&info) as libc::socklen_t;
    let place = info.as_mut_ptr().cast::<c_void>();
    call!(
        calls,
        getsockopt,
        file,
        libc::IPPROTO_TCP,
        libc::TCP_INFO,
        place,
        &raw mut len
    )
    .expect("known");
    // The C library's struct; newer kernels have more fields.
    assert_eq!(len as usize, size_of_val(&info));
    // SAFETY: the struct consists of integers, all of which were written.
    unsafe { info.assume_init() }
}

/// Injects a segment from the peer, with options.
fn inject(player: &Player, kind: &str, seq: u32, ack: u32, options: Vec<(u8, Vec<u8>)>) {
    let segment = Segment {
        from: player.peer.port(),
        to: player.us.port(),
        seq: PEER_ISN.wrapping_add(seq),
        ack: if kind.contains('.') {
            player.isn.wrapping_add(ack)
        } else {
            0
        },
        flags: flags(kind),
        window: 65_535,
        options,
        ..Segment::default()
    };
    player
        .inject_packet(&player.packet(&segment))
        .expect("it is IP");
}

/// Injects a SACK for one range.
fn sack(player: &Player, ack: u32, from: u32, to: u32) {
    let words = [from, to].map(|number| player.isn.wrapping_add(number).to_be_bytes());
    inject(player, ".", 1, ack, vec![(5, words.concat())]);
}

/// Promise 62.
#[test]
fn tcp_info_follows_a_connection_through_loss_and_timeout() {
    time_limit(LIMIT, || {
        let mut player = Player::new("nonagle,notimestamps", false);
        let calls = player.calls;
        let listener = player.listener(0);
        assert_eq!(info(calls, listener).tcpi_state, 10, "LISTEN");
        let fresh = calls.socket(false, 0);
        assert_eq!(info(calls, fresh).tcpi_state, 7, "CLOSE");

        let mss = (MSS as u16).to_be_bytes().to_vec();
        inject(
            &player,
            "S",
            0,
            0,
            vec![(2, mss), (4, Vec::new()), (3, vec![7])],
        );
        player.expect("S.", 0, 1, b"");
        calls.sleep(Duration::from_millis(100));
        inject(&player, ".", 1, 1, Vec::new());
        let (file, _) = calls.accept(listener).expect("it waits");
        let open = info(calls, file);
        // SACK and window scaling were negotiated, timestamps were not.
        assert_eq!(
            (open.tcpi_state, open.tcpi_ca_state, open.tcpi_options),
            (1, 0, 2 | 4)
        );
        assert_eq!(
            (open.tcpi_snd_mss, open.tcpi_advmss, open.tcpi_pmtu),
            (1000, 1460, 1040)
        );
        assert_eq!(
            (open.tcpi_snd_cwnd, open.tcpi_snd_ssthresh),
            (10, 0x7fff_ffff)
        );
        assert_eq!(
            (
                open.tcpi_unacked,
                open.tcpi_total_retrans,
                open.tcpi_reordering
            ),
            (0, 0, 3)
        );
        // RFC 6298, 2.2: the first measurement, and three times its value.
        assert!(
            (100_000..101_000).contains(&open.tcpi_rtt),
            "{}",
            open.tcpi_rtt
        );
        assert_eq!(open.tcpi_rttvar, open.tcpi_rtt / 2);
        assert!(
            (300_000..303_000).contains(&open.tcpi_rto),
            "{}",
            open.tcpi_rto
        );

        assert_eq!(calls.write(file, &[1; 12 * MSS]), Ok(12_000));
        for n in 0..10 {
            player.expect(".", 1 + 1000 * n, 1, &[1; MSS]);
        }
        assert_eq!(info(calls, file).tcpi_unacked, 10);
        // RFC 6675: one SACKed segment does not mark a loss, three do.
        sack(&player, 1, 1001, 2001);
        let suspected = info(calls, file);
        assert_eq!(
            (
                suspected.tcpi_ca_state,
                suspected.tcpi_sacked,
                suspected.tcpi_lost
            ),
            (1, 1, 0)
        );
        sack(&player, 1, 1001, 3001);
        sack(&player, 1, 1001, 5001);
        let lost = info(calls, file);
        assert_eq!(
            (lost.tcpi_ca_state, lost.tcpi_sacked, lost.tcpi_lost),
            (3, 4, 1)
        );
        assert_eq!((lost.tcpi_retrans, lost.tcpi_total_retrans), (1, 1));
        assert!(lost.tcpi_snd_ssthresh < 10, "{}", lost.tcpi_snd_ssthresh);
        // The remaining data and the first segment leave, in either order.
        let (mut first, mut last) = (false, false);
        while !(first && last) {
            let (_, segment) = player.next().expect("a segment leaves");
            let start = segment.seq.wrapping_sub(player.isn);
            first |= start == 1;
            last |= start == 11_001;
        }
        // Everything is acknowledged, so recovery ends.
        inject(&player, ".", 1, 12_001, Vec::new());
        let over = info(calls, file);
        assert_eq!(
            (over.tcpi_ca_state, over.tcpi_unacked, over.tcpi_lost),
            (0, 0, 0)
        );
        let again = over.tcpi_total_retrans;

        // RFC 6298, 5.5: the timeout doubles if no acknowledgement arrives.
        assert_eq!(calls.write(file, &[2; MSS]), Ok(1000));
        player.expect("P.", 12_001, 1, &[2; MSS]);
        let before = info(calls, file).tcpi_rto;
        // RFC 8985, 7: a tail loss probe precedes the timeout.
        player.expect("P.", 12_001, 1, &[2; MSS]);
        player.expect("P.", 12_001, 1, &[2; MSS]);
        let timed_out = info(calls, file);
        assert_eq!(
            (timed_out.tcpi_ca_state, timed_out.tcpi_retransmits),
            (4, 1)
        );
        assert_eq!(
            (timed_out.tcpi_backoff, timed_out.tcpi_rto),
            (1, 2 * before)
        );
        assert_eq!(
            (
                timed_out.tcpi_lost,
                timed_out.tcpi_retrans,
                timed_out.tcpi_snd_cwnd
            ),
            (1, 1, 1)
        );
        assert_eq!(timed_out.tcpi_total_retrans, again + 2);
        inject(&player, ".", 1, 13_001, Vec::new());
        inject(&player, "F.", 1, 13_001, Vec::new());
        assert_eq!(info(calls, file).tcpi_state, 8, "CLOSE_WAIT");
        player.free();
    });
}

/// Promise 62.
#[test]
fn tcp_info_counts_the_bytes_of_the_stream() {
    time_limit(LIMIT, || {
        let mut player = Player::new("nonagle", false);
        let calls = player.calls;
        let listener = player.listener(0);
        let file = player.open(listener);
        player.inject("P.", 1, 1, &[1; 300]);
        player.expect(".", 1, 301, b"");
        assert_eq!(calls.write(file, &[2; 70_000]), Ok(70_000));
        player.expect(".", 1, 301, &[2; 1460]);
        player.inject(".", 301, 201, b"");
        let info = info(calls, file);
        assert_eq!(
            (info.tcpi_bytes_acked, info.tcpi_bytes_received),
            (200, 300)
        );
        assert_eq!(info.tcpi_snd_wnd, 65_535);
        assert!((1..=262_144 - 300).contains(&info.tcpi_rcv_wnd));
        // Ten segments are in flight.
        assert_eq!(info.tcpi_notsent_bytes, 70_000 - 14_600);
        player.free();
    });
}
