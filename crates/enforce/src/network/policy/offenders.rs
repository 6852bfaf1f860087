//! Offenders by CPU, with their shares: the containers whose weights are corrected.

use cofferdam_types::CgroupId;

/// Part of a CPU that others always have, even where all known containers are offenders.
const LEAST_OTHERS: f64 = 0.02;

/// Containers that cause work on a CPU, with their shares of it (0..=1).
#[derive(Debug, Default)]
pub(super) struct Offenders(Vec<(CgroupId, u32, f64)>);

impl Offenders {
    pub fn add(&mut self, cgroup: CgroupId, shares: &[(u32, f64)]) {
        let shares = shares.iter().map(|(cpu, share)| (cgroup, *cpu, *share));
        self.0.extend(shares);
    }

    pub fn contains(&self, cgroup: CgroupId, cpu: u32) -> bool {
        self.0.iter().any(|(id, at, _)| *id == cgroup && *at == cpu)
    }

    /// Part of `cpu` for the tasks whose weights are not corrected, once `cgroup` has its `share`.
    pub fn others_share(&self, cgroup: CgroupId, cpu: u32, share: f64) -> f64 {
        let others = self
            .0
            .iter()
            .filter(|(id, at, _)| *id != cgroup && *at == cpu);
        let taken: f64 = others.map(|(_, _, share)| share).sum();
        (1.0 - share - taken).max(LEAST_OTHERS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise 29.
    #[test]
    fn others_have_the_part_that_no_offender_is_entitled_to() {
        let mut offenders = Offenders::default();
        offenders.add(CgroupId(1), &[(0, 0.25), (1, 0.5)]);
        offenders.add(CgroupId(2), &[(0, 0.25)]);
        assert_eq!(offenders.others_share(CgroupId(1), 0, 0.25), 0.5);
        assert_eq!(offenders.others_share(CgroupId(3), 0, 0.25), 0.25);
        assert_eq!(offenders.others_share(CgroupId(1), 1, 0.5), 0.5);
        assert_eq!(offenders.others_share(CgroupId(3), 1, 0.5), LEAST_OTHERS);
        assert!(offenders.contains(CgroupId(2), 0) && !offenders.contains(CgroupId(2), 1));
    }
}
