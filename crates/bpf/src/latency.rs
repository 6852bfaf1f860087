//! The latency programs: sizes, load, attach; filters in, reports and counts out.

mod report;
mod ring;
mod sweep;

pub use report::{Class, Direction, End, Miss, Point, Report, decode_report};
pub use ring::{ReportCounts, ReportRing};

use crate::cost::{self, ProgramCost};
use crate::hooks::HookDescriptors;
use crate::load::{LoadError, loading};
use crate::skeleton::latency_types::{lt_config, lt_counts, lt_way_counts};
use crate::skeleton::{LatencySkel, LatencySkelBuilder};
use crate::support::{
    failed, kernel_has_tracepoint, possible_cpus, require_device_hooks, require_tracepoints,
};
use cofferdam_types::NetnsId;
use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{Link, MapCore, MapFlags, OpenObject};
use std::collections::BTreeMap;
use std::mem::{MaybeUninit, offset_of, size_of};
use std::os::fd::AsFd;

/// Memory of the programs, fixed at load.
#[derive(Clone, Copy, Debug)]
pub struct LatencySizes {
    /// Most packets in flight; rounded up to a power of two, at least 64. About 270 bytes each.
    pub packets: u32,
    /// Reports in the ring of a CPU until they are overwritten; rounded up to a power of two, at
    /// least 64. 136 bytes each.
    pub reports_per_cpu: u32,
    /// Containers that can be measured at the same time.
    pub containers: u32,
}

impl Default for LatencySizes {
    fn default() -> Self {
        LatencySizes {
            packets: 16_384,
            reports_per_cpu: 32_768,
            containers: 256,
        }
    }
}

/// First point of egress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// System call that sends. Costs every system call of the host some 50 ns.
    Send,
    /// The queue of the container's device.
    Queue,
    /// Queue of the container's device as well, seen by programs on devices
    /// ([`LatencyPrograms::hooks`]) instead of the host's tracepoints.
    Device,
}

/// Choice of the packets that are measured for one container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filter {
    /// Whether packets are measured that leave.
    pub egress: bool,
    /// Whether packets are measured that come.
    pub ingress: bool,
    /// Whether to measure each [`Class`]: ICMP, UDP, TCP, other.
    pub classes: [bool; 4],
    /// Index of the container's only device to measure.
    pub ifindex: Option<u32>,
    /// Port that must be at either end of a packet.
    pub port: Option<u16>,
    /// One flow in this many; 1 is every flow.
    pub one_in: u32,
}

impl Default for Filter {
    fn default() -> Self {
        Filter {
            egress: true,
            ingress: true,
            classes: [true; 4],
            ifindex: None,
            port: None,
            one_in: 1,
        }
    }
}

/// Packets, reports and misses of one container since its row was assigned. GSO and GRO packets
/// count by their segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets that need a report, by direction and class.
    pub packets: [[u64; 4]; 2],
    /// Packets that have a report.
    pub reports: [[u64; 4]; 2],
    /// Packets without a report, by direction and [`Miss`].
    pub misses: [[u64; Miss::COUNT]; 2],
}

/// Loaded and attached programs. Dropping it detaches all programs and frees all maps.
pub struct LatencyPrograms {
    // Drop order: first the links, then the mapping, last the object.
    #[allow(dead_code, reason = "held: dropping a link detaches its program")]
    links: Vec<Link>,
    skeleton: LatencySkel<'static>,
    sizes: LatencySizes,
    start: Start,
    /// Classes whose received packets each row measures, a bit each.
    ingress: BTreeMap<u32, u32>,
}

/// Programs that are attached only if egress begins at the system call.
const SEND_PROGRAMS: [&str; 3] = ["lt_sys_enter", "lt_softirq_entry", "lt_softirq_exit"];

/// Programs that are attached where packets enter and leave devices.
const HOOKS: [&str; 2] = ["lt_hook_ingress", "lt_hook_egress"];
/// Programs that report that a socket has the packet.
const SOCKET_PROGRAMS: [&str; 3] = ["lt_sk_data_ready", "lt_tcp_probe", "lt_inet_sock_set_state"];

/// Program that is called, not attached.
const SWEEP_PROGRAM: &str = "lt_sweep";

/// Tracepoints without which nothing can be measured.
pub const LATENCY_TRACEPOINTS: [&str; 6] = [
    "net_dev_queue",
    "net_dev_start_xmit",
    "netif_receive_skb",
    "skb_copy_datagram_iovec",
    "consume_skb",
    "kfree_skb",
];

impl LatencyPrograms {
    /// Loads and attaches everything; measures nothing until [`LatencyPrograms::set`]. With
    /// `hardware_stamps` the programs read the hardware timestamp of each packet that a host device
    /// receives.
    ///
    /// # Errors
    /// [`LoadError`] if this kernel or this caller cannot load them.
    pub fn load(
        sizes: LatencySizes,
        start: Start,
        hardware_stamps: bool,
    ) -> Result<LatencyPrograms, LoadError> {
        match start {
            Start::Device => require_device_hooks()?,
            Start::Send | Start::Queue => require_tracepoints(&LATENCY_TRACEPOINTS)?,
        }
        let sizes = LatencySizes {
            packets: sizes.packets.clamp(64, 1 << 22).next_power_of_two(),
            reports_per_cpu: sizes.reports_per_cpu.clamp(64, 1 << 22).next_power_of_two(),
            containers: sizes.containers.clamp(1, 1 << 16),
        };
        // The skeleton borrows this small block for its life; each load leaks one.
        let storage = Box::leak(Box::new(MaybeUninit::<OpenObject>::uninit()));
        let mut open = LatencySkelBuilder::default()
            .open(storage)
            .map_err(failed("open the latency programs"))?;
        let cpus = possible_cpus();
        if let Some(rodata) = open.maps.rodata_data.as_deref_mut() {
            rodata.bucket_mask = sizes.packets / 4 - 1;
            rodata.ring_mask = sizes.reports_per_cpu - 1;
            rodata.watch_sends = u32::from(start == Start::Send);
            rodata.cpu_count = cpus;
            rodata.by_devices = u32::from(start == Start::Device);
            rodata.hardware_stamps = u32::from(hardware_stamps);
        }
        let set = |map: &mut libbpf_rs::OpenMapMut<'_>, entries: u32| {
            map.set_max_entries(entries).map_err(failed("size a map"))
        };
        set(&mut open.maps.buckets, sizes.packets / 4)?;
        set(&mut open.maps.heads, sizes.packets)?;
        set(&mut open.maps.ranges, sizes.packets / 4)?;
        set(&mut open.maps.cpus, cpus)?;
        set(&mut open.maps.reports, cpus * sizes.reports_per_cpu)?;
        set(&mut open.maps.rows, sizes.containers * 2)?;
        set(&mut open.maps.configs, sizes.containers + 1)?;
        set(&mut open.maps.counts, sizes.containers + 1)?;
        for mut program in open.open_object_mut().progs_mut() {
            let name = program.name().to_string_lossy().into_owned();
            let point = name.strip_prefix("lt_").unwrap_or(&name);
            let point = program_tracepoint(point);
            if name == SWEEP_PROGRAM {
                continue;
            }
            let is_hook = HOOKS.contains(&name.as_str());
            let wanted = match start {
                Start::Device => is_hook || SOCKET_PROGRAMS.contains(&name.as_str()),
                Start::Queue => !is_hook && !SEND_PROGRAMS.contains(&name.as_str()),
                Start::Send => !is_hook,
            };
            if !wanted || (!is_hook && kernel_has_tracepoint(point) == Some(false)) {
                program.set_autoload(false);
            }
        }
        let skeleton = loading("load the latency programs", || open.load())?;
        let mut programs = LatencyPrograms {
            links: Vec::new(),
            skeleton,
            sizes,
            start,
            ingress: BTreeMap::new(),
        };
        programs.attach(true)?;
        Ok(programs)
    }

    /// Detaches the programs temporarily, or attaches them again. Packets in flight count as missed
    /// (`unseen`).
    ///
    /// # Errors
    /// The kernel refuses; the programs that were attached until then stay attached.
    pub fn attach(&mut self, on: bool) -> Result<(), LoadError> {
        self.links.clear();
        if !on {
            return Ok(());
        }
        for program in self.skeleton.object_mut().progs_mut() {
            let name = program.name().to_string_lossy().into_owned();
            if program.autoload() && name != SWEEP_PROGRAM && !HOOKS.contains(&name.as_str()) {
                let link = program.attach();
                self.links
                    .push(link.map_err(failed(format!("attach {name}")))?);
            }
        }
        Ok(())
    }

    /// Returns the programs to attach to devices, if packets are measured by devices.
    pub fn hooks(&self) -> Option<HookDescriptors> {
        let programs = &self.skeleton.progs;
        (self.start == Start::Device).then(|| {
            HookDescriptors::of(
                programs.lt_hook_ingress.as_fd(),
                programs.lt_hook_egress.as_fd(),
            )
        })
    }

    /// Returns the first point of egress.
    pub fn start(&self) -> Start {
        self.start
    }

    /// Returns the number of rows; the first is 1.
    pub fn rows(&self) -> u32 {
        self.sizes.containers
    }

    /// Makes a reader of all reports from now on. Any number of readers may exist.
    ///
    /// # Errors
    /// The memory cannot be mapped.
    pub fn reports(&self) -> Result<ReportRing, LoadError> {
        let fd = self.skeleton.maps.reports.as_fd();
        ReportRing::map(fd, self.sizes.reports_per_cpu, possible_cpus()).map_err(LoadError::Map)
    }

    /// Measures the packets of `netns` in `row` from now on.
    pub fn set(&mut self, netns: NetnsId, row: u32, filter: &Filter) -> libbpf_rs::Result<()> {
        self.write_config(row, &encode(filter))?;
        self.skeleton.maps.rows.update(
            &netns.0.to_ne_bytes(),
            &row.to_ne_bytes(),
            MapFlags::ANY,
        )?;
        let wanted = if filter.ingress { classes(filter) } else { 0 };
        self.ingress.insert(row, wanted);
        self.publish();
        Ok(())
    }

    /// Stops measuring `netns`; an unknown one is no error.
    pub fn clear(&mut self, netns: NetnsId, row: u32) {
        let _ = self.write_config(row, &[0; size_of::<lt_config>()]);
        let _ = self.skeleton.maps.rows.delete(&netns.0.to_ne_bytes());
        self.ingress.remove(&row);
        self.publish();
    }

    fn write_config(&self, row: u32, bytes: &[u8]) -> libbpf_rs::Result<()> {
        self.skeleton
            .maps
            .configs
            .update(&row.to_ne_bytes(), bytes, MapFlags::ANY)
    }

    /// Resets the counts of `row`, before it gets another container.
    pub fn reset_counts(&self, row: u32) -> libbpf_rs::Result<()> {
        let zero = [0; size_of::<lt_counts>()];
        self.skeleton
            .maps
            .counts
            .update(&row.to_ne_bytes(), &zero, MapFlags::ANY)
    }

    fn publish(&mut self) {
        let active = self.skeleton.maps.rows.keys().count() as u32;
        if let Some(data) = self.skeleton.maps.data_data.as_deref_mut() {
            data.generation = data.generation.wrapping_add(1);
        }
        if let Some(bss) = self.skeleton.maps.bss_data.as_deref_mut() {
            bss.active = active;
            bss.ingress_classes = self.ingress.values().fold(0, |all, row| all | row);
        }
    }

    /// Reads the counts of `row`.
    pub fn counts(&self, row: u32) -> libbpf_rs::Result<Counts> {
        let map = &self.skeleton.maps.counts;
        let value = map.lookup(&row.to_ne_bytes(), MapFlags::ANY)?;
        let value = value.unwrap_or_default();
        let word = |offset: usize, index: usize| {
            let at = offset + 8 * index;
            let bytes = value.get(at..at + 8).and_then(|b| b.try_into().ok());
            bytes.map_or(0, u64::from_ne_bytes)
        };
        let mut counts = Counts::default();
        for direction in 0..2 {
            let way = offset_of!(lt_counts, way) + direction * size_of::<lt_way_counts>();
            for class in 0..4 {
                counts.packets[direction][class] =
                    word(way + offset_of!(lt_way_counts, packets), class);
                counts.reports[direction][class] =
                    word(way + offset_of!(lt_way_counts, reports), class);
            }
            for miss in 0..Miss::COUNT {
                counts.misses[direction][miss] =
                    word(way + offset_of!(lt_way_counts, misses), miss);
            }
        }
        Ok(counts)
    }

    /// Reads the cost of every loaded program.
    pub fn program_costs(&self) -> std::io::Result<Vec<ProgramCost>> {
        cost::program_costs(self.skeleton.object())
    }

    /// Returns the memory of all maps, bytes: taken at load, never more.
    pub fn memory_bytes(&self) -> u64 {
        cost::memory_bytes(self.skeleton.object())
    }
}

/// Returns the tracepoint of a program, from its name without the prefix.
fn program_tracepoint(name: &str) -> &str {
    match name {
        "skb_copy" => "skb_copy_datagram_iovec",
        "consume" => "consume_skb",
        "kfree" => "kfree_skb",
        other => other,
    }
}

/// Returns a bit for each [`Class`] that is measured.
fn classes(filter: &Filter) -> u32 {
    (0..4).map(|c| u32::from(filter.classes[c]) << c).sum()
}

fn encode(filter: &Filter) -> [u8; size_of::<lt_config>()] {
    let mut bytes = [0; size_of::<lt_config>()];
    let mut put = |offset: usize, value: u32| {
        bytes[offset..offset + 4].copy_from_slice(&value.to_ne_bytes());
    };
    let directions = u32::from(filter.egress) | u32::from(filter.ingress) << 1;
    put(offset_of!(lt_config, directions), directions);
    put(offset_of!(lt_config, classes), classes(filter));
    put(offset_of!(lt_config, ifindex), filter.ifindex.unwrap_or(0));
    put(offset_of!(lt_config, one_in), filter.one_in);
    let port = filter.port.unwrap_or(0).to_ne_bytes();
    bytes[offset_of!(lt_config, port)..][..2].copy_from_slice(&port);
    bytes
}
