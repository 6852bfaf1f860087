//! Units, ids and snapshots that all crates of Cofferdam share. No I/O.
//!
//! The vocabulary is that of docs/src/introduction.md: a *container* is a cgroup with its network
//! namespace; *caused*, *charged* and *owed* are the three columns of its ledger.
#![forbid(unsafe_code)]

mod container;
mod enforcement;
mod event;
mod ids;
mod ledger;
mod pattern;
mod policy;
mod problem;
pub mod quantity;
mod sampling;
mod schedule;
mod selector;
mod share;
mod snapshot;
mod text;
mod topology;
mod tracepoints;
mod tunnel;

pub use container::{Container, ContainerChange, InterfacePair, Runtime};
pub use enforcement::{
    ContainerStatus, Degradation, EnforcementStatus, Means, MeansState, NetworkEnforcement,
    ReservationState,
};
pub use event::KernelEvent;
pub use ids::{CgroupId, CpuId, IfIndex, NetnsId};
pub use ledger::{CpuTime, Ledger, Reason};
pub use pattern::Pattern;
pub use policy::{CpuAmount, CpuAmountError, CpuPolicy, NetworkCpu, Policy};
pub use problem::{ParseOutcome, Problem, Severity, parse_all, place};
pub use sampling::{AccountingMode, Moments, Sampling, Spread};
pub use schedule::{
    CpuLoss, DiagnosedContainer, DiagnosisHealth, Entitlement, LossShare, Neighbour,
    ScheduleInterval, ScheduleTime, UnusedTime,
};
pub use selector::{Selector, SelectorError};
pub use share::fair_share;
pub use snapshot::{Conservation, ContainerLedger, Health, Interval, Snapshot};
pub use text::{path_text, printable, printable_json, text_path};
pub use topology::{LogicalCpu, Topology};
pub use tracepoints::{REQUIRED_TRACEPOINTS, SOCKET_TRACEPOINTS, WAKE_TRACEPOINT};
pub use tunnel::Tunnel;
