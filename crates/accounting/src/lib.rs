//! Iron's accounting: which container *caused* the kernel's network work, and which was
//! *charged* for it. Joins the BPF programs' counts with the host's containers.
#![forbid(unsafe_code)]

mod accountant;
mod error;
mod estimate;
mod hidden_softirqs;
mod hosts;
mod hotplug;
mod identities;
mod reading;
mod running_ledger;
mod sampled;
mod windows;

pub use accountant::{Accountant, Options};
pub use cofferdam_bpf::ProgramCost;
pub use error::{ReadError, StartError};
pub use hidden_softirqs::hidden_softirqs_by_reference;
pub use running_ledger::RunningLedger;
pub use windows::WindowOptions;
