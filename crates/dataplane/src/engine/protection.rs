//! How an application is kept apart from the dataplane.

/// How an application is kept apart from the dataplane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protection {
    /// A process of its own.
    #[default]
    Process,
    /// The dataplane's process and thread, behind protection keys.
    Pkey,
    /// The dataplane's process and thread, not at all.
    Inline,
}

impl Protection {
    /// Its name in the configuration and in the status.
    pub fn name(self) -> &'static str {
        match self {
            Protection::Process => "process",
            Protection::Pkey => "pkey",
            Protection::Inline => "inline",
        }
    }
}
