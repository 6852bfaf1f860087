//! Datagrams from the kernel's netlink sockets.
#![no_main]

use cofferdam_host::parse;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|datagram: &[u8]| {
    let mut seen = 0;
    for message in parse::netlink_messages(datagram) {
        parse::link_message(&message);
        parse::nsid_message(&message);
        parse::inet_socket(&message, 6);
        seen += 1;
        assert!(seen <= datagram.len(), "more messages than bytes");
    }
});
