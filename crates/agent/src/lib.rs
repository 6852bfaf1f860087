//! Agent daemon: reads the ledger, gives each container the classes of its rule, and reports over a
//! socket and as metrics.
//!
//! The control loop ([`run()`]) has a thread of its own and owns all that acts on the host. The
//! threads that talk to clients and write the history can neither delay it nor bring it down.
#![forbid(unsafe_code)]

mod assign;
mod attention;
mod client;
mod conditions;
pub mod config;
mod control;
#[cfg(test)]
mod control_tests;
mod cost;
mod effects;
mod events;
mod latency;
mod ledger;
pub mod log;
mod losses;
pub mod metrics;
mod notify;
mod nri;
mod otlp;
mod page;
mod pods;
mod recent_readings;
mod recorder;
mod remains;
mod rules;
mod run;
mod server;
#[cfg(test)]
mod testing;
mod traffic;
mod view;
mod wake;
mod watch;
pub mod wire;

pub use client::{Client, ClientError};
pub use control::EndCause;
pub use effects::{Effects, ObserveOnly, RevertResult};
pub use ledger::Ledger;
pub use otlp::OtlpConfig;
pub use rules::{MatchContext, MatchError, Matcher, Rule};
pub use run::{AgentError, restore, run};
pub use server::ListenError;
pub use watch::Watch;
