//! Scheduling domains: the groups that are balanced at each level of the topology.

use cofferdam_types::LogicalCpu;

/// One level of one part of the host, whose groups are balanced with each other.
#[derive(Clone, Debug)]
pub(super) struct Domain {
    pub groups: Vec<Vec<usize>>,
    pub cpus: usize,
    /// Percentage of the own load that another group must exceed. Source: kernel/sched/topology.c,
    /// `sd_init`.
    pub imbalance_pct: f64,
    /// Whether its CPUs share a core.
    pub is_core: bool,
    /// Whether it contains several NUMA nodes.
    pub is_numa: bool,
}

/// View of one domain from a CPU.
#[derive(Clone, Copy, Debug)]
pub(super) struct Level {
    pub domain: usize,
    /// Group of the CPU in the domain.
    pub group: usize,
    /// Time between two balancing attempts, milliseconds; 16 times that on a busy CPU.
    pub interval_ms: u64,
    pub looked_ns: u64,
    /// Consecutive attempts that found work to move and moved none.
    pub failed: u32,
}

/// Key that is equal for the CPUs of one domain.
type Key = fn(&LogicalCpu) -> u32;

/// All domains, and the levels of each CPU from its core upward. Isolated CPUs have none.
pub(super) fn domains(cpus: &[LogicalCpu]) -> (Vec<Domain>, Vec<Vec<Level>>) {
    let keys: [(Key, f64); 4] = [
        (|c| c.core, 110.0),
        (|c| c.llc, 117.0),
        (|c| c.node, 117.0),
        (|_| 0, 125.0),
    ];
    let mut domains = Vec::new();
    let mut levels = vec![Vec::new(); cpus.len()];
    // The groups of a level are the domains of the level below.
    let mut spans: Vec<Vec<usize>> = (0..cpus.len())
        .filter(|i| !cpus[*i].isolated)
        .map(|i| vec![i])
        .collect();
    for (depth, (key, imbalance_pct)) in keys.into_iter().enumerate() {
        let mut by_key: Vec<(u32, Vec<Vec<usize>>)> = Vec::new();
        for span in spans {
            let key = key(&cpus[span[0]]);
            match by_key.iter_mut().find(|(k, _)| *k == key) {
                Some((_, groups)) => groups.push(span),
                None => by_key.push((key, vec![span])),
            }
        }
        spans = Vec::new();
        for (_, groups) in by_key {
            let all: Vec<usize> = groups.concat();
            // A level with a single group needs no balancing.
            if groups.len() > 1 {
                for (group, members) in groups.iter().enumerate() {
                    for cpu in members {
                        levels[*cpu].push(Level {
                            domain: domains.len(),
                            group,
                            interval_ms: all.len() as u64,
                            looked_ns: 0,
                            failed: 0,
                        });
                    }
                }
                domains.push(Domain {
                    cpus: all.len(),
                    groups,
                    imbalance_pct,
                    is_core: depth == 0,
                    is_numa: depth == 3,
                });
            }
            spans.push(all);
        }
    }
    (domains, levels)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Shape;

    #[test]
    fn a_domain_for_each_level_that_has_groups() {
        let shape = Shape {
            nodes: 2,
            llcs_per_node: 2,
            cores_per_llc: 3,
            threads_per_core: 2,
        };
        let (domains, levels) = domains(&shape.topology().unwrap().cpus);
        let sizes: Vec<usize> = levels[0].iter().map(|l| domains[l.domain].cpus).collect();
        assert_eq!(sizes, [2, 6, 12, 24]);
        assert_eq!(domains.len(), 12 + 4 + 2 + 1);
        let flat = Shape {
            nodes: 1,
            llcs_per_node: 1,
            cores_per_llc: 2,
            threads_per_core: 1,
        };
        let (domains, levels) = super::domains(&flat.topology().unwrap().cpus);
        assert_eq!((domains.len(), levels[0].len()), (1, 1));
        assert_eq!(domains[0].groups, [[0], [1]]);
    }
}
