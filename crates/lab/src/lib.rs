//! The laboratory: network namespaces, links, cgroups and processes of our own, for the benchmarks
//! and for the tests.
//!
//! Everything made here is pushed on an [`UndoStack`] and undone in reverse order, on an early
//! return and on a panic too. Functions return a [`LabError`], which says what failed, on what and
//! why.

pub mod cgroup;
pub mod command;
mod error;
#[cfg(feature = "fixtures")]
pub mod fixtures;
pub mod place;
mod process;
mod undo;

pub use command::run;
pub use error::LabError;
pub use process::Process;
pub use undo::{UndoStack, undo_all};
