//! Records of the BPF ring.
#![no_main]

use cofferdam_types::KernelEvent;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|record: &[u8]| {
    if let Some(KernelEvent::CgroupCreated { path, .. }) = cofferdam_bpf::decode_event(record) {
        assert!(
            path.is_absolute(),
            "a path below the v2 mount begins with /"
        );
    }
});
