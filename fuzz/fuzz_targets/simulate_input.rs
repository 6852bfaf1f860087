//! Files of the simulator: any text is read or refused in one line, and an accepted one can be
//! simulated.
#![no_main]

use cofferdam_simulate::{Host, Shape, input};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let shape = Shape {
        nodes: 1,
        llcs_per_node: 1,
        cores_per_llc: 4,
        threads_per_core: 2,
    };
    let topology = shape.topology().expect("a shape of eight CPUs");
    let host = input::host(text).unwrap_or_else(|e| {
        assert_eq!(e.to_string().lines().count(), 1);
        Host::new(topology)
    });
    match input::tenants(text, &host) {
        Ok(tenants) => assert!(input::check(&tenants, &host).is_ok()),
        Err(e) => assert_eq!(e.to_string().lines().count(), 1),
    }
});
