//! Journal of a killed process, damaged or forged in any way. It is read as far as possible, damage
//! loses nothing before it, and an accepted change names a file by its plain path.
#![no_main]

use cofferdam_enforce::journal::{Target, check_listed, decode};
use cofferdam_host::HostFs;
use libfuzzer_sys::fuzz_target;
use std::path::Component;

fuzz_target!(|bytes: &[u8]| {
    let whole = decode(bytes, "boot");
    if whole.other_boot {
        assert!(whole.changes.is_empty());
        return;
    }
    // Empty space after the end changes nothing.
    let mut longer = bytes.to_vec();
    if longer.last().is_some_and(|byte| *byte == b'\n') {
        longer.resize(bytes.len() + 100, 0);
        assert_eq!(decode(&longer, "boot").changes, whole.changes);
    }
    let host = HostFs::host();
    for change in whole.changes.values() {
        let is_listed = check_listed(&host, change).is_ok();
        if let (true, Target::File { path, .. }) = (is_listed, &change.target) {
            let is_plain = |part| matches!(part, Component::RootDir | Component::Normal(_));
            assert!(path.is_absolute() && path.components().all(is_plain));
        }
    }
});
