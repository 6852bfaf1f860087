//! Hosts for the tests.

use cofferdam_types::{CgroupId, CpuAmount, CpuId, LogicalCpu, Topology};
use proptest::prelude::*;

/// Host of sockets × caches × cores × threads. Siblings are numbered as on x86: CPU n and n +
/// number of cores.
pub fn host(sockets: u32, caches: u32, cores: u32, threads: u32) -> Topology {
    let all = sockets * caches * cores;
    let cpus = (0..threads)
        .flat_map(|thread| {
            (0..all).map(move |core| LogicalCpu {
                cpu: CpuId(thread * all + core),
                core,
                llc: core / cores,
                node: core / (cores * caches),
                isolated: false,
            })
        })
        .collect();
    Topology { cpus }
}

pub fn cpus(amount: f64) -> CpuAmount {
    CpuAmount::try_from(amount).unwrap()
}

/// Host of up to 4 sockets × 64 cores × 2 threads, with some CPUs offline or isolated.
pub fn any_host() -> impl Strategy<Value = Topology> {
    let size = (
        1u32..=4,
        prop_oneof![Just(1u32), Just(2), Just(4)],
        1u32..=2,
    );
    let holes = prop_oneof![
        Just((Vec::new(), Vec::new())),
        (
            prop::collection::vec(any::<prop::sample::Index>(), 0..40),
            prop::collection::vec(any::<prop::sample::Index>(), 0..20),
        ),
    ];
    (size, holes)
        .prop_flat_map(|((sockets, caches, threads), holes)| {
            (
                Just((sockets, caches, threads)),
                1..=64 / caches,
                Just(holes),
            )
        })
        .prop_map(|((sockets, caches, threads), cores, (offline, isolated))| {
            let mut topology = host(sockets, caches, cores, threads);
            for index in isolated {
                let at = index.index(topology.cpus.len());
                topology.cpus[at].isolated = true;
            }
            for index in offline {
                if topology.cpus.len() > 1 {
                    topology.cpus.remove(index.index(topology.cpus.len()));
                }
            }
            topology
        })
}

/// Amounts as people request them: mostly small, whole or halves, sometimes odd or huge.
pub fn any_amount() -> impl Strategy<Value = CpuAmount> {
    prop_oneof![
        4 => (1u32..=8).prop_map(|n| n * 1000),
        3 => (1u32..=16).prop_map(|n| n * 500),
        3 => 1u32..1000,
        2 => 1u32..20_000,
        1 => 1u32..600_000,
    ]
    .prop_map(|milli| CpuAmount::from_milli_cpus(milli).unwrap())
}

/// One change of the requests.
#[derive(Clone, Debug)]
pub enum Change {
    Ask(CgroupId, CpuAmount),
    Leave(CgroupId),
}

pub fn any_change() -> impl Strategy<Value = Change> {
    let id = (1u64..40).prop_map(CgroupId);
    prop_oneof![
        3 => (id.clone(), any_amount()).prop_map(|(id, amount)| Change::Ask(id, amount)),
        1 => id.prop_map(Change::Leave),
    ]
}

/// Applies a change as a rule file would: requests keep the order of their first appearance.
pub fn apply(requests: &mut Vec<(CgroupId, CpuAmount)>, change: &Change) {
    match change {
        Change::Leave(id) => requests.retain(|(other, _)| other != id),
        Change::Ask(id, amount) => match requests.iter_mut().find(|(other, _)| other == id) {
            Some(request) => request.1 = *amount,
            None => requests.push((*id, *amount)),
        },
    }
}
