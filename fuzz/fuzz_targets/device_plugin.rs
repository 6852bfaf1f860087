//! Calls to the device plugin by the kubelet, or by any process with its socket: a method and
//! gRPC's frame of a message.
#![no_main]

use cofferdam_cluster::device_plugin::{Method, answer};
use libfuzzer_sys::fuzz_target;

const PATHS: [&str; 4] = ["Allocate", "GetDevicePluginOptions", "ListAndWatch", "?"];

fuzz_target!(|input: &[u8]| {
    let Some((first, data)) = input.split_first() else {
        return;
    };
    let path = match PATHS.get(usize::from(first >> 1) % 5) {
        Some(name) => format!("/v1beta1.DevicePlugin/{name}"),
        None => String::from_utf8_lossy(data).into_owned(),
    };
    // Half of the inputs are raw bytes; the others a message in a whole frame.
    let frame = match first & 1 {
        0 => data.to_vec(),
        _ => {
            let length = u32::try_from(data.len()).expect("an input is short");
            [&[0][..], &length.to_be_bytes(), data].concat()
        }
    };
    let method = Method::of(&path);
    let Ok(answer) = answer(method, &frame) else {
        assert_eq!(method, Method::Allocate, "only its messages are read");
        return;
    };
    let Some(answer) = answer else {
        assert!(matches!(method, Method::ListAndWatch | Method::Unknown));
        return;
    };
    // The plugin allocates nothing and answers once for each container, so the answer is never
    // longer than the request.
    assert!(answer.len() <= frame.len().max(5));
    let (prefix, body) = answer.split_at_checked(5).expect("a prefix of 5 bytes");
    assert_eq!(prefix[0], 0);
    let length = u32::from_be_bytes(prefix[1..].try_into().expect("four bytes"));
    assert_eq!(length as usize, body.len());
    assert_eq!(body.len() % 2, 0, "one empty message a container");
    assert!(body.chunks(2).all(|empty| empty == [0x0a, 0]));
});
