//! Finds the owner of a packet by the sockets of the container's cgroups, if the container shares
//! its network namespace with the host. Pure.

use crate::parse::Flow;
use cofferdam_host::netlink::InetSocket;
use cofferdam_types::CgroupId;
use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Receiver, and the sender if the socket is connected.
type Ends = (u8, SocketAddr, Option<SocketAddr>);

/// Sockets of a network namespace, divided into the container's and others.
#[derive(Clone, Debug, Default)]
pub struct Sockets {
    ours: HashMap<Ends, bool>,
}

impl Sockets {
    /// Divides `all` into those of `cgroups` and others. If several sockets have the same ends
    /// (SO_REUSEPORT), one of `cgroups` is enough.
    pub fn divide(all: &[InetSocket], cgroups: &HashSet<CgroupId>) -> Sockets {
        let mut ours = HashMap::with_capacity(all.len());
        for socket in all {
            let is_ours = socket.cgroup.is_some_and(|c| cgroups.contains(&c));
            *ours
                .entry((socket.protocol, socket.local, socket.remote))
                .or_default() |= is_ours;
        }
        Sockets { ours }
    }

    /// Whether the container's socket receives `flow`. Looks up a socket as the kernel does: first
    /// a connected one, then one bound to the address, then one bound to all addresses.
    pub fn is_received(&self, flow: &Flow) -> bool {
        let Some((from, to)) = flow.ports else {
            return false;
        };
        let local = SocketAddr::new(flow.destination, to);
        let remote = SocketAddr::new(flow.source, from);
        let any_v4 =
            matches!(local, SocketAddr::V4(_)).then_some(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        let any = any_v4
            .into_iter()
            .chain([IpAddr::V6(Ipv6Addr::UNSPECIFIED)])
            .map(|any| (SocketAddr::new(any, to), None));
        [(local, Some(remote)), (local, None)]
            .into_iter()
            .chain(any)
            .find_map(|(local, remote)| self.ours.get(&(flow.protocol, local, remote)))
            .is_some_and(|ours| *ours)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: CgroupId = CgroupId(7);

    fn socket(local: &str, remote: Option<&str>, cgroup: u64) -> InetSocket {
        InetSocket {
            protocol: 17,
            local: local.parse().unwrap(),
            remote: remote.map(|r| r.parse().unwrap()),
            cgroup: Some(CgroupId(cgroup)),
        }
    }

    fn receives(sockets: &[InetSocket], protocol: u8, to: &str) -> bool {
        let to: SocketAddr = to.parse().unwrap();
        let source = match to {
            SocketAddr::V4(_) => "10.0.0.1",
            SocketAddr::V6(_) => "fd00::1",
        };
        let flow = Flow {
            protocol,
            source: source.parse().unwrap(),
            destination: to.ip(),
            ports: Some((4711, to.port())),
            fragment: false,
        };
        Sockets::divide(sockets, &HashSet::from([OURS])).is_received(&flow)
    }

    /// Promise 15.
    #[test]
    fn the_nearest_socket_owns_the_packet() {
        let all = socket("0.0.0.0:53", None, 7);
        assert!(receives(&[all], 17, "10.0.0.2:53"));
        assert!(!receives(&[all], 6, "10.0.0.2:53") && !receives(&[all], 17, "10.0.0.2:54"));
        assert!(!receives(&[all], 17, "[fd00::2]:53"));
        let theirs = socket("10.0.0.2:53", None, 8);
        assert!(!receives(&[all, theirs], 17, "10.0.0.2:53"));
        assert!(receives(&[all, theirs], 17, "10.0.0.3:53"));
        let connected = socket("10.0.0.2:53", Some("10.0.0.1:4711"), 7);
        assert!(receives(&[theirs, connected], 17, "10.0.0.2:53"));
        let elsewhere = socket("10.0.0.2:53", Some("10.0.0.1:4712"), 7);
        assert!(!receives(&[theirs, elsewhere], 17, "10.0.0.2:53"));
    }

    #[test]
    fn a_socket_for_all_of_ipv6_takes_ipv4_too() {
        let all = socket("[::]:80", None, 7);
        assert!(receives(&[all], 17, "10.0.0.2:80") && receives(&[all], 17, "[fd00::2]:80"));
        let v4 = socket("0.0.0.0:80", None, 8);
        assert!(!receives(&[all, v4], 17, "10.0.0.2:80"));
    }

    #[test]
    fn one_of_several_that_share_a_port_is_enough() {
        let (theirs, ours) = (socket("0.0.0.0:80", None, 8), socket("0.0.0.0:80", None, 7));
        assert!(receives(&[theirs, ours], 17, "10.0.0.2:80"));
        assert!(receives(&[ours, theirs], 17, "10.0.0.2:80"));
    }

    #[test]
    fn a_packet_without_ports_or_cgroup_is_unattributed() {
        let mut all = socket("0.0.0.0:80", None, 7);
        all.cgroup = None;
        assert!(!receives(&[all], 17, "10.0.0.2:80"));
        let flow = Flow {
            protocol: 1,
            source: "10.0.0.1".parse().unwrap(),
            destination: "10.0.0.2".parse().unwrap(),
            ports: None,
            fragment: false,
        };
        assert!(!Sockets::default().is_received(&flow));
    }
}
