//! The cores of a dataplane as the control plane sees them: what they have counted, and moving
//! flow groups between them.

use super::Control;
use crate::engine::{CoreTally, Order, Tally};
use cofferdam_netstack::FLOW_GROUPS;
use std::time::{Duration, Instant};

/// A flow group arrives within microseconds; a core that sleeps deeply, or shares its CPU, later.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);
/// How long to wait for a group between looks.
pub(super) const LOOK: Duration = Duration::from_micros(50);
/// A move that the planner has begun is waited for so long before one by hand is refused.
const MOMENT: Duration = Duration::from_millis(50);

/// A flow group on its way.
#[derive(Clone, Copy, Debug)]
pub(super) struct OnItsWay {
    pub group: u8,
    pub to: u8,
    pub since: Instant,
}

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
            busy_cycles: tally.busy_cycles(),
            idle_cycles: tally.idle_cycles,
            sleeps: tally.sleeps,
            queue_delay_ns: self.meter.delay(usize::from(core)).as_nanos() as u64,
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
        let until = Instant::now() + MOMENT;
        while let Some(other) = self.on_its_way() {
            if Instant::now() >= until {
                return Err(format!(
                    "flow group {} is still moving to core {}",
                    other.group, other.to
                ));
            }
            std::thread::sleep(LOOK);
        }
        let from = self.hub.owner(group);
        if from != to {
            self.begin_move(group, to)?;
        }
        let until = Instant::now() + PATIENCE;
        while self.hub.owner(group) != to {
            if Instant::now() >= until {
                return Err(format!(
                    "core {to} has not taken over flow group {group} within {PATIENCE:?}"
                ));
            }
            std::thread::sleep(LOOK);
        }
        if let Some(scaler) = &mut self.scaler {
            scaler.moved_by_hand(group);
        }
        Ok(from)
    }

    /// Has a core fetch a flow group, and waits for nothing. None may be on its way.
    pub(super) fn begin_move(&mut self, group: u8, to: u8) -> Result<(), String> {
        self.moving = Some(OnItsWay {
            group,
            to,
            since: Instant::now(),
        });
        if !self.hub.order(usize::from(to), Order::Fetch(group)) {
            return Err("it is ending".to_owned());
        }
        Ok(())
    }

    /// The flow group that has not arrived yet, if any.
    pub(super) fn on_its_way(&mut self) -> Option<OnItsWay> {
        let has_arrived = |m: &OnItsWay| self.hub.owner(m.group) == m.to;
        self.moving.take_if(|m| has_arrived(m));
        self.moving
    }
}
