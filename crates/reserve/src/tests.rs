//! What every plan must keep, over random hosts and histories.

mod cases;
mod host;
mod limits;
mod properties;
