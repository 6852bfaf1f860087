//! What has to be asked again and again while a namespace is looked at that the container shares with the
//! host: whose sockets there are, and which devices are ports of others.

use crate::owner::Sockets;
use crate::parse::Packet;
use cofferdam_host::netlink::{Rtnetlink, SockDiag};
use cofferdam_types::CgroupId;
use std::collections::HashSet;
use std::io;
use std::time::{Duration, Instant};

/// Between two questions, at least.
const LEAST_PAUSE: Duration = Duration::from_secs(1);
/// Questions take at most one part in so many of the time.
const PAUSES: u32 = 50;

/// Tells the container's packets from those of the host.
pub struct Shared {
    cgroups: HashSet<CgroupId>,
    diag: SockDiag,
    links: Rtnetlink,
    sockets: Sockets,
    /// Those of the time before: what waits to be read may be for one that is closed by now.
    before: Sockets,
    /// Indices of devices whose packets are seen again, at the bridge or bond that they are ports of.
    ports: HashSet<u32>,
    ask_at: Instant,
}

impl Shared {
    /// Asks for the first time, in the network namespace of the calling thread.
    pub fn open(cgroups: HashSet<CgroupId>) -> io::Result<Shared> {
        let mut opened = Shared {
            cgroups,
            diag: SockDiag::open()?,
            links: Rtnetlink::open()?,
            sockets: Sockets::default(),
            before: Sockets::default(),
            ports: HashSet::new(),
            ask_at: Instant::now(),
        };
        opened.ask()?;
        Ok(opened)
    }

    /// Asks again when it is time.
    pub fn turn(&mut self) -> io::Result<()> {
        match Instant::now() >= self.ask_at {
            true => self.ask(),
            false => Ok(()),
        }
    }

    /// Whether `packet`, as received by the device of index `device`, is the container's.
    pub fn is_ours(&self, packet: &Packet, device: u32) -> bool {
        let is_received = |flow| self.sockets.receive(flow) || self.before.receive(flow);
        !self.ports.contains(&device) && packet.flow.as_ref().is_some_and(is_received)
    }

    fn ask(&mut self) -> io::Result<()> {
        let begun = Instant::now();
        let now = Sockets::divide(&self.diag.sockets()?, &self.cgroups);
        self.before = std::mem::replace(&mut self.sockets, now);
        let links = self.links.links()?;
        // A VRF is no bridge: what its ports receive is not received by it again.
        let is_vrf = |index| links.iter().any(|l| l.index == index && l.kind == "vrf");
        self.ports = (links.iter())
            .filter(|l| l.master.is_some_and(|master| !is_vrf(master)))
            .map(|l| l.index)
            .collect();
        let pause = (begun.elapsed() * PAUSES).max(LEAST_PAUSE);
        self.ask_at = Instant::now() + pause;
        Ok(())
    }
}
