//! The cores of a dataplane as the control plane sees them: what they have counted, and moving
//! flow groups between them.

use super::Control;
use crate::engine::{CoreTally, Order, Tally};
use cofferdam_netstack::FLOW_GROUPS;
use std::time::{Duration, Instant};

/// A flow group arrives within microseconds; a core that sleeps deeply, or shares its CPU, later.
const PATIENCE: Duration = Duration::from_secs(1);

impl Control {
    /// What all cores have counted together, and each in short.
    pub(super) fn counted(&self) -> (Tally, Vec<CoreTally>) {
        let all = self.hub.shown();
        let cores = (0_u8..).zip(&all).map(|(core, tally)| CoreTally {
            core,
            cpu: self.config.cores.get(usize::from(core)).and_then(|c| c.cpu),
            groups: (0..FLOW_GROUPS)
                .filter(|group| self.hub.owner(*group) == core)
                .count() as u32,
            connections: tally.groups.iter().map(|g| g.connections).sum(),
            received_packets: tally.received,
            sent_packets: tally.sent,
            steered_in_packets: tally.steered_in,
            busy_cycles: tally.stage_cycles.iter().sum(),
            idle_cycles: tally.idle_cycles,
            sleeps: tally.sleeps,
        });
        let cores = cores.collect();
        let mut all = all.into_iter();
        let mut sum = all.next().unwrap_or_default();
        all.for_each(|other| sum.add(&other));
        for group in &mut sum.groups {
            group.core = self.hub.owner(group.group);
        }
        (sum, cores)
    }

    /// Moves a flow group to a core, and waits until it is there. Says where it was.
    pub(super) fn move_group(&mut self, group: u8, to: u8) -> Result<u8, String> {
        let count = self.hub.count();
        if group >= FLOW_GROUPS {
            return Err(format!(
                "there is no flow group {group}: they are 0 to {}",
                FLOW_GROUPS - 1
            ));
        }
        if usize::from(to) >= count {
            return Err(match count {
                1 => format!("there is no core {to}: this dataplane has one core, 0"),
                _ => format!(
                    "there is no core {to}: this dataplane has cores 0 to {}",
                    count - 1
                ),
            });
        }
        // Two at a time could take one group to two cores.
        if let Some((group, to)) = self.moving
            && self.hub.owner(group) != to
        {
            return Err(format!(
                "flow group {group} is still on its way to core {to}"
            ));
        }
        let from = self.hub.owner(group);
        if from == to {
            return Ok(from);
        }
        self.moving = Some((group, to));
        if !self.hub.order(usize::from(to), Order::Fetch(group)) {
            return Err("it is ending".to_owned());
        }
        let until = Instant::now() + PATIENCE;
        while self.hub.owner(group) != to {
            if Instant::now() >= until {
                return Err(format!(
                    "core {to} has not taken flow group {group} within {PATIENCE:?}"
                ));
            }
            std::thread::sleep(Duration::from_micros(100));
        }
        Ok(from)
    }
}
