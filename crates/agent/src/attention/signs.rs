//! Signs of load that cost next to nothing: the interrupt time of each CPU, which the kernel
//! samples at its clock tick. A sudden rise starts a window at once, and the window decides.

use cofferdam_host::TICKS_PER_S;
use cofferdam_host::parse::cpu_ticks;
use std::fs;
use std::time::{Duration, Instant};

/// Shortest time between two readings of `/proc/stat`.
const READ_INTERVAL: Duration = Duration::from_millis(250);
/// A reading may take one part in this many of the time. The file lists every interrupt of the
/// host, which takes a millisecond where there are thousands.
const COST_PARTS: u32 = 200;
/// Rise of interrupt time that counts as a sign, as a part of a CPU. A quarter of a second holds 62
/// ticks, so noise seldom reaches this rise on a CPU that is steady at 10%.
const MIN_RISE: f64 = 0.1;
/// Shortest time between two signs: the windows that they start must not add up.
const SIGN_INTERVAL: Duration = Duration::from_secs(1);

/// Results of the last readings.
#[derive(Debug, Default)]
pub(crate) struct Signs {
    /// Time of the last reading, and the interrupt ticks of each CPU.
    last: Option<(Instant, Vec<u64>)>,
    /// Interrupt time of each CPU before the last reading, as a part of the CPU.
    parts: Vec<f64>,
    due: Option<Instant>,
    last_sign: Option<Instant>,
}

impl Signs {
    /// Time of the next reading.
    pub fn due(&self, now: Instant) -> Instant {
        self.due.unwrap_or(now)
    }

    /// Forgets all readings. Used when exact accounting begins: readings from before say nothing
    /// about what follows it.
    pub fn forget(&mut self) {
        *self = Signs::default();
    }

    /// Reads the ticks if it is time. Returns whether interrupt time has risen.
    pub fn detect_rise(&mut self, now: Instant) -> bool {
        if now < self.due(now) {
            return false;
        }
        let text = fs::read_to_string("/proc/stat").unwrap_or_default();
        let took = now.elapsed();
        self.due = Some(now + READ_INTERVAL.max(took * COST_PARTS));
        self.add_ticks(&ticks(&text), now)
    }

    fn add_ticks(&mut self, ticks: &[u64], now: Instant) -> bool {
        let Some((at, before)) = self.last.replace((now, ticks.to_vec())) else {
            return false;
        };
        let passed = now.saturating_duration_since(at).as_secs_f64() * TICKS_PER_S;
        if before.len() != ticks.len() || passed <= 0.0 {
            self.parts.clear();
            return false;
        }
        let part = |(now, before): (&u64, &u64)| now.saturating_sub(*before) as f64 / passed;
        let parts: Vec<f64> = ticks.iter().zip(&before).map(part).collect();
        let rises = |(now, before): (&f64, &f64)| now - before >= MIN_RISE;
        let risen = parts.iter().zip(&self.parts).any(rises);
        self.parts = parts;
        let is_recent = |at: Instant| now.saturating_duration_since(at) < SIGN_INTERVAL;
        if !risen || self.last_sign.is_some_and(is_recent) {
            return false;
        }
        self.last_sign = Some(now);
        true
    }
}

/// Hardirq and softirq ticks of each CPU.
fn ticks(stat: &str) -> Vec<u64> {
    let interrupts = |ticks: Vec<u64>| Some(ticks.get(5)? + ticks.get(6)?);
    cpu_ticks(stat)
        .filter_map(|(_, ticks)| interrupts(ticks))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupt_time_is_read_for_each_cpu() {
        let stat = "cpu  1 2 3 4 5 60 70 0 0 0\ncpu0 1 2 3 4 5 6 7 0 0 0\n\
                    cpu1 1 2 3 4 5 10 20 0 0 0\nintr 9 9 9\nctxt 7\n";
        assert_eq!(ticks(stat), [13, 30]);
        assert_eq!(ticks("cpu0 1 2\n"), [0; 0], "cut off");
    }

    /// Promise 5.
    #[test]
    fn only_a_rise_is_a_sign() {
        let (start, mut signs) = (Instant::now(), Signs::default());
        let mut ticks = [0, 0];
        let mut signs_at = Vec::new();
        // Each quarter of a second: a steady 8%; on the other CPU 0%, then 60%, then 0%.
        for look in 0..40_u32 {
            ticks[0] += 2;
            ticks[1] += if (12..30).contains(&look) { 15 } else { 0 };
            let now = start + READ_INTERVAL * look;
            if signs.add_ticks(&ticks, now) {
                signs_at.push(look);
            }
        }
        assert_eq!(signs_at, [12]);
        // A rise soon after the last sign is ignored.
        let mut signs = Signs::default();
        let mut found = 0;
        for look in 0..40_u32 {
            ticks[0] += if look % 2 == 0 { 25 } else { 0 };
            found += u32::from(signs.add_ticks(&ticks, start + READ_INTERVAL * look));
        }
        assert_eq!(found, 10, "once a second in ten seconds");
    }
}
