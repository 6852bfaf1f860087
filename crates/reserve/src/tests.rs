//! Properties of every plan, over random hosts and histories.

mod cases;
mod host;
mod limits;
mod properties;
