//! Activity of the cores in the last interval, from their counters.

use crate::elastic::{CoreReading, Reading};
use crate::engine::{Tally, cycles};
use cofferdam_netstack::FLOW_GROUPS;
use std::time::{Duration, Instant};

/// Counters of a core at the previous reading.
#[derive(Clone, Copy, Default)]
struct Sample {
    busy_cycles: u64,
    packet_cycles: u64,
    packets: u64,
    waited: u64,
}

/// Meter that reads the counters in each interval.
pub(super) struct Meter {
    interval: Duration,
    at: Instant,
    cycles: u64,
    cores: Vec<Sample>,
    groups: [u64; FLOW_GROUPS as usize],
    delays: Vec<Duration>,
}

impl Meter {
    /// A meter for `cores` cores.
    pub fn new(interval: Duration, cores: usize) -> Meter {
        Meter {
            interval,
            at: Instant::now(),
            cycles: cycles(),
            cores: vec![Sample::default(); cores],
            groups: [0; FLOW_GROUPS as usize],
            delays: vec![Duration::ZERO; cores],
        }
    }

    /// Time until the next reading.
    pub fn left(&self) -> Duration {
        self.interval.saturating_sub(self.at.elapsed())
    }

    /// Time that a packet waited before a core took it, in the last interval; zero without packets.
    pub fn delay(&self, core: usize) -> Duration {
        self.delays.get(core).copied().unwrap_or_default()
    }

    /// Reads the interval since the previous reading. The cores publish their counters every 10 ms,
    /// and the error of a busy share corresponds to that time.
    pub fn read(&mut self, tallies: &[Tally]) -> Reading {
        self.read_at(Instant::now(), cycles(), tallies)
    }

    fn read_at(&mut self, at: Instant, now: u64, tallies: &[Tally]) -> Reading {
        let passed_ns = at.duration_since(self.at).as_nanos() as f64;
        let passed_cycles = now.saturating_sub(self.cycles).max(1) as f64;
        (self.at, self.cycles) = (at, now);
        let mut cores = Vec::with_capacity(tallies.len());
        let mut packets = [0; FLOW_GROUPS as usize];
        for (tally, before) in tallies.iter().zip(&mut self.cores) {
            let after = Sample {
                busy_cycles: tally.busy_cycles(),
                packet_cycles: tally.packet_cycles,
                packets: tally.packets(),
                waited: tally.waited,
            };
            let busy = after.busy_cycles.saturating_sub(before.busy_cycles) as f64;
            let count = after.packets.saturating_sub(before.packets).max(1) as f64;
            let queue = after.waited.saturating_sub(before.waited) as f64 / count;
            // Turns without packets delay none.
            let took = after.packet_cycles.saturating_sub(before.packet_cycles) as f64;
            let delay_ns = queue * took / count * passed_ns / passed_cycles;
            *before = after;
            cores.push(CoreReading {
                busy: (busy / passed_cycles).min(1.0),
                delay: Duration::from_nanos(delay_ns as u64),
            });
            for (sum, count) in packets.iter_mut().zip(tally.group_packets.0) {
                *sum += count;
            }
        }
        let mut connections = [0; FLOW_GROUPS as usize];
        for group in tallies.iter().flat_map(|tally| &tally.groups) {
            if let Some(sum) = connections.get_mut(usize::from(group.group)) {
                *sum += group.connections;
            }
        }
        for (count, before) in packets.iter_mut().zip(&mut self.groups) {
            let sum = std::mem::replace(before, *count);
            *count = count.saturating_sub(sum);
        }
        self.delays = cores.iter().map(|core| core.delay).collect();
        Reading {
            cores,
            packets,
            connections,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise 54.
    #[test]
    fn queue_delay_is_queue_length_times_time_per_packet() {
        let interval = Duration::from_millis(100);
        let mut meter = Meter::new(interval, 2);
        let (start, first) = (meter.at, meter.cycles);
        // A cycle takes half a nanosecond.
        let end = |n: u32| (start + interval * n, first + u64::from(n) * 200_000_000);
        let mut tallies = vec![Tally::default(), Tally::default()];
        let (at, cycles) = end(1);
        meter.read_at(at, cycles, &tallies);
        // Ten packets that saw 20 each, and took a thousand cycles each.
        (tallies[0].received, tallies[0].steered_in) = (6, 4);
        tallies[0].waited = 200;
        tallies[0].stage_cycles[3] = 20_000_000;
        tallies[0].packet_cycles = 10_000;
        tallies[0].group_packets.count(5);
        tallies[1].group_packets.count(5);
        tallies[1].groups.push(crate::engine::GroupTally {
            group: 5,
            connections: 3,
            ..Default::default()
        });
        let (at, cycles) = end(2);
        let reading = meter.read_at(at, cycles, &tallies);
        let loaded = CoreReading {
            busy: 0.1,
            delay: Duration::from_micros(10),
        };
        assert_eq!(reading.cores[0], loaded);
        assert_eq!(meter.delay(0), loaded.delay);
        assert_eq!(reading.cores[1], CoreReading::default());
        assert_eq!((reading.packets[5], reading.connections[5]), (2, 3));
        // The next interval starts from zero.
        let (at, cycles) = end(3);
        let reading = meter.read_at(at, cycles, &tallies);
        assert_eq!(reading.cores, [CoreReading::default(); 2]);
        assert_eq!(reading.packets, [0; FLOW_GROUPS as usize]);
    }
}
