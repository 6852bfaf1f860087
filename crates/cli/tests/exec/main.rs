//! Tests of `cofferdam dataplane exec`: unmodified Debian programs on a dataplane, and clients on
//! the kernel's stack across a veth pair. They need root.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

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
