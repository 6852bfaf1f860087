//! Specification of a tenant, whatever the runtime.

use super::device::BlockDevice;

/// Limit of the measured resource.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Limit {
    /// CPUs.
    Cpus(f64),
    /// Bytes.
    Memory(u64),
    /// Operations a second on one device.
    Disk {
        /// The device.
        device: BlockDevice,
        /// Reads a second.
        reads: u32,
        /// Writes a second.
        writes: u32,
    },
    /// Bits a second; [`super::testbed::shape`] sets it on the interface that the runtime made.
    Network(u64),
}

/// Tenant to start.
#[derive(Clone, Debug)]
pub(super) struct TenantSpec {
    /// Name, unique within the testbed.
    pub name: String,
    /// Index from 0, unique within the testbed.
    pub index: u8,
    /// Limit; `None`: unrestricted.
    pub limit: Option<Limit>,
    /// Whether its load needs the network.
    pub network: bool,
    /// Most memory of its load, bytes; 0 if no more than any program's.
    pub memory_bytes: u64,
    /// Size of the load's file, bytes; 0: none.
    pub disk_bytes: u64,
}
