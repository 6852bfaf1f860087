//! The agents of a cluster: the gateway that answers for one node, and requests to all nodes at
//! once.
//!
//! A gateway runs next to each agent, without rights. It reads from the agent's socket and answers
//! clients that have its token, over HTTP on the node's address. `kubectl cofferdam` reaches the
//! gateways by the API server's proxy to pods, through a `kubectl proxy` that it starts and that
//! has the user's credentials. Therefore neither needs TLS or Kubernetes' authentication of its
//! own.
//!
//! `cofferdam events` asks the gateways continuously, once in a cluster, and writes events of the
//! pods.
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

/// Header with the token. The API server uses `Authorization` itself and does not pass it on.
/// Headers are not in its audit log, unlike a query.
pub const TOKEN_HEADER: &str = "X-Cofferdam-Token";
/// Default port of the gateways.
pub const DEFAULT_PORT: u16 = 9479;
