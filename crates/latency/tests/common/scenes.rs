//! Networks that several tests use.

use cofferdam_lab::fixtures::{Bridge, FakeContainer, Namespace, Net, VethPair, macvlan, vxlan};

/// Container behind a bridge of the host that leads into a vxlan tunnel to `far`: 10.93.0.1 to
/// 10.93.0.2, over `up0`.
pub struct Tunnel {
    // Drop order: devices before their namespaces.
    _pairs: [VethPair; 2],
    _bridge: Bridge,
    pub web: FakeContainer,
    pub far: Namespace,
    pub host: Namespace,
}

impl Tunnel {
    pub fn make() -> Tunnel {
        let (web, far) = (FakeContainer::new("web"), Namespace::new("far"));
        let host = Namespace::new("host");
        let up = VethPair::new((&host, "up0"), (&far, "eth0"));
        host.address("up0", "10.94.0.1/24");
        far.address("eth0", "10.94.0.2/24");
        vxlan(&host, "vx0", 7, "up0", "10.94.0.1", "10.94.0.2");
        vxlan(&far, "vx0", 7, "eth0", "10.94.0.2", "10.94.0.1");
        let bridge = Bridge::new(&host, "br0");
        bridge.add(&host, "vx0");
        let inner = VethPair::new((&host, "c1"), (&web, "eth0"));
        bridge.add(&host, "c1");
        web.address("eth0", "10.93.0.1/24");
        far.address("vx0", "10.93.0.2/24");
        far.ping("10.93.0.1");
        Tunnel {
            _pairs: [up, inner],
            _bridge: bridge,
            web,
            far,
            host,
        }
    }
}

/// Container on a macvlan device over `up0` of the host, which leads to `peer`: 10.95.0.2 to
/// 10.95.0.1.
pub struct Macvlan {
    _pair: VethPair,
    pub web: FakeContainer,
    pub peer: Namespace,
    pub host: Namespace,
}

impl Macvlan {
    pub fn make() -> Macvlan {
        let web = FakeContainer::new("web");
        let (host, peer) = (Namespace::new("host"), Namespace::new("peer"));
        let pair = VethPair::new((&peer, "eth0"), (&host, "up0"));
        macvlan(&host, "up0", web.namespace(), "eth0");
        peer.address("eth0", "10.95.0.1/24");
        web.address("eth0", "10.95.0.2/24");
        peer.ping("10.95.0.2");
        Macvlan {
            _pair: pair,
            web,
            peer,
            host,
        }
    }
}
