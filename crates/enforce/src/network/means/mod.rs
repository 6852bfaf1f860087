//! Execution of the policy's decisions: NAPI threads, weight and quota, packet limits. All changes
//! except attached programs go through the journal.

mod corrected_file;
mod followers;
mod ingress;
mod leaf;
mod napi;
mod napis;
mod thread_moves;

pub(super) use corrected_file::CorrectedFile;
pub(super) use ingress::{HostEnds, Ingress, LimitError, limiting_namespace};

use super::place::{Place, PlacedContainer};
use super::policy::{MeansSettings, NapiPlace, PacketLimit, Packets};
use crate::journal::{Journal, RevertReport};
use cofferdam_types::{Container, Interval, NetnsId};
use followers::Followers;
use napis::{LeavingThreads, NapiThreads};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// State that containers share: attached programs, host ends of interfaces, and NAPI threads that
/// are leaving.
pub(super) struct Means {
    pub ingress: Ingress,
    /// The host's ends of all containers' interfaces.
    host_ends: HostEnds,
    leaving: LeavingThreads,
    napi_in_container: bool,
}

/// Means applied to one container.
#[derive(Debug, Default)]
pub(super) struct AppliedMeans {
    pub napi: NapiThreads,
    pub weight: CorrectedFile,
    pub quota: CorrectedFile,
    /// Files that depend on the quota.
    quota_followers: Followers,
    /// Reason why its packets cannot be dropped.
    pub drop_refused: Option<Arc<LimitError>>,
    /// Reason why its sent packets cannot be dropped.
    pub sent_refused: Option<Arc<LimitError>>,
    pub dropped_rx_packets: u64,
    pub dropped_tx_packets: u64,
    /// Whether its weight is already the lowest.
    pub weight_is_lowest: bool,
    /// Whether the kernel refuses a weight because its cgroup is idle.
    pub weight_is_idle: bool,
    /// CPU time of its NAPI threads at the last reading.
    napi_ns: u64,
}

impl Means {
    pub fn new(napi_in_container: bool) -> Means {
        Means {
            ingress: Ingress::default(),
            host_ends: HostEnds::default(),
            leaving: LeavingThreads::default(),
            napi_in_container,
        }
    }

    /// Unloads the dropping programs of namespaces that forward to none of `wanted`.
    pub fn retain_gates(&mut self, wanted: &[Arc<Container>]) {
        let behind = |c: &Arc<Container>| limiting_namespace(c, false);
        let namespaces: BTreeSet<NetnsId> = wanted.iter().filter_map(behind).collect();
        self.ingress.retain(&namespaces);
    }

    /// Records the host's ends of all interfaces.
    pub fn note_host_ends(&mut self, interval: &Interval) {
        let rows = interval.containers.iter();
        let pairs = rows.flat_map(|row| &row.container.interfaces);
        self.host_ends = pairs
            .filter_map(|pair| Some((pair.host_netns?, pair.host_ifindex?)))
            .collect();
    }

    /// Applies a decision to a container, except for its NAPI threads.
    pub fn apply(
        &mut self,
        journal: &mut Journal,
        placed: &PlacedContainer,
        applied: &mut AppliedMeans,
        settings: &MeansSettings,
        now: Duration,
    ) {
        match &settings.packets {
            Packets::Unchanged => {}
            Packets::Limited(limit) => self.limit(placed, applied, limit),
            Packets::Unlimited => self.ingress.release(placed.container.cgroup),
        }
        if let Some(weight) = settings.weight {
            applied.set_weight(journal, &placed.place, weight, now);
        }
        if let Some(quota_us) = settings.quota_us {
            applied.set_quota(journal, &placed.place, quota_us, now);
        }
    }

    /// Limits the container's packets at the first place where that works: its host ends or, if the
    /// limit allows it, its own namespace.
    fn limit(&mut self, placed: &PlacedContainer, applied: &mut AppliedMeans, limit: &PacketLimit) {
        let container = &placed.container;
        let nowhere = HostEnds::new();
        for own in [false, true] {
            if own && !limit.at_own_interface {
                break;
            }
            let Some(netns) = limiting_namespace(container, own) else {
                continue;
            };
            let here = PacketLimit {
                sent: limit.sent && !own,
                ..*limit
            };
            let excluded_ends = if own { &nowhere } else { &self.host_ends };
            match self.ingress.limit(placed, netns, &here, excluded_ends) {
                Ok(sent_refused) => {
                    applied.drop_refused = None;
                    applied.sent_refused = sent_refused;
                    return;
                }
                Err(why) => applied.drop_refused = Some(why),
            }
        }
    }

    /// Starts or removes a container's NAPI threads as the policy wants. Starts them only with
    /// `may_start`. Returns whether it started any: that stalls the control loop for about 70 ms.
    pub fn place_napi(
        &mut self,
        journal: &mut Journal,
        PlacedContainer { container, place }: &PlacedContainer,
        napi: &mut NapiThreads,
        wanted: NapiPlace,
        may_start: bool,
    ) -> bool {
        let leave = match wanted {
            NapiPlace::Unchanged => return false,
            NapiPlace::Removed => true,
            NapiPlace::InContainer => napi.is_stale(container),
        };
        if leave {
            self.leaving.add(container, napi.start_removal(journal));
        }
        let starts = may_start
            && wanted == NapiPlace::InContainer
            && !self.leaving.includes(container)
            && napi.lacks(container);
        if starts {
            napi.start(journal, container, place, self.napi_in_container);
        }
        starts
    }

    /// Starts removing all of the container's NAPI threads, if `all` is set or one of its
    /// interfaces or threads is gone.
    pub fn remove_napi(
        &mut self,
        journal: &mut Journal,
        container: &Container,
        napi: &mut NapiThreads,
        all: bool,
    ) {
        if all || napi.is_stale(container) {
            let threads = napi.start_removal(journal);
            self.leaving.add(container, threads);
        }
    }

    /// Reverts all means of a container.
    pub fn revert(
        &mut self,
        journal: &mut Journal,
        container: &Container,
        applied: &mut AppliedMeans,
    ) {
        self.ingress.release(container.cgroup);
        self.remove_napi(journal, container, &mut applied.napi, true);
        applied.weight.revert(journal);
        applied.quota.revert(journal);
        applied.quota_followers.revert_all(journal);
        applied.weight_is_idle = false;
    }

    /// Reverts the other changes for NAPI threads that have left. With `wait`, waits for all
    /// threads first.
    pub fn finish_removals(&mut self, journal: &mut Journal, wait: bool) -> RevertReport {
        self.leaving.step(journal, wait)
    }
}

impl AppliedMeans {
    /// CPU time of its NAPI threads since the last call, nanoseconds.
    pub fn napi_used_ns(&mut self) -> u64 {
        let now = self.napi.usage_ns();
        now.saturating_sub(std::mem::replace(&mut self.napi_ns, now))
    }

    fn set_weight(&mut self, journal: &mut Journal, place: &Place, weight: f64, now: Duration) {
        let Some((file, lowest)) = place.weight_file().zip(place.lowest_weight()) else {
            return;
        };
        let weight = weight.max(lowest).round();
        self.weight_is_idle = place.is_idle();
        if self.weight_is_idle {
            return;
        }
        let base = self.weight.state.base;
        // A weight that is already the lowest, as of best-effort pods, cannot be lowered.
        self.weight_is_lowest = base.is_some_and(|base| base <= lowest);
        if self.weight_is_lowest && !self.weight.is_corrected() {
            return;
        }
        let text = format!("{weight:.0}");
        self.weight.set(journal, &file, weight, &text, now);
    }

    fn set_quota(&mut self, journal: &mut Journal, place: &Place, quota_us: f64, now: Duration) {
        let Some(found) = place.quota() else {
            return;
        };
        let period_us = found.quota.period_us;
        let most_us = place.most_quota().map(|cpus| (cpus * period_us).floor());
        let quota_us = most_us
            .map_or(quota_us, |most_us| quota_us.min(most_us))
            .round();
        let files = place.quota_followers();
        // A file that does not fit is named by the quota's own refusal, or by this error.
        let fits = self
            .quota_followers
            .lower(journal, &files, quota_us / period_us);
        let text = match place.is_cpu_v2() {
            true => format!("{quota_us:.0} {period_us:.0}"),
            false => format!("{quota_us:.0}"),
        };
        match fits {
            Ok(()) => self.quota.set(journal, &found.file, quota_us, &text, now),
            Err(why) => self.quota.note_refusal(why, now),
        }
        if let Some(holds) = place.quota() {
            self.quota_followers
                .raise(journal, &files, holds.quota.cpus());
        }
    }
}

#[cfg(test)]
mod tests;
