//! The best means: a container's receive work in its interface's NAPI thread, inside the
//! container's cgroup. The kernel then charges the container itself, and a full ring drops at
//! the sender's cost.
//!
//! A veth device has NAPI only with GRO on, and a peer with TSO on hands large segments past
//! it; a packet that RPS steers away is handled in softirq again. All three are set right, and
//! back.

use super::place::{Place, usage_ns};
use crate::device::{DeviceId, Inside, find_namespace};
use crate::journal::{ChangeError, Form, Journal, Target, ThreadId, UndoReport};
use crate::thread;
use cofferdam_host::parse;
use cofferdam_types::{Container, InterfacePair};
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The cgroup of ours below the container's. Of ours, so that the runtime finds no thread that
/// it cannot end in its own.
const LEAF: &str = "cofferdam.napi";
const GRO: &str = "rx-gro";

/// One interface's NAPI thread in place.
#[derive(Debug)]
pub(super) struct NapiThread {
    /// In the order in which they were made.
    targets: Vec<Target>,
    threads: Vec<ThreadId>,
    /// Counts what the threads use; `None` where they stay in the root.
    leaf: Option<PathBuf>,
}

/// Why it could not be put in place.
#[derive(Debug, thiserror::Error)]
pub(super) enum NapiError {
    #[error("{0}")]
    Unsupported(String),
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("{0}")]
    Change(#[from] ChangeError),
}

impl NapiError {
    /// The container or its interface is gone: nothing to complain about.
    pub fn vanished(&self) -> bool {
        match self {
            NapiError::Unsupported(_) => false,
            NapiError::Io(e) => e.kind() == io::ErrorKind::NotFound,
            NapiError::Change(e) => e.vanished(),
        }
    }
}

impl NapiThread {
    /// Puts the thread of `pair` in place. On an error, what was done so far is taken back.
    pub fn engage(
        journal: &mut Journal,
        container: &Container,
        pair: &InterfacePair,
        place: &Place,
        in_container: bool,
    ) -> Result<NapiThread, NapiError> {
        let mut made = NapiThread {
            targets: Vec::new(),
            threads: Vec::new(),
            leaf: None,
        };
        match made.try_engage(journal, container, pair, place, in_container) {
            Ok(()) => Ok(made),
            Err(e) => {
                made.disengage(journal);
                Err(e)
            }
        }
    }

    fn try_engage(
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
        let namespace = find_namespace(netns, container.pid)?;
        let inside = Inside::enter(&namespace)?;
        let device = inside.device(netns, pair.container_ifindex);
        let name = inside.name(&device)?;
        let threaded = Path::new("threaded");
        if inside.read(&device, threaded).is_err() {
            return Err(NapiError::Unsupported(format!(
                "the kernel has no threaded NAPI for {name} (Linux 5.12 on)"
            )));
        }
        let features = inside.features(&device)?;
        if !features.iter().any(|f| f == GRO) {
            self.feature(journal, &device, GRO, true)?;
        }
        self.segments_from_peer(journal, pair)?;
        let cpus = self.steering_off(journal, &inside, &device, place)?;
        let named = format!("napi/{name}-");
        let earlier: BTreeSet<u32> = thread::kernel_threads(&named).into_iter().collect();
        let target = Target::DeviceFile {
            device,
            file: threaded.to_owned(),
        };
        self.set(journal, target, Form::Text, "1")?;
        let announced =
            cofferdam_host::in_namespace(&namespace, cofferdam_host::inside::napi_threads)?;
        let mut tids: Vec<u32> = announced
            .unwrap_or_default()
            .into_iter()
            .filter(|(index, _)| *index == device.ifindex.0)
            .map(|(_, tid)| tid)
            .collect();
        if tids.is_empty() {
            // A kernel that does not announce them (before 6.8): those that are new.
            let now = thread::kernel_threads(&named);
            tids = now.into_iter().filter(|t| !earlier.contains(t)).collect();
        }
        if tids.is_empty() {
            return Err(NapiError::Unsupported(format!("{name} has no NAPI thread")));
        }
        for tid in tids {
            self.threads.push(ThreadId::of(tid)?);
        }
        if in_container {
            self.move_in(journal, place)?;
        }
        if let Some(cpus) = cpus {
            for thread in self.threads.clone() {
                self.set(journal, Target::ThreadCpus(thread), Form::CpuList, &cpus)?;
            }
        }
        Ok(())
    }

    /// TSO of the peer off: large segments would go past the ring.
    fn segments_from_peer(
        &mut self,
        journal: &mut Journal,
        pair: &InterfacePair,
    ) -> Result<(), NapiError> {
        let (Some(netns), Some(index)) = (pair.host_netns, pair.host_ifindex) else {
            return Ok(());
        };
        let inside = Inside::enter(&find_namespace(netns, None)?)?;
        let peer = inside.device(netns, index);
        for feature in inside.features(&peer)? {
            if feature.starts_with("tx-tcp") && feature.ends_with("-segmentation") {
                self.feature(journal, &peer, &feature, false)?;
            }
        }
        Ok(())
    }

    /// RPS of the device off. Returns the CPUs on which its work belongs: those it was steered
    /// to, within those of the container.
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

    fn move_in(&mut self, journal: &mut Journal, place: &Place) -> Result<(), NapiError> {
        for directory in &place.directories {
            let leaf = directory.full().join(LEAF);
            // Another interface of the same container has made it already.
            if !leaf.is_dir() {
                let target = journal.make_directory(&leaf)?;
                self.targets.push(target);
            }
            let path = format!("{}/{LEAF}", directory.path.trim_end_matches('/'));
            for thread in self.threads.clone() {
                let target = Target::ThreadCgroup {
                    thread,
                    mount: directory.mount.clone(),
                };
                self.set(journal, target, Form::Text, &path)?;
            }
            self.leaf = Some(leaf);
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
        // Noted first: a change that half worked is taken back as well.
        self.targets.push(target.clone());
        journal.set(&target, form, value)?;
        Ok(())
    }

    /// Whether its threads are still there.
    pub fn is_alive(&self) -> bool {
        self.threads
            .iter()
            .all(|t| ThreadId::of(t.tid).is_ok_and(|now| now == *t))
    }

    /// CPU time of everything in the leaf, nanoseconds.
    pub fn usage_ns(&self) -> Option<u64> {
        usage_ns(self.leaf.as_ref()?)
    }

    /// Takes everything back, newest first.
    pub fn disengage(self, journal: &mut Journal) -> UndoReport {
        let mut report = UndoReport::default();
        for target in self.targets.iter().rev() {
            report.add(journal.undo(target));
        }
        report
    }
}

/// When something that failed is tried again.
pub(super) const TRY_AGAIN: Duration = Duration::from_secs(10);

/// The NAPI threads of one container.
#[derive(Debug, Default)]
pub(super) struct NapiThreads {
    /// By index of the interface inside the container.
    engaged: Vec<(u32, NapiThread)>,
    /// Interfaces that could not be engaged, until when, and why.
    refused: Vec<(u32, Instant, String)>,
}

impl NapiThreads {
    /// Puts every interface's thread in place that is not; drops those whose interface went.
    pub fn engage(
        &mut self,
        journal: &mut Journal,
        container: &Container,
        place: &Place,
        in_container: bool,
    ) {
        let now = Instant::now();
        self.refused.retain(|(_, until, _)| *until > now);
        for pair in &container.interfaces {
            let index = pair.container_ifindex.0;
            let known = self.engaged.iter().any(|(i, _)| *i == index)
                || self.refused.iter().any(|(i, _, _)| *i == index);
            if known {
                continue;
            }
            match NapiThread::engage(journal, container, pair, place, in_container) {
                Ok(thread) => self.engaged.push((index, thread)),
                Err(e) if e.vanished() => {
                    self.refused.push((
                        index,
                        now + TRY_AGAIN / 10,
                        "the interface is gone".into(),
                    ));
                }
                Err(e) => self.refused.push((index, now + TRY_AGAIN, e.to_string())),
            }
        }
    }

    /// Takes all back when an interface or a thread is gone (a device whose GRO somebody turned
    /// off and on has another thread): they share a cgroup. The next step puts the rest in place
    /// again.
    pub fn drop_stale(&mut self, journal: &mut Journal, container: &Container) {
        let listed = |index: u32| {
            let mut pairs = container.interfaces.iter();
            pairs.any(|pair| pair.container_ifindex.0 == index)
        };
        if !self
            .engaged
            .iter()
            .all(|(index, t)| listed(*index) && t.is_alive())
        {
            self.disengage(journal);
        }
    }

    /// Takes everything back.
    pub fn disengage(&mut self, journal: &mut Journal) {
        while let Some((_, thread)) = self.engaged.pop() {
            thread.disengage(journal);
        }
    }

    pub fn any(&self) -> bool {
        !self.engaged.is_empty()
    }

    /// Why an interface has no thread in place.
    pub fn refusal(&self) -> Option<&str> {
        self.refused.first().map(|(_, _, why)| why.as_str())
    }

    /// CPU time that the threads have used, nanoseconds.
    pub fn usage_ns(&self) -> u64 {
        // One leaf for all interfaces of the container.
        let first = self.engaged.first();
        first.and_then(|(_, t)| t.usage_ns()).unwrap_or(0)
    }
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
