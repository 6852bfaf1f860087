//! Threaded NAPI, the best means: the container's receive work runs in its interface's NAPI thread,
//! inside the container's cgroup. The kernel then charges the container itself, and a full ring
//! drops at the sender's cost.
//!
//! A veth device has NAPI only with GRO on. A peer with TSO on passes large segments around the
//! ring, and a packet that RPS steers away is handled in a softirq again. All three settings are
//! changed, and reverted afterwards.

use super::leaf;
use super::thread_moves::ThreadMoves;
use crate::device::{DeviceId, Inside, NamespaceCache};
use crate::journal::{
    ChangeError, Form, GRO, Journal, NAPI_CGROUP, Pending, RevertReport, Target, ThreadId,
    is_tcp_segmentation,
};
use crate::network::place::{Place, open_sum};
use crate::thread;
use cofferdam_host::{CpuUsage, parse};
use cofferdam_types::{Container, InterfacePair};
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// NAPI thread of one interface, with all its changes.
#[derive(Debug)]
pub(super) struct NapiThread {
    /// Changes in the order in which they were made.
    targets: Vec<Target>,
    threads: Vec<ThreadId>,
    /// CPU time of the threads; `None` if they stay in the root cgroup.
    usage: Option<CpuUsage>,
    /// CPUs to which the threads are bound; `None` for all.
    cpus: Option<String>,
    /// Moves in progress, into the leaf or out of it.
    moves: Option<ThreadMoves>,
}

/// Failure to start a NAPI thread.
#[derive(Debug, thiserror::Error)]
pub(super) enum NapiError {
    #[error("the kernel has no threaded NAPI for {0} (requires Linux 5.12)")]
    NotThreaded(String),
    #[error("{0} has no NAPI thread")]
    NoThread(String),
    #[error(
        "the NAPI thread of {0} is in no PID namespace that this process sees: run it in the \
         host's (hostPID); a node that is a container itself (kind) has none to see"
    )]
    NotVisible(String),
    #[error(
        "no further cgroup is allowed ({0}): raise cgroup.max.depth of its cgroup, or \
         cgroup.max.descendants of one above"
    )]
    CgroupLimit(String),
    #[error(
        "its cpu controller is in one v1 hierarchy with the freezer, which would never freeze it \
         with a kernel thread inside: mount them apart"
    )]
    SharedFreezer,
    #[error("the interface is gone")]
    InterfaceGone,
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Change(#[from] ChangeError),
}

impl NapiError {
    /// Whether the container or its interface is gone: nothing to report.
    pub fn vanished(&self) -> bool {
        match self {
            NapiError::NotThreaded(_)
            | NapiError::NoThread(_)
            | NapiError::NotVisible(_)
            | NapiError::CgroupLimit(_)
            | NapiError::SharedFreezer => false,
            NapiError::InterfaceGone => true,
            NapiError::Io(e) => e.kind() == io::ErrorKind::NotFound,
            NapiError::Change(e) => e.vanished(),
        }
    }
}

impl NapiThread {
    /// Starts the thread of `pair`. On an error, reverts the changes made so far.
    pub fn start(
        journal: &mut Journal,
        container: &Container,
        pair: &InterfacePair,
        place: &Place,
        in_container: bool,
    ) -> Result<NapiThread, NapiError> {
        let _cache = NamespaceCache::begin();
        let mut thread = NapiThread {
            targets: Vec::new(),
            threads: Vec::new(),
            usage: None,
            cpus: None,
            moves: None,
        };
        match thread.try_start(journal, container, pair, place, in_container) {
            Ok(()) => Ok(thread),
            Err(e) => {
                thread.revert(journal);
                Err(e)
            }
        }
    }

    fn try_start(
        &mut self,
        journal: &mut Journal,
        container: &Container,
        pair: &InterfacePair,
        place: &Place,
        in_container: bool,
    ) -> Result<(), NapiError> {
        let netns = container
            .netns
            .ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        let inside = Inside::find(netns, container.pid)?;
        let device = inside.device(netns, pair.container_ifindex);
        let name = inside.name(&device)?;
        let threaded = Path::new("threaded");
        if inside.read(&device, threaded).is_err() {
            return Err(NapiError::NotThreaded(name));
        }
        let features = inside.features(&device)?;
        if !features.iter().any(|f| f == GRO) {
            self.feature(journal, &device, GRO, true)?;
        }
        self.segments_from_peer(journal, pair)?;
        self.cpus = self.steering_off(journal, &inside, &device, place)?;
        let named = format!("napi/{name}-");
        let earlier: BTreeSet<u32> = thread::kernel_threads(&named).into_iter().collect();
        self.set(
            journal,
            thread_switch(&inside, device, threaded)?,
            Form::Text,
            "1",
        )?;
        let mut tids = inside.napi_threads(&device);
        if tids.is_empty() {
            // A kernel before 6.8 does not announce the threads: the new ones are meant.
            let now = thread::kernel_threads(&named);
            tids = now.into_iter().filter(|t| !earlier.contains(t)).collect();
        }
        if tids.is_empty() {
            return Err(NapiError::NoThread(name));
        }
        if tids.contains(&0) {
            return Err(NapiError::NotVisible(name));
        }
        for tid in tids {
            self.threads.push(ThreadId::of(tid)?);
        }
        self.bind_to_cpus(journal)?;
        if in_container {
            self.move_in(journal, place)?;
        }
        Ok(())
    }

    /// Turns TSO of the peer off: large segments would bypass the ring.
    fn segments_from_peer(
        &mut self,
        journal: &mut Journal,
        pair: &InterfacePair,
    ) -> Result<(), NapiError> {
        let (Some(netns), Some(index)) = (pair.host_netns, pair.host_ifindex) else {
            return Ok(());
        };
        let inside = Inside::find(netns, None)?;
        let peer = inside.device(netns, index);
        for feature in inside.features(&peer)? {
            if is_tcp_segmentation(&feature) {
                self.feature(journal, &peer, &feature, false)?;
            }
        }
        Ok(())
    }

    /// Turns RPS of the device off. Returns the CPUs for its work: the CPUs that RPS used,
    /// within those of the container.
    fn steering_off(
        &mut self,
        journal: &mut Journal,
        inside: &Inside,
        device: &DeviceId,
        place: &Place,
    ) -> Result<Option<String>, NapiError> {
        let mut steered = BTreeSet::new();
        for queue in 0..inside.rx_queues(device)? {
            let file = PathBuf::from(format!("queues/rx-{queue}/rps_cpus"));
            let mask = inside.read(device, &file)?;
            let cpus = mask_cpus(&mask);
            if !cpus.is_empty() {
                steered.extend(cpus);
                let target = Target::DeviceFile {
                    device: *device,
                    file,
                };
                self.set(journal, target, Form::CpuMask, "0")?;
            }
        }
        let online = fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
        let list = |text: &str| -> BTreeSet<u32> {
            let cpus = parse::cpu_list(text).unwrap_or_default();
            cpus.into_iter().map(|cpu| cpu.0).collect()
        };
        let online = list(&online);
        let allowed = place.allowed_cpus().map(|text| list(&text));
        let allowed = allowed.unwrap_or_else(|| online.clone());
        let both: BTreeSet<u32> = steered.intersection(&allowed).copied().collect();
        let cpus = if both.is_empty() { allowed } else { both };
        Ok((cpus != online && !cpus.is_empty()).then(|| {
            let cpus: Vec<String> = cpus.iter().map(u32::to_string).collect();
            cpus.join(",")
        }))
    }

    fn bind_to_cpus(&mut self, journal: &mut Journal) -> Result<(), NapiError> {
        let Some(cpus) = self.cpus.clone() else {
            return Ok(());
        };
        for thread in self.threads.clone() {
            self.set(journal, Target::ThreadCpus(thread), Form::CpuList, &cpus)?;
        }
        Ok(())
    }

    /// Starts moving the threads into the leaf.
    fn move_in(&mut self, journal: &mut Journal, place: &Place) -> Result<(), NapiError> {
        let mut moves = Vec::new();
        let outcome = self.record_moves(journal, place, &mut moves);
        // Also after an error: moves in the journal must be finished.
        self.moves = Some(ThreadMoves::start(moves));
        outcome
    }

    fn record_moves(
        &mut self,
        journal: &mut Journal,
        place: &Place,
        moves: &mut Vec<Pending>,
    ) -> Result<(), NapiError> {
        for directory in &place.directories {
            let (own, threads) = (directory.full(), self.threads.len());
            let leaf = leaf::prepare(journal, place, &own, threads, &mut self.targets)?;
            let path = format!("{}/{NAPI_CGROUP}", directory.path.trim_end_matches('/'));
            for thread in self.threads.clone() {
                let target = Target::ThreadCgroup {
                    thread,
                    mount: directory.mount.clone(),
                };
                self.targets.push(target.clone());
                moves.extend(journal.begin(&target, Form::Text, &path)?);
            }
            self.usage = open_sum(&leaf);
        }
        Ok(())
    }

    /// Starts moving the threads to their former cgroups. [`NapiThread::revert`] reverts the
    /// other changes, and does not wait once [`NapiThread::has_left`].
    pub fn start_removal(&mut self, journal: &mut Journal) {
        if let Some(moves) = self.moves.take() {
            // Rare: the thread was still on its way in.
            let _ = moves.finish(journal);
        }
        let mut moves = Vec::new();
        for target in &self.targets {
            if matches!(target, Target::ThreadCgroup { .. })
                && let Some(before) = journal.before(target).map(str::to_owned)
                && let Ok(pending) = journal.begin(target, Form::Text, &before)
            {
                moves.extend(pending);
            }
        }
        self.moves = Some(ThreadMoves::start(moves));
    }

    /// Whether its threads have arrived in their former cgroups after
    /// [`NapiThread::start_removal`].
    pub fn has_left(&self) -> bool {
        self.moves.as_ref().is_none_or(ThreadMoves::is_done)
    }

    /// Records threads that have arrived; `Err` if one could not be moved.
    pub fn arrive(&mut self, journal: &mut Journal) -> Result<(), NapiError> {
        if let Some(moves) = self.moves.take_if(|m| m.is_done()) {
            moves.finish(journal)?;
            // In cgroup v2 a move can widen their CPUs to all that the cgroup may use.
            self.bind_to_cpus(journal)?;
        }
        Ok(())
    }

    fn feature(
        &mut self,
        journal: &mut Journal,
        device: &DeviceId,
        name: &str,
        on: bool,
    ) -> Result<(), NapiError> {
        let target = Target::Feature {
            device: *device,
            name: name.to_owned(),
        };
        self.set(journal, target, Form::Text, if on { "on" } else { "off" })
    }

    fn set(
        &mut self,
        journal: &mut Journal,
        target: Target,
        form: Form,
        value: &str,
    ) -> Result<(), NapiError> {
        // Recorded first: a change that failed halfway is reverted as well.
        if !self.targets.contains(&target) {
            self.targets.push(target.clone());
        }
        journal.set(&target, form, value)?;
        Ok(())
    }

    /// Whether its threads still exist.
    pub fn is_alive(&self) -> bool {
        self.threads
            .iter()
            .all(|t| ThreadId::of(t.tid).is_ok_and(|now| now == *t))
    }

    /// CPU time of the leaf, nanoseconds.
    pub fn usage_ns(&self) -> Option<u64> {
        self.usage.as_ref()?.read_ns().ok()
    }

    /// Whether its threads are still being moved.
    pub fn is_moving(&self) -> bool {
        self.moves.is_some()
    }

    /// Reverts all changes, the latest first.
    pub fn revert(mut self, journal: &mut Journal) -> RevertReport {
        let _cache = NamespaceCache::begin();
        if let Some(moves) = self.moves.take() {
            // The changes of a failed move are reverted all the same, or reported below.
            let _ = moves.finish(journal);
        }
        let mut report = RevertReport::default();
        for target in self.targets.iter().rev() {
            report.add(journal.revert(target));
        }
        report
    }
}

/// The switch that starts the device's NAPI threads: its sysfs file if it is writable. If the
/// runtime has made sysfs read-only and the kernel supports netlink (Linux 6.17 on), netlink;
/// otherwise the file again, which the journal makes writable for a moment.
fn thread_switch(inside: &Inside, device: DeviceId, file: &Path) -> io::Result<Target> {
    if inside.is_read_only()? && inside.napis_threaded(&device).is_ok() {
        return Ok(Target::Napis { device });
    }
    Ok(Target::DeviceFile {
        device,
        file: file.to_owned(),
    })
}

/// CPUs of a mask such as `00000000,00000003`.
fn mask_cpus(mask: &str) -> Vec<u32> {
    let mut cpus = Vec::new();
    for (group, text) in (0_u32..).zip(mask.trim().split(',').rev()) {
        let bits = u32::from_str_radix(text, 16).unwrap_or(0);
        cpus.extend(
            (0..32)
                .filter(|b| bits & (1 << b) != 0)
                .map(|b| group * 32 + b),
        );
    }
    cpus
}

#[cfg(test)]
mod tests {
    #[test]
    fn masks() {
        assert_eq!(super::mask_cpus("3\n"), [0, 1]);
        assert_eq!(super::mask_cpus("00000001,80000000"), [31, 32]);
        assert!(super::mask_cpus("00000000").is_empty());
    }
}
