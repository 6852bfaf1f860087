//! What a tenant is to be, whatever the runtime.

use super::device::BlockDevice;

/// A limit of the resource that is measured.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Limit {
    /// CPUs.
    Cpus(f64),
    /// Bytes.
    Memory(u64),
    /// Operations a second on one device.
    Disk {
        /// Which.
        device: BlockDevice,
        /// Reads a second.
        reads: u32,
        /// Writes a second.
        writes: u32,
    },
    /// Bits a second; set by [`super::testbed::shape`] on the interface that the runtime made.
    Network(u64),
}

/// What to start.
#[derive(Clone, Debug)]
pub(super) struct TenantSpec {
    /// Unique within the testbed.
    pub name: String,
    /// From 0; unique within the testbed.
    pub index: u8,
    /// `None`: unrestricted.
    pub limit: Option<Limit>,
    /// Whether its load needs the network.
    pub network: bool,
    /// Most memory that its load takes, bytes; 0: what any program takes.
    pub memory_bytes: u64,
    /// Size of the file that its load uses, bytes; 0: none.
    pub disk_bytes: u64,
}
