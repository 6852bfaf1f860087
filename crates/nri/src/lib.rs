//! Plugin side of the Node Resource Interface (NRI) of containerd and CRI-O.
//!
//! The runtime notifies a plugin of every pod and container before it is created, and the plugin
//! answers with changes. [`Session`] is the protocol without I/O: bytes in, [`Event`]s out, answers
//! in, bytes out. [`Socket`] is its non-blocking Unix socket, to be polled with a thread's other
//! descriptors. [`Roster`] tracks the pods and containers of the events.
//!
//! On the wire (NRI 0.3 to 0.12) a header names the logical connection of a chunk ([`frame`]). Each
//! connection carries a ttrpc stream ([`rpc`]), whose messages contain the protocol buffers of
//! `nri.pkg.api.v1alpha1` ([`api`]). The runtime is not trusted: every length is bounded, and a
//! violation of the framing ends the session.
#![forbid(unsafe_code)]

pub mod api;
pub mod frame;
mod pods;
mod roster;
pub mod rpc;
mod session;
pub mod simulated;
mod socket;

pub use pods::{Container, Pod, Qos, Resources};
pub use roster::{MOST_STORED_BYTES, Roster};
pub use session::{Adjustment, Call, Event, Session, Update};
pub use socket::Socket;
