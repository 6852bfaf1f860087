//! TCP/IP as a state machine: no I/O, no clock, no threads, no allocation after the start.
//!
//! The caller passes events to a [`Stack`] (`handle_*`, commands) and polls it for actions
//! (`poll_*`):
//!
//! ```text
//! frames ──handle_frame──▶ ┌───────┐ ──poll_event────▶ application
//! clock ──handle_timers──▶ │ Stack │ ◀─commands─────── (connect, accept, sendv, recv_done, …)
//!                          └───────┘ ──poll_transmit─▶ frames
//! ```
//!
//! The stack owns no packet memory. Received data is passed on as a range of the buffer that it
//! arrived in; data to send is a range of the application's buffer until it is acknowledged.
//! [`Disposition`], [`Event`] and [`Transmit`] define the owner of a buffer at each time.
//!
//! A caller's loop, in the order of IX (OSDI'14): the application's commands, `handle_timers`,
//! `handle_frame` for a batch, `poll_event` until `None`, the commands that follow from the events,
//! `poll_transmit` until `None`. In this order acknowledgements travel with the application's
//! answers.
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
