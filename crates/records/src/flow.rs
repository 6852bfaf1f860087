//! Transfers: who pays for whom. On each CPU the time that some containers were charged beyond what
//! they caused is matched with the time that others caused beyond what they were charged.

use crate::accounting::{AccountingRecord, ContainerRecord};

/// CPU time that one container was charged for the packets of another, or of no container.
#[derive(Clone, Debug, PartialEq)]
pub struct Flow {
    /// Cgroup of the container that caused it; `None` for packets of no container: the host's own
    /// and forwarded ones.
    pub offender: Option<u64>,
    /// Cgroup of the container that was charged.
    pub victim: u64,
    /// Number of the CPU.
    pub cpu: u32,
    /// Time, nanoseconds.
    pub ns: f64,
}

/// Network CPU that a container caused and no container was charged for. It ran while the CPU was
/// idle, in threads that do network work themselves, or in host tasks.
#[derive(Clone, Debug, PartialEq)]
pub struct Unpaid {
    /// Cgroup of the container that caused it.
    pub offender: u64,
    /// Number of the CPU.
    pub cpu: u32,
    /// Time, nanoseconds.
    pub ns: f64,
}

/// Time that `container` was charged beyond what it caused on the CPU at `place`, nanoseconds.
fn over_ns(container: &ContainerRecord, place: usize) -> f64 {
    let at = |by_cpu: &[u64]| by_cpu.get(place).copied().unwrap_or(0) as f64;
    at(&container.charged_by_cpu_ns) - at(&container.caused_by_cpu_ns)
}

/// Containers in the order of their ids: sums of floating-point numbers depend on their order.
fn by_id(record: &AccountingRecord) -> Vec<&ContainerRecord> {
    let mut containers: Vec<_> = record.containers.iter().collect();
    containers.sort_by_key(|c| c.cgroup_id);
    containers
}

/// Debts of the offenders without the part that [`flows`] assigns to victims.
///
/// A container's debts to victims and to no victim, less what others owe it, add up to its
/// `owed_ns`.
pub fn unpaid(record: &AccountingRecord) -> Vec<Unpaid> {
    let mut left = Vec::new();
    let containers = by_id(record);
    for (place, cpu) in record.cpus.iter().enumerate() {
        let over = |c: &ContainerRecord| over_ns(c, place);
        let owes: f64 = containers.iter().map(|c| (-over(c)).max(0.0)).sum();
        let paid: f64 = containers.iter().map(|c| over(c).max(0.0)).sum();
        if owes <= paid {
            continue;
        }
        for offender in containers.iter().filter(|c| over(c) < 0.0) {
            left.push(Unpaid {
                offender: offender.cgroup_id,
                cpu: cpu.cpu,
                ns: -over(offender) * (owes - paid) / owes,
            });
        }
    }
    left
}

/// Transfers of `record`.
///
/// On a CPU where victims were charged more than offenders owe, the rest belongs to no container.
/// Where they were charged less, each offender has its proportion of it; the remainder ran while
/// the CPU was idle, or in host tasks. Thus the transfers of a victim add up to what it was charged
/// beyond what it caused, on each CPU.
pub fn flows(record: &AccountingRecord) -> Vec<Flow> {
    let mut flows = Vec::new();
    let containers = by_id(record);
    for (place, cpu) in record.cpus.iter().enumerate() {
        let over = |c: &ContainerRecord| over_ns(c, place);
        let owes: f64 = containers.iter().map(|c| (-over(c)).max(0.0)).sum();
        let paid: f64 = containers.iter().map(|c| over(c).max(0.0)).sum();
        let most = owes.max(paid);
        if paid <= 0.0 {
            continue;
        }
        for victim in containers.iter().filter(|c| over(c) > 0.0) {
            let mut rest = over(victim);
            for offender in containers.iter().filter(|c| over(c) < 0.0) {
                let ns = over(victim) * -over(offender) / most;
                rest -= ns;
                flows.push(Flow {
                    offender: Some(offender.cgroup_id),
                    victim: victim.cgroup_id,
                    cpu: cpu.cpu,
                    ns,
                });
            }
            // If the offenders owe enough, the rest is rounding.
            if owes < paid && rest >= 1.0 {
                flows.push(Flow {
                    offender: None,
                    victim: victim.cgroup_id,
                    cpu: cpu.cpu,
                    ns: rest,
                });
            }
        }
    }
    flows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::made_up::{Scene, container};

    /// Sum of the transfers from `offender` to `victim`, milliseconds.
    fn ms(flows: &[Flow], offender: Option<u64>, victim: u64) -> f64 {
        let of = |f: &&Flow| f.offender == offender && f.victim == victim;
        (flows.iter().filter(of).map(|f| f.ns).sum::<f64>() / 1e6).round()
    }

    /// Promise 3.
    #[test]
    fn a_debt_of_one_container_is_charged_to_another() {
        let record = Scene::new(&[
            container(1, "web").caused(430).charged(100),
            container(2, "db").charged(310),
        ])
        .record();
        let flows = flows(&record);
        // 330 ms are owed, 310 ms charged to the victim: 20 ms ran while the CPU was idle.
        assert_eq!(ms(&flows, Some(1), 2), 310.0);
        assert_eq!(flows.len(), 1);
    }

    /// Packets of no container have the rest.
    /// Promise 3.
    #[test]
    fn offenders_share_in_proportion_what_victims_paid() {
        let record = Scene::new(&[
            container(1, "a").caused(300),
            container(2, "b").caused(100),
            container(3, "x").charged(300),
            container(4, "y").charged(500),
        ])
        .record();
        let flows = flows(&record);
        for (victim, paid) in [(3, 300.0), (4, 500.0)] {
            let from = |offender| ms(&flows, offender, victim);
            assert_eq!(from(Some(1)), (paid * 300.0f64 / 800.0).round());
            assert_eq!(from(Some(2)), (paid * 100.0f64 / 800.0).round());
            let all: f64 = flows
                .iter()
                .filter(|f| f.victim == victim)
                .map(|f| f.ns)
                .sum();
            assert!((all / 1e6 - paid).abs() < 1e-6, "{all}");
            assert!(from(None) > 0.0);
        }
    }

    /// Promise 17.
    #[test]
    fn debts_to_victims_and_to_nobody_add_up() {
        let record = Scene::new(&[
            container(1, "web")
                .caused_on(&[430, 50])
                .charged_on(&[100, 0]),
            container(2, "db").charged_on(&[310, 0]),
            container(3, "cache").caused_on(&[100, 20]),
        ])
        .record();
        let (flows, unpaid) = (flows(&record), unpaid(&record));
        for container in &record.containers {
            let id = container.cgroup_id;
            let owes: f64 = flows
                .iter()
                .filter(|f| f.offender == Some(id))
                .map(|f| f.ns)
                .sum();
            let paid: f64 = flows.iter().filter(|f| f.victim == id).map(|f| f.ns).sum();
            let nobody: f64 = unpaid
                .iter()
                .filter(|u| u.offender == id)
                .map(|u| u.ns)
                .sum();
            let owed = owes + nobody - paid;
            assert!(
                (owed - container.owed_ns as f64).abs() < 1.0,
                "{owed} {container:?}"
            );
        }
        assert!(unpaid.iter().any(|u| u.cpu == 1));
    }

    /// Promise 3.
    #[test]
    fn on_another_cpu_nobody_pays() {
        let record = Scene::new(&[
            container(1, "web").caused_on(&[400, 0]),
            container(2, "db").charged_on(&[0, 200]),
        ])
        .record();
        let flows = flows(&record);
        assert_eq!(ms(&flows, Some(1), 2), 0.0);
        assert_eq!(ms(&flows, None, 2), 200.0);
        assert!(super::flows(&Scene::new(&[]).record()).is_empty());
    }
}
