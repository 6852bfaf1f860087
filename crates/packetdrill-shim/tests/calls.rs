//! Edge cases of the table's calls: pointers, descriptors, buffers, options, the error queue.
#![allow(
    clippy::macro_metavars_in_unsafe,
    reason = "`call!` takes plain values; what they point at is said at its definition"
)]

mod support;

use cofferdam_lab::fixtures::time_limit;
use cofferdam_packetdrill_shim::{CommandLine, parse_flags};
use libc::{IPPROTO_TCP, SOL_SOCKET, c_int, c_void};
use nix::errno::Errno;
use std::time::Duration;
use support::{Calls, Player};

const LIMIT: Duration = Duration::from_secs(60);
/// An invalid address: the first page is never mapped.
const NOWHERE: usize = 0x10;

fn send(calls: Calls, file: c_int, bytes: &[u8], flags: c_int) -> Result<isize, Errno> {
    call!(calls, send, file, bytes.as_ptr().cast(), bytes.len(), flags)
}

/// Promise 62.
#[test]
fn bad_pointers_are_efault_in_every_call() {
    time_limit(LIMIT, || {
        let mut player = Player::new("nonagle", false);
        let calls = player.calls;
        let bad = NOWHERE as *mut c_void;
        let listener = player.listener(0);
        let file = player.open(listener);
        for pointer in [bad, std::ptr::null_mut()] {
            assert_eq!(
                call!(calls, write, file, pointer, 10).err(),
                Some(Errno::EFAULT)
            );
            assert_eq!(
                call!(calls, send, file, pointer, 10, 0).err(),
                Some(Errno::EFAULT)
            );
            let to = std::ptr::null();
            let sent = call!(calls, sendto, file, pointer, 10, 0, to, 0);
            assert_eq!(sent.err(), Some(Errno::EFAULT));
            let written = call!(calls, writev, file, pointer.cast(), 1);
            assert_eq!(written.err(), Some(Errno::EFAULT));
            let sent = call!(calls, sendmsg, file, pointer.cast(), 0);
            assert_eq!(sent.err(), Some(Errno::EFAULT));
            let got = call!(calls, recvmsg, file, pointer.cast(), 0);
            assert_eq!(got.err(), Some(Errno::EFAULT));
            let bound = call!(calls, bind, file, pointer.cast(), 16);
            assert_eq!(bound.err(), Some(Errno::EFAULT));
            let set = call!(
                calls,
                setsockopt,
                file,
                SOL_SOCKET,
                libc::SO_REUSEADDR,
                pointer,
                4
            );
            assert_eq!(set.err(), Some(Errno::EFAULT));
            let level = SOL_SOCKET;
            let mut len = 4;
            let got = call!(
                calls,
                getsockopt,
                file,
                level,
                libc::SO_TYPE,
                pointer,
                &raw mut len
            );
            assert_eq!(got.err(), Some(Errno::EFAULT));
            let got = call!(calls, ioctl, file, libc::FIONREAD, pointer.cast());
            assert_eq!(got.err(), Some(Errno::EFAULT));
            let polled = call!(calls, poll, pointer.cast(), 1, 0);
            assert_eq!(polled.err(), Some(Errno::EFAULT));
            let time = call!(calls, gettimeofday, pointer.cast(), std::ptr::null_mut());
            assert_eq!(time.err(), Some(Errno::EFAULT));
        }
        // Data that could not be copied out stays readable.
        player.inject("P.", 1, 1, b"kept");
        player.expect(".", 1, 5, b"");
        assert_eq!(call!(calls, read, file, bad, 10).err(), Some(Errno::EFAULT));
        assert_eq!(calls.read(file, 10), Ok(b"kept".to_vec()));
        player.free();
    });
}

/// Promise 62.
#[test]
fn descriptors_are_real_and_others_are_the_kernels() {
    time_limit(LIMIT, || {
        let player = Player::new("", false);
        let calls = player.calls;
        let file = calls.socket(false, 0);
        // SAFETY: the calls only query flags and duplicate descriptors.
        let others = unsafe {
            assert!(libc::fcntl(file, libc::F_GETFD) >= 0, "it is open");
            [libc::dup(0), libc::dup(0)]
        };
        assert!(!others.contains(&file));
        let mut ends = [0; 2];
        call!(calls, pipe, ends.as_mut_ptr()).expect("a pipe");
        assert_eq!(calls.write(ends[1], b"through"), Ok(7));
        assert_eq!(calls.read(ends[0], 10), Ok(b"through".to_vec()));
        for other in others.into_iter().chain(ends) {
            assert_eq!(calls.close(other), Ok(0));
        }
        assert_eq!(calls.close(file), Ok(0));
        // SAFETY: the call only queries flags.
        let flags = unsafe { libc::fcntl(file, libc::F_GETFD) };
        assert_eq!(flags, -1, "it is closed");
        player.free();
    });
}

/// Promise 62.
#[test]
fn a_small_send_buffer_cuts_a_write() {
    time_limit(LIMIT, || {
        let mut player = Player::new("nonagle", false);
        let calls = player.calls;
        let listener = player.listener(0);
        let file = player.open(listener);
        calls
            .set_option(file, SOL_SOCKET, libc::SO_SNDBUF, 20_000)
            .expect("known");
        assert_eq!(
            calls.option(file, SOL_SOCKET, libc::SO_SNDBUF),
            40_000,
            "doubled"
        );
        let taken = send(calls, file, &[1; 200_000], libc::MSG_DONTWAIT).expect("a part");
        assert!(taken > 20_000 && taken < 100_000, "{taken}");
        let more = send(calls, file, b"x", libc::MSG_DONTWAIT);
        assert_eq!(more, Err(Errno::EAGAIN));
        calls
            .set_option(file, IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, 1000)
            .expect("known");
        assert_eq!(
            calls.option(file, IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT),
            1000
        );
        player.free();
    });
}

/// Promise 62.
#[test]
fn corked_data_waits_for_a_full_segment_or_its_time() {
    time_limit(LIMIT, || {
        let mut player = Player::new("nonagle", false);
        let calls = player.calls;
        let listener = player.listener(0);
        let file = player.open(listener);
        calls
            .set_option(file, IPPROTO_TCP, libc::TCP_CORK, 1)
            .expect("known");
        let began = calls.time_us();
        assert_eq!(calls.write(file, b"one "), Ok(4));
        assert_eq!(calls.write(file, b"two"), Ok(3));
        let left = player.expect("P.", 1, 1, b"one two");
        assert!(
            (200_000..201_000).contains(&(left - began)),
            "tcp(7): 200 ms"
        );
        assert_eq!(calls.write(file, b"three"), Ok(5));
        calls
            .set_option(file, IPPROTO_TCP, libc::TCP_CORK, 0)
            .expect("known");
        player.expect("P.", 8, 1, b"three");
        assert_eq!(send(calls, file, b"four ", libc::MSG_MORE), Ok(5));
        assert_eq!(send(calls, file, b"five", 0), Ok(4));
        player.expect("P.", 13, 1, b"four five");
        player.free();
    });
}

/// Promise 62.
#[test]
fn a_record_ends_a_segment() {
    time_limit(LIMIT, || {
        let mut player = Player::new("nonagle", false);
        let calls = player.calls;
        let listener = player.listener(0);
        let file = player.open(listener);
        calls
            .set_option(file, IPPROTO_TCP, libc::TCP_CORK, 1)
            .expect("known");
        assert_eq!(send(calls, file, b"first", libc::MSG_EOR), Ok(5));
        assert_eq!(send(calls, file, b"second", libc::MSG_EOR), Ok(6));
        player.expect("P.", 1, 1, b"first");
        player.expect("P.", 6, 1, b"second");
        player.free();
    });
}

/// Promise 62.
#[test]
fn the_error_queue_reports_zero_copy_and_timestamps() {
    time_limit(LIMIT, || {
        let mut player = Player::new("nonagle", false);
        let calls = player.calls;
        let listener = player.listener(0);
        let file = player.open(listener);
        let mut room = [0_u8; 512];
        let mut next = || {
            // SAFETY: an all-zero header is valid, and the buffer outlives the call.
            let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
            header.msg_control = room.as_mut_ptr().cast();
            header.msg_controllen = room.len();
            let got = call!(calls, recvmsg, file, &raw mut header, libc::MSG_ERRQUEUE);
            got.map(|_| (header.msg_flags, room[..header.msg_controllen].to_vec()))
        };
        assert_eq!(next().err(), Some(Errno::EAGAIN), "it never waits");
        calls
            .set_option(file, SOL_SOCKET, libc::SO_ZEROCOPY, 1)
            .expect("known");
        assert_eq!(send(calls, file, b"data", libc::MSG_ZEROCOPY), Ok(4));
        player.expect("P.", 1, 1, b"data");
        assert_eq!(next().err(), Some(Errno::EAGAIN), "it is in use");
        player.inject(".", 1, 5, b"");
        let (flags, report) = next().expect("a report");
        assert_eq!(flags, libc::MSG_ERRQUEUE);
        // A struct sock_extended_err follows the header: origin 5 (zero copy), code 1 (copied).
        assert_eq!((report[20], report[22]), (5, 1));
        // Software timestamps of sending, with identifiers.
        let stamps = libc::SOF_TIMESTAMPING_TX_SOFTWARE
            | libc::SOF_TIMESTAMPING_SOFTWARE
            | libc::SOF_TIMESTAMPING_OPT_ID;
        let stamps = stamps as c_int;
        calls
            .set_option(file, SOL_SOCKET, libc::SO_TIMESTAMPING, stamps)
            .expect("known");
        assert_eq!(calls.write(file, b"stamped"), Ok(7));
        let (flags, report) = next().expect("a timestamp");
        assert_eq!(flags, libc::MSG_ERRQUEUE | libc::MSG_TRUNC);
        assert_eq!(report[12..16], libc::SCM_TIMESTAMPING.to_ne_bytes());
        // The word before the address in the second message is the number of the byte.
        let at = report.len() - 16 - 4;
        assert_eq!(report[at..at + 4], 6_u32.to_ne_bytes());
        player.free();
    });
}

#[test]
fn options_are_stored_and_invalid_values_rejected() {
    time_limit(LIMIT, || {
        let player = Player::new("", false);
        let calls = player.calls;
        let file = calls.socket(false, 0);
        for (level, name, value) in [
            (IPPROTO_TCP, libc::TCP_KEEPIDLE, 5),
            (IPPROTO_TCP, libc::TCP_KEEPINTVL, 6),
            (IPPROTO_TCP, libc::TCP_KEEPCNT, 7),
            (IPPROTO_TCP, libc::TCP_SYNCNT, 2),
            (IPPROTO_TCP, libc::TCP_USER_TIMEOUT, 3000),
            (IPPROTO_TCP, libc::TCP_MAXSEG, 1100),
            (SOL_SOCKET, libc::SO_KEEPALIVE, 1),
            (SOL_SOCKET, libc::SO_MARK, 666),
            (SOL_SOCKET, libc::SO_PRIORITY, 3),
            (
                libc::IPPROTO_IP,
                libc::IP_MTU_DISCOVER,
                libc::IP_PMTUDISC_DONT,
            ),
        ] {
            calls.set_option(file, level, name, value).expect("known");
            assert_eq!(calls.option(file, level, name), value, "{level} {name}");
        }
        for (level, name, value) in [
            (IPPROTO_TCP, libc::TCP_KEEPIDLE, 0),
            (IPPROTO_TCP, libc::TCP_KEEPCNT, 128),
            (IPPROTO_TCP, libc::TCP_SYNCNT, -1),
            (IPPROTO_TCP, libc::TCP_MAXSEG, 87),
            (IPPROTO_TCP, libc::TCP_USER_TIMEOUT, -1),
            (SOL_SOCKET, libc::SO_ZEROCOPY, 2),
            (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, 9),
        ] {
            let refused = calls.set_option(file, level, name, value);
            assert_eq!(refused, Err(Errno::EINVAL), "{level} {name}");
        }
        let name = b"reno\0";
        let place = name.as_ptr().cast();
        let set = |place, len| {
            call!(
                calls,
                setsockopt,
                file,
                IPPROTO_TCP,
                libc::TCP_CONGESTION,
                place,
                len
            )
        };
        assert_eq!(set(place, 5), Ok(0));
        assert_eq!(set(b"bbr".as_ptr().cast(), 3), Err(Errno::ENOENT));
        player.free();
    });
}

/// Promise 62.
#[test]
fn sysctls_set_the_stack() {
    let folder = format!("cofferdam-sysctls-set-{}", std::process::id());
    let folder = std::env::temp_dir().join(folder);
    std::fs::create_dir_all(&folder).expect("a folder for the test");
    for (file, text) in [
        ("tcp_sack", "0\n"),
        ("tcp_timestamps", "0\n"),
        ("tcp_congestion_control", "reno\n"),
        ("tcp_syn_retries", "3\n"),
        ("tcp_rmem", "4096\t131072\t6291456\n"),
        ("tcp_fastopen", "1027\n"),
        ("tcp_ecn", "1\n"),
        ("tcp_window_scaling", "nonsense\n"),
    ] {
        std::fs::write(folder.join(file), text).expect("a file for the test");
    }
    let flags = format!("sysctls={}", folder.display());
    let setup = parse_flags(&flags, CommandLine::default()).expect("fine");
    let sysctls = setup.sysctls.expect("they are read");
    let tcp = sysctls.apply(&setup.config.tcp);
    assert_eq!(sysctls.fast_open(), 1027);
    std::fs::remove_dir_all(&folder).expect("ours");
    assert!(!tcp.sack && !tcp.timestamps && tcp.window_scaling);
    assert_eq!(tcp.congestion, cofferdam_netstack::Congestion::NewReno);
    assert_eq!((tcp.syn_retries, tcp.receive_window_bytes), (3, 6_291_456));
    assert_eq!(tcp.ecn, cofferdam_netstack::Ecn::On);
    assert_eq!(
        tcp.data_retries, setup.config.tcp.data_retries,
        "what is not there stays"
    );
}
