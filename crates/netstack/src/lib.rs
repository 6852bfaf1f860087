//! TCP/IP as a state machine: no I/O, no clock, no threads, no allocation after the start.
//!
//! A [`Stack`] is given what happens (`handle_*`, commands) and polled for what to do (`poll_*`):
//!
//! ```text
//! frames ──handle_frame──▶ ┌───────┐ ──poll_event────▶ application
//! clock ──handle_timers──▶ │ Stack │ ◀─commands─────── (connect, accept, sendv, recv_done, …)
//!                          └───────┘ ──poll_transmit─▶ frames
//! ```
//!
//! The stack owns no packet memory. Received data is handed up as a range of the buffer it came
//! in; data to send is named by range, and stays the application's until it is acknowledged. See
//! [`Disposition`], [`Event`] and [`Transmit`] for the owner of a buffer at each time.
//!
//! A caller's loop, in the order of IX (OSDI'14): the application's commands, `handle_timers`,
//! `handle_frame` for a batch, `poll_event` until `None`, the commands these lead to,
//! `poll_transmit` until `None`. Acknowledgements then ride on answers.
#![forbid(unsafe_code)]

mod api;
mod core;
mod flow;
mod stack;
mod tcp;
mod tuning;
mod wire;

pub use api::*;
pub use flow::FLOW_GROUPS;
pub use stack::{ConnectionInfo, FlowGroup, GroupUsage, Repair, Stack, Steering, Usage};
pub use tuning::READERS;
