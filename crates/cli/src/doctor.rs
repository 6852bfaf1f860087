//! `cofferdam doctor`.
use crate::args::DoctorArgs;
use crate::exit::{Failure, Outcome};
pub fn run(_args: &DoctorArgs) -> Outcome {
    Err(Failure::failed("todo"))
}
