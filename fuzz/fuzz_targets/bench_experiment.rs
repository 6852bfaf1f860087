//! File of the isolation experiment: any bytes are read or refused.
#![no_main]

use cofferdam_bench::isolation::Experiment;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(experiment) = Experiment::parse(text, "experiment.yaml") {
        assert!(experiment.check().is_ok());
    }
});
