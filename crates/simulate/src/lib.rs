//! Simulates the run queues of a host: who gets which CPU time, who loses what to whom, without
//! and with reservations.
//!
//! The rules are those of Linux 6.12 to 6.18 as far as they decide about CPU time: EEVDF, cgroup
//! weights spread over CPUs by load, CFS bandwidth, cpusets, placement at wake-up, load balancing;
//! and those of Cofferdam's reservations, which are the agent's own code ([`cofferdam_reserve`]).
//! What is simplified stands at the head of each file of `machine`. A context switch costs
//! nothing, siblings of a core do not slow each other down, and there are no interrupts and no
//! other processes: CPU time is all that is simulated, not what is done with it.
//!
//! Deterministic: the same scenario and seed give the same outcome. No I/O, no clock.
#![forbid(unsafe_code)]

mod cpus;
mod document;
mod host;
pub mod input;
mod machine;
mod outcome;
mod promise;
mod scenario;

pub use document::report;
pub use host::{CgroupVersion, Host, MOST_CPUS, Shape, base_slice_ns};
pub use outcome::{Outcome, TenantOutcome, simulate, simulate_while};
pub use scenario::{Behaviour, Cgroup, Load, Policy, Quota, Scenario, Tenant, Tenants, WARM_UP};
