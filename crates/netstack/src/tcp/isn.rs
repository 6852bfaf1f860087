//! Initial sequence numbers and timestamp offsets (RFC 6528; RFC 7323, 5.4).

use crate::api::Time;
use crate::core::siphash::Key;
use crate::flow::FlowKey;

/// Secret keys of sequence numbers and timestamps.
#[derive(Debug, Clone, Copy)]
pub struct Numbers {
    sequence: Key,
    timestamps: Key,
}

impl Numbers {
    pub fn new(secret: &[u8; 16]) -> Self {
        Self {
            sequence: Key::new(secret, 2),
            timestamps: Key::new(secret, 3),
        }
    }

    /// Initial sequence number `M + F(4-tuple, secret)`: a clock of 4 µs (RFC 9293, 3.4.1) and a
    /// hash. The numbers of successive connections of a 4-tuple increase, and those of others
    /// reveal nothing.
    pub fn initial(&self, key: &FlowKey, now: Time) -> u32 {
        let clock = (now.as_nanos() / 4000) as u32;
        clock.wrapping_add(self.sequence.hash(&key.words()) as u32)
    }

    /// Offset of the millisecond clock in this connection's timestamps. Successive connections of a
    /// 4-tuple share it, so that values increase over TIME_WAIT (RFC 6191).
    pub fn timestamp_offset(&self, key: &FlowKey) -> u32 {
        self.timestamps.hash(&key.words()) as u32
    }
}

/// Timestamp clock, in milliseconds.
pub fn timestamp(now: Time, offset: u32) -> u32 {
    ((now.as_nanos() / 1_000_000) as u32).wrapping_add(offset)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::address::Addr;
    use std::collections::HashSet;
    use std::net::{IpAddr, Ipv4Addr};
    use std::time::Duration;

    fn key(remote_port: u16) -> FlowKey {
        let address = |last| Addr::from(IpAddr::from(Ipv4Addr::new(10, 0, 0, last)));
        FlowKey {
            local: address(1),
            remote: address(2),
            local_port: 80,
            remote_port,
        }
    }

    /// RFC 6528, 3: M + F(localip, localport, remoteip, remoteport, secretkey).
    /// Promise 60.
    #[test]
    fn initial_sequence_numbers_follow_the_clock_and_reveal_nothing() {
        let numbers = Numbers::new(&[7; 16]);
        let start = Time::from_nanos(5_000_000_000);
        for steps in [1, 1000, 1 << 31] {
            let later = start + Duration::from_micros(4) * steps;
            let (first, second) = (
                numbers.initial(&key(9), start),
                numbers.initial(&key(9), later),
            );
            assert_eq!(second.wrapping_sub(first), steps);
        }
        let all = |numbers: &Numbers| -> Vec<u32> {
            let ports = 1000..5000;
            ports
                .map(|port| numbers.initial(&key(port), start))
                .collect()
        };
        let ours = all(&numbers);
        // Neither the numbers nor their differences repeat, except by chance: among 4,000 of 2^32
        // values two pairs are equal once in about five hundred runs.
        let distinct: HashSet<u32> = ours.iter().copied().collect();
        let steps: HashSet<u32> = ours.windows(2).map(|w| w[1].wrapping_sub(w[0])).collect();
        assert!(distinct.len() >= 3998 && steps.len() >= 3997);
        // Each bit is set in about half of the numbers: of 4,000, within 300 of 2,000.
        for bit in 0..32 {
            let set = ours
                .iter()
                .filter(|number| (*number >> bit) & 1 == 1)
                .count();
            assert!((1700..2300).contains(&set), "bit {bit}: {set}");
        }
        // Another secret gives other numbers.
        let others = all(&Numbers::new(&[8; 16]));
        let same = ours.iter().zip(&others).filter(|(a, b)| a == b).count();
        assert!(same <= 2, "{same} of 4,000 are the same");
    }

    /// RFC 7323, 5.4; RFC 6191: each 4-tuple has its own offset, which does not change.
    /// Promise 60.
    #[test]
    fn timestamps_rise_per_socket_pair_and_reveal_nothing() {
        let numbers = Numbers::new(&[7; 16]);
        let (ours, others) = (
            numbers.timestamp_offset(&key(9)),
            numbers.timestamp_offset(&key(10)),
        );
        assert_eq!(ours, numbers.timestamp_offset(&key(9)));
        assert_ne!(ours, others);
        let start = Time::from_nanos(1_000_000_000);
        let later = start + Duration::from_millis(250);
        assert_eq!(
            timestamp(later, ours).wrapping_sub(timestamp(start, ours)),
            250
        );
    }
}
