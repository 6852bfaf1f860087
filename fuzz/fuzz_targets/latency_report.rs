//! Records of the latency rings: the stages of an accepted record add up.
#![no_main]

use cofferdam_latency::Stages;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|record: &[u8]| {
    if let Some(report) = cofferdam_bpf::latency::decode_report(record) {
        let stages = Stages::of(&report);
        let sum: u64 = stages.parts_ns.iter().map(|(_, ns)| u64::from(*ns)).sum();
        assert_eq!(sum, u64::from(stages.total_ns));
    }
});
