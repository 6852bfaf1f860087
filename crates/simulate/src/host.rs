//! Simulated host: its CPUs, their topology, and the scheduler's constants.

use cofferdam_types::{CpuId, LogicalCpu, Topology};

/// Most CPUs that are simulated: the common limit of Linux builds for x86-64.
pub const MOST_CPUS: usize = 1024;

/// Version of the host's weight files, which differ in the largest weight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CgroupVersion {
    /// `cpu.shares`, at most 256 times the default.
    V1,
    /// `cpu.weight`, at most 100 times the default.
    #[default]
    V2,
}

/// Simulated host.
#[derive(Clone, Debug, PartialEq)]
pub struct Host {
    /// Online CPUs.
    pub topology: Topology,
    /// Ticks per second (`CONFIG_HZ`).
    pub tick_hz: u32,
    /// EEVDF's slice of each task, nanoseconds.
    pub base_slice_ns: u64,
    /// Version of the cpu controller.
    pub cgroup: CgroupVersion,
}

impl Host {
    /// Creates a host with the constants that Linux derives from the number of CPUs.
    pub fn new(topology: Topology) -> Host {
        let base_slice_ns = base_slice_ns(topology.cpus.len());
        Host {
            topology,
            tick_hz: 250,
            base_slice_ns,
            cgroup: CgroupVersion::V2,
        }
    }

    /// Time between two ticks, nanoseconds.
    pub fn tick_ns(&self) -> u64 {
        1_000_000_000 / u64::from(self.tick_hz)
    }
}

/// Slice on a host with `cpus` CPUs, nanoseconds: 0.7 ms × (1 + log2 of the CPUs, of which at most
/// 8 count). Source: kernel/sched/fair.c, `sysctl_sched_base_slice` and `get_update_sysctl_factor`
/// (0.75 ms up to Linux 6.15, 0.7 ms since).
pub fn base_slice_ns(cpus: usize) -> u64 {
    700_000 * (1 + u64::from(cpus.clamp(1, 8).ilog2()))
}

/// Regular topology: nodes of last-level caches of cores of hardware threads. Siblings are numbered
/// as by the firmware of most servers: first one thread of every core, then the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Number of NUMA nodes.
    pub nodes: u32,
    /// Last-level caches per node.
    pub llcs_per_node: u32,
    /// Cores per last-level cache.
    pub cores_per_llc: u32,
    /// Hardware threads per core.
    pub threads_per_core: u32,
}

impl Shape {
    /// Number of CPUs; `None` if it is 0 or exceeds [`MOST_CPUS`].
    pub fn cpus(&self) -> Option<usize> {
        let parts = [
            self.nodes,
            self.llcs_per_node,
            self.cores_per_llc,
            self.threads_per_core,
        ];
        let product = parts.iter().try_fold(1usize, |product, part| {
            product.checked_mul(usize::try_from(*part).ok()?)
        })?;
        (1..=MOST_CPUS).contains(&product).then_some(product)
    }

    /// CPUs of the host; `None` if there are none, or more than [`MOST_CPUS`].
    pub fn topology(&self) -> Option<Topology> {
        let cpus = self.cpus()? as u32;
        let cores = cpus / self.threads_per_core;
        let one = |cpu: u32| {
            let core = cpu % cores;
            let llc = core / self.cores_per_llc;
            LogicalCpu {
                cpu: CpuId(cpu),
                core,
                llc,
                node: llc / self.llcs_per_node,
                isolated: false,
            }
        };
        Some(Topology {
            cpus: (0..cpus).map(one).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slice_grows_with_the_cpus_up_to_eight() {
        let slices: Vec<u64> = [1, 2, 4, 8, 24, 256].map(base_slice_ns).into();
        assert_eq!(
            slices,
            [
                700_000, 1_400_000, 2_100_000, 2_800_000, 2_800_000, 2_800_000
            ]
        );
    }

    #[test]
    fn siblings_are_numbered_apart() {
        let shape = Shape {
            nodes: 2,
            llcs_per_node: 2,
            cores_per_llc: 3,
            threads_per_core: 2,
        };
        let cpus = shape.topology().unwrap().cpus;
        assert_eq!(cpus.len(), 24);
        assert_eq!(cpus[0].core, cpus[12].core);
        assert_eq!((cpus[5].llc, cpus[6].llc), (1, 2));
        assert_eq!((cpus[5].node, cpus[6].node), (0, 1));
    }

    #[test]
    fn a_host_has_a_bounded_number_of_cpus() {
        for (nodes, cores) in [(0, 1), (1, 0), (u32::MAX, u32::MAX), (2, 1024)] {
            let shape = Shape {
                nodes,
                llcs_per_node: 1,
                cores_per_llc: cores,
                threads_per_core: 1,
            };
            assert!(shape.topology().is_none());
        }
    }
}
