//! The journal of a process that was killed, damaged anyhow: it is read as far as it can be, and a
//! reading loses nothing by damage after it.
#![no_main]

use cofferdam_enforce::journal::decode;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let whole = decode(bytes, "boot");
    if whole.other_boot {
        assert!(whole.changes.is_empty());
        return;
    }
    // What follows is empty space: the same is read.
    let mut longer = bytes.to_vec();
    if longer.last().is_some_and(|byte| *byte == b'\n') {
        longer.resize(bytes.len() + 100, 0);
        assert_eq!(decode(&longer, "boot").changes, whole.changes);
    }
});
