//! Names of the options that choose a command's CPUs. A message names them only if the command has
//! them.

/// Options' names, for a message.
pub(crate) const CPU_OPTIONS: &str = "--victim-cpu and --peer-cpu";
