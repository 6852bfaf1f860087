//! Lines of the latency socket, in both directions.
#![no_main]

use cofferdam_latency::{ping::ProbeReport, serve::parse};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|line: &[u8]| {
    let _ = parse(line);
    if let Ok(text) = std::str::from_utf8(line) {
        let _ = ProbeReport::parse(text);
    }
});
