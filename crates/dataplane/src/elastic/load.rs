//! Load of each core and flow group, as measured and after moves.

use super::reading::{GROUPS, Move, Reading};
use crate::tuning::elastic::SLACK;
use cofferdam_netstack::FLOW_GROUPS;
use std::time::Duration;

/// Loads in busy shares of a core.
#[derive(Clone, Debug)]
pub(super) struct Load {
    cores: Vec<f64>,
    delays: Vec<Duration>,
    groups: [f64; GROUPS],
    connections: [u32; GROUPS],
    most_connections: u32,
    owners: [u8; GROUPS],
    least_cores: u8,
}

impl Load {
    /// The load of a core is divided among its groups by their packets. Work for groups of other
    /// cores, such as receiving for them, counts for its own groups. The gain of moving a group
    /// away is thus never underestimated, and no group moves back because of it.
    pub fn new(
        owners: &[u8; GROUPS],
        reading: &Reading,
        least_cores: u8,
        most_connections: u32,
    ) -> Load {
        let mut packets = vec![0_u64; reading.cores.len()];
        for (owner, count) in owners.iter().zip(&reading.packets) {
            if let Some(sum) = packets.get_mut(usize::from(*owner)) {
                *sum += count;
            }
        }
        let groups = std::array::from_fn(|group| {
            let owner = usize::from(owners[group]);
            match (packets.get(owner), reading.cores.get(owner)) {
                (Some(1..), Some(core)) => {
                    core.busy * reading.packets[group] as f64 / packets[owner] as f64
                }
                _ => 0.0,
            }
        });
        Load {
            cores: reading.cores.iter().map(|core| core.busy).collect(),
            delays: reading.cores.iter().map(|core| core.delay).collect(),
            groups,
            connections: reading.connections,
            most_connections,
            owners: *owners,
            least_cores,
        }
    }

    pub fn cores(&self) -> u8 {
        self.cores.len() as u8
    }

    /// Busy share of a core.
    pub fn of(&self, core: u8) -> f64 {
        self.cores.get(usize::from(core)).copied().unwrap_or(0.0)
    }

    pub fn delay(&self, core: u8) -> Duration {
        let delay = self.delays.get(usize::from(core));
        delay.copied().unwrap_or_default()
    }

    /// Sum of all cores in use.
    pub fn total(&self) -> f64 {
        self.in_use().iter().map(|core| self.of(*core)).sum()
    }

    /// Cores with flow groups, and cores that always have some.
    pub fn in_use(&self) -> Vec<u8> {
        let has_some = |core: &u8| *core < self.least_cores || self.owners.contains(core);
        (0..self.cores()).filter(has_some).collect()
    }

    /// The core in use with the largest value of `what`, the first of several.
    pub fn most(&self, what: impl Fn(u8) -> f64) -> Option<u8> {
        let better = |best: u8, core: u8| if what(core) > what(best) { core } else { best };
        self.in_use().into_iter().reduce(better)
    }

    fn count(&self, core: u8) -> usize {
        self.owners.iter().filter(|owner| **owner == core).count()
    }

    /// Whether a core's table has room for the connections of a group.
    fn has_room(&self, core: u8, group: u8) -> bool {
        let own = self.owners.iter().zip(&self.connections);
        let own = own.filter(|(owner, _)| **owner == core);
        let sum: u32 = own.map(|(_, count)| count).sum();
        let more = self.connections[usize::from(group)];
        more == 0 || sum.saturating_add(more) <= self.most_connections
    }

    fn shift(&mut self, group: u8, to: u8) -> Move {
        let load = self.groups[usize::from(group)];
        let from = std::mem::replace(&mut self.owners[usize::from(group)], to);
        for (core, more) in [(from, -load), (to, load)] {
            if let Some(sum) = self.cores.get_mut(usize::from(core)) {
                *sum += more;
            }
        }
        Move { group, to }
    }

    /// Groups by their load, the busiest first.
    fn busiest(&self) -> Vec<u8> {
        let mut groups: Vec<u8> = (0..FLOW_GROUPS).collect();
        let load = |group: u8| self.groups[usize::from(group)];
        groups.sort_by(|a, b| load(*b).total_cmp(&load(*a)));
        groups
    }

    /// Gives a core groups with load until it has about `share`: the busiest that fit first, from
    /// cores with more. No move makes a core busier than another one was.
    pub fn fill(
        &mut self,
        to: u8,
        share: f64,
        may_give: impl Fn(u8) -> bool,
        may_go: impl Fn(u8) -> bool,
    ) -> Vec<Move> {
        let mut moves = Vec::new();
        for group in self.busiest() {
            let (load, from) = (
                self.groups[usize::from(group)],
                self.owners[usize::from(group)],
            );
            let after = self.of(to) + load;
            if load > 0.0
                && from != to
                && self.of(to) < share
                && after <= share * SLACK
                && self.of(from) > share
                && after < self.of(from)
                && may_give(from)
                && may_go(group)
                && self.has_room(to, group)
            {
                moves.push(self.shift(group, to));
            }
        }
        moves
    }

    /// Gives a core groups without load, so that it gets its share of new connections among
    /// `cores`.
    pub fn even_counts(&mut self, to: u8, cores: usize, may_go: impl Fn(u8) -> bool) -> Vec<Move> {
        let share = GROUPS / cores.max(1);
        let mut moves = Vec::new();
        for group in 0..FLOW_GROUPS {
            let from = self.owners[usize::from(group)];
            if from != to
                && self.groups[usize::from(group)] == 0.0
                && self.count(to) < share
                && self.count(from) > share
                && may_go(group)
                && self.has_room(to, group)
            {
                moves.push(self.shift(group, to));
            }
        }
        moves
    }

    /// Gives all groups of a core to the others in use, each to the one with the least load; `None`
    /// if their connections do not fit.
    pub fn spread(&mut self, core: u8) -> Option<Vec<Move>> {
        let others: Vec<u8> = self.in_use().into_iter().filter(|c| *c != core).collect();
        let mut moves = Vec::new();
        for group in self.busiest() {
            if self.owners[usize::from(group)] != core {
                continue;
            }
            let roomy = others.iter().copied();
            let roomy = roomy.filter(|other| self.has_room(*other, group));
            let idlest = roomy.min_by(|a, b| {
                let counts = || self.count(*a).cmp(&self.count(*b));
                self.of(*a).total_cmp(&self.of(*b)).then_with(counts)
            });
            moves.push(self.shift(group, idlest?));
        }
        Some(moves)
    }
}
