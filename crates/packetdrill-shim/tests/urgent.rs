//! Urgent data through the table (tcp(7); RFC 9293, 3.8.5). Linux treats only its last byte as
//! urgent.
#![allow(
    clippy::macro_metavars_in_unsafe,
    reason = "`call!` takes plain values; what they point at is said at its definition"
)]

mod support;

use cofferdam_lab::fixtures::time_limit;
use libc::c_int;
use nix::errno::Errno;
use std::time::Duration;
use support::segment::{Segment, flags};
use support::{Calls, Player};

const LIMIT: Duration = Duration::from_secs(60);
/// Value from asm-generic/sockios.h.
const SIOCATMARK: u64 = 0x8905;

/// An accepted connection whose calls do not block.
fn open() -> (Player, c_int) {
    let mut player = Player::new("", false);
    let listener = player.listener(libc::SOCK_NONBLOCK);
    let file = player.open(listener);
    let set = call!(
        player.calls,
        fcntl,
        file,
        libc::F_SETFL,
        i64::from(libc::O_NONBLOCK)
    );
    set.expect("a file");
    (player, file)
}

/// Injects data at `seq` with an urgent pointer.
fn inject(player: &Player, seq: u32, pointer: u16, data: &[u8]) {
    let segment = Segment {
        from: player.peer.port(),
        to: player.us.port(),
        seq: support::PEER_ISN.wrapping_add(seq),
        ack: player.isn.wrapping_add(1),
        flags: flags("P.U"),
        window: 65_535,
        urgent: pointer,
        data: data.to_vec(),
        ..Segment::default()
    };
    let packet = player.packet(&segment);
    player.inject_packet(&packet).expect("it is IP");
}

fn receive(calls: Calls, file: c_int, most: usize, flags: c_int) -> Result<Vec<u8>, Errno> {
    let mut bytes = vec![0; most];
    let len = call!(calls, recv, file, bytes.as_mut_ptr().cast(), most, flags)?;
    bytes.truncate(len as usize);
    Ok(bytes)
}

fn is_at_mark(calls: Calls, file: c_int) -> bool {
    let mut answer: c_int = -1;
    let got = call!(calls, ioctl, file, SIOCATMARK, (&raw mut answer).cast());
    got.expect("known");
    answer == 1
}

/// Whether `poll` reports urgent data.
fn has_urgent(calls: Calls, file: c_int) -> bool {
    let mut entry = libc::pollfd {
        fd: file,
        events: libc::POLLPRI,
        revents: 0,
    };
    let found = call!(calls, poll, &raw mut entry, 1, 0).expect("it polls");
    assert_eq!(found == 1, entry.revents == libc::POLLPRI);
    found == 1
}

/// Promise 62.
#[test]
fn reading_stops_at_the_urgent_byte() {
    time_limit(LIMIT, || {
        let (player, file) = open();
        let calls = player.calls;
        assert_eq!(receive(calls, file, 1, libc::MSG_OOB), Err(Errno::EINVAL));
        inject(&player, 1, 4, b"abcdef");
        assert!(has_urgent(calls, file) && !is_at_mark(calls, file));
        let peek = libc::MSG_OOB | libc::MSG_PEEK;
        assert_eq!(receive(calls, file, 1, peek), Ok(b"d".to_vec()));
        assert_eq!(receive(calls, file, 9, libc::MSG_OOB), Ok(b"d".to_vec()));
        assert_eq!(receive(calls, file, 1, libc::MSG_OOB), Err(Errno::EINVAL));
        assert!(!has_urgent(calls, file), "once");
        assert_eq!(calls.read(file, 10), Ok(b"abc".to_vec()));
        assert!(is_at_mark(calls, file));
        assert_eq!(calls.read(file, 10), Ok(b"ef".to_vec()));
        assert!(!is_at_mark(calls, file));
        // Announced before it arrives; a read never waits for it.
        inject(&player, 7, 3, b"g");
        assert_eq!(receive(calls, file, 1, libc::MSG_OOB), Err(Errno::EAGAIN));
        player.inject("P.", 8, 1, b"hij");
        assert_eq!(receive(calls, file, 1, libc::MSG_OOB), Ok(b"i".to_vec()));
        assert_eq!(calls.read(file, 10), Ok(b"gh".to_vec()));
        assert_eq!(calls.read(file, 10), Ok(b"j".to_vec()));
        player.free();
    });
}

/// Promise 62.
#[test]
fn an_urgent_byte_stays_in_the_stream_with_oobinline() {
    time_limit(LIMIT, || {
        let (player, file) = open();
        let calls = player.calls;
        let set = calls.set_option(file, libc::SOL_SOCKET, libc::SO_OOBINLINE, 1);
        set.expect("known");
        inject(&player, 1, 3, b"abcdef");
        assert_eq!(receive(calls, file, 1, libc::MSG_OOB), Err(Errno::EINVAL));
        assert_eq!(calls.read(file, 10), Ok(b"ab".to_vec()));
        assert!(is_at_mark(calls, file));
        assert_eq!(calls.read(file, 10), Ok(b"cdef".to_vec()));
        player.free();
    });
}

/// Promise 62.
#[test]
fn the_last_byte_of_an_urgent_write_is_marked() {
    time_limit(LIMIT, || {
        let (mut player, file) = open();
        let sent = call!(
            player.calls,
            send,
            file,
            b"abc".as_ptr().cast(),
            3,
            libc::MSG_OOB
        );
        assert_eq!(sent, Ok(3));
        let (_, segment) = player.next().expect("data");
        assert_eq!(
            (segment.flags, segment.urgent, segment.data.as_slice()),
            (flags("P.U"), 3, &b"abc"[..])
        );
        player.inject(".", 1, 4, b"");
        assert_eq!(player.calls.write(file, b"d"), Ok(1));
        let (_, segment) = player.next().expect("data");
        assert_eq!((segment.flags, segment.urgent), (flags("P."), 0));
        player.free();
    });
}
