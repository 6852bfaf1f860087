//! Neighbour: threads that use all available CPU until they are stopped.

use super::phases::{area, work};
use super::{Args, Control, Failure};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Burns CPU. Arguments: `--threads N [--memory 1]`.
pub(crate) fn run(mut args: Args, control: &mut Control) -> Result<(), Failure> {
    let threads: usize = args.need("threads")?;
    let memory = args.take::<u32>("memory")? == Some(1);
    args.finish()?;
    let mut areas: Vec<Vec<u64>> = (0..threads).map(|_| area(memory)).collect();
    control.start()?;
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for area in &mut areas {
            let stop = &stop;
            scope.spawn(move || {
                let mut seed = 1;
                while !stop.load(Ordering::Relaxed) {
                    seed = std::hint::black_box(work(area, seed));
                }
            });
        }
        while !control.done() {
            std::thread::sleep(Duration::from_millis(20));
        }
        stop.store(true, Ordering::Relaxed);
    });
    control.report()
}
