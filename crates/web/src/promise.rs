//! CPU time that containers were promised and lost, by cause: rows of the overview and of a
//! container.

use crate::frame::{Lookup, short};
use cofferdam_records::diagnosis::{CpuLossRecord, NeighbourRecord};
use cofferdam_records::status::{ContainerRecord as Managed, ReservationRecord};
use cofferdam_types::Entitlement;
use serde::Serialize;

/// Limit on the containers in a document: first the reserved ones, then by loss.
const MOST_PROMISES: usize = 50;
/// Smallest loss that is not noise, CPUs.
const SMALLEST_LOSS_CPUS: f64 = 0.005;

/// CPU time of one container, CPUs.
#[derive(Debug, Serialize)]
pub(crate) struct Losses<'a> {
    entitled: f64,
    /// `reserved`, `weight`, `quota` or `cpuset`.
    entitled_by: Entitlement,
    got: f64,
    forced_sharing: f64,
    phantom: f64,
    throttled: f64,
    lack: f64,
    neighbour: Option<&'a str>,
}

/// Container of the overview.
#[derive(Debug, Serialize)]
pub(crate) struct Promise<'a> {
    id: String,
    name: &'a str,
    /// CPUs reserved; null without a reservation.
    reserved: Option<f64>,
    /// Reserved CPUs in detail; null without a reservation.
    reservation: Option<&'a ReservationRecord>,
    /// Null without a diagnosis, or for a new container.
    losses: Option<Losses<'a>>,
}

/// Containers with a reservation or a loss, and their total number.
pub(crate) fn promises<'a>(lookup: &Lookup<'a>) -> (Vec<Promise<'a>>, usize) {
    let mut all: Vec<(bool, f64, Promise<'a>)> = Vec::new();
    for c in &lookup.ledger.containers {
        let managed = lookup.managed(c.cgroup_id);
        let losses = lookup.loss(c.cgroup_id).map(|l| Losses::new(lookup, l));
        let reserved = managed.and_then(|m| m.policy.cpus);
        let lost = losses.as_ref().map_or(0.0, Losses::lost);
        if reserved.is_some() || lost >= SMALLEST_LOSS_CPUS {
            let promise = Promise {
                id: c.cgroup_id.to_string(),
                name: short(&c.name),
                reserved,
                reservation: managed.and_then(|m: &Managed| m.reservation.as_ref()),
                losses,
            };
            all.push((reserved.is_some(), lost, promise));
        }
    }
    let total = all.len();
    all.sort_by(|a, b| (b.0.cmp(&a.0)).then(b.1.total_cmp(&a.1)));
    let rows = all.into_iter().take(MOST_PROMISES).map(|(.., row)| row);
    (rows.collect(), total)
}

impl<'a> Losses<'a> {
    pub fn new(lookup: &Lookup<'a>, loss: &'a CpuLossRecord) -> Losses<'a> {
        Losses {
            entitled: lookup.lost_cpus(loss.entitled_ns),
            entitled_by: loss.entitled_by,
            got: lookup.lost_cpus(loss.got_ns),
            forced_sharing: lookup.lost_cpus(loss.forced_sharing_ns),
            phantom: lookup.lost_cpus(loss.phantom_ns),
            throttled: lookup.lost_cpus(loss.throttled_ns),
            lack: lookup.lost_cpus(loss.lack_ns),
            neighbour: match &loss.neighbour {
                Some(NeighbourRecord::Host) => Some("the host"),
                Some(NeighbourRecord::Container { name }) => Some(short(name)),
                None => None,
            },
        }
    }

    /// CPU time that the container wanted and lost.
    fn lost(&self) -> f64 {
        self.forced_sharing + self.phantom + self.throttled
    }
}
