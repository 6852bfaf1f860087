//! CPU weights of strict containers.
//!
//! On its own CPUs a container's weight matters only against borrowers and host processes in
//! sibling cgroups: it gets the largest. On a slice CPU the weights divide the CPU among the strict
//! containers. The kernel spreads a cgroup's weight by load over the CPUs where it runs. A
//! container with `w` CPUs of its own has about one part in `w + 1` of it on its slice CPU, so its
//! weight is proportional to slice × (w + 1). For containers with only a slice this is exact: each
//! gets at least its slice, and the rest is shared in proportion. With whole CPUs it holds if the
//! container's load is spread evenly.
//!
//! Rejected: a quota per slice. It would be exact for mixed containers too, but leaves the rest of
//! the CPU idle. On kernels since 6.18 a quota that is written often has no effect.

use crate::Plan;
use cofferdam_types::CgroupId;

/// Weight as a part of the largest that the kernel accepts, in parts per million.
pub type Share = u64;

/// Largest share.
pub const LARGEST: Share = 1_000_000;

/// Smallest and largest `cpu.shares` (v1) and `cpu.weight` (v2). Source: kernel/sched/core.c
/// (MAX_SHARES 1 << 18), Documentation/admin-guide/cgroup-v2.rst.
const V1: (u64, u64) = (2, 262_144);
const V2: (u64, u64) = (1, 10_000);

/// Share that `id` needs; `None` if its weight may stay as it is.
pub fn of(plan: &Plan, id: CgroupId, lending: bool) -> Option<Share> {
    let place = plan.placements.get(&id)?;
    let Some((cpu, _)) = place.slice else {
        return lending.then_some(LARGEST);
    };
    let need = |own: usize, milli: u32| u64::from(milli) * (own as u64 + 1);
    let mut sharers = 0;
    let mut most = 0;
    let mut mine = 0;
    for (other, p) in &plan.placements {
        if let Some((c, milli)) = p.slice
            && c == cpu
        {
            let one = need(p.own.len(), milli);
            sharers += 1;
            most = most.max(one);
            if *other == id {
                mine = one;
            }
        }
    }
    (lending || sharers > 1).then(|| (LARGEST * mine).div_ceil(most.max(1)))
}

/// File of the cpu controller, and the value for it.
pub fn value(share: Share, v1: bool) -> (&'static str, String) {
    let (file, (least, most)) = if v1 {
        ("cpu.shares", V1)
    } else {
        ("cpu.weight", V2)
    };
    (
        file,
        (share * most / LARGEST).clamp(least, most).to_string(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Placement;
    use cofferdam_types::CpuId;

    /// Container with its own CPUs, and the CPU and thousandths of its slice.
    type Place<'a> = (u64, &'a [u32], Option<(u32, u32)>);

    fn plan(places: &[Place<'_>]) -> Plan {
        let mut plan = Plan::default();
        for (id, own, slice) in places {
            let place = Placement {
                own: own.iter().copied().map(CpuId).collect(),
                slice: slice.map(|(cpu, milli)| (CpuId(cpu), milli)),
            };
            plan.placements.insert(CgroupId(*id), place);
        }
        plan
    }

    #[test]
    fn slices_divide_their_cpu() {
        let plan = plan(&[(1, &[], Some((3, 500))), (2, &[], Some((3, 250)))]);
        assert_eq!(of(&plan, CgroupId(1), false), Some(LARGEST));
        assert_eq!(of(&plan, CgroupId(2), false), Some(LARGEST / 2));
        assert_eq!(value(LARGEST / 2, true), ("cpu.shares", "131072".into()));
        assert_eq!(value(LARGEST / 2, false), ("cpu.weight", "5000".into()));
    }

    #[test]
    fn whole_cpus_dilute_a_weight() {
        let plan = plan(&[(1, &[1], Some((3, 500))), (2, &[], Some((3, 500)))]);
        assert_eq!(of(&plan, CgroupId(1), false), Some(LARGEST));
        assert_eq!(of(&plan, CgroupId(2), false), Some(LARGEST / 2));
    }

    #[test]
    fn alone_and_without_lending_a_weight_stays() {
        let plan = plan(&[(1, &[1], None), (2, &[], Some((3, 100)))]);
        assert_eq!(of(&plan, CgroupId(1), false), None);
        assert_eq!(of(&plan, CgroupId(2), false), None);
        assert_eq!(of(&plan, CgroupId(1), true), Some(LARGEST));
        assert_eq!(value(0, true).1, "2");
        assert_eq!(value(0, false).1, "1");
    }
}
