//! The shared object, loaded and driven as packetdrill does.
#![allow(
    clippy::macro_metavars_in_unsafe,
    reason = "`call!` takes plain values; what they point at is said at its definition"
)]

mod support;

use cofferdam_lab::fixtures::{time_limit, wait_until};
use cofferdam_packetdrill_shim::abi::Interface;
use cofferdam_packetdrill_shim::{CommandLine, interface, parse_flags};
use nix::errno::Errno;
use std::mem::offset_of;
use std::thread::JoinHandle;
use std::time::Duration;
use support::{Calls, Player};

const LIMIT: Duration = Duration::from_secs(60);
const SECOND_US: i64 = 1_000_000;

/// Offsets in the table, in words, from `packetdrill.h`.
/// Promise 62.
#[test]
fn the_table_has_packetdrills_layout() {
    assert_eq!(size_of::<Interface>(), 33 * 8);
    for (offset, place) in [
        (offset_of!(Interface, userdata), 0),
        (offset_of!(Interface, free), 1),
        (offset_of!(Interface, accept), 5),
        (offset_of!(Interface, recvmsg), 11),
        (offset_of!(Interface, sendmsg), 16),
        (offset_of!(Interface, fcntl), 17),
        (offset_of!(Interface, shutdown), 20),
        (offset_of!(Interface, poll), 23),
        (offset_of!(Interface, netdev_receive), 25),
        (offset_of!(Interface, gettimeofday), 27),
        (offset_of!(Interface, epoll_wait), 30),
        (offset_of!(Interface, splice), 32),
    ] {
        assert_eq!(offset, place * 8);
    }
}

/// Promise 62.
#[test]
fn a_server_receives_sends_and_closes() {
    time_limit(LIMIT, || {
        for v6 in [false, true] {
            let mut player = Player::new("nonagle", v6);
            let calls = player.calls;
            let listener = player.listener(0);
            let file = player.open(listener);
            player.inject("P.", 1, 1, b"question");
            assert_eq!(calls.read(file, 5), Ok(b"quest".to_vec()));
            assert_eq!(calls.read(file, 100), Ok(b"ion".to_vec()));
            // The stack acknowledges a request at once; the answer is another segment.
            player.expect(".", 1, 9, b"");
            assert_eq!(calls.write(file, b"answer"), Ok(6));
            let left = player.expect("P.", 1, 9, b"answer");
            // RFC 6298, 5.4: an unacknowledged segment is retransmitted; the clock advances to that
            // time.
            let again = player.expect("P.", 1, 9, b"answer");
            assert!(
                (200_000..=SECOND_US * 3).contains(&(again - left)),
                "{}",
                again - left
            );
            player.inject(".", 9, 7, b"");
            // RFC 9293, 3.6: the peer closes first.
            player.inject("F.", 9, 7, b"");
            assert_eq!(calls.read(file, 1), Ok(Vec::new()));
            player.expect(".", 7, 10, b"");
            assert_eq!(calls.close(file), Ok(0));
            player.expect("F.", 7, 10, b"");
            player.inject(".", 10, 8, b"");
            assert_eq!(calls.close(listener), Ok(0));
            assert_eq!(player.next(), None, "nothing more leaves");
            player.free();
        }
    });
}

/// An IPv6 socket with an IPv4 peer (RFC 4291, 2.5.5.2): packetdrill's third mode.
/// Promise 62.
#[test]
fn an_ipv6_socket_talks_to_ipv4_mapped_addresses() {
    time_limit(LIMIT, || {
        let mut player = Player::new("", false);
        let calls = player.calls;
        let listener = calls.socket(true, 0);
        let us = "[::ffff:192.168.0.2]:8080".parse().expect("an address");
        calls.bind(listener, us).expect("free");
        call!(calls, listen, listener, 1).expect("bound");
        player.inject("S", 0, 0, b"");
        player.expect("S.", 0, 1, b"");
        player.inject(".", 1, 1, b"");
        let (_, peer) = calls.accept(listener).expect("it waits");
        assert_eq!(peer.to_string(), "[::ffff:192.0.2.1]:5000");
        player.free();
    });
}

/// Promise 62.
#[test]
fn a_client_opens_closes_and_waits_in_time_wait() {
    time_limit(LIMIT, || {
        for v6 in [false, true] {
            let mut player = Player::new("", v6);
            let calls = player.calls;
            let file = calls.socket(v6, libc::SOCK_NONBLOCK);
            let (us, server) = (player.us, player.peer);
            calls.bind(file, us).expect("free");
            assert_eq!(calls.connect(file, server), Err(Errno::EINPROGRESS));
            assert_eq!(calls.connect(file, server), Err(Errno::EALREADY));
            player.expect("S", 0, 0, b"");
            player.inject("S.", 0, 1, b"");
            player.expect(".", 1, 1, b"");
            assert_eq!(calls.error(file), Errno::UnknownErrno, "no error");
            assert_eq!(calls.connect(file, server), Ok(0));
            assert_eq!(calls.connect(file, server), Err(Errno::EISCONN));
            assert_eq!(calls.read(file, 1), Err(Errno::EAGAIN));
            assert_eq!(call!(calls, shutdown, file, libc::SHUT_WR), Ok(0));
            player.expect("F.", 1, 1, b"");
            assert_eq!(calls.write(file, b"late"), Err(Errno::EPIPE));
            player.inject(".", 1, 2, b"");
            player.inject("P.", 1, 2, b"last words");
            assert_eq!(calls.read(file, 100), Ok(b"last words".to_vec()));
            player.expect(".", 2, 11, b"");
            player.inject("F.", 11, 2, b"");
            player.expect(".", 2, 12, b"");
            // RFC 9293, 3.10.7.4: TIME-WAIT answers a retransmitted FIN.
            calls.sleep(Duration::from_secs(30));
            player.inject("F.", 11, 2, b"");
            player.expect(".", 2, 12, b"");
            assert_eq!(calls.close(file), Ok(0));
            player.free();
        }
    });
}

/// Promise 62.
#[test]
fn a_connect_is_refused_reset_and_times_out() {
    time_limit(LIMIT, || {
        let mut player = Player::new("", false);
        let calls = player.calls;
        let (us, server) = (player.us, player.peer);
        let connecting = |calls: Calls| {
            let file = calls.socket(false, libc::SOCK_NONBLOCK);
            calls.bind(file, us).expect("free");
            assert_eq!(calls.connect(file, server), Err(Errno::EINPROGRESS));
            file
        };
        let file = connecting(calls);
        player.expect("S", 0, 0, b"");
        player.inject("R.", 0, 1, b"");
        assert_eq!(calls.error(file), Errno::ECONNREFUSED);
        assert_eq!(calls.error(file), Errno::UnknownErrno, "reported once");
        calls.close(file).expect("open");
        // RFC 9293, 3.10.7.4: a reset of an open connection.
        let file = connecting(calls);
        player.expect("S", 0, 0, b"");
        player.inject("S.", 0, 1, b"");
        player.expect(".", 1, 1, b"");
        player.inject("R.", 1, 1, b"");
        assert_eq!(calls.read(file, 1), Err(Errno::ECONNRESET));
        assert_eq!(calls.read(file, 1), Ok(Vec::new()), "reported once");
        assert_eq!(calls.write(file, b"x"), Err(Errno::EPIPE));
        calls.close(file).expect("open");
        // RFC 6298, 5.5: retransmissions are 1, 2, 4 … s apart on the script's clock.
        let file = connecting(calls);
        let mut last = player.expect("S", 0, 0, b"");
        for seconds in [1, 2, 4, 8, 16, 32] {
            let next = player.expect("S", 0, 0, b"");
            let late = next - last - seconds * SECOND_US;
            assert!((-20..20_000).contains(&late), "{seconds} s: {late} µs late");
            last = next;
        }
        assert_eq!(player.next(), None, "it gives up");
        assert_eq!(calls.error(file), Errno::ETIMEDOUT);
        player.free();
    });
}

/// Makes a call in its own thread, as packetdrill does for blocking calls, and returns once the
/// thread sleeps. The thread returns the result and its time.
fn blocked<T: Send + 'static>(
    calls: Calls,
    call: impl FnOnce(Calls) -> T + Send + 'static,
) -> JoinHandle<(T, i64)> {
    let (started, hear) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        started.send(nix::unistd::gettid()).expect("the test waits");
        let result = call(calls);
        (result, calls.time_us())
    });
    let status = format!("/proc/self/task/{}/stat", hear.recv().expect("it starts"));
    wait_until("the thread to sleep", LIMIT, || {
        // The state follows the name, which stands in parentheses.
        let stat = std::fs::read_to_string(&status).expect("it lives");
        stat.rsplit_once(") ")
            .is_some_and(|(_, rest)| rest.starts_with('S'))
    });
    thread
}

/// Promise 62.
#[test]
fn calls_that_block_end_when_the_script_lets_them() {
    time_limit(LIMIT, || {
        let mut player = Player::new("nonagle", false);
        let calls = player.calls;
        let second = Duration::from_secs(1);
        let listener = player.listener(0);
        let start = calls.time_us();
        let accept = blocked(calls, move |calls| calls.accept(listener));
        calls.sleep(second);
        player.inject("S", 0, 0, b"");
        player.expect("S.", 0, 1, b"");
        player.inject(".", 1, 1, b"");
        calls.sleep(second);
        let (accepted, when_accepted) = accept.join().expect("it ends");
        let file = accepted.expect("a connection came").0;
        let read = blocked(calls, move |calls| calls.read(file, 100));
        player.inject("P.", 1, 1, b"data");
        calls.sleep(second);
        let (bytes, when_read) = read.join().expect("it ends");
        // More than the window, so the write waits for the acknowledgement.
        let much = vec![7; 300_000];
        let write = blocked(calls, move |calls| calls.write(file, &much));
        let mut acked = 1;
        while acked < 300_001 {
            let (_, segment) = player.next().expect("data leaves");
            acked = acked.max(segment.seq.wrapping_sub(player.isn) + segment.data.len() as u32);
            player.inject(".", 5, acked, b"");
        }
        calls.sleep(second);
        let (written, _) = write.join().expect("it ends");
        let wait = blocked(calls, move |calls| {
            let mut wait = libc::pollfd {
                fd: file,
                events: libc::POLLIN,
                revents: 0,
            };
            call!(calls, poll, &raw mut wait, 1, 2500)
        });
        let polls = calls.time_us();
        calls.sleep(3 * second);
        let (ready, when_given_up) = wait.join().expect("it ends");
        assert_eq!(
            (bytes, written, ready),
            (Ok(b"data".to_vec()), Ok(300_000), Ok(0))
        );
        for (what, late) in [
            ("accept", when_accepted - start - SECOND_US),
            ("read", when_read - start - 2 * SECOND_US),
            ("poll", when_given_up - polls - 2_500_000),
        ] {
            assert!((-100..1000).contains(&late), "{what}: {late} µs late");
        }
        player.free();
    });
}

/// Promise 62.
#[test]
fn a_call_of_the_script_itself_moves_the_clock() {
    time_limit(LIMIT, || {
        let player = Player::new("", false);
        let calls = player.calls;
        let listener = player.listener(0);
        let mut wait = libc::pollfd {
            fd: listener,
            events: libc::POLLIN,
            revents: 0,
        };
        let start = calls.time_us();
        assert_eq!(call!(calls, poll, &raw mut wait, 1, 1500), Ok(0));
        assert_eq!(calls.time_us() - start, 1_500_001);
        // Nothing could ever end this call.
        assert_eq!(calls.accept(listener).err(), Some(Errno::EDEADLK));
        player.free();
    });
}

/// Promise 62.
#[test]
fn poll_and_epoll_report_the_files_that_are_ready() {
    time_limit(LIMIT, || {
        let mut player = Player::new("nonagle", false);
        let calls = player.calls;
        let listener = player.listener(libc::SOCK_NONBLOCK);
        let epoll = call!(calls, epoll_create, 1).expect("a file");
        let control = |operation, file, events: i32| {
            let mut event = libc::epoll_event {
                events: events as u32,
                u64: file as u64,
            };
            call!(calls, epoll_ctl, epoll, operation, file, &raw mut event)
        };
        // The ready file and its events.
        let ready = || {
            let mut event = libc::epoll_event { events: 0, u64: 0 };
            let count = call!(calls, epoll_wait, epoll, &raw mut event, 1, 0).expect("it waits");
            (count == 1).then_some((event.u64 as i32, event.events as i32))
        };
        control(libc::EPOLL_CTL_ADD, listener, libc::EPOLLIN).expect("new");
        let again = control(libc::EPOLL_CTL_ADD, listener, libc::EPOLLIN);
        assert_eq!((again, ready()), (Err(Errno::EEXIST), None));
        assert_eq!(calls.accept(listener).err(), Some(Errno::EAGAIN));
        player.inject("S", 0, 0, b"");
        player.expect("S.", 0, 1, b"");
        assert_eq!(ready(), None, "half open");
        player.inject(".", 1, 1, b"");
        assert_eq!(ready(), Some((listener, libc::EPOLLIN)));
        let (file, _) = calls.accept(listener).expect("it waits");
        assert_eq!(ready(), None);
        let edge = libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET;
        control(libc::EPOLL_CTL_ADD, file, edge).expect("new");
        assert_eq!((ready(), ready()), (Some((file, libc::EPOLLOUT)), None));
        player.inject("P.", 1, 1, b"12");
        let both = libc::EPOLLIN | libc::EPOLLOUT;
        assert_eq!((ready(), ready()), (Some((file, both)), None), "an edge");
        calls.read(file, 1).expect("there are two");
        let once = libc::EPOLLIN | libc::EPOLLONESHOT;
        control(libc::EPOLL_CTL_MOD, file, once).expect("known");
        assert_eq!(
            (ready(), ready()),
            (Some((file, libc::EPOLLIN)), None),
            "once"
        );
        control(libc::EPOLL_CTL_MOD, file, libc::EPOLLIN).expect("known");
        assert_eq!(ready(), ready(), "a level");
        player.inject("F.", 3, 1, b"");
        let mut wait = libc::pollfd {
            fd: file,
            events: libc::POLLIN | libc::POLLRDHUP | libc::POLLPRI,
            revents: 0,
        };
        assert_eq!(call!(calls, poll, &raw mut wait, 1, -1), Ok(1));
        assert_eq!(wait.revents, libc::POLLIN | libc::POLLRDHUP);
        calls.close(file).expect("open");
        assert_eq!(ready(), None, "a closed file is not watched");
        call!(calls, poll, &raw mut wait, 1, 0).expect("it looks");
        assert_eq!(wait.revents, libc::POLLNVAL);
        player.free();
    });
}

/// Promise 62.
#[test]
fn a_connect_to_af_unspec_resets_the_socket() {
    time_limit(LIMIT, || {
        let mut player = Player::new("nonagle", false);
        let calls = player.calls;
        let listener = player.listener(0);
        let open = player.open(listener);
        let none = [0_u8; 16];
        let disconnect = |file| call!(calls, connect, file, none.as_ptr().cast(), 16);
        assert_eq!(disconnect(open), Ok(0));
        player.expect("R.", 1, 1, b"");
        assert_eq!(calls.read(open, 1), Err(Errno::ECONNRESET), "told once");
        assert_eq!(calls.read(open, 1), Err(Errno::ENOTCONN));
        assert_eq!(calls.write(open, b"x"), Err(Errno::EPIPE));
        // A listener stops by that or by `shutdown`, and may listen again.
        assert_eq!(call!(calls, shutdown, listener, libc::SHUT_WR), Ok(0));
        assert_eq!(call!(calls, shutdown, listener, libc::SHUT_RD), Ok(0));
        player.inject("S", 0, 0, b"");
        let (_, refusal) = player.next().expect("an answer");
        assert_eq!(refusal.flags, 0x14, "RST with ACK");
        assert_eq!(calls.accept(listener).err(), Some(Errno::EINVAL));
        assert_eq!(call!(calls, listen, listener, 1), Ok(0));
        assert_eq!(disconnect(listener), Ok(0));
        assert_eq!(calls.accept(listener).err(), Some(Errno::EINVAL));
        // A socket without an address listens at a free port.
        let other = calls.socket(false, libc::SOCK_NONBLOCK);
        assert_eq!(call!(calls, listen, other, 1), Ok(0));
        assert_eq!(calls.accept(other).err(), Some(Errno::EAGAIN));
        for file in [open, listener, other] {
            assert_eq!(calls.close(file), Ok(0));
        }
        player.free();
    });
}

/// Promise 62.
#[test]
fn a_socket_is_readable_at_its_low_water_mark() {
    time_limit(LIMIT, || {
        let mut player = Player::new("nonagle", false);
        let calls = player.calls;
        let listener = player.listener(0);
        let open = player.open(listener);
        let (level, name) = (libc::SOL_SOCKET, libc::SO_RCVLOWAT);
        assert_eq!(calls.option(open, level, name), 1);
        calls.set_option(open, level, name, 3).expect("known");
        assert_eq!(calls.option(open, level, name), 3);
        let ready = || {
            let mut entry = libc::pollfd {
                fd: open,
                events: libc::POLLIN,
                revents: 0,
            };
            call!(calls, poll, &raw mut entry, 1, 0).expect("valid")
        };
        player.inject("P.", 1, 1, b"ab");
        assert_eq!(ready(), 0);
        player.inject("P.", 3, 1, b"c");
        assert_eq!(ready(), 1);
        assert_eq!(calls.read(open, 9), Ok(b"abc".to_vec()));
        player.free();
    });
}

/// Promise 62.
#[test]
fn wrong_calls_get_linuxs_error_numbers() {
    time_limit(LIMIT, || {
        let mut player = Player::new("", false);
        let calls = player.calls;
        let (us, server) = (player.us, player.peer);
        let socket = |domain, kind| call!(calls, socket, domain, kind, 0).err();
        assert_eq!(
            socket(libc::AF_UNIX, libc::SOCK_STREAM),
            Some(Errno::EAFNOSUPPORT)
        );
        assert_eq!(
            socket(libc::AF_INET, libc::SOCK_RAW),
            Some(Errno::EPROTONOSUPPORT)
        );
        assert_eq!(calls.close(9999), Err(Errno::EBADF));
        let file = calls.socket(false, 0);
        let elsewhere = "192.168.0.77:1".parse().expect("an address");
        let v6 = "[fd3d:fa7b:d17d::2]:1".parse().expect("an address");
        assert_eq!(calls.bind(file, elsewhere), Err(Errno::EADDRNOTAVAIL));
        assert_eq!(calls.bind(file, v6), Err(Errno::EAFNOSUPPORT));
        assert_eq!(calls.read(file, 1), Err(Errno::ENOTCONN));
        assert_eq!(calls.write(file, b"x"), Err(Errno::EPIPE));
        assert_eq!(calls.accept(file).err(), Some(Errno::EINVAL));
        assert_eq!(
            call!(calls, shutdown, file, libc::SHUT_WR),
            Err(Errno::ENOTCONN)
        );
        let listener = player.listener(0);
        assert_eq!(calls.bind(file, us), Err(Errno::EADDRINUSE));
        assert_eq!(calls.bind(listener, us), Err(Errno::EINVAL), "it has one");
        assert_eq!(calls.connect(listener, server), Err(Errno::EISCONN));
        let no_delay = (libc::IPPROTO_TCP, libc::TCP_NODELAY);
        assert_eq!(calls.option(file, no_delay.0, no_delay.1), 0);
        calls
            .set_option(file, no_delay.0, no_delay.1, 1)
            .expect("known");
        assert_eq!(calls.option(file, no_delay.0, no_delay.1), 1);
        let refused = calls.set_option(file, libc::SOL_SOCKET, libc::SO_BUSY_POLL, 1);
        assert_eq!(refused, Err(Errno::ENOPROTOOPT), "it would have no effect");
        assert_eq!(
            player.inject_packet(b"\x05no version of IP"),
            Err(Errno::EINVAL)
        );
        // Unread data makes `close` send a reset (RFC 2525, 2.17).
        let open = player.open(listener);
        player.inject("P.", 1, 1, b"unread");
        player.expect(".", 1, 7, b"");
        calls.close(open).expect("open");
        player.expect("R.", 1, 7, b"");
        player.free();
    });
}

/// Promise 62.
#[test]
fn valid_settings_are_parsed_and_invalid_ones_named() {
    let none = CommandLine::default();
    let parse = |flags: &str| parse_flags(flags, none);
    let flags = "local=10.0.0.9/24, gateway=10.0.0.1,mtu=1400,nosack,newreno,window=65536";
    let config = parse(flags).expect("fine").config;
    assert_eq!(config.tcp.receive_window_bytes, 65_536);
    let first = &config.interfaces[0];
    assert_eq!((first.addresses.len(), first.mtu_bytes), (1, 1400));
    assert!(!config.tcp.sack && config.tcp.nagle && config.tcp.timestamps);
    for wrong in [
        "local=10.0.0.9",
        "gateway=here",
        "mtu=big",
        "window=wide",
        "nonsense",
        "nosack=1",
    ] {
        let error = parse(wrong).expect_err("refused");
        let value = wrong.rsplit('=').next().expect("a part");
        assert!(error.contains(value), "{error}");
    }
    let far = interface("local=10.0.0.9/24,gateway=10.9.0.1", none);
    assert!(far.expect_err("no way there").contains("10.9.0.1"));
}
