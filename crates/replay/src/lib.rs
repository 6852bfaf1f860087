//! Replay of the BPF programs of the accounting and of the diagnosis (`bpf/accounting`,
//! `bpf/schedule`). They are compiled for the host and driven event by event on a synthetic clock.
//! Their counts are exact to the nanosecond, on any machine and without root. For tests only; no
//! product crate uses this one.
//!
//! `shim/` replaces libbpf's headers. The helpers are in [`helpers`], the kernel's objects
//! (devices, sockets, packets) in `shim/world.c`, and [`Machine`] has a function for each event.

mod helpers;
mod machine;
mod objects;
mod programs;
pub mod schedule;

pub use helpers::Interrupt;
pub use machine::{Machine, RunningTask, softirq};
pub use objects::{Cgroup, Device, Net, Packet, PacketSpec, Socket, Task};
