//! Publication of the loop's counts.

use super::{Engine, Tally, tally};
use cofferdam_xsk::{Port, PortCounters};

impl<P: Port> Engine<P> {
    /// Counts so far.
    pub fn tally(&mut self) -> Tally {
        self.refresh();
        self.tally.clone()
    }

    fn refresh(&mut self) {
        self.tally.devices.clear();
        let counters = self.link.ports().map(Port::counters);
        self.tally.devices.extend(counters);
        let sum = |sum: PortCounters, one| sum.with(one);
        self.tally.port = self.tally.devices.iter().fold(PortCounters::default(), sum);
        self.tally.stack.clear();
        self.tally.stack.extend(self.stack.counters().each());
        self.tally.free_frames = self.memory.available();
        self.tally.groups.clear();
        let groups = (0..).zip(self.stack.groups());
        let groups = groups.map(|(group, usage)| tally::GroupTally {
            group,
            core: self.cores.owner(group),
            connections: usage.connections,
            segments: usage.segments,
        });
        (self.tally.groups).extend(groups.filter(|g| g.connections > 0 || g.segments > 0));
        self.tally.applications.clear();
        for domain in self.domains.iter() {
            self.tally.applications.push(tally::ApplicationTally {
                name: domain.name().to_owned(),
                domain: domain.protection().name(),
                place: domain.seat().place,
                connections: domain.account.connections(),
                held_frames: domain.inbox.count(),
            });
        }
    }

    pub(super) fn show(&mut self) {
        // The loop never waits for a reader; the next publication follows in 10 ms.
        let hub = self.hub();
        let core = hub.cores.get(usize::from(self.cores.id()));
        if let Some(Ok(mut shown)) = core.map(|core| core.shown.try_lock()) {
            self.refresh();
            shown.clone_from(&self.tally);
        }
    }
}
