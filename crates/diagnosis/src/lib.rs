//! CPU time that a container was entitled to and did not get, with the cause: forced runqueue
//! sharing, phantom CPU time, its own quota, or its own lack of threads. Works under any policy.
//!
//! The crate joins the counts of the diagnosis programs (`bpf/schedule`) with the containers and
//! with the promises of their cgroups. The caller passes the containers, from the accounting or an
//! inventory, with each reading.
#![forbid(unsafe_code)]

mod diagnosis;
mod error;
mod files;
mod groups;
mod promise;
mod reading;
mod rows;
mod selection;
mod shares;
pub mod windows;

pub use cofferdam_bpf::ProgramCost;
pub use diagnosis::{Diagnosis, DiagnosisOptions};
pub use error::{DiagnosisError, StartError};
pub use promise::{Group, Level, Promise, share};
pub use reading::DiagnosisReading;
