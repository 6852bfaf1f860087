//! Part of each CPU's time in chosen columns of `/proc/stat`, such as idle or stolen time.

use cofferdam_host::TICKS_PER_S;
use cofferdam_host::parse::cpu_ticks;
use cofferdam_types::CpuId;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

/// Sum of some fields of each CPU's ticks at the last reading.
#[derive(Debug)]
pub(crate) struct TickParts {
    fields: &'static [usize],
    by_cpu: HashMap<u32, u64>,
}

impl TickParts {
    /// Creates a counter of `fields`, columns of a CPU's line from 0.
    pub fn new(fields: &'static [usize]) -> TickParts {
        TickParts {
            fields,
            by_cpu: HashMap::new(),
        }
    }

    /// Part (0..=1) of each CPU's time since the last call, `length` ago. A CPU that `/proc/stat`
    /// did not list then, or lists without one of the columns, is missing. `stat` is the text of
    /// `/proc/stat`.
    pub fn update(&mut self, stat: &str, length: Duration) -> BTreeMap<u32, f64> {
        let seconds = length.as_secs_f64().max(1e-3);
        let parts = cpu_ticks(stat).filter_map(|(CpuId(cpu), ticks)| {
            let fields = self.fields.iter().map(|field| ticks.get(*field).copied());
            let now = fields.sum::<Option<u64>>()?;
            let before = self.by_cpu.insert(cpu, now)?;
            let since_s = now.saturating_sub(before) as f64 / TICKS_PER_S;
            Some((cpu, (since_s / seconds).min(1.0)))
        });
        parts.collect()
    }
}
