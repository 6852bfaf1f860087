//! What the experiments share: the rig (CPUs, signals, ledger, run directory) and one sample of
//! a victim beside something.

mod analyse;
mod enforcement;
mod placed;
mod rig;
mod sample;
mod traffic;

pub(crate) use analyse::{Context, cell_result, same_answers};
pub(crate) use placed::PLACED_BY;
pub(crate) use rig::{Rig, RigOptions, chosen};
pub(crate) use sample::Bench;
