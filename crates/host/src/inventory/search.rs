//! Searches for processes that raise no event: some have ended, and some entered a namespace
//! without executing a program.
//!
//! [`Inventory::search`] searches for the processes of a namespace that has packets. `review` reads
//! the processes of all cgroups again, a few at a time, so that the inventory soon equals the
//! result of a scan.

use super::Inventory;
use super::claims::WEAK_AGE;
use cofferdam_types::{CgroupId, NetnsId};
use std::time::{Duration, Instant};

/// Time between two passes of the search for namespaces without a process.
const SEARCH_AGAIN: Duration = Duration::from_secs(1);
/// Number of passes after which the search ends, until packets are reported again.
const MAX_SEARCHES: u32 = 10;
/// Most namespaces that are searched for.
const MAX_MISSED: usize = 4096;
/// Time between two parts of a review.
const REVIEW_EVERY: Duration = Duration::from_millis(250);
/// Number of cgroups and processes in one part of a review.
const REVIEW_WORK: usize = 64;
/// Time between two visits to a namespace whose devices raise no message.
const VISIT_EVERY: Duration = Duration::from_secs(2);

impl Inventory {
    /// Searches for the container of `netns`, in which packets have arrived.
    pub(super) fn search(&mut self, netns: NetnsId) {
        if netns == self.host_netns || self.is_found(netns) {
            return;
        }
        if self.claims.missed.len() >= MAX_MISSED {
            self.claims.missed.clear();
        }
        let is_new = self.claims.missed.insert(netns, 0).is_none();
        self.claims.confirm(netns);
        self.assess_pending();
        let waits = self
            .claims
            .next_search
            .is_some_and(|next| Instant::now() < next);
        if self.is_found(netns) || (waits && !is_new) {
            return;
        }
        for cgroup in self.in_search_order() {
            // Inside containers only once: there may be thousands.
            if !is_new && self.owner(cgroup).is_some() {
                continue;
            }
            self.refresh(cgroup);
            if self.is_found(netns) {
                return;
            }
        }
        self.end_search();
    }

    /// Searches again for the owners of namespaces with packets. Rare and bounded: at most once a
    /// second, over the cgroups outside containers, and only while there are such namespaces.
    pub(super) fn search_again(&mut self) {
        let due = self.claims.next_search;
        if due.is_some_and(|next| Instant::now() >= next) {
            for cgroup in self.in_search_order() {
                if self.owner(cgroup).is_none() {
                    self.refresh(cgroup);
                }
            }
            self.end_search();
        }
    }

    /// Ends one pass, and plans the next one.
    fn end_search(&mut self) {
        for searches in self.claims.missed.values_mut() {
            *searches += 1;
        }
        let mut searches = self.claims.missed.values();
        let again = searches.any(|searches| *searches < MAX_SEARCHES);
        self.claims.next_search = again.then(|| Instant::now() + SEARCH_AGAIN);
    }

    /// Whether a container has `netns`.
    fn is_found(&self, netns: NetnsId) -> bool {
        !self.namespaces.holders(netns).is_empty() || !self.namespaces.guests(netns).is_empty()
    }

    /// Returns all cgroups but the root: first those without a process, then those outside
    /// containers.
    fn in_search_order(&self) -> Vec<CgroupId> {
        let mut all = self.tree.top_down();
        all.retain(|id| self.tree.get(*id).is_some_and(|n| n.parent.is_some()));
        all.sort_by_cached_key(|id| {
            let has_process = self.tree.get(*id).is_some_and(|n| !n.members.is_empty());
            (has_process, self.owner(*id).is_some())
        });
        all
    }

    /// Reads the processes of some cgroups again, if that is due.
    pub(super) fn review(&mut self) {
        let now = Instant::now();
        let next = *self.claims.next_review.get_or_insert(now + REVIEW_EVERY);
        if now < next {
            return;
        }
        self.claims.next_review = Some(now + REVIEW_EVERY);
        let mut work = 0;
        let mut cgroups = self.tree.len();
        while work < REVIEW_WORK && cgroups > 0 {
            let Some(cgroup) = self.tree.after(self.claims.reviewed) else {
                break;
            };
            self.claims.reviewed = Some(cgroup);
            work += self.review_one(cgroup, WEAK_AGE);
            cgroups -= 1;
        }
        if self.claims.next_visit.is_none_or(|next| now >= next) {
            self.claims.next_visit = Some(now + VISIT_EVERY);
            self.namespaces.visit_unnumbered();
        }
    }

    /// Reads the processes of `cgroup` again; its claims count if they are at least `age` old.
    fn review_one(&mut self, cgroup: CgroupId, age: Duration) -> usize {
        if self
            .tree
            .get(cgroup)
            .is_none_or(|node| node.parent.is_none())
        {
            return 1;
        }
        let work = self.refresh(cgroup);
        self.claims.confirm_old(Some(cgroup), age);
        self.assess_pending();
        work
    }

    /// Makes a whole review at once, for a time without events.
    #[cfg(test)]
    pub(super) fn review_all(&mut self) {
        for cgroup in self.tree.top_down() {
            self.review_one(cgroup, Duration::ZERO);
        }
        self.namespaces.visit_all();
    }
}
