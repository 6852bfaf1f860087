//! The isolation experiment: how much two tenants with equal limits feel of each other, for any
//! runtime (Volpert et al., ICPE'23).
//!
//! A cell is one scenario of one resource under one runtime, once. Cells are measured in
//! randomised blocks and written as they end, so a run that was stopped anywhere resumes where it
//! was; disturbed ones are measured again ([`crate::experiment::schedule`]). The load generator is the same everywhere
//! ([`load`]) unless the experiment names another ([`generator`]), and so is the acquisition
//! ([`acquire`]), which asks the kernel and neither the load nor the runtime.

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

/// The youngest process below `pid`: what a runtime's helpers stand in front of.
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
