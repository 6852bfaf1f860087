//! The laboratory: network namespaces, links, cgroups and processes of our own, for the benchmarks
//! and for the tests.
//!
//! Everything made here is pushed on an [`UndoStack`] and undone in reverse order, on an early
//! return and on a panic too. Functions return a [`LabError`], which says what failed, on what and
//! why.

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
