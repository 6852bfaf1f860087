//! CPU load: uses a given number of CPUs, controlled by each thread's CPU clock.

use crate::Failure;
use crate::clock::thread_cpu_ns;
use crate::meter::Meter;
use crate::params::Params;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// Length of a period, in which a thread uses its share of a CPU, from the begin on. Shorter than a
/// scheduler's quota period, so that a quota shows as latency.
const PERIOD: Duration = Duration::from_millis(10);
/// Rounds of the mix in one operation: about 20 µs.
const ROUNDS: u32 = 10_000;
/// Periods that a thread may be behind; older ones are given up. With less than one quota period, a
/// saturated tenant could not hold its set-point.
const BEHIND: u32 = 20;

/// `cpus=X`: CPUs to use, on ⌈X⌉ threads in equal parts.
pub struct Cpu {
    cpus: f64,
}

impl Cpu {
    pub fn prepare(mut params: Params) -> Result<Cpu, Failure> {
        let cpus: f64 = params.need("cpus")?;
        params.finish()?;
        if !(cpus > 0.0 && cpus <= 4096.0) {
            return Err(format!("cpus={cpus} is out of range"));
        }
        Ok(Cpu { cpus })
    }

    pub fn start(&self, meter: &Arc<Meter>) -> Vec<JoinHandle<()>> {
        let threads = self.cpus.ceil();
        let share = self.cpus / threads;
        (0..threads as u32)
            .map(|_| {
                let meter = meter.clone();
                std::thread::spawn(move || work(share, &meter))
            })
            .collect()
    }
}

fn work(share: f64, meter: &Meter) {
    let part = (PERIOD.as_nanos() as f64 * share) as u64;
    let mut state = 1;
    let mut period = 0_u32;
    while !meter.ended() {
        let due = PERIOD * period;
        if let Some(early) = due.checked_sub(meter.elapsed()) {
            std::thread::sleep(early);
        }
        let until = thread_cpu_ns() + part;
        while thread_cpu_ns() < until && !meter.ended() {
            state = mix(state);
            meter.count(1, 0);
        }
        let now = meter.elapsed();
        meter.latency(now.saturating_sub(due));
        period += 1;
        let oldest = (now.as_nanos() / PERIOD.as_nanos()) as u32;
        let oldest = oldest.saturating_sub(BEHIND);
        if period < oldest {
            meter.lose(u64::from(oldest - period));
            period = oldest;
        }
    }
    std::hint::black_box(state);
}

/// Integer work in registers.
fn mix(mut x: u64) -> u64 {
    for _ in 0..ROUNDS {
        x = x.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (x >> 29);
    }
    x
}
