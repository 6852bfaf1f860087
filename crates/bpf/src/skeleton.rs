//! The generated skeletons.
#![allow(
    missing_docs,
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used
)]

mod accounting {
    include!(concat!(env!("OUT_DIR"), "/accounting.skel.rs"));
}
mod enforce {
    include!(concat!(env!("OUT_DIR"), "/enforce.skel.rs"));
}
mod interruption {
    include!(concat!(env!("OUT_DIR"), "/interruption.skel.rs"));
}
mod reference {
    include!(concat!(env!("OUT_DIR"), "/reference.skel.rs"));
}
mod schedule {
    include!(concat!(env!("OUT_DIR"), "/schedule.skel.rs"));
}
mod tenants {
    include!(concat!(env!("OUT_DIR"), "/tenants.skel.rs"));
}
mod delay {
    include!(concat!(env!("OUT_DIR"), "/delay.skel.rs"));
}
mod redirect {
    include!(concat!(env!("OUT_DIR"), "/redirect.skel.rs"));
}
mod latency {
    include!(concat!(env!("OUT_DIR"), "/latency.skel.rs"));
}

pub use accounting::*;
pub use delay::{DelaySkel, DelaySkelBuilder};
pub use enforce::{EnforceSkel, EnforceSkelBuilder, types as enforce_types};
pub use interruption::{InterruptionSkel, InterruptionSkelBuilder};
pub use latency::{LatencySkel, LatencySkelBuilder, types as latency_types};
pub use redirect::{RedirectSkel, RedirectSkelBuilder, types as redirect_types};
pub use reference::{ReferenceSkel, ReferenceSkelBuilder, types as reference_types};
pub use schedule::{ScheduleSkel, ScheduleSkelBuilder, types as schedule_types};
pub use tenants::{TenantsSkel, TenantsSkelBuilder, types as tenants_types};
