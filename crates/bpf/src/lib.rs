//! The BPF programs behind safe interfaces: load, identities in, counts and events out. Nothing
//! else in the workspace sees a skeleton.

mod accounting;
mod cost;
mod delay;
mod enforce;
mod events;
mod gate;
mod hooks;
mod interruption;
pub mod latency;
mod ledger;
mod link;
mod load;
mod mapped;
mod markers;
mod pairs;
mod redirect;
mod reference;
mod running;
mod schedule;
mod skeleton;
mod support;
mod tenants;

pub use accounting::{AccountingPrograms, CpuReading, Sizes};
pub use cost::{ProgramCost, RuntimeStatistics};
pub use delay::Delay;
pub use enforce::{
    Bucket, DropCounts, DropDescriptors, DropLink, DropPrograms, Entry, attach as attach_drop,
};
pub use events::decode_event;
pub use gate::{Gate, GateError};
pub use hooks::HookDescriptors;
pub use interruption::{Interruptions, SeenInterruptions};
pub use ledger::{LedgerReader, RowReading};
pub use libbpf_rs::{Error as MapError, ErrorKind as MapErrorKind};
pub use load::LoadError;
pub use markers::Markers;
pub use pairs::PairReading;
pub use redirect::{RedirectCounts, RedirectLink, RedirectMode, RedirectPrograms};
pub use reference::{EmptyHooks, EmptyMarkers, EmptyProgram, ReferenceClock, ReferenceTime};
pub use running::{Counts, RunningCounts};
pub use schedule::{
    SCHEDULE_FIRST_CONTAINER_ROW, SCHEDULE_HOST_ROW, SCHEDULE_TRACEPOINTS, ScheduleCell,
    ScheduleCpu, SchedulePrograms, ScheduleReading,
};
pub use support::{kernel_has_tracepoint, possible_cpus, quota_stops_kernel_threads};
pub use tenants::{TenantCounter, TenantPrograms, TenantReading, TenantWatch};

use cofferdam_types::Reason;

/// Structs that the programs of the accounting and of the diagnosis write, for tests that run the
/// programs elsewhere.
pub mod abi {
    pub use crate::skeleton::schedule_types::{cf_sched_cell, cf_sched_cpu, cf_sched_window};
    pub use crate::skeleton::types::{cf_cpu, cf_row};
}

/// Row of the first container in the ledger; smaller rows are reasons.
pub const FIRST_CONTAINER_ROW: u32 = skeleton::types::cf_row_index::CF_FIRST_CONTAINER_ROW.0;

/// Row for the packets of containers for which no row was free: a reason, not a container.
pub const NO_SLOT_ROW: u32 = skeleton::types::cf_row_index::CF_ROW_NO_SLOT.0;

/// Returns the ledger's row of time that belongs to no container for this reason.
pub fn reason_row(reason: Reason) -> u32 {
    use skeleton::types::cf_row_index as row;
    let found = match reason {
        Reason::HostTraffic => row::CF_ROW_HOST_TRAFFIC,
        Reason::Forwarding => row::CF_ROW_FORWARDING,
        Reason::UnknownNamespace => row::CF_ROW_UNKNOWN_NAMESPACE,
        Reason::NoSlot => row::CF_ROW_NO_SLOT,
        Reason::NoPacket => row::CF_ROW_NO_PACKET,
        Reason::OtherHardirq => row::CF_ROW_OTHER_HARDIRQ,
        Reason::HiSoftirq => row::CF_ROW_SOFTIRQ_HI,
        Reason::TimerSoftirq => row::CF_ROW_SOFTIRQ_TIMER,
        Reason::BlockSoftirq => row::CF_ROW_SOFTIRQ_BLOCK,
        Reason::IrqPollSoftirq => row::CF_ROW_SOFTIRQ_IRQ_POLL,
        Reason::TaskletSoftirq => row::CF_ROW_SOFTIRQ_TASKLET,
        Reason::SchedSoftirq => row::CF_ROW_SOFTIRQ_SCHED,
        Reason::HrtimerSoftirq => row::CF_ROW_SOFTIRQ_HRTIMER,
        Reason::RcuSoftirq => row::CF_ROW_SOFTIRQ_RCU,
    };
    found.0
}
