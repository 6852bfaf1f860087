//! Parts that the experiments share: the rig (CPUs, signals, ledger, run directory), and one sample
//! of a victim with its competitors.

mod agent_enforcement;
mod analyse;
mod cpu_options;
mod enforcement;
mod reservations;
mod rig;
mod sample;
pub(crate) mod schedule;
mod shares;
mod traffic;

pub(crate) use analyse::{cell_result, same_answers};
pub(crate) use cpu_options::CPU_OPTIONS;
pub(crate) use reservations::JournaledReservations;
pub(crate) use rig::{Rig, RigOptions, choose};
pub(crate) use sample::{CellBench, Turn};
