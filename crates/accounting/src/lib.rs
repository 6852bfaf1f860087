//! Iron's accounting: which container *caused* the kernel's network work, and which was
//! *charged* for it. Joins the BPF programs' counts with the host's containers.
#![forbid(unsafe_code)]

mod accountant;
mod beside;
mod error;
mod estimate;
mod hosts;
mod hotplug;
mod identities;
mod reading;
mod sampled;
mod unseen;
mod windows;

pub use accountant::{Accountant, Options};
pub use beside::Beside;
pub use cofferdam_bpf::ProgramCost;
pub use error::{ReadError, StartError};
pub use unseen::unseen_by_reference;
pub use windows::WindowOptions;
