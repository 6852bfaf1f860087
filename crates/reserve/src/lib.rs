//! CPU reservations as a pure function: topology, previous plan and requests in, plan out.
//!
//! A strict container gets whole CPUs for the integer part of its request, and for the fraction
//! a slice of a CPU that only strict containers share (rKube, "Mind the Gap", SoCC'21, which
//! has whole CPUs only). The rules, hardest first:
//!
//! 1. No CPU belongs to two, and no slice CPU is promised beyond one CPU.
//! 2. [`PlanOptions::keep_cpus`] CPUs stay for standard containers and the host.
//! 3. A container with a place keeps it. A change moves others only if it cannot be met otherwise,
//!    and then only their slices.
//! 4. The SMT siblings of a core are not split between tenants if that can be avoided.
//! 5. A container stays within one last-level cache, otherwise within one NUMA node.
//! 6. The CPUs with the highest numbers are taken first: hosts do their housekeeping on CPU 0.
//! 7. No container gets a CPU that a cgroup above it lacks. Every standard container keeps a CPU
//!    that the cgroups above it have ([`Limits`]).
//!
//! [`plan()`] either meets all requests or names the ones that it cannot meet. [`plan_what_fits`]
//! meets what it can, so that one impossible request does not cost the others their CPUs.
#![forbid(unsafe_code)]

pub mod lending;
mod plan;
mod planner;
mod pool;
mod slices;
pub mod weight;
mod work;

pub use plan::{Impossible, Limits, Placement, Plan, PlanError, PlanOptions};
pub use planner::{plan, plan_what_fits, plan_within};

#[cfg(test)]
mod tests;
