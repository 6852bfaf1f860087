//! Path MTU (RFC 1191, RFC 8201): what a router said does not fit, kept for ten minutes.

use crate::api::Time;
use crate::core::siphash::Key;
use crate::tuning::belief::{LEAST_PATH_V4_BYTES, LEAST_PATH_V6_BYTES, PATH_KEPT, PATHS};
use crate::wire::address::Addr;

/// For routers that name no size (RFC 1191, table 7-1).
const PLATEAUS: [u32; 6] = [32000, 17914, 8166, 4352, 1492, 1006];

#[derive(Debug, Clone, Copy, Default)]
struct Path {
    ip: Addr,
    mtu_bytes: u32,
    until: Time,
}

/// Known paths: a fixed number of places, one an address; a later address takes the place.
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

    fn place(&self, ip: &Addr) -> usize {
        let words = u128::from_ne_bytes(ip.0);
        self.key.hash(&[words as u64, (words >> 64) as u64]) as usize % PATHS
    }

    /// What the path to `ip` carries, if it is less than the interface.
    pub fn get(&self, ip: &Addr, now: Time) -> Option<u32> {
        let path = &self.paths[self.place(ip)];
        (path.mtu_bytes != 0 && path.ip == *ip && path.until > now).then_some(path.mtu_bytes)
    }

    /// The largest IP packet to `ip` as far as is known, on an interface that takes `mtu_bytes`.
    pub fn mtu(&self, ip: &Addr, mtu_bytes: u32, now: Time) -> u32 {
        let path = self.get(ip, now);
        path.map_or(mtu_bytes, |path| path.min(mtu_bytes))
    }

    /// A router says that `claimed` bytes are the most; `current` is what was assumed. The new
    /// size, if it is smaller.
    pub fn too_big(&mut self, ip: &Addr, claimed: u32, current: u32, now: Time) -> Option<u32> {
        let least = if ip.is_v4() {
            LEAST_PATH_V4_BYTES
        } else {
            LEAST_PATH_V6_BYTES
        };
        let claimed = if claimed == 0 {
            PLATEAUS
                .into_iter()
                .find(|plateau| *plateau < current)
                .unwrap_or(least)
        } else {
            claimed
        };
        let mtu_bytes = claimed.max(least);
        if mtu_bytes >= current {
            return None;
        }
        let place = self.place(ip);
        self.paths[place] = Path {
            ip: *ip,
            mtu_bytes,
            until: now + PATH_KEPT,
        };
        Some(mtu_bytes)
    }
}
