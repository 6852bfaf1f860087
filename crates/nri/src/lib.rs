//! A plugin's end of the Node Resource Interface (NRI) of containerd and CRI-O.
//!
//! The runtime tells a plugin of every pod and container before it is made, and the plugin answers
//! with what is to be different. [`Session`] is the protocol without I/O: bytes in, [`Event`]s out,
//! answers in, bytes out. [`Socket`] is a non-blocking Unix socket for it, to be polled with
//! whatever else a thread waits for. [`Roster`] keeps what the events say of the pods and containers
//! that are there.
//!
//! On the wire (NRI 0.3 to 0.12): a header that says to which of two logical connections a chunk
//! belongs ([`frame`]), in each a ttrpc stream ([`rpc`]), in its messages the protocol buffers of
//! `nri.pkg.api.v1alpha1` ([`api`]). The runtime is not trusted to keep to any of it: every length is
//! bounded, and what breaks the framing ends the session.
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
pub use roster::{MOST_KEPT_BYTES, Roster};
pub use session::{Adjustment, Call, Event, Session, Update};
pub use socket::Socket;
