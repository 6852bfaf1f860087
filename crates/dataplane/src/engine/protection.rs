//! Separation of an application from the dataplane.

/// Separation of an application from the dataplane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protection {
    /// The application is a process of its own.
    #[default]
    Process,
    /// The application runs on the dataplane's thread, behind protection keys.
    Pkey,
    /// The application runs on the dataplane's thread, without protection.
    Inline,
}

impl Protection {
    /// Name in the configuration and in the status.
    pub fn name(self) -> &'static str {
        match self {
            Protection::Process => "process",
            Protection::Pkey => "pkey",
            Protection::Inline => "inline",
        }
    }
}
