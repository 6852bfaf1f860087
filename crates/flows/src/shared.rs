//! A network namespace that the container shares with the host. While it is sampled, its sockets
//! and the devices that are ports of others are queried again and again.

use crate::owner::Sockets;
use crate::parse::Packet;
use cofferdam_host::netlink::{Rtnetlink, SockDiag};
use cofferdam_types::CgroupId;
use std::collections::HashSet;
use std::io;
use std::time::{Duration, Instant};

/// Shortest time between two queries.
const LEAST_PAUSE: Duration = Duration::from_secs(1);
/// Ratio of the time between queries to the time of a query, at least.
const PAUSES: u32 = 50;

/// Distinguishes the container's packets from those of the host.
pub struct SharedNamespace {
    cgroups: HashSet<CgroupId>,
    diag: SockDiag,
    links: Rtnetlink,
    sockets: Sockets,
    /// Sockets of the query before: a waiting packet may be for a socket that is closed by now.
    before: Sockets,
    /// Indices of devices that are ports of a bridge or bond, at which their packets are seen
    /// again.
    ports: HashSet<u32>,
    next_query: Instant,
}

impl SharedNamespace {
    /// Queries for the first time, in the calling thread's network namespace.
    pub fn open(cgroups: HashSet<CgroupId>) -> io::Result<SharedNamespace> {
        let mut opened = SharedNamespace {
            cgroups,
            diag: SockDiag::open()?,
            links: Rtnetlink::open()?,
            sockets: Sockets::default(),
            before: Sockets::default(),
            ports: HashSet::new(),
            next_query: Instant::now(),
        };
        opened.query()?;
        Ok(opened)
    }

    /// Queries again, if that is due.
    pub fn query_if_due(&mut self) -> io::Result<()> {
        match Instant::now() >= self.next_query {
            true => self.query(),
            false => Ok(()),
        }
    }

    /// Whether `packet`, received by the device of index `device`, is the container's.
    pub fn is_ours(&self, packet: &Packet, device: u32) -> bool {
        let is_received = |flow| self.sockets.is_received(flow) || self.before.is_received(flow);
        !self.ports.contains(&device) && packet.flow.as_ref().is_some_and(is_received)
    }

    fn query(&mut self) -> io::Result<()> {
        let begun = Instant::now();
        let now = Sockets::divide(&self.diag.sockets()?, &self.cgroups);
        self.before = std::mem::replace(&mut self.sockets, now);
        let links = self.links.links()?;
        // A VRF is no bridge: it does not receive the packets of its ports again.
        let is_vrf = |index| links.iter().any(|l| l.index == index && l.kind == "vrf");
        self.ports = (links.iter())
            .filter(|l| l.master.is_some_and(|master| !is_vrf(master)))
            .map(|l| l.index)
            .collect();
        let pause = (begun.elapsed() * PAUSES).max(LEAST_PAUSE);
        self.next_query = Instant::now() + pause;
        Ok(())
    }
}
