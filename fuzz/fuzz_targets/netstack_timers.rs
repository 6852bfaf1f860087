//! Timers that are set, cancelled and awaited in any order: none fires early, none is lost.
#![no_main]

use cofferdam_netstack::*;
use libfuzzer_sys::fuzz_target;
use std::collections::BTreeMap;
use std::time::Duration;

/// Tick of the wheel, nanoseconds: the longest delay of a timer.
const TICK_NS: u64 = 1 << 14;
/// Number of timers: few, so that they run out.
const TIMERS: u32 = 64;

fuzz_target!(|bytes: &[u8]| {
    let mut config = Config::new(MacAddress([2, 0, 0, 0, 0, 1]), Vec::new(), [3; 16]);
    // Small tables: each input makes a stack.
    config.limits = Limits {
        connections: 1,
        spare_connections: 2,
        time_wait: 1,
        half_open: 0,
        chunks: 16,
        kept: 8,
        listeners: 0,
        udp: 0,
        udp_backlog: 1,
        udp_sends: 1,
        timers: TIMERS,
        neighbours: 4,
        replies: 4,
        reassemblies: 0,
    };
    let mut now = Time::from_nanos(1);
    let mut stack = Stack::new(config, now).expect("settings that work");
    let mut armed: BTreeMap<u64, (TimerId, Time)> = BTreeMap::new();
    let mut count = 0;
    for step in bytes.chunks_exact(4) {
        // Up to 18 hours, in steps that grow.
        let span = Duration::from_nanos(u64::from(step[1]) << (step[2] % 39));
        match step[0] % 4 {
            0 | 1 => {
                count += 1;
                match stack.set_timer(now + span, count) {
                    Some(timer) => drop(armed.insert(count, (timer, now + span))),
                    None => assert_eq!(armed.len(), TIMERS as usize, "refused with room left"),
                }
            }
            2 => {
                let place = usize::from(step[3]) % armed.len().max(1);
                if let Some((cookie, (timer, _))) = armed
                    .iter()
                    .nth(place)
                    .map(|(cookie, timer)| (*cookie, *timer))
                {
                    assert!(stack.cancel_timer(timer) && !stack.cancel_timer(timer));
                    armed.remove(&cookie);
                }
            }
            _ => {
                now = now + span;
                stack.handle_timers(now);
                while let Some(event) = stack.poll_event() {
                    let Event::Timer { timer, cookie } = event else {
                        panic!("{event:?}")
                    };
                    let (expected, at) = armed.remove(&cookie).expect("armed, and once");
                    assert!(expected == timer && at <= now, "early");
                }
                let late = armed
                    .values()
                    .find(|(_, at)| at.as_nanos() + TICK_NS <= now.as_nanos());
                assert_eq!(late, None, "lost");
                let earliest = armed.values().map(|(_, at)| *at).min();
                assert_eq!(stack.poll_at().is_some(), earliest.is_some());
            }
        }
    }
});
