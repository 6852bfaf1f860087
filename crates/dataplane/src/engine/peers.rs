//! Numbers of connections that peers have opened.

use cofferdam_paths::Peer;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;

/// Buckets. Two peers that share one count as one peer.
const BUCKETS: usize = 4096;

/// Bucket of an application's peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PeerBucket(u16);

/// Connections by the peer that opened them: a host, or a network of IPv6.
pub(super) struct PeerCounts {
    counts: Vec<u32>,
    hasher: RandomState,
}

impl PeerCounts {
    /// No connections. Connections move between cores with their bucket, so that all cores need
    /// the same `hasher`.
    pub fn new(hasher: RandomState) -> PeerCounts {
        PeerCounts {
            counts: vec![0; BUCKETS],
            hasher,
        }
    }

    /// The bucket of a peer of an application.
    pub fn bucket(&self, client: u8, peer: IpAddr) -> PeerBucket {
        let hash = self.hasher.hash_one((client, Peer::at(peer)));
        PeerBucket((hash % BUCKETS as u64) as u16)
    }

    /// Connections in a bucket.
    pub fn count(&self, bucket: PeerBucket) -> u32 {
        self.counts
            .get(usize::from(bucket.0))
            .copied()
            .unwrap_or_default()
    }

    /// Counts a connection that opens or arrives.
    pub fn add(&mut self, bucket: Option<PeerBucket>) {
        if let Some(count) = self.place(bucket) {
            *count += 1;
        }
    }

    /// Counts a connection that ends or leaves.
    pub fn remove(&mut self, bucket: Option<PeerBucket>) {
        if let Some(count) = self.place(bucket) {
            *count -= 1;
        }
    }

    fn place(&mut self, bucket: Option<PeerBucket>) -> Option<&mut u32> {
        self.counts.get_mut(usize::from(bucket?.0))
    }
}
