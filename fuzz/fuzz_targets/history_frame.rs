//! A frame of the history: its bytes as they are, and as what they unpack to.
#![no_main]

use cofferdam_history::{Sum, decode};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let packed = [&[1][..], &lz4_flex::compress_prepend_size(bytes)].concat();
    for bytes in [bytes, &packed] {
        let Some(frame) = decode(bytes) else { continue };
        // Whatever it says can be added up.
        let mut sum = Sum::new(frame.clone());
        sum.add(&frame);
        let sum = sum.finish();
        assert_eq!(sum.length, 2 * frame.length);
        assert!(sum.record.cpus.len() <= frame.record.cpus.len());
    }
});
