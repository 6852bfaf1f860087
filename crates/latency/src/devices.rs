//! Attaches programs to the devices that packets of the measured containers pass: the containers'
//! own, and those of the namespaces to which these lead (most often the host's).

use cofferdam_bpf::HookDescriptors;
use cofferdam_host::netlink::Rtnetlink;
use cofferdam_host::{in_namespace, inside, namespaces, open_namespace};
use cofferdam_types::{IfIndex, NetnsId};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Time between two looks for new devices.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Kinds of devices that pass a packet to another device of the namespace, which is measured
/// instead.
const PASS_ON: [&str; 7] = ["bridge", "bond", "team", "vlan", "macvlan", "ipvlan", "vrf"];

/// Namespace with its attached programs.
struct Space {
    netns: NetnsId,
    /// A file of the namespace, valid while its name or process exists. Not kept open: that would
    /// keep the namespace.
    path: PathBuf,
    /// Namespaces to which its devices lead, by the number that the kernel gives them here. Only
    /// for a measured container.
    beyond: BTreeMap<i32, NetnsId>,
    links: BTreeMap<IfIndex, [OwnedFd; 2]>,
}

impl Space {
    fn new(netns: NetnsId, path: PathBuf) -> Space {
        Space {
            netns,
            path,
            beyond: BTreeMap::new(),
            links: BTreeMap::new(),
        }
    }

    /// Opens a file of the namespace.
    ///
    /// # Errors
    /// The namespace has ended.
    fn open(&mut self) -> io::Result<File> {
        open_namespace(&self.path, self.netns).or_else(|error| {
            self.path = namespaces().remove(&self.netns).ok_or(error)?;
            open_namespace(&self.path, self.netns)
        })
    }

    /// Attaches to new devices of `devices`, and detaches from removed ones.
    fn attach(
        &mut self,
        file: &File,
        hooks: HookDescriptors,
        devices: &BTreeSet<IfIndex>,
    ) -> io::Result<()> {
        self.links.retain(|device, _| devices.contains(device));
        let new: Vec<IfIndex> = devices
            .iter()
            .filter(|device| !self.links.contains_key(device))
            .copied()
            .collect();
        if new.is_empty() {
            return Ok(());
        }
        let attached = in_namespace(file, || {
            let attach = |device: IfIndex| match hooks.attach(device) {
                Ok(links) => Ok(Some((device, links))),
                // The device was removed since it was listed.
                Err(error) if error.raw_os_error() == Some(libc::ENODEV) => Ok(None),
                Err(error) => Err(error),
            };
            new.into_iter()
                .filter_map(|device| attach(device).transpose())
                .collect::<io::Result<Vec<_>>>()
        })??;
        self.links.extend(attached);
        Ok(())
    }
}

/// All attached programs, by namespace. Dropping it detaches them.
pub(crate) struct Devices {
    hooks: HookDescriptors,
    measured: BTreeMap<NetnsId, Space>,
    /// Namespaces of the host, to which devices of measured containers lead.
    host: BTreeMap<NetnsId, Space>,
    looked: Instant,
}

impl Devices {
    pub fn new(hooks: HookDescriptors) -> Devices {
        Devices {
            hooks,
            measured: BTreeMap::new(),
            host: BTreeMap::new(),
            looked: Instant::now(),
        }
    }

    /// Attaches to the devices of a container, and to those to which they lead. An ended container
    /// has none.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn add(&mut self, netns: NetnsId) -> io::Result<()> {
        if self.measured.contains_key(&netns) {
            return Ok(());
        }
        let Some(path) = namespaces().remove(&netns) else {
            return Ok(());
        };
        self.measured.insert(netns, Space::new(netns, path));
        let added = self.look_inside(netns).and_then(|leads_to_new| {
            // Programs that it has as a namespace of the host are dropped.
            let is_hosts = self.host.contains_key(&netns);
            match leads_to_new || is_hosts {
                true => self.look_around(),
                false => Ok(()),
            }
        });
        if added.is_err() {
            self.remove(netns);
        }
        added
    }

    /// Detaches from the devices of a container; an unknown one is no error.
    pub fn remove(&mut self, netns: NetnsId) {
        self.measured.remove(&netns);
        self.forget();
    }

    /// Detaches from everything for now; [`Devices::look`] attaches again.
    pub fn detach(&mut self) {
        for space in self.measured.values_mut().chain(self.host.values_mut()) {
            space.links.clear();
        }
    }

    /// Attaches to new devices, if a look is due.
    ///
    /// # Errors
    /// The errors of [`Devices::look`].
    pub fn maintain(&mut self) -> io::Result<()> {
        if self.looked.elapsed() < LOOK_EVERY {
            return Ok(());
        }
        self.look()
    }

    /// Attaches to the devices that exist.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn look(&mut self) -> io::Result<()> {
        self.looked = Instant::now();
        let measured: Vec<NetnsId> = self.measured.keys().copied().collect();
        for netns in measured {
            self.look_inside(netns)?;
        }
        self.forget();
        self.look_around()
    }

    /// Attaches to the devices of a measured container; returns whether they lead to any without
    /// programs.
    fn look_inside(&mut self, netns: NetnsId) -> io::Result<bool> {
        let Some(space) = self.measured.get_mut(&netns) else {
            return Ok(false);
        };
        // The container has ended: its measurement will notice that too.
        let Ok(file) = space.open() else {
            return Ok(false);
        };
        let beyond = &space.beyond;
        let inner = in_namespace(&file, || inner(beyond))??;
        space.attach(&file, self.hooks, &inner.devices)?;
        for (number, netns, path) in inner.new {
            space.beyond.insert(number, netns);
            let new = || Space::new(netns, path);
            self.host.entry(netns).or_insert_with(new);
        }
        let has_programs = |(number, device): &(i32, IfIndex)| {
            let space = space.beyond.get(number).and_then(|to| self.host.get(to));
            space.is_some_and(|space| space.links.contains_key(device))
        };
        Ok(!inner.others.iter().all(has_programs))
    }

    /// Attaches to the devices of the host.
    fn look_around(&mut self) -> io::Result<()> {
        for (netns, space) in &mut self.host {
            // A measured namespace has its programs as such.
            if self.measured.contains_key(netns) {
                space.links.clear();
                continue;
            }
            let Ok(file) = space.open() else { continue };
            let found = in_namespace(&file, inside::devices)??;
            let devices = found
                .iter()
                .filter(|link| !PASS_ON.contains(&link.kind.as_str()))
                .map(|link| IfIndex(link.index))
                .collect();
            space.attach(&file, self.hooks, &devices)?;
        }
        Ok(())
    }

    /// Forgets namespaces to which no measured container leads any more.
    fn forget(&mut self) {
        let measured = &self.measured;
        let leads = |space: &Space, to: NetnsId| space.beyond.values().any(|netns| *netns == to);
        self.host
            .retain(|netns, _| measured.values().any(|space| leads(space, *netns)));
    }
}

/// Devices of a measured container.
struct Inner {
    devices: BTreeSet<IfIndex>,
    /// Other ends of these devices: the number of their namespace, and their index there.
    others: Vec<(i32, IfIndex)>,
    /// New namespaces of `others`: number, namespace, a file of it.
    new: Vec<(i32, NetnsId, PathBuf)>,
}

/// Lists the devices of the calling thread's namespace. `known` are namespaces by their numbers.
fn inner(known: &BTreeMap<i32, NetnsId>) -> io::Result<Inner> {
    let links = inside::devices()?;
    let others: Vec<(i32, IfIndex)> = links
        .iter()
        .filter_map(|link| Some((link.peer_nsid?, IfIndex(link.peer?))))
        .filter(|(number, _)| *number >= 0)
        .collect();
    let mut unknown: BTreeSet<i32> = others.iter().map(|(number, _)| *number).collect();
    unknown.retain(|number| !known.contains_key(number));
    let mut new = Vec::new();
    // This is rare: it queries every namespace of the host.
    if !unknown.is_empty() {
        let mut socket = Rtnetlink::open()?;
        for (netns, path) in namespaces() {
            if let Ok(file) = open_namespace(&path, netns)
                && let Some(number) = socket.nsid(&file)?
                && unknown.remove(&number)
            {
                new.push((number, netns, path));
            }
        }
    }
    Ok(Inner {
        devices: links.iter().map(|link| IfIndex(link.index)).collect(),
        others,
        new,
    })
}
