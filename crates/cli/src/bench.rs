//! `cofferdam bench`, `cofferdam report`, `cofferdam demo`: thin over `cofferdam_bench`.

use crate::args::{BenchCommand, DemoArgs};
use crate::exit::{Failure, Outcome};
use crate::interrupt::Interrupt;
use std::ffi::OsString;
use std::path::Path;

pub fn worker(_words: Vec<OsString>) -> Outcome {
    Err(Failure::failed("todo"))
}
pub fn run(_command: BenchCommand, _interrupt: &Interrupt) -> Outcome {
    Err(Failure::failed("todo"))
}
pub fn report(_dir: &Path) -> Outcome {
    Err(Failure::failed("todo"))
}
pub fn demo(_args: &DemoArgs, _interrupt: &Interrupt) -> Outcome {
    Err(Failure::failed("todo"))
}
