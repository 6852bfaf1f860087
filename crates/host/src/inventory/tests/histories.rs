//! Random histories: the events of any history lead to the same inventory as a scan of its end.

use super::fake::{FakeHost, HOST, hex_id};
use super::{created, seen, selectors};
use crate::inventory::Inventory;
use crate::links::{InnerLink, Inside, LinkEvent, PeerSpace};
use crate::netlink::LinkMessage;
use cofferdam_types::{CgroupId, Container, KernelEvent, NetnsId};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const NAMED: &str = "cgroup:/named/*";

/// Cgroups of a history: of a runtime, nested in it, of no container, with and without others below
/// them, of a supervisor, named by a rule.
fn paths() -> Vec<String> {
    let (docker, inner) = (hex_id(1), hex_id(2));
    vec![
        format!("/docker/{docker}"),
        format!("/docker/{docker}/sub"),
        format!("/docker/{docker}/docker/{inner}"),
        "/tenants/a".to_owned(),
        "/tenants/a/below".to_owned(),
        "/tenants/a/below/deep".to_owned(),
        "/tenants/b".to_owned(),
        "/user.slice/session-1.scope".to_owned(),
        "/user.slice/session-2.scope".to_owned(),
        "/machine.slice/systemd-nspawn@x.service/supervisor".to_owned(),
        "/machine.slice/systemd-nspawn@x.service/payload".to_owned(),
        "/named/job".to_owned(),
        "/named/job/worker".to_owned(),
        "/lxc.monitor.x".to_owned(),
    ]
}

/// One event of a history. Its numbers choose among the existing objects.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// A process is made in a cgroup and a namespace, with or without an event.
    Clone {
        cgroup: usize,
        netns: u32,
        heard: bool,
    },
    /// A process is made as the child of another one.
    Fork { process: usize },
    /// A process enters a namespace; an event follows if it executes a program.
    Enter {
        process: usize,
        netns: u32,
        heard: bool,
    },
    /// A process is moved.
    Move { process: usize, cgroup: usize },
    /// A process enters its own PID namespace.
    Isolate { process: usize },
    /// A process ends.
    End { process: usize },
    /// All processes of a cgroup end, and it is removed with all cgroups below it.
    Remove { cgroup: usize },
    /// Packets arrive in a namespace.
    Packets { netns: u32 },
    /// A pair of devices comes to a namespace, or its only one is removed.
    Plug { netns: u32 },
    /// The agent is started again.
    Restart,
    /// Events are lost.
    Lose,
    /// Some time passes.
    Wait,
}

fn step() -> impl Strategy<Value = Step> {
    let netns = HOST..HOST + 5;
    let own = HOST + 1..HOST + 5;
    prop_oneof![
        4 => (0usize..14, netns.clone(), any::<bool>())
            .prop_map(|(cgroup, netns, heard)| Step::Clone { cgroup, netns, heard }),
        1 => any::<usize>().prop_map(|process| Step::Fork { process }),
        3 => (any::<usize>(), netns, any::<bool>())
            .prop_map(|(process, netns, heard)| Step::Enter { process, netns, heard }),
        2 => (any::<usize>(), 0usize..14)
            .prop_map(|(process, cgroup)| Step::Move { process, cgroup }),
        1 => any::<usize>().prop_map(|process| Step::Isolate { process }),
        3 => any::<usize>().prop_map(|process| Step::End { process }),
        1 => (0usize..14).prop_map(|cgroup| Step::Remove { cgroup }),
        1 => own.clone().prop_map(|netns| Step::Packets { netns }),
        1 => own.prop_map(|netns| Step::Plug { netns }),
        1 => Just(Step::Restart),
        1 => Just(Step::Lose),
        1 => Just(Step::Wait),
    ]
}

struct Scene {
    host: FakeHost,
    paths: Vec<String>,
    live: Inventory,
    /// Cgroup and namespace of each process.
    processes: BTreeMap<u32, (String, u32)>,
    next: u32,
}

impl Scene {
    fn new() -> Scene {
        let host = FakeHost::new(false);
        let live = scan(&host);
        Scene {
            host,
            paths: paths(),
            live,
            processes: BTreeMap::new(),
            next: 100,
        }
    }

    fn handle(&mut self, event: &KernelEvent) {
        self.live.handle(event);
    }

    /// Returns the cgroup with this number; makes it, with all above it, if it does not exist.
    fn cgroup(&mut self, number: usize) -> String {
        let path = self.paths[number % self.paths.len()].clone();
        let mut part = String::new();
        for name in path.split('/').skip(1) {
            part = format!("{part}/{name}");
            if !self.host.has_cgroup(&part) {
                self.host.cgroup(&part);
                self.handle(&created(&self.host, &part));
            }
        }
        path
    }

    fn process(&self, number: usize) -> Option<u32> {
        let count = self.processes.len();
        (count > 0).then(|| *self.processes.keys().nth(number % count).unwrap())
    }

    fn add(&mut self, cgroup: String, netns: u32, heard: bool) {
        let pid = self.next;
        self.next += 1;
        self.host.process(&cgroup, pid, netns);
        if heard {
            self.handle(&seen(&self.host, &cgroup, netns, pid));
        }
        self.processes.insert(pid, (cgroup, netns));
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Clone {
                cgroup,
                netns,
                heard,
            } => {
                let cgroup = self.cgroup(cgroup);
                self.add(cgroup, netns, heard);
            }
            Step::Fork { process } => {
                if let Some(pid) = self.process(process) {
                    let (cgroup, netns) = self.processes[&pid].clone();
                    self.add(cgroup, netns, false);
                }
            }
            Step::Enter {
                process,
                netns,
                heard,
            } => {
                if let Some(pid) = self.process(process) {
                    self.host.move_process(pid, netns);
                    let entry = self.processes.get_mut(&pid).unwrap();
                    entry.1 = netns;
                    let cgroup = entry.0.clone();
                    if heard {
                        self.handle(&seen(&self.host, &cgroup, netns, pid));
                    }
                }
            }
            Step::Move { process, cgroup } => {
                if let Some(pid) = self.process(process) {
                    let cgroup = self.cgroup(cgroup);
                    self.host.move_to(pid, &cgroup);
                    let entry = self.processes.get_mut(&pid).unwrap();
                    entry.0.clone_from(&cgroup);
                    let netns = entry.1;
                    self.handle(&seen(&self.host, &cgroup, netns, pid));
                }
            }
            Step::Isolate { process } => {
                if let Some(pid) = self.process(process) {
                    self.host.set_pid_namespace(pid, HOST + 1);
                }
            }
            Step::End { process } => {
                if let Some(pid) = self.process(process) {
                    self.end_process(pid);
                }
            }
            Step::Remove { cgroup } => self.remove(cgroup),
            Step::Packets { netns } => {
                let event = KernelEvent::UnknownNetns {
                    netns: NetnsId(netns),
                };
                self.handle(&event);
            }
            Step::Plug { netns } => self.plug(netns),
            Step::Restart => self.live = scan(&self.host),
            Step::Lose => self.handle(&KernelEvent::Lost { count: 1 }),
            Step::Wait => self.review(),
        }
    }

    fn end_process(&mut self, pid: u32) {
        self.host.end_process(pid);
        self.processes.remove(&pid);
    }

    fn remove(&mut self, number: usize) {
        let path = self.paths[number % self.paths.len()].clone();
        if !self.host.has_cgroup(&path) {
            return;
        }
        let below = format!("{path}/");
        let is_in = |p: &str| p == path || p.starts_with(&below);
        let inside: Vec<u32> = (self.processes.iter())
            .filter(|(_, (cgroup, _))| is_in(cgroup))
            .map(|(pid, _)| *pid)
            .collect();
        for pid in inside {
            self.end_process(pid);
        }
        let mut removed: Vec<CgroupId> = (self.paths.iter())
            .filter(|p| is_in(p) && self.host.has_cgroup(p))
            .map(|p| self.host.id(p))
            .collect();
        // Cgroups in between, such as a nested runtime's parent.
        let nested = format!("{path}/docker");
        if self.host.has_cgroup(&nested) {
            removed.push(self.host.id(&nested));
        }
        self.host.remove_cgroup(&path);
        for cgroup in removed.into_iter().rev() {
            self.handle(&KernelEvent::CgroupRemoved { cgroup });
        }
    }

    /// Plugs a pair of devices. The host has no number for half of the namespaces.
    fn plug(&mut self, netns: u32) {
        let nsid = netns.is_multiple_of(2).then_some(netns as i32);
        let (peer_nsid, peer_space) = match nsid {
            Some(_) => (Some(0), PeerSpace::Host),
            None => (Some(9), PeerSpace::Other(None)),
        };
        let link = LinkMessage {
            index: 2,
            name: "eth0".into(),
            kind: "veth".into(),
            peer: Some(30 + netns),
            peer_nsid,
            ..LinkMessage::default()
        };
        let outer = LinkMessage {
            index: 30 + netns,
            name: format!("veth{netns}"),
            kind: "veth".into(),
            peer: Some(2),
            peer_nsid: nsid,
            ..LinkMessage::default()
        };
        let mut tables = self.host.network();
        let inside = tables.inside.entry(NetnsId(netns)).or_default();
        let removed = !inside.links.is_empty();
        *inside = Inside {
            nsid,
            links: match removed {
                true => Vec::new(),
                false => vec![InnerLink { link, peer_space }],
            },
        };
        if nsid.is_some() {
            tables.host.retain(|l| l.index != outer.index);
            if !removed {
                tables.host.push(outer.clone());
            }
            let link = LinkMessage { removed, ..outer };
            tables.events.push(LinkEvent::Link { nsid: None, link });
        }
        drop(tables);
        self.live.handle_links();
    }

    fn review(&mut self) {
        self.live.name(&selectors(&[NAMED]));
        self.live.review_all();
        self.live.handle_links();
    }
}

fn scan(host: &FakeHost) -> Inventory {
    let mut inventory = host.inventory();
    inventory.name(&selectors(&[NAMED]));
    inventory
}

/// Returns the containers of an inventory, without their main processes.
fn containers(inventory: &Inventory) -> Vec<Container> {
    let all = inventory.containers();
    all.map(|c| Container {
        pid: None,
        ..Container::clone(c)
    })
    .collect()
}

fn run(steps: &[Step]) -> Result<(), TestCaseError> {
    let mut scene = Scene::new();
    for step in steps {
        scene.take(*step);
    }
    scene.review();
    let fresh = scan(&scene.host);
    prop_assert_eq!(containers(&scene.live), containers(&fresh));
    // Whatever counts for a container counts for it alone, unless containers share it.
    let mut further = BTreeSet::new();
    for container in fresh.containers() {
        let pid = container.pid.and_then(|pid| scene.processes.get(&pid));
        prop_assert_eq!(pid.map(|(_, netns)| NetnsId(*netns)), container.netns);
        further.extend(container.further_netns.iter().copied());
    }
    let own = fresh.containers().filter_map(|c| c.netns);
    prop_assert!(own.into_iter().all(|netns| !further.contains(&netns)));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Promise 8.
    #[test]
    fn a_scan_finds_what_events_have_led_to(steps in prop::collection::vec(step(), 1..40)) {
        run(&steps)?;
    }
}
