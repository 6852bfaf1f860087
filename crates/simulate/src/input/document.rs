//! Form of the input files: every key is declared, and every number has a range.

use serde::{Deserialize, Serialize};

/// Number with a range, which the error names.
macro_rules! ranged {
    ($(#[$doc:meta])* $name:ident($kind:ty), $range:expr, $remedy:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Deserialize, Serialize)]
        #[serde(try_from = "f64", into = "f64")]
        pub(super) struct $name(pub $kind);

        impl TryFrom<f64> for $name {
            type Error = String;

            fn try_from(value: f64) -> Result<$name, String> {
                match $range.contains(&value) {
                    true => Ok($name(value as $kind)),
                    false => Err(format!("{value} is out of range: {}", $remedy)),
                }
            }
        }

        impl From<$name> for f64 {
            fn from(value: $name) -> f64 {
                value.0 as f64
            }
        }
    };
}

ranged!(
    /// Duration of a run or a period, microseconds.
    RunUs(f64), (1.0..=super::LONGEST_US), "give 1 to 3600000000 µs"
);
ranged!(
    /// Duration of a sleep, microseconds; may be zero.
    SleepUs(f64), (0.0..=super::LONGEST_US), "give 0 to 3600000000 µs"
);
ranged!(
    /// Quota, CPUs.
    QuotaCpus(f64), (0.001..=65_536.0), "give at least 0.001 CPUs, or leave it out for no quota"
);
ranged!(
    /// Period of a quota, microseconds. Source: kernel/sched/core.c, min and max_cfs_quota_period.
    PeriodUs(f64), (1_000.0..=1_000_000.0), "the kernel takes periods of 1000 to 1000000 µs"
);
ranged!(
    /// Value of `cpu.weight`.
    Weight(u32), (1.0..=10_000.0), "cpu.weight is 1 to 10000, by default 100"
);
ranged!(
    /// Number of threads.
    Threads(u32), (1.0..=super::MOST_THREADS as f64), "give 1 to 100000 threads"
);
ranged!(
    /// Ticks per second.
    TickHz(u32), (24.0..=10_000.0), "CONFIG_HZ is 100, 250, 300 or 1000"
);
ranged!(
    /// EEVDF's slice, microseconds. Source: `sched_setattr(2)` accepts 0.1 to 100 ms.
    SliceUs(f64), (100.0..=100_000.0), "give 100 to 100000 µs"
);

/// Content of `host.json`.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HostDocument {
    pub schema: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shape: Option<ShapeDocument>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<Vec<CpuDocument>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tick_hz: Option<TickHz>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_slice_us: Option<SliceUs>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cgroup_version: Option<u8>,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ShapeDocument {
    pub nodes: u32,
    pub llcs_per_node: u32,
    pub cores_per_llc: u32,
    pub threads_per_core: u32,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CpuDocument {
    pub cpu: u32,
    pub core: u32,
    pub llc: u32,
    pub node: u32,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub isolated: bool,
}

/// Content of `tenants.json`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TenantsDocument {
    pub schema: String,
    #[serde(default)]
    pub groups: Vec<GroupDocument>,
    pub tenants: Vec<TenantDocument>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GroupDocument {
    pub name: String,
    pub parent: Option<String>,
    pub weight: Option<Weight>,
    pub quota_cpus: Option<QuotaCpus>,
    pub quota_period_us: Option<PeriodUs>,
    pub cpus: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TenantDocument {
    pub name: String,
    pub parent: Option<String>,
    pub weight: Option<Weight>,
    pub quota_cpus: Option<QuotaCpus>,
    pub quota_period_us: Option<PeriodUs>,
    pub cpus: Option<String>,
    pub reserved_cpus: Option<cofferdam_types::CpuAmount>,
    pub loads: Vec<LoadDocument>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LoadDocument {
    pub threads: Threads,
    pub behaviour: BehaviourDocument,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum BehaviourDocument {
    CpuBound {},
    Periodic {
        run_us: RunUs,
        sleep_us: SleepUs,
    },
    Bursts {
        mean_run_us: RunUs,
        mean_sleep_us: SleepUs,
    },
    Phases {
        run_us: RunUs,
    },
}
