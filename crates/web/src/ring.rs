//! Ring of the last minutes in memory, bounded in time and in bytes.
//!
//! An interval is stored without the parts that the page does not show of the past. Names are
//! stored once, and idle containers not at all.

use crate::feed::{Past, PastError, Point, Points, Reading};
use cofferdam_records::accounting::{AccountingRecord, ContainerRecord};
use cofferdam_records::status::StatusReport;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Age of the oldest interval in the ring.
pub const KEPT: Duration = Duration::from_secs(900);
/// Approximate limit on the memory of all intervals.
pub const MOST_BYTES: usize = 8 << 20;

#[derive(Debug)]
struct StoredInterval {
    time: SystemTime,
    length: Duration,
    points: Box<[Point]>,
    ledger: Box<[Row]>,
    cpus: Arc<[u32]>,
    bytes: usize,
}

/// Fields of a container's record in addition to its point.
#[derive(Debug)]
struct Row {
    who: Arc<Identity>,
    rx_packets: u64,
    tx_packets: u64,
    owed_ns: i64,
    by_cpu: Box<[ByCpu]>,
    received_from: Box<[(u64, u64)]>,
}

#[derive(Debug, Clone, Copy)]
struct ByCpu {
    place: u32,
    caused_ns: u64,
    charged_ns: u64,
}

/// Fields that do not change while a container lives.
#[derive(Debug, PartialEq)]
struct Identity {
    cgroup_id: u64,
    name: String,
    cgroup_path: String,
    id: Option<String>,
    runtime: String,
    pod: Option<String>,
}

/// Ring of intervals.
#[derive(Debug, Default)]
pub struct Ring {
    intervals: VecDeque<StoredInterval>,
    bytes: usize,
    identities: HashMap<u64, Arc<Identity>>,
    cpus: Arc<[u32]>,
    /// Newest record, as a template for rebuilt records.
    newest: Option<AccountingRecord>,
}

impl Ring {
    /// Stores `reading`, and drops intervals beyond the bounds.
    pub fn push(&mut self, reading: &Reading, now: SystemTime) {
        let record = &reading.ledger;
        let numbers = || record.cpus.iter().map(|c| c.cpu);
        if !numbers().eq(self.cpus.iter().copied()) {
            self.cpus = numbers().collect();
        }
        let points = points(record, Some(&reading.status));
        let active = record.containers.iter().filter(|c| !is_idle(c));
        let ledger: Box<[Row]> = active.map(|c| self.row(c)).collect();
        let bytes = std::mem::size_of::<StoredInterval>()
            + points.len() * std::mem::size_of::<Point>()
            + ledger.iter().map(Row::bytes).sum::<usize>();
        self.bytes += bytes;
        self.intervals.push_back(StoredInterval {
            time: now,
            length: Duration::try_from_secs_f64(record.interval_s).unwrap_or_default(),
            points: points.into(),
            ledger,
            cpus: self.cpus.clone(),
            bytes,
        });
        let mut frame = record.clone();
        frame.containers = Vec::new();
        self.newest = Some(frame);
        self.forget(now);
    }

    fn forget(&mut self, now: SystemTime) {
        let mut forgot = false;
        while let Some(oldest) = self.intervals.front() {
            // After the clock was set back, the age is unknown: only the bound in bytes applies.
            let old = now.duration_since(oldest.time).is_ok_and(|age| age > KEPT);
            if !old && self.bytes <= MOST_BYTES {
                break;
            }
            self.bytes -= oldest.bytes;
            self.intervals.pop_front();
            forgot = true;
        }
        if forgot {
            // A name is needed while an interval has it; one reference is the table's own.
            self.identities.retain(|_, who| Arc::strong_count(who) > 1);
        }
    }

    fn row(&mut self, container: &ContainerRecord) -> Row {
        let identity = self.identities.get(&container.cgroup_id);
        let who = match identity.filter(|who| who.is(container)) {
            Some(identity) => identity.clone(),
            None => {
                let who = Arc::new(Identity::of(container));
                self.identities.insert(container.cgroup_id, who.clone());
                who
            }
        };
        let at = |by: &[u64], place: usize| by.get(place).copied().unwrap_or(0);
        let places = container.caused_by_cpu_ns.len();
        let by_cpu = (0..places.max(container.charged_by_cpu_ns.len())).filter_map(|place| {
            let (caused_ns, charged_ns) = (
                at(&container.caused_by_cpu_ns, place),
                at(&container.charged_by_cpu_ns, place),
            );
            let place = u32::try_from(place).ok()?;
            let by = ByCpu {
                place,
                caused_ns,
                charged_ns,
            };
            (caused_ns > 0 || charged_ns > 0).then_some(by)
        });
        Row {
            who,
            rx_packets: container.rx_packets,
            tx_packets: container.tx_packets,
            owed_ns: container.owed_ns,
            by_cpu: by_cpu.collect(),
            received_from: container
                .received_from
                .iter()
                .map(|(k, v)| (*k, *v))
                .collect(),
        }
    }

    /// End of the oldest interval.
    pub fn first(&self) -> Option<SystemTime> {
        self.intervals.front().map(|interval| interval.time)
    }

    /// Approximate bytes in use.
    #[cfg(test)]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    fn record(&self, interval: &StoredInterval) -> Option<AccountingRecord> {
        let mut record = self.newest.clone()?;
        record.time = cofferdam_records::time(interval.time);
        record.interval_s = interval.length.as_secs_f64();
        record.diagnosis = None;
        record.unattributed_ns.clear();
        record.cpus.retain(|c| interval.cpus.contains(&c.cpu));
        let seconds = record.interval_s;
        record.containers = interval
            .ledger
            .iter()
            .map(|row| {
                let id = row.who.cgroup_id;
                let point = interval.points.iter().find(|p| p.cgroup_id == id);
                row.record(
                    point.copied().unwrap_or_default(),
                    seconds,
                    interval.cpus.len(),
                )
            })
            .collect();
        Some(record)
    }
}

impl Row {
    fn bytes(&self) -> usize {
        std::mem::size_of::<Row>()
            + std::mem::size_of_val(&*self.by_cpu)
            + std::mem::size_of_val(&*self.received_from)
    }

    fn record(&self, point: Point, seconds: f64, cpus: usize) -> ContainerRecord {
        let who = &self.who;
        let ns = |cpus: f32| (f64::from(cpus) * seconds * 1e9).round() as u64;
        let mut caused_by_cpu_ns = vec![0; cpus];
        let mut charged_by_cpu_ns = vec![0; cpus];
        for by in &self.by_cpu {
            let place = by.place as usize;
            if place < cpus {
                caused_by_cpu_ns[place] = by.caused_ns;
                charged_by_cpu_ns[place] = by.charged_ns;
            }
        }
        let packets = self.rx_packets + self.tx_packets;
        let caused_ns = ns(point.caused_cpus);
        let cpu_usage_ns = ns(point.cpu_cpus);
        ContainerRecord {
            name: who.name.clone(),
            cgroup_id: who.cgroup_id,
            cgroup_path: who.cgroup_path.clone(),
            id: who.id.clone(),
            runtime: who.runtime.clone(),
            pod: who.pod.clone(),
            netns: None,
            host_network: false,
            caused_rx_ns: caused_ns,
            caused_tx_ns: 0,
            caused_hardirq_ns: 0,
            caused_ns,
            rx_packets: self.rx_packets,
            rx_bytes: 0,
            tx_packets: self.tx_packets,
            tx_bytes: 0,
            charged_network_ns: ns(point.charged_cpus),
            charged_other_ns: 0,
            owed_ns: self.owed_ns,
            cpu_usage_ns,
            corrected_cpu_ns: i64::try_from(cpu_usage_ns).unwrap_or(i64::MAX) + self.owed_ns,
            ns_per_packet: (packets > 0).then(|| caused_ns as f64 / packets as f64),
            caused_by_cpu_ns,
            charged_by_cpu_ns,
            received_from: self.received_from.iter().copied().collect(),
            interval_95: None,
        }
    }
}

impl Identity {
    fn of(container: &ContainerRecord) -> Identity {
        Identity {
            cgroup_id: container.cgroup_id,
            name: container.name.clone(),
            cgroup_path: container.cgroup_path.clone(),
            id: container.id.clone(),
            runtime: container.runtime.clone(),
            pod: container.pod.clone(),
        }
    }

    fn is(&self, container: &ContainerRecord) -> bool {
        self.name == container.name && self.cgroup_path == container.cgroup_path
    }
}

impl Past for Ring {
    fn extent(&mut self) -> Result<Option<(SystemTime, SystemTime)>, PastError> {
        let ends = self.intervals.front().zip(self.intervals.back());
        Ok(ends.map(|(first, last)| (first.time, last.time)))
    }

    fn at(&mut self, at: SystemTime) -> Result<Option<AccountingRecord>, PastError> {
        let begins = |k: &StoredInterval| k.time.checked_sub(k.length).unwrap_or(k.time);
        let found = self.intervals.iter().rev().find(|k| begins(k) < at);
        Ok(found.and_then(|k| self.record(k)))
    }

    fn visit(
        &mut self,
        from: SystemTime,
        to: SystemTime,
        _step: Duration,
        visit: &mut dyn FnMut(Points<'_>),
    ) -> Result<(), PastError> {
        for interval in self
            .intervals
            .iter()
            .filter(|k| k.time > from && k.time <= to)
        {
            visit(Points {
                time: interval.time,
                length: interval.length,
                points: &interval.points,
            });
        }
        Ok(())
    }

    fn name(&mut self, cgroup_id: u64) -> Option<String> {
        Some(self.identities.get(&cgroup_id)?.name.clone())
    }
}

fn is_idle(c: &ContainerRecord) -> bool {
    c.cpu_usage_ns == 0 && c.caused_ns == 0 && c.charged_network_ns == 0
}

/// Points of the containers of `record` that did or lost anything. Losses are those of its own
/// diagnosis, or of the agent's.
pub fn points(record: &AccountingRecord, status: Option<&StatusReport>) -> Vec<Point> {
    let of_status = status.and_then(|s| s.diagnosis.as_ref());
    let diagnosis = record.diagnosis.as_ref().or(of_status);
    let cpus = |ns: f64, seconds: f64| {
        if seconds > 0.0 {
            (ns / 1e9 / seconds) as f32
        } else {
            0.0
        }
    };
    let mut points: HashMap<u64, Point> = HashMap::with_capacity(record.containers.len());
    for c in record.containers.iter().filter(|c| !is_idle(c)) {
        let seconds = record.interval_s;
        let point = Point {
            cgroup_id: c.cgroup_id,
            cpu_cpus: cpus(c.cpu_usage_ns as f64, seconds),
            caused_cpus: cpus(c.caused_ns as f64, seconds),
            charged_cpus: cpus(c.charged_network_ns as f64, seconds),
            ..Point::default()
        };
        points.insert(c.cgroup_id, point);
    }
    for (loss, seconds) in diagnosis
        .iter()
        .flat_map(|d| d.containers.iter().map(|loss| (loss, d.interval_s)))
    {
        let taken = (loss.forced_sharing_ns + loss.phantom_ns) as f64;
        if taken > 0.0 || loss.throttled_ns > 0 {
            let point = points.entry(loss.cgroup_id).or_insert(Point {
                cgroup_id: loss.cgroup_id,
                ..Point::default()
            });
            point.taken_cpus = cpus(taken, seconds);
            point.throttled_cpus = cpus(loss.throttled_ns as f64, seconds);
        }
    }
    points.into_values().collect()
}

#[cfg(test)]
mod tests;
