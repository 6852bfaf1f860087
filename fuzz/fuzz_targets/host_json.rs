//! State files that runtimes write as JSON.
#![no_main]

use cofferdam_host::parse;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    parse::podman_containers(bytes);
    parse::docker_config(bytes);
    parse::docker_data_root(bytes);
    parse::annotations(bytes);
    parse::oci_annotations(bytes);
    parse::docker_labels(bytes);
});
