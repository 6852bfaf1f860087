//! TCP Fast Open (RFC 7413) through the table: cookies, data with a SYN, and a peer or path that
//! rejects either.
#![allow(
    clippy::macro_metavars_in_unsafe,
    reason = "`call!` takes plain values; what they point at is said at its definition"
)]

mod support;

use cofferdam_lab::fixtures::time_limit;
use nix::errno::Errno;
use nix::sys::socket::{SockaddrLike, SockaddrStorage};
use std::path::PathBuf;
use std::time::Duration;
use support::segment::{Segment, flags};
use support::{PEER_ISN, Player};

const LIMIT: Duration = Duration::from_secs(60);
/// Kind of the option (RFC 7413, 4.1.1).
const FAST_OPEN: u8 = 34;

/// A folder of sysctls, removed on drop.
struct Sysctls(PathBuf);

impl Sysctls {
    fn new(name: &str, files: &[(&str, &str)]) -> Sysctls {
        let folder = format!("cofferdam-sysctls-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(folder);
        std::fs::create_dir_all(&folder).expect("a folder for the test");
        for (file, text) in files {
            std::fs::write(folder.join(file), text).expect("a file for the test");
        }
        Sysctls(folder)
    }

    fn flags(&self) -> String {
        format!("nonagle,sysctls={}", self.0.display())
    }
}

impl Drop for Sysctls {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Enables client and server, and sets a key.
fn both(name: &str) -> Sysctls {
    let key = "a1a1a1a1-b2b2b2b2-c3c3c3c3-d4d4d4d4\n";
    Sysctls::new(name, &[("tcp_fastopen", "3\n"), ("tcp_fastopen_key", key)])
}

/// Injects a segment from the peer with a Fast Open option.
fn inject(player: &Player, kind: &str, cookie: Option<&[u8]>, ack: u32, data: &[u8]) {
    let mut options = vec![(2, vec![5, 180])];
    options.extend(cookie.map(|cookie| (FAST_OPEN, cookie.to_vec())));
    let acks = kind.contains('.');
    let segment = Segment {
        from: player.peer.port(),
        to: player.us.port(),
        seq: PEER_ISN,
        ack: if acks {
            player.isn.wrapping_add(ack)
        } else {
            0
        },
        flags: flags(kind),
        window: 65_535,
        options,
        data: data.to_vec(),
        ..Segment::default()
    };
    player
        .inject_packet(&player.packet(&segment))
        .expect("it is IP");
}

/// Cookie of a segment; `None` without the option.
fn cookie(segment: &Segment) -> Option<Vec<u8>> {
    let mut options = segment.options.iter();
    options
        .find(|(kind, _)| *kind == FAST_OPEN)
        .map(|(_, cookie)| cookie.clone())
}

fn fast_listener(player: &Player) -> i32 {
    let listener = player.listener(0);
    (player.calls)
        .set_option(listener, libc::IPPROTO_TCP, libc::TCP_FASTOPEN, 5)
        .expect("known");
    listener
}

/// Connects and sends in one call.
fn send_with_syn(player: &Player, file: i32, data: &[u8]) -> Result<isize, Errno> {
    let to = SockaddrStorage::from(player.peer);
    let how = libc::MSG_FASTOPEN | libc::MSG_DONTWAIT;
    call!(
        player.calls,
        sendto,
        file,
        data.as_ptr().cast(),
        data.len(),
        how,
        to.as_ptr(),
        to.len()
    )
}

/// Promise 62.
#[test]
fn a_valid_cookie_admits_data_before_the_handshake_ends() {
    time_limit(LIMIT, || {
        let sysctls = both("server");
        for v6 in [false, true] {
            let mut player = Player::new(&sysctls.flags(), v6);
            let calls = player.calls;
            let listener = fast_listener(&player);
            inject(&player, "S", Some(&[]), 0, b"early");
            let (_, answer) = player.next().expect("a SYN+ACK");
            let given = cookie(&answer).expect("a cookie");
            assert_eq!(given.len(), 8);
            assert_eq!(
                answer.ack.wrapping_sub(PEER_ISN),
                1,
                "without a cookie no data"
            );
            inject(&player, "R", None, 0, b"");

            player.peer.set_port(5001);
            inject(&player, "S", Some(&given), 0, b"question");
            let (_, answer) = player.next().expect("a SYN+ACK");
            player.isn = answer.seq;
            assert_eq!(answer.ack.wrapping_sub(PEER_ISN), 9, "with its data");
            assert_eq!(cookie(&answer), None, "the cookie is good");
            let (file, peer) = calls.accept(listener).expect("it need not be acknowledged");
            assert_eq!(peer, player.peer);
            assert_eq!(calls.read(file, 100), Ok(b"question".to_vec()));
            assert_eq!(calls.write(file, b"answer"), Ok(6));
            player.expect("P.", 1, 9, b"answer");
            // The handshake ends with the acknowledgement of both SYN-ACK and data.
            player.inject(".", 9, 7, b"");
            calls.close(file).expect("open");
            player.expect("F.", 7, 9, b"");
            player.free();
        }
    });
}

/// Promise 62.
#[test]
fn a_wrong_cookie_gets_a_valid_one_and_a_handshake() {
    time_limit(LIMIT, || {
        let sysctls = both("wrong");
        let mut player = Player::new(&sysctls.flags(), false);
        let listener = fast_listener(&player);
        inject(&player, "S", Some(&[7; 8]), 0, b"question");
        let (_, answer) = player.next().expect("a SYN+ACK");
        assert_eq!(answer.ack.wrapping_sub(PEER_ISN), 1);
        assert!(cookie(&answer).is_some_and(|cookie| cookie != [7; 8]));
        player.inject(".", 1, 1, b"");
        let (file, _) = player.calls.accept(listener).expect("it waits");
        player.inject("P.", 1, 1, b"question");
        assert_eq!(player.calls.read(file, 100), Ok(b"question".to_vec()));
        player.free();
    });
}

/// Promise 62.
#[test]
fn a_listener_without_fast_open_ignores_data_in_syns() {
    time_limit(LIMIT, || {
        let sysctls = both("not-asked");
        let mut player = Player::new(&sysctls.flags(), false);
        player.listener(0);
        inject(&player, "S", Some(&[]), 0, b"data");
        let (_, answer) = player.next().expect("a SYN+ACK");
        assert_eq!(answer.ack.wrapping_sub(PEER_ISN), 1);
        assert_eq!(cookie(&answer), None);
        player.free();
    });
}

/// Promise 62.
#[test]
fn a_client_requests_a_cookie_and_uses_it_next_time() {
    time_limit(LIMIT, || {
        let sysctls = both("client");
        let mut player = Player::new(&sysctls.flags(), false);
        let calls = player.calls;
        let first = calls.socket(false, 0);
        assert_eq!(
            send_with_syn(&player, first, b"data"),
            Err(Errno::EINPROGRESS)
        );
        let (_, syn) = player.next().expect("a SYN");
        assert_eq!((cookie(&syn), syn.data.len()), (Some(Vec::new()), 0));
        player.us.set_port(syn.from);
        inject(&player, "S.", Some(b"cookie"), 1, b"");
        player.expect(".", 1, 1, b"");

        let second = calls.socket(false, 0);
        assert_eq!(send_with_syn(&player, second, b"question"), Ok(8));
        let (_, syn) = player.next().expect("a SYN");
        assert_eq!(cookie(&syn).as_deref(), Some(&b"cookie"[..]));
        assert_eq!(syn.data, b"question");
        player.us.set_port(syn.from);
        // The peer acknowledged the data, so nothing is retransmitted.
        inject(&player, "S.", None, 9, b"");
        player.expect(".", 9, 1, b"");

        let third = calls.socket(false, 0);
        assert_eq!(send_with_syn(&player, third, b"question"), Ok(8));
        let (_, syn) = player.next().expect("a SYN");
        player.us.set_port(syn.from);
        // The peer did not acknowledge the data, so it is retransmitted at once.
        inject(&player, "S.", None, 1, b"");
        player.expect("P.", 1, 1, b"question");
        player.free();
    });
}

/// Promise 62.
#[test]
fn a_lost_syn_is_retransmitted_without_option_and_data() {
    time_limit(LIMIT, || {
        let sysctls = both("lost");
        let mut player = Player::new(&sysctls.flags(), false);
        let file = player.calls.socket(false, 0);
        assert_eq!(
            send_with_syn(&player, file, b"data"),
            Err(Errno::EINPROGRESS)
        );
        let (_, syn) = player.next().expect("a SYN");
        assert!(cookie(&syn).is_some());
        let (_, again) = player.next().expect("it is repeated");
        assert_eq!((cookie(&again), again.data.len()), (None, 0));
        player.free();
    });
}

/// Promise 62.
#[test]
fn msg_fastopen_is_rejected_if_the_sysctl_forbids_it() {
    time_limit(LIMIT, || {
        let sysctls = Sysctls::new("off", &[("tcp_fastopen", "0\n")]);
        let player = Player::new(&sysctls.flags(), false);
        let file = player.calls.socket(false, 0);
        assert_eq!(
            send_with_syn(&player, file, b"data"),
            Err(Errno::EOPNOTSUPP)
        );
        player.free();
    });
}
