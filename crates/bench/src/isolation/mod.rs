//! Isolation experiment: how much two tenants with equal limits disturb each other, for any runtime
//! (Volpert et al., ICPE'23).
//!
//! A cell is one measurement of one scenario of one resource under one runtime. Cells are measured
//! in randomised blocks and written as they end, so a stopped run resumes at the same place.
//! Disturbed cells are measured again ([`crate::experiment::schedule`]).
//!
//! The load generator is the same for every runtime ([`load`]), unless the experiment names another
//! ([`generator`]). The acquisition ([`acquire`]) reads the kernel's counters and needs neither the
//! load nor the runtime.

mod acquire;
mod analyse;
pub mod argo;
pub(crate) mod args;
mod bench;
mod calibrate;
mod cgroups;
pub mod compare;
pub mod data;
mod device;
mod environment;
mod experiment;
mod export;
mod figures;
mod flood;
mod generator;
pub(crate) mod goals;
mod groups;
mod guest;
mod levels;
mod load;
pub mod merge;
mod place;
mod protection;
pub mod quantity;
pub(crate) mod report;
mod runtime;
mod session;
mod tenant;
mod testbed;
mod trace;

#[cfg(test)]
pub(crate) use analyse::tables;
pub use experiment::{Experiment, Limits};
pub use session::{Options, run};

use std::fs;

/// Youngest process below `pid`: the tenant's, behind a runtime's helpers.
fn descendant(pid: u32) -> u32 {
    let mut pid = pid;
    loop {
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        let first = children
            .ok()
            .and_then(|c| c.split_whitespace().next()?.parse().ok());
        match first {
            Some(child) => pid = child,
            None => return pid,
        }
    }
}
