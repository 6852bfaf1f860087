//! Cgroups of the host: which of them make room for others, and when their sockets must be looked at.

use cofferdam_types::{CgroupId, ContainerLedger};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// One that neither paid for packets nor got any for so long makes room for others.
const QUIET: Duration = Duration::from_secs(60);
/// How often that is looked at.
const LOOK: Duration = Duration::from_secs(5);
/// Part of a CPU that packets of the host take, from which their sockets are asked for the cgroup:
/// below, a program a packet costs more than the answer is worth.
const COUNTS_CPUS: f64 = 0.01;
/// Sockets are asked for so long after that.
const ASKED: Duration = Duration::from_secs(60);

/// What was seen of them last.
#[derive(Debug)]
pub(crate) struct HostCgroups {
    /// What each had caused and was charged, and since when.
    still: HashMap<CgroupId, (u64, Instant)>,
    looked: Instant,
    /// Those that are to make room.
    quiet: Vec<CgroupId>,
    /// Network CPU of the host's packets, and when that was.
    traffic: Option<(u64, Instant)>,
    /// Until when sockets are asked.
    asked: Option<Instant>,
}

impl HostCgroups {
    pub(crate) fn new(now: Instant) -> HostCgroups {
        HostCgroups {
            still: HashMap::new(),
            looked: now,
            quiet: Vec::new(),
            traffic: None,
            asked: None,
        }
    }

    /// Those that have been quiet for long: to be forgotten now.
    pub(crate) fn take_quiet(&mut self) -> Vec<CgroupId> {
        std::mem::take(&mut self.quiet)
    }

    /// Looks at what each of `containers` has done since the last look.
    pub(crate) fn look(&mut self, containers: &[ContainerLedger], now: Instant) {
        if now.saturating_duration_since(self.looked) < LOOK {
            return;
        }
        self.looked = now;
        let mut still = HashMap::new();
        for entry in containers.iter().filter(|c| c.container.is_of_host()) {
            let (id, ledger) = (entry.container.cgroup, &entry.ledger);
            let counts = ledger.caused_ns() + ledger.charged_network_ns + ledger.charged_other_ns;
            let known = self.still.get(&id).filter(|(before, _)| *before == counts);
            let since = known.map_or(now, |(_, since)| *since);
            if now.saturating_duration_since(since) >= QUIET {
                self.quiet.push(id);
            } else {
                still.insert(id, (counts, since));
            }
        }
        self.still = still;
    }

    /// Takes in what the packets of the host have taken, known cgroups and unknown ones, nanoseconds.
    pub(crate) fn note_traffic(&mut self, ns: u64, now: Instant) {
        let before = self.traffic.replace((ns, now));
        let Some((earlier, at)) = before else {
            return;
        };
        let passed = now.saturating_duration_since(at).as_nanos() as f64;
        if ns.saturating_sub(earlier) as f64 > COUNTS_CPUS * passed {
            self.asked = Some(now + ASKED);
        }
    }

    /// Whether the sockets that get packets are to be asked whose they are.
    pub(crate) fn asks_sockets(&self, now: Instant) -> bool {
        self.asked.is_some_and(|until| now < until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cofferdam_types::{Container, Ledger, Runtime};
    use std::collections::BTreeMap;
    use std::sync::Arc;

    fn entry(id: u64, runtime: Runtime, charged_network_ns: u64) -> ContainerLedger {
        ContainerLedger {
            container: Arc::new(Container {
                runtime,
                ..Container::plain(CgroupId(id), format!("/{id}"), "one")
            }),
            ledger: Ledger {
                charged_network_ns,
                ..Ledger::default()
            },
            caused_by_cpu_ns: Vec::new(),
            charged_by_cpu_ns: Vec::new(),
            interruptions_by_cpu: Vec::new(),
            received_from: BTreeMap::new(),
        }
    }

    #[test]
    fn only_a_cgroup_of_the_host_that_is_quiet_for_long_makes_room() {
        let start = Instant::now();
        let mut hosts = HostCgroups::new(start);
        let mut gone = Vec::new();
        for step in 1..=20_u32 {
            let now = start + LOOK * step;
            let mut all = vec![
                entry(2, Runtime::Host, step.into()),
                entry(3, Runtime::Plain, 7),
            ];
            if gone.is_empty() {
                all.push(entry(1, Runtime::Host, 7));
            }
            hosts.look(&all, now);
            let quiet = hosts.take_quiet();
            gone.extend(quiet.iter().map(|id| (now - start, id.0)));
        }
        assert_eq!(gone, [(QUIET + LOOK, 1)]);
    }

    #[test]
    fn sockets_are_asked_while_the_host_has_traffic_worth_it() {
        let start = Instant::now();
        let mut hosts = HostCgroups::new(start);
        let at = |s| start + Duration::from_secs(s);
        hosts.note_traffic(0, at(0));
        hosts.note_traffic(9_000_000, at(1));
        assert!(!hosts.asks_sockets(at(1)), "less than a hundredth of a CPU");
        hosts.note_traffic(30_000_000, at(2));
        assert!(hosts.asks_sockets(at(2)) && hosts.asks_sockets(at(61)));
        hosts.note_traffic(30_000_000, at(3));
        assert!(!hosts.asks_sockets(at(63)));
    }
}
