//! `cofferdam dataplane exec`: unmodified programs of Debian's on a dataplane, and clients of the
//! kernel's across a veth pair. Needs root.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod callers;
mod clients;
mod databases;
mod datagrams;
mod ends;
mod hostile;
mod options;
mod refusals;
mod servers;
mod support;
mod transfers;
mod wire;
