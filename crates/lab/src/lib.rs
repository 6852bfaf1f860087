//! Laboratory: network namespaces, links, cgroups and processes, for the benchmarks and for the
//! tests.
//!
//! Every object is registered in an [`UndoStack`], which removes the objects in reverse order, also
//! after an early return or a panic. Functions return a [`LabError`], which has the action, the
//! object and the cause.

pub mod cgroup;
pub mod command;
mod error;
pub mod firewall;
#[cfg(feature = "fixtures")]
pub mod fixtures;
pub mod names;
pub mod netns;
pub mod place;
pub mod podman;
mod process;
pub mod sweep;
mod undo;
pub mod veth;

pub use command::run;
pub use error::LabError;
pub use netns::Netns;
pub use process::Process;
pub use undo::{UndoStack, undo_all};
