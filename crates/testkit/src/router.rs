//! Two ready-made networks between containers, inside a namespace of their own.

use crate::links::{Bridge, VethPair};
use crate::net::{Namespace, Net};
use std::cell::RefCell;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// How a container is joined to a [`Router`] or a [`Lan`]. Its own device is `eth0`.
#[derive(Clone, Debug)]
pub struct Port {
    /// IPv4 address of the container.
    pub ipv4: Ipv4Addr,
    /// IPv6 address of the container.
    pub ipv6: Ipv6Addr,
    /// The device on the network's side.
    pub device: String,
}

impl Port {
    /// IPv4 socket address at `port`.
    pub fn v4(&self, port: u16) -> SocketAddr {
        (IpAddr::V4(self.ipv4), port).into()
    }

    /// IPv6 socket address at `port`.
    pub fn v6(&self, port: u16) -> SocketAddr {
        (IpAddr::V6(self.ipv6), port).into()
    }
}

/// A namespace that routes between containers, each on a subnet of its own: routed veth.
pub struct Router {
    // Pairs are dropped before the namespace.
    pairs: RefCell<Vec<VethPair>>,
    netns: Namespace,
}

/// A namespace with a bridge that containers are ports of: bridge + veth.
pub struct Lan {
    pairs: RefCell<Vec<VethPair>>,
    bridge: Bridge,
    netns: Namespace,
}

impl Router {
    /// Makes the namespace, which forwards IPv4 and IPv6.
    #[track_caller]
    pub fn new(label: &str) -> Router {
        let netns = Namespace::new(label);
        netns.forward();
        Router {
            pairs: RefCell::default(),
            netns,
        }
    }

    /// Joins `net` by `eth0`, with addresses `10.98.N.2/24` and `fd98:N::2/64` and default
    /// routes through the router at `.1`.
    #[track_caller]
    pub fn attach(&self, net: &dyn Net) -> Port {
        let n = u8::try_from(self.pairs.borrow().len() + 1).expect("at most 254 containers");
        let device = format!("c{n}");
        let pair = VethPair::new((net, "eth0"), (&self.netns, &device));
        self.pairs.borrow_mut().push(pair);
        self.netns.address(&device, &format!("10.98.{n}.1/24"));
        self.netns.address(&device, &format!("fd98:{n:x}::1/64"));
        net.address("eth0", &format!("10.98.{n}.2/24"));
        net.address("eth0", &format!("fd98:{n:x}::2/64"));
        net.route(&format!("default via 10.98.{n}.1"));
        net.route(&format!("default via fd98:{n:x}::1"));
        // Until both sides know each other's Ethernet address the kernel drops all but the
        // first packets.
        net.ping(&format!("10.98.{n}.1"));
        net.ping(&format!("fd98:{n:x}::1"));
        Port {
            ipv4: Ipv4Addr::new(10, 98, n, 2),
            ipv6: Ipv6Addr::new(0xfd98, n.into(), 0, 0, 0, 0, 0, 2),
            device,
        }
    }
}

impl Lan {
    /// Makes the namespace and the bridge `br0`.
    #[track_caller]
    pub fn new(label: &str) -> Lan {
        let netns = Namespace::new(label);
        let bridge = Bridge::new(&netns, "br0");
        netns.address("br0", "10.99.0.1/24");
        netns.address("br0", "fd99::1/64");
        Lan {
            pairs: RefCell::default(),
            bridge,
            netns,
        }
    }

    /// Joins `net` by `eth0`, with addresses `10.99.0.N/24` and `fd99::N/64` (N from 2).
    #[track_caller]
    pub fn attach(&self, net: &dyn Net) -> Port {
        let n = u8::try_from(self.pairs.borrow().len() + 2).expect("at most 253 containers");
        let device = format!("c{n}");
        let pair = VethPair::new((net, "eth0"), (&self.netns, &device));
        self.pairs.borrow_mut().push(pair);
        self.bridge.add(&self.netns, &device);
        net.address("eth0", &format!("10.99.0.{n}/24"));
        net.address("eth0", &format!("fd99::{n:x}/64"));
        net.ping("10.99.0.1");
        net.ping("fd99::1");
        Port {
            ipv4: Ipv4Addr::new(10, 99, 0, n),
            ipv6: Ipv6Addr::new(0xfd99, 0, 0, 0, 0, 0, 0, n.into()),
            device,
        }
    }
}

macro_rules! is_a_net {
    ($($name:ident),*) => {$(
        impl Net for $name {
            fn netns(&self) -> Option<&str> {
                self.netns.netns()
            }
        }
        impl std::ops::Deref for $name {
            type Target = Namespace;
            fn deref(&self) -> &Namespace {
                &self.netns
            }
        }
    )*};
}
is_a_net!(Router, Lan);
