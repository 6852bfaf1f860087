//! Packets from a neighbour, as the packet socket delivers them.
#![no_main]

use cofferdam_flows::packet;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (&[u8], usize, bool)| {
    let (captured, length_bytes, ethernet) = input;
    let packet = packet(captured, length_bytes, ethernet);
    assert!(packet.segments >= 1);
    if let Some(flow) = packet.flow {
        assert_eq!(flow.source.is_ipv4(), flow.destination.is_ipv4());
    }
});
