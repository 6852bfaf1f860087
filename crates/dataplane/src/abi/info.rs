//! The state of a connection, in words of several conditions.

use super::{INFO_PARTS, INFO_WORDS};
use cofferdam_netstack::{ConnectionInfo, Repair};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::Duration;

/// Words of a whole report.
type Words = [u32; INFO_PARTS * INFO_WORDS];

/// Stands for no value: longer than any time, larger than any window.
const NONE: u32 = u32::MAX;
/// Names of states, by their number in a report.
const STATES: [&str; 9] = [
    "CLOSED",
    "SYN-SENT",
    "SYN-RECEIVED",
    "ESTABLISHED",
    "FIN-WAIT-1",
    "FIN-WAIT-2",
    "CLOSE-WAIT",
    "CLOSING",
    "LAST-ACK",
];
const REPAIRS: [Repair; 4] = [
    Repair::None,
    Repair::Suspected,
    Repair::Fast,
    Repair::Timeout,
];

fn micros(time: Duration) -> u32 {
    u32::try_from(time.as_micros()).unwrap_or(NONE - 1)
}

fn ip_words(address: SocketAddr) -> [u32; 4] {
    let octets = match address.ip() {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    };
    u128::from_be_bytes(octets).to_words()
}

trait InWords {
    fn to_words(self) -> [u32; 4];
}

impl InWords for u128 {
    fn to_words(self) -> [u32; 4] {
        [96, 64, 32, 0].map(|shift| (self >> shift) as u32)
    }
}

fn address(words: [u32; 4], port: u16) -> SocketAddr {
    let all = words
        .iter()
        .fold(0, |all, word| all << 32 | u128::from(*word));
    SocketAddr::new(IpAddr::V6(Ipv6Addr::from(all)).to_canonical(), port)
}

/// Divides a report into parts.
pub(crate) fn parts(info: &ConnectionInfo) -> [[u32; INFO_WORDS]; INFO_PARTS] {
    let place = |found: Option<usize>| found.unwrap_or(0) as u8;
    let state = place(STATES.iter().position(|entry| *entry == info.state));
    let repair = place(REPAIRS.iter().position(|entry| *entry == info.repair));
    let flags = [
        info.probing,
        info.sack,
        info.timestamps,
        info.window_scaling,
        info.syn_data,
    ];
    let flags = (0..).zip(flags).map(|(bit, is_on)| u8::from(is_on) << bit);
    let scales = info.peer_scale & 15 | info.our_scale << 4;
    let [a, b, c, d] = ip_words(info.local);
    let [e, f, g, h] = ip_words(info.remote);
    let words: Words = [
        u32::from_le_bytes([state, repair, info.backoff, info.retries]),
        u32::from_le_bytes([info.flow_group, scales, flags.sum(), 0]),
        micros(info.rto),
        info.srtt.map_or(NONE, micros),
        info.rttvar.map_or(NONE, micros),
        info.retransmits,
        info.cwnd_bytes,
        info.ssthresh_bytes.unwrap_or(NONE),
        info.flight_bytes,
        info.sacked_bytes,
        info.lost_bytes,
        info.resent_bytes,
        info.initial_sequence,
        info.acked_bytes,
        info.received_bytes,
        info.mss_bytes,
        info.peer_window_bytes,
        info.offered_window_bytes,
        info.send_queue_bytes,
        info.unread_bytes,
        u32::from(info.local.port()) << 16 | u32::from(info.remote.port()),
        a,
        b,
        c,
        d,
        e,
        f,
        g,
        h,
        0,
    ];
    let mut parts = [[0; INFO_WORDS]; INFO_PARTS];
    for (part, words) in parts.iter_mut().zip(words.chunks_exact(INFO_WORDS)) {
        part.copy_from_slice(words);
    }
    parts
}

/// Parts of a report that have arrived.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    cookie: u64,
    words: Words,
    /// Number of the next part.
    next: usize,
}

impl Parts {
    /// Takes a part, and returns the report with the last one. A part out of order is dropped,
    /// together with those before it.
    pub fn take(
        &mut self,
        cookie: u64,
        part: u16,
        words: &[u32; INFO_WORDS],
    ) -> Option<ConnectionInfo> {
        let part = usize::from(part);
        if part == 0 {
            (self.cookie, self.next) = (cookie, 0);
        }
        if (self.cookie, self.next) != (cookie, part) {
            self.next = 0;
            return None;
        }
        let place = self.words.chunks_exact_mut(INFO_WORDS).nth(part)?;
        place.copy_from_slice(words);
        self.next += 1;
        if self.next < INFO_PARTS {
            return None;
        }
        self.next = 0;
        whole(&self.words)
    }
}

fn whole(words: &Words) -> Option<ConnectionInfo> {
    let [
        first,
        second,
        rto,
        srtt,
        rttvar,
        retransmits,
        cwnd_bytes,
        ssthresh,
        flight_bytes,
        sacked_bytes,
        lost_bytes,
        resent_bytes,
        initial_sequence,
        acked_bytes,
        received_bytes,
        mss_bytes,
        peer_window_bytes,
        offered_window_bytes,
        send_queue_bytes,
        unread_bytes,
        ports,
        a,
        b,
        c,
        d,
        e,
        f,
        g,
        h,
        _,
    ] = *words;
    let [state, repair, backoff, retries] = first.to_le_bytes();
    let [flow_group, scales, flags, _] = second.to_le_bytes();
    let time = |micros: u32| Duration::from_micros(micros.into());
    let some = |value: u32| (value != NONE).then_some(value);
    let flag = |bit: u32| flags >> bit & 1 == 1;
    Some(ConnectionInfo {
        local: address([a, b, c, d], (ports >> 16) as u16),
        remote: address([e, f, g, h], ports as u16),
        state: STATES.get(usize::from(state))?,
        flow_group,
        srtt: some(srtt).map(time),
        rttvar: some(rttvar).map(time),
        rto: time(rto),
        backoff,
        retries,
        repair: *REPAIRS.get(usize::from(repair))?,
        retransmits,
        cwnd_bytes,
        ssthresh_bytes: some(ssthresh),
        flight_bytes,
        sacked_bytes,
        lost_bytes,
        resent_bytes,
        initial_sequence,
        acked_bytes,
        received_bytes,
        mss_bytes,
        peer_window_bytes,
        offered_window_bytes,
        peer_scale: scales & 15,
        our_scale: scales >> 4,
        probing: flag(0),
        send_queue_bytes,
        unread_bytes,
        sack: flag(1),
        timestamps: flag(2),
        window_scaling: flag(3),
        syn_data: flag(4),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::{Condition, Entry};

    fn info() -> ConnectionInfo {
        ConnectionInfo {
            local: "10.0.0.9:40000".parse().expect("an address"),
            remote: "10.0.0.1:80".parse().expect("an address"),
            state: "LAST-ACK",
            flow_group: 127,
            srtt: Some(Duration::from_micros(120)),
            rttvar: None,
            rto: Duration::from_millis(200),
            backoff: 2,
            retries: 3,
            repair: Repair::Fast,
            retransmits: 4,
            cwnd_bytes: 5,
            ssthresh_bytes: None,
            flight_bytes: 6,
            sacked_bytes: 7,
            lost_bytes: 8,
            resent_bytes: 9,
            initial_sequence: u32::MAX,
            acked_bytes: 10,
            received_bytes: 11,
            mss_bytes: 1448,
            peer_window_bytes: 12,
            offered_window_bytes: 13,
            peer_scale: 14,
            our_scale: 3,
            probing: true,
            send_queue_bytes: 15,
            unread_bytes: 16,
            sack: false,
            timestamps: true,
            window_scaling: false,
            syn_data: true,
        }
    }

    /// Promise 53.
    #[test]
    fn a_report_comes_back_from_its_conditions() {
        let v6 = ConnectionInfo {
            remote: "[fd00::1]:443".parse().expect("an address"),
            ssthresh_bytes: Some(17),
            rttvar: Some(Duration::ZERO),
            ..info()
        };
        let mut got = Parts::default();
        for info in [info(), v6] {
            let mut report = None;
            for (part, words) in (0..).zip(parts(&info)) {
                assert_eq!(report, None);
                let entry = Entry::from(Condition::Info {
                    cookie: 1,
                    handle: 2,
                    part,
                    words,
                });
                let Some(Condition::Info {
                    cookie,
                    part,
                    words,
                    ..
                }) = Condition::decode(&entry)
                else {
                    panic!("{entry:?}")
                };
                report = got.take(cookie, part, &words);
            }
            assert_eq!(report, Some(info));
        }
    }

    /// Promise 53.
    #[test]
    fn parts_of_two_reports_make_none() {
        let mut got = Parts::default();
        let [first, second, third] = parts(&info());
        for (cookie, part, words) in [
            (1, 1, second),
            (1, 0, first),
            (2, 1, second),
            (2, 2, third),
            (1, 0, first),
            (1, 2, third),
            (1, 9, third),
        ] {
            assert_eq!(got.take(cookie, part, &words), None);
        }
        got.words[0] = 200;
        assert_eq!(whole(&got.words), None, "a state that there is not");
    }
}
