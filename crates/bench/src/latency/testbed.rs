//! A container, the host's namespace that routes for it, and a tun device as the NIC.
//!
//! ```text
//! container eth0 10.97.1.2 ── d0 host nic0 10.97.0.1 ── the wire (a thread) 10.97.0.2
//! ```

use super::failed;
use super::wire::{FAR, Wire};
use crate::error::BenchError;
use crate::topology::make_netns;
use cofferdam_host::in_namespace;
use cofferdam_lab::UndoStack;
use cofferdam_lab::{sweep, veth};
use cofferdam_latency::ping::{Kind, Prober};
use cofferdam_types::{IfIndex, NetnsId};
use std::fs::File;
use std::net::Ipv4Addr;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::Scope;
use std::time::Duration;

/// Most containers that can ping at the same time as the measured one.
pub(super) const NEIGHBOURS: u32 = 8;

/// Network of the experiment. Dropping it removes the network.
pub(super) struct LatencyTestbed {
    // The wire ends before the device's namespace goes.
    pub wire: Wire,
    pub host: File,
    pub container: File,
    neighbours: Vec<File>,
    pub netns: NetnsId,
    pub host_netns: NetnsId,
    /// The host's end of the container's pair.
    pub device: IfIndex,
    /// The container's end.
    pub inner: IfIndex,
    /// The host's NIC.
    pub nic: IfIndex,
    _undo: UndoStack,
}

fn inode(file: &File) -> Result<NetnsId, BenchError> {
    let inode = file
        .metadata()
        .map_err(failed("cannot look at a namespace"))?;
    Ok(NetnsId(inode.ino() as u32))
}

impl LatencyTestbed {
    /// Makes the whole network.
    pub fn make() -> Result<LatencyTestbed, BenchError> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        // Named like those of all benchmarks, so that the next run removes what a killed one left.
        sweep::leftovers();
        let tag = format!("{}-lat{n}", std::process::id());
        let mut undo = UndoStack::default();
        let host = make_netns(&format!("{tag}-host"), &mut undo)?;
        host.sysctl("net/ipv4/ip_forward", "1")?;
        let host_file = host.open()?;
        let wire = in_namespace(&host_file, || Wire::start("nic0"))
            .map_err(failed("cannot enter a namespace"))?
            .map_err(failed("cannot make a tun device (modprobe tun)"))?;
        host.address("nic0", Ipv4Addr::new(10, 97, 0, 1))?;
        let (mut files, mut inner) = (Vec::new(), Vec::new());
        for i in 0..=NEIGHBOURS as u8 {
            let member = make_netns(&format!("{tag}-c{i}"), &mut undo)?;
            let device = format!("d{i}");
            veth::pair((&member, "eth0"), (&host, &device), 1)?;
            host.address(&device, Ipv4Addr::new(10, 97, i + 1, 1))?;
            member.address("eth0", Ipv4Addr::new(10, 97, i + 1, 2))?;
            member.route(&format!("default via 10.97.{}.1", i + 1))?;
            files.push(member.open()?);
            inner.push(IfIndex(member.ifindex("eth0")?));
        }
        let container = files.remove(0);
        let testbed = LatencyTestbed {
            netns: inode(&container)?,
            host_netns: inode(&host_file)?,
            wire,
            host: host_file,
            container,
            neighbours: files,
            device: IfIndex(host.ifindex("d0")?),
            inner: inner[0],
            nic: IfIndex(host.ifindex("nic0")?),
            _undo: undo,
        };
        // All neighbour entries are resolved before the measurement.
        testbed.inside(|| testbed.probe(Kind::Icmp, 3))??;
        Ok(testbed)
    }

    /// Runs `work` in the container's namespace.
    pub fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, BenchError> {
        in_namespace(&self.container, work).map_err(failed("cannot enter a namespace"))
    }

    /// Runs `work` in the host's namespace.
    pub fn outside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, BenchError> {
        in_namespace(&self.host, work).map_err(failed("cannot enter a namespace"))
    }

    /// Opens a prober in the calling thread's namespace, and waits for `count` answers.
    pub fn probe(&self, kind: Kind, count: u32) -> Result<Prober, BenchError> {
        let mut prober = Prober::open(FAR.into(), kind, 56).map_err(failed("cannot ping"))?;
        for _ in 0..count {
            let answer = prober.probe(Duration::from_secs(1));
            answer.map_err(failed("cannot ping"))?;
        }
        Ok(prober)
    }

    /// Opens a prober in the host's namespace, for any thread.
    pub fn host_prober(&self, kind: Kind) -> Result<Prober, BenchError> {
        self.outside(|| self.probe(kind, 3))?
    }

    /// Runs `work` in the first neighbour's namespace; its address is 10.97.2.2.
    pub fn next_door<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, BenchError> {
        let file = self.neighbours.first();
        let file = file.ok_or_else(|| BenchError::Latency("there is no neighbour".to_owned()))?;
        in_namespace(file, work).map_err(failed("cannot enter a namespace"))
    }

    /// Lets `count` neighbours ping as fast as they are answered, until `stop`.
    pub fn load<'a>(&'a self, scope: &'a Scope<'a, '_>, count: u32, stop: &'a AtomicBool) {
        for file in self.neighbours.iter().take(count as usize) {
            scope.spawn(move || {
                in_namespace(file, || {
                    let Ok(mut prober) = self.probe(Kind::Icmp, 0) else {
                        return;
                    };
                    while !stop.load(Ordering::Relaxed) {
                        // A lost answer is part of the load.
                        let _ = prober.probe(Duration::from_millis(50));
                    }
                })
            });
        }
    }
}
