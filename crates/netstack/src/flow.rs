//! Mapping of segments to connections and flow groups.

use crate::core::siphash::Key;
use crate::wire::address::Addr;

/// Number of flow groups (IX, OSDI'14, 4.4): as many as a NIC's indirection table has entries.
pub const FLOW_GROUPS: u8 = 128;

/// 4-tuple of a connection, from this stack's point of view.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FlowKey {
    pub local: Addr,
    pub remote: Addr,
    pub local_port: u16,
    pub remote_port: u16,
}

impl FlowKey {
    /// The key as words to hash.
    pub fn words(&self) -> [u64; 5] {
        let (local, remote) = (
            u128::from_ne_bytes(self.local.0),
            u128::from_ne_bytes(self.remote.0),
        );
        [
            local as u64,
            (local >> 64) as u64,
            remote as u64,
            (remote >> 64) as u64,
            u64::from(self.local_port) << 16 | u64::from(self.remote_port),
        ]
    }

    #[inline]
    pub fn hash(&self, key: &Key) -> u64 {
        if !self.local.is_v4() {
            return key.hash(&self.words());
        }
        // An IPv4 tuple fits into fewer words. Their number keeps the families apart.
        let of = |address: &Addr| u64::from(u32::from_ne_bytes(address.octets4()));
        let [.., ports] = self.words();
        key.hash(&[of(&self.local) << 32 | of(&self.remote), ports])
    }
}

/// Flow group of a hash: its highest bits, which the connection table does not use.
pub const fn group(hash: u64) -> u8 {
    (hash >> 57) as u8
}
