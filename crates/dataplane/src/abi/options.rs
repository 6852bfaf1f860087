//! Settings of a connection in an entry: whole seconds, and milliseconds of the user timeout. 0
//! stands for the dataplane's setting.

use super::Entry;
use cofferdam_netstack::{ConnectionOptions, Keepalive};
use std::ops::RangeInclusive;
use std::time::Duration;

/// Linux's bounds of the settings (include/net/tcp.h).
const KEEP_S: RangeInclusive<u16> = 1..=32_767;
const PROBES: RangeInclusive<u8> = 1..=127;
const SEGMENT_BYTES: RangeInclusive<u16> = 88..=32_767;

fn seconds(time: Duration) -> u16 {
    let whole = u16::try_from(time.as_secs()).unwrap_or(u16::MAX);
    whole.clamp(*KEEP_S.start(), *KEEP_S.end())
}

/// Puts settings into an entry, in fields that neither `Connect` nor `Options` uses otherwise. A
/// value out of bounds becomes the bound.
pub(super) fn put(entry: Entry, options: ConnectionOptions) -> Entry {
    let keepalive = options.keepalive.map_or([0; 3], |keepalive| {
        let probes = keepalive.probes.clamp(*PROBES.start(), *PROBES.end());
        [
            seconds(keepalive.idle),
            seconds(keepalive.interval),
            probes.into(),
        ]
    });
    let user_timeout_ms = options.user_timeout.map_or(0, |time| {
        u32::try_from(time.as_millis()).unwrap_or(u32::MAX).max(1)
    });
    let segment_bytes = options.segment_bytes.map_or(0, |bytes| {
        bytes.clamp(*SEGMENT_BYTES.start(), *SEGMENT_BYTES.end())
    });
    let syn_retries = options
        .syn_retries
        .map_or(0, |count| count.clamp(*PROBES.start(), *PROBES.end()));
    let [idle, interval, probes] = keepalive.map(u64::from);
    Entry {
        len: user_timeout_ms,
        offset: idle | interval << 16 | probes << 32 | u64::from(syn_retries) << 40,
        more: segment_bytes.into(),
        ..entry
    }
}

/// Reads the settings of an application; `None` if a value is out of bounds.
pub(super) fn get(entry: &Entry) -> Option<ConnectionOptions> {
    let field = |shift: u32| (entry.offset >> shift) as u16;
    let (idle, interval) = (field(0), field(16));
    let [probes, syn_retries] = field(32).to_le_bytes();
    let is_known = entry.offset >> 48 == 0 && entry.more >> 16 == 0;
    let segment_bytes = entry.more as u16;
    let keepalive = match (idle, interval, probes) {
        (0, 0, 0) => None,
        _ => Some(Keepalive {
            idle: within(&KEEP_S, idle).map(|s| Duration::from_secs(s.into()))?,
            interval: within(&KEEP_S, interval).map(|s| Duration::from_secs(s.into()))?,
            probes: within(&PROBES, probes)?,
        }),
    };
    let options = ConnectionOptions {
        syn_retries: or_none(&PROBES, syn_retries)?,
        user_timeout: match entry.len {
            0 => None,
            ms => Some(Duration::from_millis(ms.into())),
        },
        keepalive,
        segment_bytes: or_none(&SEGMENT_BYTES, segment_bytes)?,
    };
    is_known.then_some(options)
}

fn within<T: PartialOrd>(bounds: &RangeInclusive<T>, value: T) -> Option<T> {
    bounds.contains(&value).then_some(value)
}

/// Decodes a value: zero becomes the inner `None`, a value out of bounds the outer one.
fn or_none<T: PartialOrd + Default>(bounds: &RangeInclusive<T>, value: T) -> Option<Option<T>> {
    match value == T::default() {
        true => Some(None),
        false => within(bounds, value).map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::Call;

    /// Promise 69.
    #[test]
    fn settings_survive_encoding_and_wrong_ones_are_no_call() {
        let options = ConnectionOptions {
            syn_retries: Some(3),
            user_timeout: Some(Duration::from_millis(1500)),
            keepalive: Some(Keepalive {
                idle: Duration::from_secs(32_767),
                interval: Duration::from_secs(1),
                probes: 127,
            }),
            segment_bytes: Some(88),
        };
        for options in [options, ConnectionOptions::default()] {
            let call = Call::Options { handle: 1, options };
            assert_eq!(Call::decode(&call.into()), Some(call));
        }
        let entry = Entry::from(Call::Options { handle: 1, options });
        let wrong = [
            Entry {
                offset: 0xffff,
                ..entry
            },
            // Half of the keepalive settings.
            Entry { offset: 1, ..entry },
            Entry {
                offset: 200 << 32 | 1 << 16 | 1,
                ..entry
            },
            Entry {
                offset: 200 << 40,
                ..entry
            },
            Entry {
                offset: 1 << 48,
                ..entry
            },
            Entry { more: 87, ..entry },
            Entry {
                more: 1 << 16 | 88,
                ..entry
            },
        ];
        for entry in wrong {
            assert_eq!(Call::decode(&entry), None, "{entry:?}");
        }
    }

    #[test]
    fn what_is_out_of_bounds_becomes_the_bound() {
        let options = ConnectionOptions {
            syn_retries: Some(0),
            user_timeout: Some(Duration::ZERO),
            keepalive: Some(Keepalive {
                idle: Duration::ZERO,
                interval: Duration::from_secs(1 << 20),
                probes: 0,
            }),
            segment_bytes: Some(1),
        };
        let got = get(&put(Entry::default(), options)).expect("settings");
        let keepalive = got.keepalive.expect("keepalive");
        assert_eq!(keepalive.idle, Duration::from_secs(1));
        assert_eq!(keepalive.interval, Duration::from_secs(32_767));
        assert_eq!((keepalive.probes, got.syn_retries), (1, Some(1)));
        assert_eq!(got.segment_bytes, Some(88));
        assert_eq!(got.user_timeout, Some(Duration::from_millis(1)));
    }
}
