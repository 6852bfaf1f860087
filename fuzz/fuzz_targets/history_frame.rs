//! Frame of the history: raw bytes, and bytes that unpack to the input.
#![no_main]

use cofferdam_history::{Sum, decode};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let packed = [&[1][..], &lz4_flex::compress_prepend_size(bytes)].concat();
    for bytes in [bytes, &packed] {
        let Some(frame) = decode(bytes) else { continue };
        // Any decoded frame can be summed.
        let mut sum = Sum::new(frame.clone());
        sum.add(&frame);
        let sum = sum.finish();
        assert_eq!(sum.length, 2 * frame.length);
        assert!(sum.record.cpus.len() <= frame.record.cpus.len());
    }
});
