//! The agents of a cluster: the gateway that answers for one node, and asking all nodes at once.
//!
//! A gateway runs beside each agent, without rights: it reads from the agent's socket and answers
//! whoever has its token, over HTTP on the node's address. `kubectl cofferdam` reaches the gateways by
//! the API server's proxy to pods, through one `kubectl proxy` of its own, which has the user's
//! credentials. So neither needs TLS or Kubernetes' authentication of its own.
//!
//! `cofferdam events` does the same all the time, once in a cluster, and tells it on the pods.
//!
//! Every answer is hostile input: bounded in bytes and time, and never more than data.

pub mod agents;
pub mod ask;
pub mod device_plugin;
pub mod events;
pub mod gateway;
mod http;
pub mod kubectl;
pub mod merge;

pub use http::{Content, HttpError, Limits, Peer, Reply};

/// Header that brings the token. The API server takes `Authorization` for itself and does not pass it
/// on; headers are not in its audit log, as a query would be.
pub const TOKEN_HEADER: &str = "X-Cofferdam-Token";
/// Port of the gateways unless they are told another.
pub const DEFAULT_PORT: u16 = 9479;
