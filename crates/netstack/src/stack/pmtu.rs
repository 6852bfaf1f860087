//! Path MTU (RFC 1191, RFC 8201): what a router said does not fit, kept for ten minutes.

use super::Stack;
use crate::api::Time;
use crate::core::siphash::Key;
use crate::wire::address::Addr;
use std::time::Duration;

const PLACES: usize = 256;
const KEEP: Duration = Duration::from_secs(600);
/// Least we believe: smaller values are attacks (CVE-2004-1060); IPv6 has none smaller.
const LEAST_V4: u32 = 552;
const LEAST_V6: u32 = 1280;
/// For routers that name no size (RFC 1191, table 7-1).
const PLATEAUS: [u32; 6] = [32000, 17914, 8166, 4352, 1492, 1006];

#[derive(Debug, Clone, Copy, Default)]
struct Path {
    ip: Addr,
    mtu_bytes: u32,
    until: Time,
}

/// Known paths: a fixed number of places, one an address; who comes later takes the place.
#[derive(Debug)]
pub struct Paths {
    paths: Vec<Path>,
    key: Key,
}

impl Paths {
    pub fn new(secret: &[u8; 16]) -> Self {
        Self {
            paths: vec![Path::default(); PLACES],
            key: Key::new(secret, 6),
        }
    }

    fn place(&self, ip: &Addr) -> usize {
        let words = u128::from_ne_bytes(ip.0);
        self.key.hash(&[words as u64, (words >> 64) as u64]) as usize % PLACES
    }

    /// What the path to `ip` carries, if it is less than the interface.
    pub fn get(&self, ip: &Addr, now: Time) -> Option<u32> {
        let path = &self.paths[self.place(ip)];
        (path.mtu_bytes != 0 && path.ip == *ip && path.until > now).then_some(path.mtu_bytes)
    }

    /// A router says that `told` bytes are the most; `current` is what was assumed. The new size,
    /// if it is smaller.
    pub fn too_big(&mut self, ip: &Addr, told: u32, current: u32, now: Time) -> Option<u32> {
        let least = if ip.is_v4() { LEAST_V4 } else { LEAST_V6 };
        let told = if told == 0 {
            PLATEAUS
                .into_iter()
                .find(|plateau| *plateau < current)
                .unwrap_or(least)
        } else {
            told
        };
        let mtu_bytes = told.max(least);
        if mtu_bytes >= current {
            return None;
        }
        let place = self.place(ip);
        self.paths[place] = Path {
            ip: *ip,
            mtu_bytes,
            until: now + KEEP,
        };
        Some(mtu_bytes)
    }
}

impl Stack {
    /// Largest IP packet to `remote`, as far as is known.
    pub(super) fn path_mtu(&self, remote: &Addr, now: Time) -> u32 {
        let interface = self.config.mtu_bytes;
        self.paths
            .get(remote, now)
            .map_or(interface, |path| path.min(interface))
    }
}
