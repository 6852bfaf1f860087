//! Stop: drops the packets of containers in debt where they enter the host, and what those
//! containers send where it enters the host stage.
//!
//! The programs are loaded only while a container needs them, once for each network namespace
//! that forwards to such containers, and attached to the devices by which packets enter it.
//! They are attached by links: the kernel detaches them when our process ends.

use super::control::Spending;
use crate::device::find_namespace;
use cofferdam_bpf::{
    Bucket, DropCounts, DropDescriptors, DropLink, DropPrograms, Entry, attach_drop,
};
use cofferdam_host::{in_namespace, inside};
use cofferdam_types::{CgroupId, Container, IfIndex, NetnsId};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// How often addresses and devices are looked at again while programs are attached.
const LOOK_AGAIN: Duration = Duration::from_secs(2);
/// Entry devices of one namespace, at most: each costs an attachment.
const MOST_DEVICES: usize = 64;
/// A flood: at least so many packets dropped in a step, and as many as passed, in so many steps in a
/// row. TCP slows down and loses far fewer.
const FLOOD: u64 = 100;
const FLOOD_STEPS: u32 = 3;
/// Drivers of devices that packets do not enter the host by.
const INNER: [&str; 9] = [
    "bridge", "dummy", "bond", "team", "vlan", "vrf", "ifb", "tun", "macvlan",
];

/// The programs in one namespace.
struct Gate {
    programs: DropPrograms,
    links: BTreeMap<u32, DropLink>,
    /// By container: slot, addresses, counters at the last step.
    members: BTreeMap<CgroupId, Member>,
    looked: Instant,
    /// Where its programs are attached first, now and when it begins.
    first: First,
    begins: First,
    /// Steps in a row in which somebody flooded.
    flooded: u32,
}

/// What matters most where packets are dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum First {
    /// That those that pass cost little: XDP in a veth's driver copies every packet, and has its peer
    /// cut TCP's large segments.
    Passing,
    /// That those that are dropped cost little. Somebody floods, and is not dropped so yet.
    DroppingWanted,
    /// It is so.
    Dropping,
}

struct Member {
    slot: u32,
    addresses: BTreeSet<IpAddr>,
    /// The host's ends by which it sends, while that is limited.
    sent: BTreeMap<u32, DropLink>,
    /// Why that cannot be limited, and until when it is not tried again.
    sent_refused: Option<(Instant, String)>,
    counts: DropCounts,
}

/// What of a container is limited, and to what.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub spending: Spending,
    /// What it receives.
    pub received: bool,
    /// What it sends.
    pub sent: bool,
    /// Its packets are large, as a TCP stream's are: work on those that pass matters most.
    pub large: bool,
}

/// What a limit did.
#[derive(Debug, Default)]
pub(super) struct Limited {
    /// What passed and was dropped since last time.
    pub counts: DropCounts,
    /// Why what it sends is not limited although it should be: a kernel before 6.6 has no tcx. What
    /// it receives is limited all the same.
    pub sent_refused: Option<String>,
}

/// All gates, by namespace.
#[derive(Default)]
pub(super) struct Ingress {
    gates: BTreeMap<NetnsId, Gate>,
    refused: BTreeMap<NetnsId, (Instant, String)>,
}

/// The namespace in which the host's ends of a container's interfaces are.
fn forwarding_namespace(container: &Container) -> Option<NetnsId> {
    container.interfaces.iter().find_map(|pair| pair.host_netns)
}

/// Where a container's packets are stopped: where its host's ends are, or, with `own`, in its
/// own namespace.
pub(super) fn gate_of(container: &Container, own: bool) -> Option<NetnsId> {
    if own {
        container.netns
    } else {
        forwarding_namespace(container)
    }
}

impl Ingress {
    /// Limits a container to what it may spend. `skip` are the host's ends of containers'
    /// interfaces, by namespace and index.
    pub fn limit(
        &mut self,
        container: &Container,
        netns: NetnsId,
        limits: Limits,
        skip: &BTreeSet<(NetnsId, IfIndex)>,
    ) -> Result<Limited, String> {
        if let Some((until, why)) = self.refused.get(&netns)
            && *until > Instant::now()
        {
            return Err(why.clone());
        }
        self.try_limit(container, netns, limits, skip)
            .inspect_err(|why| {
                let until = Instant::now() + super::napis::TRY_AGAIN;
                self.refused.insert(netns, (until, why.clone()));
            })
    }

    /// Loads the programs for the namespace that forwards to a container: they take the kernel
    /// a while, and nothing looks at a packet until they are attached.
    pub fn prepare(&mut self, container: &Container) {
        if let Some(netns) = forwarding_namespace(container) {
            // A failure is told when they are needed.
            let _ = self.load(netns, First::Dropping);
        }
    }

    fn load(&mut self, netns: NetnsId, first: First) -> Result<(), String> {
        if self.gates.contains_key(&netns) {
            return Ok(());
        }
        let programs = DropPrograms::load().map_err(|e| e.to_string())?;
        let gate = Gate {
            programs,
            links: BTreeMap::new(),
            members: BTreeMap::new(),
            looked: Instant::now(),
            first,
            begins: first,
            flooded: 0,
        };
        self.gates.insert(netns, gate);
        Ok(())
    }

    /// Unloads the programs of namespaces that no wanted container is behind any more.
    pub fn keep(&mut self, wanted: &BTreeSet<NetnsId>) {
        self.gates
            .retain(|netns, gate| wanted.contains(netns) || !gate.members.is_empty());
    }

    fn try_limit(
        &mut self,
        container: &Container,
        netns: NetnsId,
        limits: Limits,
        skip: &BTreeSet<(NetnsId, IfIndex)>,
    ) -> Result<Limited, String> {
        // Where the host's packets enter those that are dropped would cost everybody; in a
        // container's own namespace they are the container's.
        let own = container.netns == Some(netns);
        let first = if own && limits.large {
            First::Passing
        } else {
            First::Dropping
        };
        self.load(netns, first)?;
        let Some(gate) = self.gates.get_mut(&netns) else {
            return Err("no gate".to_owned());
        };
        let new = !gate.members.contains_key(&container.cgroup);
        if new {
            gate.admit(container)?;
        }
        let flooded = limits.received && gate.first == First::DroppingWanted;
        if new || flooded || gate.looked.elapsed() > LOOK_AGAIN {
            gate.looked = Instant::now();
            let file = find_namespace(netns, container.pid).map_err(|e| e.to_string())?;
            if limits.received {
                gate.learn_addresses(container)?;
                // Detached only once the others are in place.
                let before = flooded.then(|| {
                    gate.first = First::Dropping;
                    std::mem::take(&mut gate.links)
                });
                gate.attach(&file, netns, skip)?;
                drop(before);
            }
        }
        let sent_refused = limits
            .sent
            .then(|| gate.limit_sent(container, netns))
            .flatten();
        let counts = gate.spend(container.cgroup, limits.spending)?;
        Ok(Limited {
            counts,
            sent_refused,
        })
    }

    /// Ends a container's limit; the last one takes the programs away.
    pub fn release(&mut self, cgroup: CgroupId) {
        for gate in self.gates.values_mut() {
            gate.dismiss(cgroup);
            if gate.members.is_empty() {
                gate.links.clear();
                gate.first = gate.begins;
            }
        }
    }

    /// Whether a container's packets are limited now.
    pub fn limits(&self, cgroup: CgroupId) -> bool {
        self.member(cgroup).is_some_and(|m| !m.addresses.is_empty())
    }

    /// Whether what it sends is limited now.
    pub fn limits_sent(&self, cgroup: CgroupId) -> bool {
        self.member(cgroup).is_some_and(|m| !m.sent.is_empty())
    }

    fn member(&self, cgroup: CgroupId) -> Option<&Member> {
        self.gates.values().find_map(|g| g.members.get(&cgroup))
    }
}

impl Gate {
    fn admit(&mut self, container: &Container) -> Result<(), String> {
        let used: BTreeSet<u32> = self.members.values().map(|m| m.slot).collect();
        let slot = (0..DropPrograms::SLOTS)
            .find(|slot| !used.contains(slot))
            .ok_or("too many containers in debt at once")?;
        self.programs.clear(slot);
        let member = Member {
            slot,
            addresses: BTreeSet::new(),
            sent: BTreeMap::new(),
            sent_refused: None,
            counts: DropCounts::default(),
        };
        self.members.insert(container.cgroup, member);
        Ok(())
    }

    fn dismiss(&mut self, cgroup: CgroupId) {
        if let Some(member) = self.members.remove(&cgroup) {
            for address in member.addresses {
                self.programs.remove_address(address);
            }
            for device in member.sent.keys() {
                self.programs.remove_device(IfIndex(*device));
            }
            self.programs.clear(member.slot);
        }
    }

    fn learn_addresses(&mut self, container: &Container) -> Result<(), String> {
        let netns = container.netns.ok_or("it has no process")?;
        let file = find_namespace(netns, container.pid).map_err(|e| e.to_string())?;
        let found = in_namespace(&file, inside::addresses)
            .and_then(|found| found)
            .map_err(|e| format!("its addresses cannot be read: {e}"))?;
        // Link-local addresses mean nothing beyond their link, and are everybody's.
        let found: BTreeSet<IpAddr> = found
            .into_iter()
            .map(|(_, address)| address)
            .filter(|a| !matches!(a, IpAddr::V6(v6) if v6.is_unicast_link_local()))
            .collect();
        let Some(member) = self.members.get_mut(&container.cgroup) else {
            return Ok(());
        };
        for gone in member.addresses.difference(&found) {
            self.programs.remove_address(*gone);
        }
        for new in found.difference(&member.addresses) {
            self.programs
                .set_address(*new, member.slot)
                .map_err(|e| format!("its address {new} cannot be told to the programs: {e}"))?;
        }
        member.addresses = found;
        Ok(())
    }

    /// Attaches to the devices by which packets enter the namespace that `file` stands for.
    fn attach(
        &mut self,
        file: &File,
        netns: NetnsId,
        skip: &BTreeSet<(NetnsId, IfIndex)>,
    ) -> Result<(), String> {
        let programs = self.programs.programs();
        let attached: BTreeSet<u32> = self.links.keys().copied().collect();
        let first = self.first;
        let skipped = |index: u32| skip.contains(&(netns, IfIndex(index)));
        let (present, new, refusal) = in_namespace(file, || {
            let devices = inside::devices()?;
            let entries = devices
                .iter()
                .filter(|(index, _, kind)| !INNER.contains(&kind.as_str()) && !skipped(*index))
                .take(MOST_DEVICES);
            let present: BTreeSet<u32> = entries.clone().map(|(index, _, _)| *index).collect();
            let (mut new, mut refusal) = (Vec::new(), None);
            for (index, name, kind) in entries {
                if attached.contains(index) {
                    continue;
                }
                match first_that_works(programs, IfIndex(*index), kind, first) {
                    Ok(link) => new.push((*index, link)),
                    Err(e) => refusal = Some(format!("nothing can be attached to {name}: {e}")),
                }
            }
            Ok::<_, std::io::Error>((present, new, refusal))
        })
        .and_then(|result| result)
        .map_err(|e| format!("the host's devices cannot be read: {e}"))?;
        self.links.retain(|index, _| present.contains(index));
        self.links.extend(new);
        match refusal {
            Some(why) if self.links.is_empty() => Err(why),
            None if self.links.is_empty() => {
                Err("packets reach it by no device of the host".to_owned())
            }
            _ => Ok(()),
        }
    }

    /// Limits what the container sends; why not, where that cannot be.
    fn limit_sent(&mut self, container: &Container, netns: NetnsId) -> Option<String> {
        let member = self.members.get(&container.cgroup)?;
        match &member.sent_refused {
            Some((until, why)) if *until > Instant::now() => return Some(why.clone()),
            _ if !member.sent.is_empty() => return None,
            _ => {}
        }
        let refused = find_namespace(netns, container.pid)
            .map_err(|e| e.to_string())
            .and_then(|file| self.attach_sent(&file, netns, container))
            .err();
        let until = Instant::now() + super::napis::TRY_AGAIN;
        let member = self.members.get_mut(&container.cgroup)?;
        member.sent_refused = refused.clone().map(|why| (until, why));
        refused
    }

    /// Attaches to the host's ends of the container's interfaces in this namespace.
    fn attach_sent(
        &mut self,
        file: &File,
        netns: NetnsId,
        container: &Container,
    ) -> Result<(), String> {
        let programs = self.programs.programs();
        let Some(member) = self.members.get_mut(&container.cgroup) else {
            return Ok(());
        };
        let pairs = container.interfaces.iter();
        let ends = pairs.filter(|pair| pair.host_netns == Some(netns));
        for device in ends.filter_map(|pair| pair.host_ifindex) {
            let link = in_namespace(file, || attach_drop(programs, device, Entry::Sent))
                .and_then(|link| link)
                .map_err(|e| format!("what it sends cannot be dropped (Linux 6.6 on): {e}"))?;
            self.programs
                .set_device(device, member.slot)
                .map_err(|e| format!("its device cannot be told to the programs: {e}"))?;
            member.sent.insert(device.0, link);
        }
        Ok(())
    }

    fn spend(&mut self, cgroup: CgroupId, spending: Spending) -> Result<DropCounts, String> {
        let Some(member) = self.members.get_mut(&cgroup) else {
            return Ok(DropCounts::default());
        };
        let rate_ns_per_s = (spending.cpus * 1e9) as u64;
        let bucket = Bucket {
            rate_ns_per_s,
            rx_cost_ns: spending.ns_per_rx_packet.max(1.0) as u64,
            tx_cost_ns: spending.ns_per_tx_packet.max(1.0) as u64,
            burst_ns: (spending.cpus * spending.saves_up.as_nanos() as f64) as u64 + 1,
        };
        self.programs
            .set_bucket(member.slot, bucket)
            .map_err(|e| format!("its limit cannot be set: {e}"))?;
        let now = self.programs.counts(member.slot);
        let before = std::mem::replace(&mut member.counts, now);
        let since = DropCounts {
            rx_passed: now.rx_passed.saturating_sub(before.rx_passed),
            rx_dropped: now.rx_dropped.saturating_sub(before.rx_dropped),
            tx_passed: now.tx_passed.saturating_sub(before.tx_passed),
            tx_dropped: now.tx_dropped.saturating_sub(before.tx_dropped),
        };
        let floods = since.rx_dropped >= FLOOD.max(since.rx_passed);
        self.flooded = if floods { self.flooded + 1 } else { 0 };
        if self.flooded >= FLOOD_STEPS && self.first == First::Passing {
            self.first = First::DroppingWanted;
        }
        Ok(since)
    }
}

/// A real device may reset its queues for XDP in its driver, so that is left out there; a veth takes
/// it without harm.
fn first_that_works(
    programs: DropDescriptors,
    device: IfIndex,
    kind: &str,
    first: First,
) -> std::io::Result<DropLink> {
    let order: &[Entry] = match (kind, first) {
        ("veth", First::Passing) => &[Entry::Tc, Entry::Native, Entry::Generic],
        ("veth", _) => &[Entry::Native, Entry::Tc, Entry::Generic],
        _ => &[Entry::Tc, Entry::Generic],
    };
    let mut last = Err(std::io::ErrorKind::Unsupported.into());
    for entry in order {
        last = attach_drop(programs, device, *entry);
        if last.is_ok() {
            break;
        }
    }
    last
}
