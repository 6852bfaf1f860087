//! Programs that drop packets in one network namespace.

use super::refusal::{LimitError, Refusal};
use crate::network::policy::Spending;
use crate::tuning::network::{DEVICES_READ_INTERVAL, FLOOD_PACKETS, FLOOD_STEPS, MOST_DEVICES};
use cofferdam_bpf::{
    Bucket, DropCounts, DropDescriptors, DropLink, DropPrograms, Entry, attach_drop,
};
use cofferdam_host::netlink::LinkMessage;
use cofferdam_host::{find_namespace, in_namespace, inside};
use cofferdam_types::{CgroupId, Container, IfIndex, NetnsId, Tunnel};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// Drivers of devices through which no packet enters the host.
const INNER: [&str; 10] = [
    "bridge", "dummy", "bond", "team", "vlan", "vrf", "ifb", "tun", "macvlan", "ipvlan",
];

/// The host's ends of containers' interfaces: no packet enters the host through them.
pub(in crate::network) type HostEnds = BTreeSet<(NetnsId, IfIndex)>;

/// Programs in one namespace, and the containers that they limit.
pub(super) struct Gate {
    programs: DropPrograms,
    links: BTreeMap<u32, DropLink>,
    tunnels: BTreeSet<Tunnel>,
    members: BTreeMap<CgroupId, Member>,
    looked: Instant,
    /// Priority now and at the start.
    priority: Priority,
    initial_priority: Priority,
    /// Consecutive steps in which a container was flooded.
    flooded: u32,
}

/// Priority that decides where the programs are attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Priority {
    /// Passing packets must be cheap: XDP in a veth's driver copies every packet, and makes its
    /// peer split TCP's large segments.
    Passing,
    /// Dropped packets must be cheap: a container is flooded, but the programs do not drop in the
    /// driver yet.
    DroppingPending,
    /// Dropped packets are cheap: the programs drop in the driver.
    Dropping,
}

/// Container whose packets are limited.
pub(super) struct Member {
    slot: u32,
    addresses: BTreeSet<IpAddr>,
    /// Programs at its sockets, if it has no address of its own.
    sockets: Option<DropLink>,
    /// Host ends through which it sends, while that is limited.
    sent: BTreeMap<u32, DropLink>,
    /// Failure to limit what it sends.
    sent_refused: Option<Refusal>,
    /// Counts at the last reading.
    counts: DropCounts,
}

impl Member {
    pub fn is_received_limited(&self) -> bool {
        !self.addresses.is_empty() || self.sockets.is_some()
    }

    pub fn is_sent_limited(&self) -> bool {
        !self.sent.is_empty()
    }
}

/// Entry devices of a namespace at one reading.
struct Entries {
    present: BTreeSet<u32>,
    /// Tunnels that end here and are decapsulated where their packets enter.
    tunnels: BTreeSet<Tunnel>,
    new: Vec<(u32, DropLink)>,
    refusal: Option<LimitError>,
}

impl Gate {
    pub fn load(priority: Priority) -> Result<Gate, LimitError> {
        Ok(Gate {
            programs: DropPrograms::load()?,
            links: BTreeMap::new(),
            tunnels: BTreeSet::new(),
            members: BTreeMap::new(),
            looked: Instant::now(),
            priority,
            initial_priority: priority,
            flooded: 0,
        })
    }

    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Number of attached programs.
    pub fn attached(&self) -> u64 {
        let of = |m: &Member| m.sent.len() + usize::from(m.sockets.is_some());
        let members: usize = self.members.values().map(of).sum();
        (self.links.len() + members) as u64
    }

    pub fn member(&self, cgroup: CgroupId) -> Option<&Member> {
        self.members.get(&cgroup)
    }

    /// Assigns a slot to the container; returns false if it has one.
    pub fn admit(&mut self, container: &Container) -> Result<bool, LimitError> {
        if self.members.contains_key(&container.cgroup) {
            return Ok(false);
        }
        let used: BTreeSet<u32> = self.members.values().map(|m| m.slot).collect();
        let slot = (0..DropPrograms::SLOTS)
            .find(|slot| !used.contains(slot))
            .ok_or(LimitError::Full)?;
        self.programs.clear(slot);
        let member = Member {
            slot,
            addresses: BTreeSet::new(),
            sockets: None,
            sent: BTreeMap::new(),
            sent_refused: None,
            counts: DropCounts::default(),
        };
        self.members.insert(container.cgroup, member);
        Ok(true)
    }

    /// Ends a container's limit. Detaches the programs with the last one.
    pub fn dismiss(&mut self, cgroup: CgroupId) {
        if let Some(member) = self.members.remove(&cgroup) {
            for address in member.addresses {
                self.programs.remove_address(address);
            }
            for device in member.sent.keys() {
                self.programs.remove_device(IfIndex(*device));
            }
            self.programs.clear(member.slot);
        }
        if self.members.is_empty() {
            self.links.clear();
            self.priority = self.initial_priority;
        }
    }

    /// Updates addresses and attachments: for a `new` container, when a flood changes the priority,
    /// and from time to time.
    pub fn update_attachments(
        &mut self,
        container: &Container,
        netns: NetnsId,
        new: bool,
        skip: &HostEnds,
    ) -> Result<(), LimitError> {
        let flooded = self.priority == Priority::DroppingPending;
        if !new && !flooded && self.looked.elapsed() <= DEVICES_READ_INTERVAL {
            return Ok(());
        }
        self.looked = Instant::now();
        let file = find_namespace(netns, container.pid).map_err(LimitError::Namespace)?;
        self.learn_addresses(container)?;
        // The old programs stay attached until the new ones are.
        let before = flooded.then(|| {
            self.priority = Priority::Dropping;
            std::mem::take(&mut self.links)
        });
        self.attach(&file, netns, skip)?;
        drop(before);
        Ok(())
    }

    /// Limits what the sockets of a container without an address of its own receive. `directory` is
    /// its v2 cgroup.
    pub fn attach_sockets(
        &mut self,
        container: &Container,
        directory: &Path,
    ) -> Result<(), LimitError> {
        let Some(member) = self.members.get_mut(&container.cgroup) else {
            return Ok(());
        };
        if member.sockets.is_none() {
            let attached = self
                .programs
                .attach_sockets(directory, container.cgroup, member.slot);
            member.sockets = Some(attached.map_err(LimitError::Sockets)?);
        }
        Ok(())
    }

    fn learn_addresses(&mut self, container: &Container) -> Result<(), LimitError> {
        let netns = container.netns.ok_or(LimitError::NoProcess)?;
        let file = find_namespace(netns, container.pid).map_err(LimitError::Namespace)?;
        let found = in_namespace(&file, inside::addresses)
            .and_then(|found| found)
            .map_err(LimitError::Addresses)?;
        // Link-local addresses are ambiguous beyond their link.
        let found: BTreeSet<IpAddr> = found
            .into_iter()
            .map(|(_, address)| address)
            .filter(|a| !matches!(a, IpAddr::V6(v6) if v6.is_unicast_link_local()))
            .collect();
        let Some(member) = self.members.get_mut(&container.cgroup) else {
            return Ok(());
        };
        for removed in member.addresses.difference(&found) {
            self.programs.remove_address(*removed);
        }
        for new in found.difference(&member.addresses) {
            let result = self.programs.set_address(*new, member.slot);
            result.map_err(|source| LimitError::Address {
                address: *new,
                source,
            })?;
        }
        member.addresses = found;
        Ok(())
    }

    /// Attaches the programs to the devices through which packets enter the namespace of `file`.
    fn attach(&mut self, file: &File, netns: NetnsId, skip: &HostEnds) -> Result<(), LimitError> {
        let programs = self.programs.programs();
        let attached: BTreeSet<u32> = self.links.keys().copied().collect();
        let priority = self.priority;
        let is_skipped = |index: u32| skip.contains(&(netns, IfIndex(index)));
        let found = in_namespace(file, || {
            let devices = inside::devices()?;
            let enters = |d: &&LinkMessage| {
                !INNER.contains(&d.kind.as_str()) && d.tunnel().is_none() && !is_skipped(d.index)
            };
            let entries = devices.iter().filter(enters).take(MOST_DEVICES);
            let mut found = Entries {
                present: entries.clone().map(|device| device.index).collect(),
                tunnels: devices.iter().filter_map(LinkMessage::tunnel).collect(),
                new: Vec::new(),
                refusal: None,
            };
            for device in entries {
                if attached.contains(&device.index) {
                    continue;
                }
                match attach_at_first(programs, device, priority) {
                    Ok(link) => found.new.push((device.index, link)),
                    Err(source) => {
                        found.refusal = Some(LimitError::Attach {
                            device: device.name.clone(),
                            source,
                        });
                    }
                }
            }
            Ok::<_, std::io::Error>(found)
        })
        .and_then(|result| result)
        .map_err(LimitError::Devices)?;
        self.learn_tunnels(found.tunnels)?;
        self.links.retain(|index, _| found.present.contains(index));
        self.links.extend(found.new);
        match found.refusal {
            Some(why) if self.links.is_empty() => Err(why),
            None if self.links.is_empty() => Err(LimitError::NoEntry),
            _ => Ok(()),
        }
    }

    fn learn_tunnels(&mut self, found: BTreeSet<Tunnel>) -> Result<(), LimitError> {
        for removed in self.tunnels.difference(&found) {
            self.programs.remove_tunnel(*removed);
        }
        for new in found.difference(&self.tunnels) {
            self.programs.set_tunnel(*new).map_err(LimitError::Tunnel)?;
        }
        self.tunnels = found;
        Ok(())
    }

    /// Limits what the container sends; returns the failure, if any.
    pub fn limit_sent(&mut self, container: &Container, netns: NetnsId) -> Option<Arc<LimitError>> {
        let member = self.members.get(&container.cgroup)?;
        match &member.sent_refused {
            Some(refusal) if !refusal.is_over() => return Some(refusal.why.clone()),
            _ if member.is_sent_limited() => return None,
            _ => {}
        }
        let refused = find_namespace(netns, container.pid)
            .map_err(LimitError::Namespace)
            .and_then(|file| self.attach_sent(&file, netns, container))
            .err()
            .map(Arc::new);
        let member = self.members.get_mut(&container.cgroup)?;
        member.sent_refused = refused.clone().map(Refusal::new);
        refused
    }

    /// Attaches the programs to the host's ends of the container's interfaces in this namespace.
    fn attach_sent(
        &mut self,
        file: &File,
        netns: NetnsId,
        container: &Container,
    ) -> Result<(), LimitError> {
        let programs = self.programs.programs();
        let Some(member) = self.members.get_mut(&container.cgroup) else {
            return Ok(());
        };
        let pairs = container.interfaces.iter();
        let ends = pairs.filter(|pair| pair.host_netns == Some(netns));
        for device in ends.filter_map(|pair| pair.host_ifindex) {
            let link = in_namespace(file, || attach_drop(programs, device, Entry::Sent))
                .and_then(|link| link)
                .map_err(LimitError::AttachSent)?;
            self.programs
                .set_device(device, member.slot)
                .map_err(LimitError::Device)?;
            member.sent.insert(device.0, link);
        }
        Ok(())
    }

    /// Sets a container's budget in the programs.
    pub fn set_budget(&mut self, cgroup: CgroupId, spending: Spending) -> Result<(), LimitError> {
        let Some(member) = self.members.get(&cgroup) else {
            return Ok(());
        };
        // A rate of 0 means no limit.
        let cpus = spending.cpus.unwrap_or(0.0);
        let bucket = Bucket {
            rate_ns_per_s: (cpus * 1e9) as u64,
            rx_cost_ns: spending.ns_per_rx_packet.max(1.0) as u64,
            tx_cost_ns: spending.ns_per_tx_packet.max(1.0) as u64,
            burst_ns: (cpus * spending.saves_up.as_nanos() as f64) as u64 + 1,
        };
        self.programs
            .set_bucket(member.slot, bucket)
            .map_err(LimitError::Bucket)
    }

    /// Packets of a container since the last call; called once a step.
    pub fn counts_since(&mut self, cgroup: CgroupId) -> DropCounts {
        let Some(member) = self.members.get_mut(&cgroup) else {
            return DropCounts::default();
        };
        let now = self.programs.counts(member.slot);
        let before = std::mem::replace(&mut member.counts, now);
        let since = DropCounts {
            rx_passed: now.rx_passed.saturating_sub(before.rx_passed),
            rx_dropped: now.rx_dropped.saturating_sub(before.rx_dropped),
            tx_passed: now.tx_passed.saturating_sub(before.tx_passed),
            tx_dropped: now.tx_dropped.saturating_sub(before.tx_dropped),
        };
        let floods = since.rx_dropped >= FLOOD_PACKETS.max(since.rx_passed);
        self.flooded = if floods { self.flooded + 1 } else { 0 };
        if self.flooded >= FLOOD_STEPS && self.priority == Priority::Passing {
            self.priority = Priority::DroppingPending;
        }
        since
    }
}

/// Attaches at the first entry that works. A real device may reset its queues for XDP in its
/// driver, so that entry is left out there; a veth tolerates it.
fn attach_at_first(
    programs: DropDescriptors,
    device: &LinkMessage,
    priority: Priority,
) -> std::io::Result<DropLink> {
    let order: &[Entry] = match (device.kind.as_str(), priority) {
        _ if !device.ethernet => &[Entry::TcIp],
        ("veth", Priority::Passing) => &[Entry::Tc, Entry::Native, Entry::Generic],
        ("veth", _) => &[Entry::Native, Entry::Tc, Entry::Generic],
        _ => &[Entry::Tc, Entry::Generic],
    };
    let mut last = Err(std::io::ErrorKind::Unsupported.into());
    for entry in order {
        last = attach_drop(programs, IfIndex(device.index), *entry);
        if last.is_ok() {
            break;
        }
    }
    last
}
