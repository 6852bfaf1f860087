//! UDP sockets and control messages through the table.
#![allow(
    clippy::macro_metavars_in_unsafe,
    reason = "`call!` takes plain values; what they point at is said at its definition"
)]

mod support;

use cofferdam_lab::fixtures::time_limit;
use cofferdam_packetdrill_shim::control::{self, Control};
use libc::{c_int, c_void};
use nix::errno::Errno;
use nix::sys::socket::{SockaddrLike, SockaddrStorage};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use support::segment::{checksum, frame};
use support::{Calls, Player};

const LIMIT: Duration = Duration::from_secs(60);
const MACS: [[u8; 6]; 2] = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]];

/// A UDP packet from one address to another.
fn packet(from: SocketAddr, to: SocketAddr, data: &[u8]) -> Vec<u8> {
    let ports = [from.port(), to.port(), 8 + data.len() as u16, 0];
    let mut udp = ports.map(u16::to_be_bytes).concat();
    udp.extend(data);
    let sum = checksum(from.ip(), to.ip(), 17, &udp);
    udp[6..8].copy_from_slice(&sum.to_be_bytes());
    frame(MACS, from.ip(), to.ip(), 17, &udp)[14..].to_vec()
}

/// Protocol and IP payload of the next packet that leaves.
fn next(calls: Calls, v6: bool) -> Option<(u8, Vec<u8>)> {
    let (mut bytes, mut len, mut time_us) = (vec![0; 2048], 2048, 0);
    let place = bytes.as_mut_ptr().cast();
    let got = call!(calls, netdev_receive, place, &raw mut len, &raw mut time_us);
    got.expect("it receives");
    bytes.truncate(len);
    let (protocol, header) = if v6 { (6, 40) } else { (9, 20) };
    (len > 0).then(|| (bytes[protocol], bytes[header..].to_vec()))
}

fn socket(calls: Calls, v6: bool) -> c_int {
    let domain = if v6 { libc::AF_INET6 } else { libc::AF_INET };
    let kind = libc::SOCK_DGRAM | libc::SOCK_NONBLOCK;
    call!(calls, socket, domain, kind, libc::IPPROTO_UDP).expect("a socket")
}

/// Result of `recvmsg`: data, sender, flags, control messages.
type Got = (Vec<u8>, Option<SocketAddr>, c_int, Vec<Control>);

fn receive(calls: Calls, file: c_int, room: usize, control_room: usize) -> Result<Got, Errno> {
    let (mut bytes, mut control) = (vec![0_u8; room], vec![0_u64; control_room.div_ceil(8)]);
    let mut piece = libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: room,
    };
    // SAFETY: an all-zero message header is valid, and so is an all-zero address.
    let (mut message, mut name) = unsafe {
        let name: libc::sockaddr_storage = std::mem::zeroed();
        (std::mem::zeroed::<libc::msghdr>(), name)
    };
    (message.msg_iov, message.msg_iovlen) = (&raw mut piece, 1);
    (message.msg_name, message.msg_namelen) = ((&raw mut name).cast(), size_of_val(&name) as u32);
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = control_room;
    let len = call!(calls, recvmsg, file, &raw mut message, 0)? as usize;
    bytes.truncate(len);
    // SAFETY: the call stored the address and the control data with their lengths.
    let (from, written) = unsafe {
        let from = SockaddrStorage::from_raw((&raw const name).cast(), Some(message.msg_namelen));
        let written = control.as_ptr().cast::<u8>();
        (
            from,
            std::slice::from_raw_parts(written, message.msg_controllen),
        )
    };
    let from =
        from.and_then(
            |storage| match (storage.as_sockaddr_in(), storage.as_sockaddr_in6()) {
                (Some(v4), _) => Some(SocketAddr::new(v4.ip().into(), v4.port())),
                (_, Some(v6)) => Some(SocketAddr::new(v6.ip().into(), v6.port())),
                _ => None,
            },
        );
    let control = control::parse(written).expect("control messages");
    Ok((bytes, from, message.msg_flags, control))
}

fn send(calls: Calls, file: c_int, data: &[u8], to: Option<SocketAddr>) -> Result<isize, Errno> {
    let address = to.map(SockaddrStorage::from);
    let (place, len) = match &address {
        Some(address) => (address.as_ptr(), address.len()),
        None => (std::ptr::null(), 0),
    };
    call!(
        calls,
        sendto,
        file,
        data.as_ptr().cast(),
        data.len(),
        0,
        place,
        len
    )
}

fn ready(calls: Calls, file: c_int) -> i16 {
    let mut poll = libc::pollfd {
        fd: file,
        events: libc::POLLIN | libc::POLLOUT,
        revents: 0,
    };
    call!(calls, poll, &raw mut poll, 1, 0).expect("it polls");
    poll.revents
}

/// Promise 62.
#[test]
fn a_udp_socket_receives_and_sends_datagrams() {
    time_limit(LIMIT, || {
        for v6 in [false, true] {
            let player = Player::new("", v6);
            let (calls, us, peer) = (player.calls, player.us, player.peer);
            let file = socket(calls, v6);
            assert_eq!(
                calls.option(file, libc::SOL_SOCKET, libc::SO_TYPE),
                libc::SOCK_DGRAM
            );
            assert_eq!(
                send(calls, file, b"to whom?", None),
                Err(Errno::EDESTADDRREQ)
            );
            calls.bind(file, us).expect("free");
            assert_eq!(calls.bind(file, us), Err(Errno::EINVAL));
            let second = socket(calls, v6);
            assert_eq!(calls.bind(second, us), Err(Errno::EADDRINUSE));
            // The port numbers of TCP are separate.
            let stream = calls.socket(v6, 0);
            calls.bind(stream, us).expect("free");
            assert_eq!(receive(calls, file, 10, 0), Err(Errno::EAGAIN));
            assert_eq!(ready(calls, file), libc::POLLOUT);

            for data in [&b"question"[..], b"", b"long question"] {
                player
                    .inject_packet(&packet(peer, us, data))
                    .expect("it is IP");
            }
            assert_eq!(ready(calls, file), libc::POLLIN | libc::POLLOUT);
            let whole = (b"question".to_vec(), Some(peer), 0, Vec::new());
            assert_eq!(receive(calls, file, 100, 0), Ok(whole));
            assert_eq!(
                receive(calls, file, 100, 0),
                Ok((Vec::new(), Some(peer), 0, Vec::new()))
            );
            // Truncated; the rest is discarded (recvmsg(2)).
            let cut = (b"long".to_vec(), Some(peer), libc::MSG_TRUNC, Vec::new());
            assert_eq!(receive(calls, file, 4, 0), Ok(cut));
            assert_eq!(receive(calls, file, 4, 0), Err(Errno::EAGAIN));

            assert_eq!(send(calls, file, b"answer", Some(peer)), Ok(6));
            let (protocol, sent) = next(calls, v6).expect("it leaves");
            assert_eq!((protocol, &sent[8..]), (17, &b"answer"[..]));
            assert_eq!(
                sent[..4],
                [us.port().to_be_bytes(), peer.port().to_be_bytes()].concat()
            );
            assert_eq!(checksum(us.ip(), peer.ip(), 17, &sent), 0);
            let most = if v6 { 1452 } else { 1472 };
            assert_eq!(
                send(calls, file, &[1; 1500], Some(peer)),
                Err(Errno::EMSGSIZE)
            );
            assert_eq!(
                send(calls, file, &vec![1; most], Some(peer)),
                Ok(most as isize)
            );
            assert_eq!(next(calls, v6).expect("it leaves").1.len(), most + 8);

            // A connected socket receives only from its peer and sends to it by default.
            calls.connect(file, peer).expect("a peer");
            let other = SocketAddr::new(peer.ip(), peer.port() + 1);
            player
                .inject_packet(&packet(other, us, b"stranger"))
                .expect("it is IP");
            player
                .inject_packet(&packet(peer, us, b"friend"))
                .expect("it is IP");
            assert_eq!(calls.read(file, 100), Ok(b"friend".to_vec()));
            assert_eq!(calls.read(file, 100), Err(Errno::EAGAIN));
            assert_eq!(calls.write(file, b"more"), Ok(4));
            assert_eq!(next(calls, v6).expect("it leaves").1[8..], *b"more");

            // A socket without an address gets one when it sends.
            assert_eq!(send(calls, second, b"from anywhere", Some(peer)), Ok(13));
            let (_, sent) = next(calls, v6).expect("it leaves");
            let port = u16::from_be_bytes([sent[0], sent[1]]);
            assert!(port >= 49_152);
            let chosen = SocketAddr::new(us.ip(), port);
            player
                .inject_packet(&packet(peer, chosen, b"back"))
                .expect("it is IP");
            assert_eq!(calls.read(second, 100), Ok(b"back".to_vec()));

            // No socket there: port unreachable (RFC 1122, 3.2.2.1; RFC 4443, 3.1).
            player
                .inject_packet(&packet(peer, us, b"unread"))
                .expect("it is IP");
            for file in [file, second, stream] {
                assert_eq!(calls.close(file), Ok(0));
            }
            player
                .inject_packet(&packet(peer, us, b"late"))
                .expect("it is IP");
            let (protocol, error) = next(calls, v6).expect("an error");
            let unreachable = if v6 { (58, 1, 4) } else { (1, 3, 3) };
            assert_eq!((protocol, error[0], error[1]), unreachable);
            assert_eq!(next(calls, v6), None);
            player.free();
        }
    });
}

/// Promise 62.
#[test]
fn stream_calls_on_a_udp_socket_fail_as_on_linux() {
    time_limit(LIMIT, || {
        let player = Player::new("", false);
        let (calls, us, peer) = (player.calls, player.us, player.peer);
        let file = socket(calls, false);
        assert_eq!(call!(calls, listen, file, 1), Err(Errno::EOPNOTSUPP));
        assert_eq!(calls.accept(file), Err(Errno::EOPNOTSUPP));
        assert_eq!(
            call!(calls, shutdown, file, libc::SHUT_WR),
            Err(Errno::ENOTCONN)
        );
        let nodelay = calls.set_option(file, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1);
        assert_eq!(nodelay, Err(Errno::EOPNOTSUPP));
        let foreign = SocketAddr::new([10, 1, 2, 3].into(), 9);
        assert_eq!(calls.bind(file, foreign), Err(Errno::EADDRNOTAVAIL));
        let v6 = "[2001:db8::1]:9".parse().expect("an address");
        assert_eq!(send(calls, file, b"x", Some(v6)), Err(Errno::EAFNOSUPPORT));
        assert_eq!(
            send(calls, file, b"x", Some(us)),
            Err(Errno::ENETUNREACH),
            "to itself"
        );
        let domain = (libc::AF_INET, libc::SOCK_DGRAM);
        let wrong = call!(calls, socket, domain.0, domain.1, libc::IPPROTO_TCP);
        assert_eq!(wrong, Err(Errno::EPROTONOSUPPORT));
        assert_eq!(send(calls, file, b"x", Some(peer)), Ok(1));
        player.free();
    });
}

/// Destination address of a datagram: IP_PKTINFO, IPV6_RECVPKTINFO and IPV6_PKTINFO (ip(7),
/// ipv6(7)).
/// Promise 62.
#[test]
fn control_messages_report_and_choose_a_datagrams_address() {
    time_limit(LIMIT, || {
        for v6 in [false, true] {
            let flags = "local=192.168.0.2/16,local=192.168.0.3/16,local=fd3d:fa7b:d17d::2/48,\
                         local=fd3d:fa7b:d17d::3/48,gateway=192.168.0.1,\
                         gateway=fd3d:fa7b:d17d:8888::";
            let player = Player::new(flags, v6);
            let (calls, peer) = (player.calls, player.peer);
            let (any, second): (IpAddr, IpAddr) = if v6 {
                (
                    [0; 16].into(),
                    "fd3d:fa7b:d17d::3".parse().expect("an address"),
                )
            } else {
                ([0; 4].into(), [192, 168, 0, 3].into())
            };
            let file = socket(calls, v6);
            calls.bind(file, SocketAddr::new(any, 8080)).expect("free");
            let (level, option, kind) = if v6 {
                (
                    libc::IPPROTO_IPV6,
                    libc::IPV6_RECVPKTINFO,
                    libc::IPV6_PKTINFO,
                )
            } else {
                (libc::IPPROTO_IP, libc::IP_PKTINFO, libc::IP_PKTINFO)
            };
            assert_eq!(calls.option(file, level, option), 0);
            calls.set_option(file, level, option, 1).expect("known");
            let to = SocketAddr::new(second, 8080);
            for _ in 0..2 {
                player
                    .inject_packet(&packet(peer, to, b"which?"))
                    .expect("it is IP");
            }
            let (_, _, flags, control) = receive(calls, file, 10, 100).expect("it came");
            assert_eq!(flags, 0);
            let data = match second {
                IpAddr::V4(v4) => [1_i32.to_ne_bytes(), v4.octets(), v4.octets()].concat(),
                IpAddr::V6(v6) => [&v6.octets()[..], &1_i32.to_ne_bytes()].concat(),
            };
            assert_eq!(
                control,
                [Control {
                    level,
                    kind,
                    data: data.clone()
                }]
            );
            // The buffer is too small for the message.
            let (_, _, flags, control) = receive(calls, file, 10, 16).expect("it came");
            assert_eq!((flags, control), (libc::MSG_CTRUNC, Vec::new()));

            // The answer comes from the second address; the kernel would choose the first.
            let asked = [Control { level, kind, data }];
            assert_eq!(send_with(calls, file, b"this", peer, &asked), Ok(4));
            let (_, sent) = next(calls, v6).expect("it leaves");
            assert_eq!(checksum(second, peer.ip(), 17, &sent), 0, "from the second");
            let unknown = [Control {
                level: libc::SOL_SOCKET,
                kind: 1,
                data: vec![0; 4],
            }];
            let refused = send_with(calls, file, b"this", peer, &unknown);
            assert_eq!(refused, Err(Errno::EOPNOTSUPP));
            let foreign = [Control {
                level,
                kind,
                data: vec![9; if v6 { 20 } else { 12 }],
            }];
            let refused = send_with(calls, file, b"this", peer, &foreign);
            assert_eq!(refused, Err(Errno::ENETUNREACH));
            player.free();
        }
    });
}

/// Sends a datagram with control messages.
fn send_with(
    calls: Calls,
    file: c_int,
    data: &[u8],
    to: SocketAddr,
    control: &[Control],
) -> Result<isize, Errno> {
    let address = SockaddrStorage::from(to);
    let (control, _) = control::lay_out(control, 1000);
    let mut piece = libc::iovec {
        iov_base: data.as_ptr().cast_mut().cast::<c_void>(),
        iov_len: data.len(),
    };
    // SAFETY: an all-zero message header is valid.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    (message.msg_iov, message.msg_iovlen) = (&raw mut piece, 1);
    message.msg_name = address.as_ptr().cast_mut().cast();
    message.msg_namelen = address.len();
    message.msg_control = control.as_ptr().cast_mut().cast();
    message.msg_controllen = control.len();
    call!(calls, sendmsg, file, &raw const message, 0)
}

/// TCP_INQ (tcp(7)): the readable bytes, and the end of the stream.
/// Promise 62.
#[test]
fn a_stream_reports_how_much_is_left_to_read() {
    time_limit(LIMIT, || {
        let mut player = Player::new("", false);
        let calls = player.calls;
        let listener = player.listener(0);
        let file = player.open(listener);
        let inq = 36;
        let queue = |room: usize| {
            let (bytes, from, _, control) = receive(calls, file, room, 100).expect("data");
            assert_eq!(from, None);
            let left = control.first().map(|message| message.data.clone());
            (
                bytes.len(),
                left.map(|data| i32::from_ne_bytes([data[0], data[1], data[2], data[3]])),
            )
        };
        player.inject("P.", 1, 1, &[5; 1000]);
        assert_eq!(queue(100), (100, None));
        calls
            .set_option(file, libc::IPPROTO_TCP, inq, 1)
            .expect("known");
        let wrong = calls.set_option(file, libc::IPPROTO_TCP, inq, 2);
        assert_eq!(wrong, Err(Errno::EINVAL));
        assert_eq!(calls.option(file, libc::IPPROTO_TCP, inq), 1);
        assert_eq!(queue(300), (300, Some(600)));
        assert_eq!(queue(600), (600, Some(0)));
        player.inject("FP.", 1001, 1, &[6; 10]);
        assert_eq!(queue(4), (4, Some(6)));
        assert_eq!(queue(6), (6, Some(1)), "the end is readable");
        player.free();
    });
}
