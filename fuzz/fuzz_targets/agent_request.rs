//! Requests to the agent's socket.
#![no_main]

use cofferdam_agent::wire::Request;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(request) = Request::parse(bytes) else {
        return;
    };
    // A printed request parses to the same meaning.
    let line = request.line();
    let again = Request::parse(line.trim_ascii_end()).expect("a written request parses");
    assert_eq!(again.line(), line);
    assert_eq!(again.is_change(), request.is_change());
});
