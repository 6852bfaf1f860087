//! Moves of flow groups between cores, one at a time.

use crate::engine::Order;
use crate::engine::cores::Hub;
use crate::tuning::control::{MOVE_LOOK, MOVE_PATIENCE, MOVE_TURN};
use cofferdam_netstack::FLOW_GROUPS;
use std::sync::Arc;
use std::time::Instant;

/// A flow group that is moving.
#[derive(Clone, Copy, Debug)]
pub(super) struct OnItsWay {
    pub group: u8,
    pub to: u8,
    pub since: Instant,
}

/// Flow groups of one dataplane and their moves.
pub(super) struct Moves {
    hub: Arc<Hub>,
    /// The move in progress.
    current: Option<OnItsWay>,
}

impl Moves {
    /// Starts without a move.
    pub fn new(hub: Arc<Hub>) -> Moves {
        Moves { hub, current: None }
    }

    /// Core that has a flow group, or had it before the move in progress.
    pub fn owner(&self, group: u8) -> u8 {
        self.hub.owner(group)
    }

    /// Moves a flow group to a core, and waits until it has arrived. Returns the core that had it.
    pub fn make(&mut self, group: u8, to: u8) -> Result<u8, String> {
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
        // Two moves at a time could take one group to two cores.
        let until = Instant::now() + MOVE_TURN;
        while let Some(other) = self.on_its_way() {
            if Instant::now() >= until {
                return Err(format!(
                    "flow group {} is still moving to core {}",
                    other.group, other.to
                ));
            }
            std::thread::sleep(MOVE_LOOK);
        }
        let from = self.hub.owner(group);
        if from != to {
            self.begin(group, to)?;
        }
        let until = Instant::now() + MOVE_PATIENCE;
        while self.hub.owner(group) != to {
            if Instant::now() >= until {
                return Err(format!(
                    "core {to} has not taken over flow group {group} within {MOVE_PATIENCE:?}"
                ));
            }
            std::thread::sleep(MOVE_LOOK);
        }
        Ok(from)
    }

    /// Makes a core fetch a flow group, without waiting. No move may be in progress.
    pub fn begin(&mut self, group: u8, to: u8) -> Result<(), String> {
        self.current = Some(OnItsWay {
            group,
            to,
            since: Instant::now(),
        });
        if !self.hub.order(usize::from(to), Order::Fetch(group)) {
            return Err("it is stopping".to_owned());
        }
        Ok(())
    }

    /// Move in progress, if there is one.
    pub fn on_its_way(&mut self) -> Option<OnItsWay> {
        let has_arrived = |m: &OnItsWay| self.hub.owner(m.group) == m.to;
        self.current.take_if(|m| has_arrived(m));
        self.current
    }
}
