//! Devices between namespaces, queueing and address translation.

use crate::net::Net;
use crate::{try_run, unique_link};
use cofferdam_lab::UndoStack;

/// Two joined Ethernet devices; removed when dropped.
#[derive(Debug)]
pub struct VethPair {
    _undo: UndoStack,
}

impl VethPair {
    /// Joins `a` and `b` and brings both ends up. In the host's namespace use
    /// [`crate::unique_link`] as the name.
    #[track_caller]
    pub fn new(a: (&dyn Net, &str), b: (&dyn Net, &str)) -> VethPair {
        VethPair::with_queues(a, b, 1)
    }

    /// As [`VethPair::new`], with this many receive and transmit queues at both ends.
    #[track_caller]
    pub fn with_queues(a: (&dyn Net, &str), b: (&dyn Net, &str), queues: u32) -> VethPair {
        // Made on the host under names of our own, then moved: `eth0` may be taken there.
        let (left, right) = (unique_link(), unique_link());
        let queues = queues.to_string();
        let queues = ["numtxqueues", &queues, "numrxqueues", &queues];
        let mut add = vec!["ip", "link", "add", &left];
        add.extend(queues);
        add.extend(["type", "veth", "peer", "name", &right]);
        add.extend(queues);
        crate::run(&add);
        let undo = remove_link(a.0, a.1, &left);
        place(a, &left);
        place(b, &right);
        VethPair { _undo: undo }
    }
}

#[track_caller]
fn place((net, name): (&dyn Net, &str), link: &str) {
    if let Some(netns) = net.netns() {
        crate::run(&["ip", "link", "set", link, "netns", netns]);
    }
    if link != name {
        net.run(&format!("ip link set {link} name {name}"));
    }
    net.up(name);
}

fn remove_link(net: &dyn Net, name: &str, before_move: &str) -> UndoStack {
    let (netns, name, before) = (
        net.netns().map(str::to_owned),
        name.to_owned(),
        before_move.to_owned(),
    );
    let mut undo = UndoStack::default();
    undo.push(format!("link {name}"), move || {
        // One of the two exists; both are gone when the namespace went first.
        let _ = try_run(&["ip", "link", "delete", &before]);
        let _ = match &netns {
            Some(netns) => try_run(&["ip", "-n", netns, "link", "delete", &name]),
            None => try_run(&["ip", "link", "delete", &name]),
        };
        Ok::<_, String>(())
    });
    undo
}

/// A bridge; removed when dropped.
#[derive(Debug)]
pub struct Bridge {
    name: String,
    _undo: UndoStack,
}

impl Bridge {
    /// Makes a bridge and brings it up; it forwards at once (no spanning tree).
    #[track_caller]
    pub fn new(net: &dyn Net, name: &str) -> Bridge {
        net.run(&format!(
            "ip link add {name} type bridge forward_delay 0 stp_state 0"
        ));
        let undo = remove_link(net, name, name);
        net.up(name);
        Bridge {
            name: name.to_owned(),
            _undo: undo,
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Adds a device of the same namespace as a port.
    #[track_caller]
    pub fn add(&self, net: &dyn Net, device: &str) {
        net.run(&format!("ip link set {device} master {}", self.name));
        net.up(device);
    }
}

/// Limits what leaves `device` with one HTB class, such as `rate = "1gbit"`.
#[track_caller]
pub fn htb(net: &dyn Net, device: &str, rate: &str) {
    net.run(&format!(
        "tc qdisc replace dev {device} root handle 1: htb default 1"
    ));
    net.run(&format!(
        "tc class replace dev {device} parent 1: classid 1:1 htb rate {rate} ceil {rate}"
    ));
}

/// Adds a vxlan device `name` over `under`, from `local` to `remote`; the namespace removes it.
#[track_caller]
pub fn vxlan(net: &dyn Net, name: &str, id: u32, under: &str, local: &str, remote: &str) {
    assert!(
        net.netns().is_some(),
        "vxlan devices are made only in namespaces of our own"
    );
    net.run(&format!(
        "ip link add {name} type vxlan id {id} dstport 4789 dev {under} local {local} remote {remote}"
    ));
    net.up(name);
}

/// Adds a macvlan device (bridge mode) over `under` of `parent` and moves it into `net` as
/// `name`; the namespaces remove it.
#[track_caller]
pub fn macvlan(parent: &dyn Net, under: &str, net: &dyn Net, name: &str) {
    let (link, into) = (
        unique_link(),
        net.netns().expect("macvlan into a namespace of our own"),
    );
    parent.run(&format!(
        "ip link add link {under} name {link} type macvlan mode bridge"
    ));
    // The namespace is named by a path that the other namespace sees as well.
    parent.run(&format!("ip link set {link} netns {into}"));
    net.run(&format!("ip link set {link} name {name}"));
    net.up(name);
}

/// Rewrites the source of everything that leaves through `device` (nftables, conntrack).
#[track_caller]
pub fn masquerade(net: &dyn Net, device: &str) {
    nft(
        net,
        &format!("add rule ip cofferdam post oifname {device} masquerade"),
    );
}

/// Sends what arrives for `port` on to `to` (`ADDRESS:PORT`), IPv4. `protocol` is `tcp` or
/// `udp`.
#[track_caller]
pub fn port_forward(net: &dyn Net, protocol: &str, port: u16, to: &str) {
    nft(
        net,
        &format!("add rule ip cofferdam pre {protocol} dport {port} dnat to {to}"),
    );
}

#[track_caller]
fn nft(net: &dyn Net, rule: &str) {
    assert!(
        net.netns().is_some(),
        "the host's own firewall is left alone"
    );
    net.run("nft add table ip cofferdam");
    net.sh(
        "nft 'add chain ip cofferdam pre { type nat hook prerouting priority -100 ; }'
         nft 'add chain ip cofferdam post { type nat hook postrouting priority 100 ; }'",
    );
    net.run(&format!("nft {rule}"));
}
