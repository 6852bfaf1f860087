//! A protected user-level dataplane in the manner of IX (Belay et al., OSDI'14), over AF_XDP.
//!
//! An [`Engine`] drives a port and a network stack on one core. Applications pass it batched calls
//! and receive event conditions through shared rings. An application is a process of its own that
//! can harm only itself, or runs on the loop's thread, behind protection keys ([`pkey`]) or
//! unprotected. In each case it is written against [`Session`] and [`Application`].

pub mod abi;
pub mod applications;
mod area;
mod attach;
mod bell;
pub mod c;
mod channel;
pub mod compiled;
pub mod config;
mod control;
mod elastic;
mod engine;
pub mod exec;
mod handle;
#[doc(hidden)]
pub mod hostile;
mod metrics;
mod notice;
pub mod pkey;
pub mod policy;
mod ring;
mod ringer;
mod run;
mod served;
mod session;
mod tuning;

pub use abi::{Ending, Refusal, Sharing};
pub use area::LARGEST as LARGEST_DATAGRAM_BYTES;
pub use attach::{INTERFACE_VERSION, RequestError, move_group, status};
pub use cofferdam_netstack::{ConnectionInfo, ConnectionOptions, FLOW_GROUPS, Keepalive, Repair};
pub use cofferdam_xsk::{LinkState, PortError};
pub use engine::{CoreTally, Engine, EngineError, Offence, Options, Protection, Stage, Tally};
pub use metrics::SCHEMA;
pub use notice::Notice;
pub use run::{RunError, packet_memory, run};
pub use served::{ServedDevice, ServedNetwork};
pub use session::{
    Application, BoundAddress, Buffer, Connection, Event, EventLoop, Knock, ReceivedData, Session,
};
pub use tuning::{MOST_APPLICATIONS, MOST_BATCH, MOST_CORES};
