//! `cofferdam dataplane exec`: unmodified programs of Debian's on a dataplane, and clients of the
//! kernel's across a veth pair. Needs root.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod callers;
mod clients;
mod ends;
mod hostile;
mod refusals;
mod servers;
mod support;
mod wire;
