//! Parts that the experiments share: the rig (CPUs, signals, ledger, run directory), and one sample
//! of a victim with its competitors.

mod analyse;
mod by_agent;
mod enforcement;
mod held;
mod paid;
mod placed;
mod rig;
mod sample;
pub(crate) mod schedule;
mod traffic;

pub(crate) use analyse::{cell_result, same_answers};
pub(crate) use held::Held;
pub(crate) use placed::PLACED_BY;
pub(crate) use rig::{Rig, RigOptions, chosen};
pub(crate) use sample::{Bench, Turn};
