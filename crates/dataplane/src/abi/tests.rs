//! Round trips of each call and condition through an entry.

use super::*;
use std::time::Duration;

#[test]
fn what_is_encoded_is_decoded_and_nothing_else() {
    let v4: SocketAddr = "10.1.2.3:80".parse().expect("an address");
    let v6: SocketAddr = "[fd00::1]:443".parse().expect("an address");
    for call in [
        Call::Listen {
            local: v4,
            backlog: 9,
            cookie: 1,
            sharing: Sharing {
                group: u64::MAX,
                is_standby: true,
            },
        },
        Call::UdpBind {
            local: v6,
            cookie: u64::MAX,
        },
        Call::Unbind { handle: 1 },
        Call::Connect {
            remote: v6,
            cookie: 2,
            options: ConnectionOptions {
                user_timeout: Some(Duration::from_secs(20)),
                ..ConnectionOptions::default()
            },
        },
        Call::Accept {
            handle: 3,
            cookie: 4,
        },
        Call::Reject { handle: 5 },
        Call::Send {
            handle: 6,
            offset: 1 << 40,
            len: 7,
        },
        Call::RecvDone { frame: 8 },
        Call::Shutdown { handle: 9 },
        Call::Close { handle: 10 },
        Call::Abort { handle: 11 },
        Call::Options {
            handle: 11,
            options: ConnectionOptions::default(),
        },
        Call::Info { handle: 11 },
        Call::UdpSend {
            handle: 12,
            remote: v4,
            source: None,
            offset: 13,
            len: 14,
            token: 15,
        },
        Call::UdpSend {
            handle: 12,
            remote: v6,
            source: Some(v6.ip()),
            offset: 13,
            len: 0,
            token: u64::MAX,
        },
        Call::UdpSend {
            handle: 12,
            remote: v4,
            source: Some(v4.ip()),
            offset: 13,
            len: 14,
            token: 15,
        },
        Call::UdpRecvDone { frame: 16 },
        Call::Timer {
            delay_ns: 17,
            cookie: 18,
        },
        Call::Passed { group: 127 },
    ] {
        assert_eq!(Call::decode(&call.into()), Some(call));
        assert_eq!(
            Condition::decode(&call.into()),
            None,
            "no call is a condition"
        );
    }
    for condition in [
        Condition::Left { group: 1 },
        Condition::Arrived { group: 2, from: 31 },
        Condition::Settled { group: 127 },
        Condition::Bound {
            cookie: 1,
            result: Ok(2),
        },
        Condition::Bound {
            cookie: 1,
            result: Err(Refusal::Forbidden),
        },
        Condition::Knock {
            cookie: 1,
            handle: 2,
            remote: v6,
        },
        Condition::Connected {
            cookie: 1,
            handle: 2,
            window_bytes: 3,
            local: v4,
        },
        Condition::Info {
            cookie: 1,
            handle: 2,
            part: 2,
            words: [1, 2, 3, 4, 5, 6, 7, 8, 9, u32::MAX],
        },
        Condition::Recv {
            cookie: 1,
            handle: 2,
            frame: 3,
            offset: 4,
            len: 5,
        },
        Condition::PeerClosed {
            cookie: 1,
            handle: 2,
        },
        Condition::Sent {
            cookie: 1,
            handle: 2,
            bytes: 3,
            ranges: 4,
            limit_bytes: 1 << 40,
        },
        Condition::Dead {
            cookie: 1,
            handle: 2,
            reason: Ending::NoRoom,
        },
        Condition::UdpRecv {
            cookie: 1,
            local: v4.ip(),
            frame: 3,
            offset: 4,
            len: 5,
            remote: v4,
        },
        Condition::UdpRecv {
            cookie: 1,
            local: v6.ip(),
            frame: 3,
            offset: 4,
            len: 5,
            remote: v6,
        },
        Condition::UdpSent {
            cookie: 1,
            token: 2,
        },
        Condition::Timer { cookie: 1 },
    ] {
        assert_eq!(Condition::decode(&condition.into()), Some(condition));
        assert_eq!(
            Call::decode(&condition.into()),
            None,
            "no condition is a call"
        );
    }
    assert_eq!(Call::decode(&Entry::new(0)), None);
    assert_eq!(Call::decode(&Entry::new(u32::MAX)), None);
}
