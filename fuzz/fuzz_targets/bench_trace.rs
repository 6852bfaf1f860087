//! Shuffle traces.
#![no_main]

use cofferdam_bench::worker::trace::{MAX_FLOWS, Trace};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(trace) = Trace::parse(text) else {
        return;
    };
    assert!(trace.flows() <= MAX_FLOWS);
    let last = trace.bursts.last().expect("a trace has bursts");
    assert!(
        last.start < trace.length,
        "the loop is longer than its last start"
    );
    assert!(trace.bursts.is_sorted_by_key(|b| b.start));
});
