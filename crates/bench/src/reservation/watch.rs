//! Diagnosis of the target's losses by the product's own code. It runs under every policy, so that
//! its cost is the same for all.

use super::containers::{Containers, Member};
use crate::error::BenchError;
use crate::reservation::data::{Entitlements, ReservationCell};
use cofferdam_diagnosis::{Diagnosis, DiagnosisOptions, DiagnosisReading};
use cofferdam_types::{CgroupId, Container, CpuAmount};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Running diagnosis.
pub(super) struct Watch(Diagnosis);

/// Reading before the target works.
pub(super) struct WatchStart {
    /// Containers, the target first.
    containers: Vec<Arc<Container>>,
    reading: DiagnosisReading,
}

impl Watch {
    /// Loads the diagnosis. The error says why this host cannot run it.
    pub fn start() -> Result<Watch, String> {
        let diagnosis = Diagnosis::start(DiagnosisOptions::default());
        diagnosis.map(Watch).map_err(|e| e.to_string())
    }

    /// Takes a reading before the target works. `reserved` is the target's reservation.
    pub fn begin(
        &mut self,
        containers: &Containers,
        cell: &ReservationCell,
        reserved: Option<CpuAmount>,
    ) -> Result<WatchStart, BenchError> {
        let all = std::iter::once(&containers.target).chain(containers.neighbours(cell));
        let containers = all.map(Member::container).collect::<Result<Vec<_>, _>>()?;
        let reserved: BTreeMap<CgroupId, CpuAmount> = reserved
            .map(|amount| (containers[0].cgroup, amount))
            .into_iter()
            .collect();
        self.0.set_reserved(reserved);
        let reading = self.read(&containers)?;
        Ok(WatchStart {
            containers,
            reading,
        })
    }

    /// Entitlement and losses of the target since `begun`.
    pub fn end(&mut self, begun: &WatchStart) -> Result<Option<Entitlements<f64>>, BenchError> {
        let now = self.read(&begun.containers)?;
        let interval = now.since(&begun.reading);
        let target = begun.containers[0].cgroup;
        let of = interval
            .containers
            .iter()
            .find(|c| c.container.cgroup == target);
        let length_ns = interval.length.as_nanos().max(1) as f64;
        let cpus = |ns: u64| ns as f64 / length_ns;
        Ok(of.map(|c| Entitlements {
            entitled_cpus: cpus(c.loss.entitled_ns),
            forced_sharing_cpus: cpus(c.loss.forced_sharing_ns),
            phantom_cpus: cpus(c.loss.phantom_ns),
            throttled_cpus: cpus(c.loss.throttled_ns),
            lack_cpus: cpus(c.loss.lack_ns),
        }))
    }

    fn read(&mut self, containers: &[Arc<Container>]) -> Result<DiagnosisReading, BenchError> {
        let reading = self.0.snapshot(containers);
        reading.map_err(|e| BenchError::Ledger(e.to_string()))
    }
}
