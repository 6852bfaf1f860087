//! Counts of a dataplane's cores: their sum, and a summary of each.

use super::meter::Meter;
use crate::config::Core;
use crate::engine::cores::Hub;
use crate::engine::{CoreTally, Tally};
use cofferdam_netstack::FLOW_GROUPS;

/// Sum of the counts of all cores, and a summary of each core.
pub(super) fn counted(hub: &Hub, cores: &[Core], meter: &Meter) -> (Tally, Vec<CoreTally>) {
    let all = hub.shown();
    let each = (0_u8..).zip(&all).map(|(core, tally)| CoreTally {
        core,
        cpu: cores.get(usize::from(core)).and_then(|c| c.cpu),
        groups: (0..FLOW_GROUPS)
            .filter(|group| hub.owner(*group) == core)
            .count() as u32,
        connections: tally.groups.iter().map(|g| g.connections).sum(),
        received_packets: tally.received,
        sent_packets: tally.sent,
        steered_in_packets: tally.steered_in,
        busy_cycles: tally.busy_cycles(),
        idle_cycles: tally.idle_cycles,
        sleeps: tally.sleeps,
        queue_delay_ns: meter.delay(usize::from(core)).as_nanos() as u64,
    });
    let each = each.collect();
    let mut all = all.into_iter();
    let mut sum = all.next().unwrap_or_default();
    all.for_each(|other| sum.add(&other));
    for group in &mut sum.groups {
        group.core = hub.owner(group.group);
    }
    (sum, each)
}
