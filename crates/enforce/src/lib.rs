//! Applies charge, return and stop (Iron) and reservations (rKube) to the host. Idempotent; can
//! take everything back, also after a crash: see [`journal`].

mod device;
pub mod journal;
pub mod reservation;
mod thread;
