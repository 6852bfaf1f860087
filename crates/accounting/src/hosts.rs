//! Cgroups of the host: decides which of them to forget, and whether to look up the cgroups of the
//! host's sockets.

use cofferdam_types::{CgroupId, ContainerLedger};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Time without any network CPU, caused or charged, after which a cgroup is forgotten.
const QUIET_TIME: Duration = Duration::from_secs(60);
/// Time between two checks for quiet cgroups.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);
/// Part of a CPU that packets for the host's own sockets take. Above it, a BPF program looks up the
/// cgroup of each receiving socket; below, running that program would cost more than the answer is
/// worth.
const LOOKUP_CPUS: f64 = 0.01;
/// Time for which the look-ups continue after traffic was last above [`LOOKUP_CPUS`].
const LOOKUP_TIME: Duration = Duration::from_secs(60);

/// Activity of the host's cgroups.
#[derive(Debug)]
pub(crate) struct HostCgroups {
    /// Network CPU of each cgroup, caused and charged, and the time of its last change.
    idle_since: HashMap<CgroupId, (u64, Instant)>,
    looked: Instant,
    /// Cgroups to forget.
    quiet: Vec<CgroupId>,
    /// Network CPU of the host's packets, and the time of that reading.
    traffic: Option<(u64, Instant)>,
    /// End of the socket look-ups.
    lookups_until: Option<Instant>,
}

impl HostCgroups {
    pub(crate) fn new(now: Instant) -> HostCgroups {
        HostCgroups {
            idle_since: HashMap::new(),
            looked: now,
            quiet: Vec::new(),
            traffic: None,
            lookups_until: None,
        }
    }

    /// Takes the cgroups that have been quiet for long: the caller forgets them.
    pub(crate) fn take_quiet(&mut self) -> Vec<CgroupId> {
        std::mem::take(&mut self.quiet)
    }

    /// Compares the counts of `containers` with the last look, if that is due.
    pub(crate) fn look(&mut self, containers: &[ContainerLedger], now: Instant) {
        if now.saturating_duration_since(self.looked) < LOOK_INTERVAL {
            return;
        }
        self.looked = now;
        let mut idle_since = HashMap::new();
        for entry in containers.iter().filter(|c| c.container.is_of_host()) {
            let (id, ledger) = (entry.container.cgroup, &entry.ledger);
            let counts = ledger.caused_ns() + ledger.charged_network_ns + ledger.charged_other_ns;
            let unchanged = self
                .idle_since
                .get(&id)
                .filter(|(before, _)| *before == counts);
            let since = unchanged.map_or(now, |(_, since)| *since);
            if now.saturating_duration_since(since) >= QUIET_TIME {
                self.quiet.push(id);
            } else {
                idle_since.insert(id, (counts, since));
            }
        }
        self.idle_since = idle_since;
    }

    /// Takes the network CPU of the host's packets so far, nanoseconds, of cgroups with and without
    /// a row.
    pub(crate) fn note_traffic(&mut self, ns: u64, now: Instant) {
        let before = self.traffic.replace((ns, now));
        let Some((earlier, at)) = before else {
            return;
        };
        let passed = now.saturating_duration_since(at).as_nanos() as f64;
        if ns.saturating_sub(earlier) as f64 > LOOKUP_CPUS * passed {
            self.lookups_until = Some(now + LOOKUP_TIME);
        }
    }

    /// Whether the programs must look up the cgroups of sockets that get packets.
    pub(crate) fn needs_socket_lookups(&self, now: Instant) -> bool {
        self.lookups_until.is_some_and(|until| now < until)
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

    /// Cgroups of the host that have traffic, and containers, stay.
    #[test]
    fn a_quiet_cgroup_of_the_host_is_forgotten() {
        let start = Instant::now();
        let mut hosts = HostCgroups::new(start);
        let mut forgotten = Vec::new();
        for step in 1..=20_u32 {
            let now = start + LOOK_INTERVAL * step;
            let mut all = vec![
                entry(2, Runtime::Host, step.into()),
                entry(3, Runtime::Plain, 7),
            ];
            if forgotten.is_empty() {
                all.push(entry(1, Runtime::Host, 7));
            }
            hosts.look(&all, now);
            let quiet = hosts.take_quiet();
            forgotten.extend(quiet.iter().map(|id| (now - start, id.0)));
        }
        assert_eq!(forgotten, [(QUIET_TIME + LOOK_INTERVAL, 1)]);
    }

    #[test]
    fn sockets_are_looked_up_while_the_host_has_traffic() {
        let start = Instant::now();
        let mut hosts = HostCgroups::new(start);
        let at = |s| start + Duration::from_secs(s);
        hosts.note_traffic(0, at(0));
        hosts.note_traffic(9_000_000, at(1));
        assert!(
            !hosts.needs_socket_lookups(at(1)),
            "less than a hundredth of a CPU"
        );
        hosts.note_traffic(30_000_000, at(2));
        assert!(hosts.needs_socket_lookups(at(2)) && hosts.needs_socket_lookups(at(61)));
        hosts.note_traffic(30_000_000, at(3));
        assert!(!hosts.needs_socket_lookups(at(63)));
    }
}
