//! Sums of frames: every count adds up exactly.

use crate::frame::Frame;
use cofferdam_records::accounting::{AccountingRecord, ContainerRecord, CpuRecord, SamplingRecord};
use cofferdam_records::diagnosis::{CpuLossRecord, DiagnosisRecord};
use cofferdam_records::status::ConditionRecord;
use std::collections::HashMap;
use std::time::Duration;

/// Longest distance between frames that follow each other: clocks are slewed, and the clock that
/// measures intervals is not the one that dates them.
pub(crate) const CONTIGUOUS: Duration = Duration::from_millis(500);

/// Adds counts. Those of a real host do not reach the limit; a stored frame may hold any number.
macro_rules! add {
    ($to:ident, $from:ident: $($field:ident),+) => {
        $($to.$field = $to.$field.saturating_add($from.$field);)+
    };
}

/// Identity of a container. The id alone is not enough: a new cgroup may reuse it.
type Key = (u64, String);

/// Sum of frames, in the order of their recording.
#[derive(Clone, Debug)]
pub struct Sum {
    frame: Frame,
    containers: HashMap<Key, usize>,
    losses: HashMap<u64, usize>,
}

impl Sum {
    /// Starts the sum with one frame.
    pub fn new(first: Frame) -> Sum {
        let key = |(at, c): (usize, &ContainerRecord)| (key(c), at);
        let containers = first
            .record
            .containers
            .iter()
            .enumerate()
            .map(key)
            .collect();
        let losses = index_losses(first.record.diagnosis.as_ref());
        Sum {
            frame: first,
            containers,
            losses,
        }
    }

    /// Adds the next recorded frame. Counts since a start, and names, are those of the later frame.
    pub fn add(&mut self, later: &Frame) {
        let sum = &mut self.frame;
        sum.start = sum.start.min(later.start);
        sum.end = later.end;
        sum.length = sum.length.saturating_add(later.length);
        sum.resolution = sum.length;
        let (to, from) = (&mut sum.record, &later.record);
        to.conservation = from.conservation.clone();
        to.health = from.health.clone();
        for (reason, ns) in &from.unattributed_ns {
            match to.unattributed_ns.get_mut(reason) {
                Some(sum) => *sum = sum.saturating_add(*ns),
                None => {
                    to.unattributed_ns.insert(reason.clone(), *ns);
                }
            }
        }
        add_sampling(&mut to.accounting, from.accounting.as_ref());
        let places = add_cpus(to, &from.cpus);
        for container in &from.containers {
            match self
                .containers
                .get(&(container.cgroup_id, container.cgroup_path.clone()))
            {
                Some(at) => add_container(&mut to.containers[*at], container, &places),
                None => {
                    self.containers.insert(key(container), to.containers.len());
                    let mut new = container.clone();
                    new.caused_by_cpu_ns =
                        spread(&container.caused_by_cpu_ns, &places, to.cpus.len());
                    new.charged_by_cpu_ns =
                        spread(&container.charged_by_cpu_ns, &places, to.cpus.len());
                    to.containers.push(new);
                }
            }
        }
        match (&mut to.diagnosis, &from.diagnosis) {
            (Some(to), Some(from)) => add_diagnosis(to, from, &mut self.losses),
            (to @ None, Some(from)) => {
                self.losses = index_losses(Some(from));
                *to = Some(from.clone());
            }
            (_, None) => {}
        }
        add_conditions(&mut sum.conditions, &later.conditions);
    }

    /// Returns the sum as a frame.
    pub fn finish(self) -> Frame {
        let mut frame = self.frame;
        frame.record.time = cofferdam_records::time(frame.end);
        frame.record.interval_s = frame.length.as_secs_f64();
        let cpus = frame.record.cpus.len();
        for container in &mut frame.record.containers {
            container.caused_by_cpu_ns.resize(cpus, 0);
            container.charged_by_cpu_ns.resize(cpus, 0);
            derive(container);
        }
        let containers = &mut frame.record.containers;
        containers.sort_by_key(|c| (std::cmp::Reverse(c.owed_ns), c.cgroup_id));
        frame
    }

    pub(crate) fn frame(&self) -> &Frame {
        &self.frame
    }

    /// Whether `later` begins where the sum ends.
    pub(crate) fn continues(&self, later: &Frame) -> bool {
        let (one, other) = (self.frame.end, later.start);
        let apart = one.duration_since(other).unwrap_or_else(|e| e.duration());
        apart <= CONTIGUOUS
    }
}

/// Sums up intervals of the diagnosis in their order. `None` without one.
pub fn sum_of_losses(
    intervals: impl IntoIterator<Item = DiagnosisRecord>,
) -> Option<DiagnosisRecord> {
    let mut intervals = intervals.into_iter();
    let mut sum = intervals.next()?;
    let mut index = index_losses(Some(&sum));
    for next in intervals {
        add_diagnosis(&mut sum, &next, &mut index);
    }
    Some(sum)
}

fn key(container: &ContainerRecord) -> Key {
    (container.cgroup_id, container.cgroup_path.clone())
}

fn index_losses(diagnosis: Option<&DiagnosisRecord>) -> HashMap<u64, usize> {
    let containers = diagnosis.map_or(&[][..], |d| &d.containers);
    let containers = containers.iter().enumerate();
    containers.map(|(at, c)| (c.cgroup_id, at)).collect()
}

/// Derives the fields that follow from the others.
pub(crate) fn derive(container: &mut ContainerRecord) {
    let c = container;
    let caused_ns = c.caused_rx_ns.saturating_add(c.caused_tx_ns);
    c.caused_ns = caused_ns.saturating_add(c.caused_hardirq_ns);
    c.owed_ns = (c.caused_ns as i64).saturating_sub(c.charged_network_ns as i64);
    c.corrected_cpu_ns = (c.cpu_usage_ns as i64).saturating_add(c.owed_ns);
    let packets = c.rx_packets.saturating_add(c.tx_packets);
    c.ns_per_packet = (packets > 0).then(|| c.caused_ns as f64 / packets as f64);
}

/// Adds the sampling record. A sum is an estimate as soon as a part of it is one.
fn add_sampling(to: &mut Option<SamplingRecord>, from: Option<&SamplingRecord>) {
    let (Some(to), Some(from)) = (&mut *to, from) else {
        if to.is_none() {
            *to = from.cloned();
        }
        return;
    };
    if from.estimated_s > 0.0 {
        to.mode.clone_from(&from.mode);
    }
    to.windows = to.windows.saturating_add(from.windows);
    to.observed_s += from.observed_s;
    to.estimated_s += from.estimated_s;
}

/// Adds CPU by CPU. Returns the place of each CPU of `from` in the sum.
fn add_cpus(to: &mut AccountingRecord, from: &[CpuRecord]) -> Vec<usize> {
    let mut places = Vec::with_capacity(from.len());
    for (at, cpu) in from.iter().enumerate() {
        // Usually both have the same CPUs in the same order.
        let same = to.cpus.get(at).is_some_and(|c| c.cpu == cpu.cpu);
        let place = match same {
            true => Some(at),
            false => to.cpus.iter().position(|c| c.cpu == cpu.cpu),
        };
        match place {
            Some(place) => {
                add_cpu(&mut to.cpus[place], cpu);
                places.push(place);
            }
            None => {
                places.push(to.cpus.len());
                to.cpus.push(cpu.clone());
            }
        }
    }
    places
}

fn add_cpu(to: &mut CpuRecord, from: &CpuRecord) {
    add!(to, from: softirq_ns, network_softirq_ns, hardirq_ns, napi_thread_ns, drain_ns);
    add!(to, from: measured_ns, attributed_ns);
    add!(to, from: charged_ns, charged_nobody_ns, charged_host_ns);
}

fn spread(by_cpu: &[u64], places: &[usize], cpus: usize) -> Vec<u64> {
    let mut all = vec![0; cpus];
    add_by_cpu(&mut all, by_cpu, places);
    all
}

fn add_by_cpu(to: &mut Vec<u64>, from: &[u64], places: &[usize]) {
    for (ns, place) in from.iter().zip(places) {
        if to.len() <= *place {
            to.resize(place + 1, 0);
        }
        to[*place] = to[*place].saturating_add(*ns);
    }
}

fn add_container(to: &mut ContainerRecord, from: &ContainerRecord, places: &[usize]) {
    to.name.clone_from(&from.name);
    to.id.clone_from(&from.id);
    to.runtime.clone_from(&from.runtime);
    to.pod.clone_from(&from.pod);
    to.netns = from.netns.or(to.netns);
    to.host_network = from.host_network;
    add!(to, from: caused_rx_ns, caused_tx_ns, caused_hardirq_ns);
    add!(to, from: rx_packets, rx_bytes, tx_packets, tx_bytes);
    add!(to, from: charged_network_ns, charged_other_ns, cpu_usage_ns);
    add_by_cpu(&mut to.caused_by_cpu_ns, &from.caused_by_cpu_ns, places);
    add_by_cpu(&mut to.charged_by_cpu_ns, &from.charged_by_cpu_ns, places);
    for (sender, packets) in &from.received_from {
        let sum = to.received_from.entry(*sender).or_default();
        *sum = sum.saturating_add(*packets);
    }
}

fn add_diagnosis(
    to: &mut DiagnosisRecord,
    from: &DiagnosisRecord,
    index: &mut HashMap<u64, usize>,
) {
    // Round to nanoseconds, so that the order of additions makes no difference.
    let sum = |a: f64, b: f64| ((a + b) * 1e9).round() / 1e9;
    if to.counted_s.is_some() || from.counted_s.is_some() {
        let counted = |d: &DiagnosisRecord| d.counted_s.unwrap_or(d.interval_s);
        to.counted_s = Some(sum(counted(to), counted(from)));
    }
    to.interval_s = sum(to.interval_s, from.interval_s);
    add!(to, from: idle_ns, left_idle_ns, host_ns);
    to.containers_without_slot = from.containers_without_slot;
    to.mismatches = from.mismatches;
    to.segments_rejected = from.segments_rejected;
    // Transfers belong to one interval; the history does not store them.
    to.shares.clear();
    to.by_cpu.clear();
    for loss in &from.containers {
        match index.get(&loss.cgroup_id) {
            Some(at) => add_loss(&mut to.containers[*at], loss),
            None => {
                index.insert(loss.cgroup_id, to.containers.len());
                to.containers.push(loss.clone());
            }
        }
    }
}

/// Adds the losses. Name, entitlement and neighbour are those of the later interval.
fn add_loss(to: &mut CpuLossRecord, from: &CpuLossRecord) {
    to.name.clone_from(&from.name);
    add!(to, from: entitled_ns);
    to.entitled_by = from.entitled_by;
    add!(to, from: got_ns, forced_sharing_ns, phantom_ns, throttled_ns, lack_ns);
    if from.neighbour.is_some() {
        to.neighbour.clone_from(&from.neighbour);
    }
}

/// Merges the conditions: each container's condition once, at its worst.
fn add_conditions(to: &mut Vec<ConditionRecord>, from: &[ConditionRecord]) {
    for condition in from {
        let same = |c: &&mut ConditionRecord| {
            c.cgroup_id == condition.cgroup_id && c.name == condition.name
        };
        match to.iter_mut().find(same) {
            Some(found) => {
                let worst = found.cpus.max(condition.cpus);
                found.clone_from(condition);
                found.cpus = worst;
            }
            None => to.push(condition.clone()),
        }
    }
}

#[cfg(test)]
mod tests;
