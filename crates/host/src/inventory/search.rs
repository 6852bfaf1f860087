//! Processes that no event tells of: those that have ended, and those that entered a namespace
//! without executing a program.
//!
//! [`Inventory::search`] looks for the processes of a namespace that has packets. `review` reads
//! the processes of all cgroups again, a few at a time, so that the containers are soon those that a
//! scan would find.

use super::Inventory;
use super::claims::WEAK_AGE;
use cofferdam_types::{CgroupId, NetnsId};
use std::time::{Duration, Instant};

/// Namespaces that nobody was found for are looked for again after this time, all in one pass,
const SEARCH_AGAIN: Duration = Duration::from_secs(1);
/// and given up after so many passes, until packets are reported again.
const MAX_SEARCHES: u32 = 10;
/// Namespaces remembered as not found, at most.
const MAX_MISSED: usize = 4096;
/// Time between two parts of a review,
const REVIEW_EVERY: Duration = Duration::from_millis(250);
/// each of so many cgroups and processes,
const REVIEW_WORK: usize = 64;
/// and between two looks into a namespace whose devices no message tells of.
const VISIT_EVERY: Duration = Duration::from_secs(2);

impl Inventory {
    /// Packets arrived in `netns`, and no container is known for it.
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

    /// Searches again for the owners of namespaces with packets. Rare, and bounded: at most once a
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

    /// Ends one pass, and plans the next.
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

    /// All cgroups but the root: first those without a process, then those outside containers.
    fn in_search_order(&self) -> Vec<CgroupId> {
        let mut all = self.tree.top_down();
        all.retain(|id| self.tree.get(*id).is_some_and(|n| n.parent.is_some()));
        all.sort_by_cached_key(|id| {
            let has_process = self.tree.get(*id).is_some_and(|n| !n.members.is_empty());
            (has_process, self.owner(*id).is_some())
        });
        all
    }

    /// Reads the processes of some cgroups again, when it is time.
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

    /// Reads the processes of `cgroup` again; claims of it that are at least `age` old count.
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

    /// A whole review at once, as after some time without events.
    #[cfg(test)]
    pub(super) fn review_all(&mut self) {
        for cgroup in self.tree.top_down() {
            self.review_one(cgroup, Duration::ZERO);
        }
        self.namespaces.visit_all();
    }
}
