//! The options by which some commands let their CPUs be chosen. A message may name them only where
//! the command has them.

/// Words for a message.
pub(crate) const PLACED_BY: &str = "--victim-cpu and --peer-cpu";
