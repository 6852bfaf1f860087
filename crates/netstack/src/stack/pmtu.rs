//! Path MTU (RFC 1191, RFC 8201): sizes that routers have reported, stored for ten minutes.

use crate::api::Time;
use crate::core::siphash::Key;
use crate::tuning::belief::{
    LEAST_LINK_V4_BYTES, LEAST_LINK_V6_BYTES, LEAST_PATH_V4_BYTES, PATH_KEPT, PATHS,
};
use crate::wire::address::Addr;

/// Sizes to try if a router reports none (RFC 1191, table 7-1).
const PLATEAUS: [u32; 6] = [32000, 17914, 8166, 4352, 1492, 1006];

#[derive(Debug, Clone, Copy, Default)]
struct Path {
    ip: Addr,
    mtu_bytes: u32,
    until: Time,
}

/// Path MTUs in a fixed number of entries, indexed by a hash of the address. A new address replaces
/// the old one of its entry.
#[derive(Debug)]
pub struct Paths {
    paths: Vec<Path>,
    key: Key,
}

impl Paths {
    pub fn new(secret: &[u8; 16]) -> Self {
        Self {
            paths: vec![Path::default(); PATHS],
            key: Key::new(secret, 6),
        }
    }

    fn index_of(&self, ip: &Addr) -> usize {
        let words = u128::from_ne_bytes(ip.0);
        self.key.hash(&[words as u64, (words >> 64) as u64]) as usize % PATHS
    }

    /// Path MTU to `ip` if it is less than the interface's.
    pub fn get(&self, ip: &Addr, now: Time) -> Option<u32> {
        let path = &self.paths[self.index_of(ip)];
        (path.mtu_bytes != 0 && path.ip == *ip && path.until > now).then_some(path.mtu_bytes)
    }

    /// Largest IP packet to `ip` on an interface of `mtu_bytes`.
    pub fn mtu(&self, ip: &Addr, mtu_bytes: u32, now: Time) -> u32 {
        let path = self.get(ip, now);
        path.map_or(mtu_bytes, |path| path.min(mtu_bytes))
    }

    /// Processes a router's report that a packet of at most `claimed` bytes fits; `current` is the
    /// assumed size. Returns the new size if it is smaller. A size that no link has is ignored:
    /// less than 1280 bytes in IPv6 (RFC 8201, 4), less than 68 in IPv4 (RFC 1191, 3), where 0
    /// stands for a router that reports none.
    pub fn too_big(&mut self, ip: &Addr, claimed: u32, current: u32, now: Time) -> Option<u32> {
        let mtu_bytes = match (ip.is_v4(), claimed) {
            (true, 0) => (PLATEAUS.into_iter().find(|plateau| *plateau < current))
                .unwrap_or(LEAST_PATH_V4_BYTES),
            (true, ..LEAST_LINK_V4_BYTES) | (false, ..LEAST_LINK_V6_BYTES) => return None,
            (true, claimed) => claimed.max(LEAST_PATH_V4_BYTES),
            (false, claimed) => claimed,
        };
        if mtu_bytes >= current {
            return None;
        }
        let index = self.index_of(ip);
        self.paths[index] = Path {
            ip: *ip,
            mtu_bytes,
            until: now + PATH_KEPT,
        };
        Some(mtu_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;

    fn shrink(ip: &str, claimed: u32, current: u32) -> Option<u32> {
        let ip: IpAddr = ip.parse().expect("an address");
        Paths::new(&[1; 16]).too_big(&Addr::from(ip), claimed, current, Time::ZERO)
    }

    /// RFC 8201, 4: a size below 1280 bytes is discarded, not raised to it.
    /// Promise 59.
    #[test]
    fn an_ipv6_mtu_below_the_minimum_is_discarded() {
        for claimed in [0, 1, 68, 552, 1279, 1500, 9000, u32::MAX] {
            assert_eq!(shrink("fd00::1", claimed, 1500), None, "{claimed}");
        }
        for claimed in [1280, 1281, 1499] {
            assert_eq!(shrink("fd00::1", claimed, 1500), Some(claimed));
        }
    }

    /// RFC 1191, 3 and 5; CVE-2004-1060.
    /// Promise 59.
    #[test]
    fn reports_below_68_are_ignored_and_the_minimum_is_552() {
        for claimed in [1, 67, 1500, 65_535] {
            assert_eq!(shrink("10.0.0.1", claimed, 1500), None, "{claimed}");
        }
        let sizes = [(68, 552), (551, 552), (552, 552), (576, 576), (1499, 1499)];
        for (claimed, believed) in sizes {
            assert_eq!(shrink("10.0.0.1", claimed, 1500), Some(believed));
        }
        assert_eq!(shrink("10.0.0.1", 0, 1500), Some(1492), "a plateau");
        assert_eq!(shrink("10.0.0.1", 68, 552), None, "no smaller than it is");
    }
}
