//! Simulates the run queues of a host: the CPU time that each tenant gets, and the time that it
//! loses to others, without and with reservations.
//!
//! The rules are those of Linux 6.12 to 6.18 that affect CPU time: EEVDF, cgroup weights spread
//! over CPUs by load, CFS bandwidth, cpusets, placement at wake-up, load balancing. Reservations
//! follow the agent's own code ([`cofferdam_reserve`]). Each file of `machine` lists its
//! simplifications at its head. A context switch costs nothing, siblings of a core do not slow each
//! other down, and there are no interrupts and no other processes: only CPU time is simulated, not
//! its use.
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
