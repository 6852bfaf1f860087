//! Answer of a cluster's node to `kubectl cofferdam` and `cofferdam events`: HTTP, and the node's
//! document in it.
#![no_main]

use cofferdam_cluster::agents::Agent;
use cofferdam_cluster::merge::{MOST_ROWS, merge, part};
use cofferdam_cluster::{HttpError, Reply};
use libfuzzer_sys::fuzz_target;

/// Largest body that is accepted.
const MOST_BYTES: usize = 4096;

fuzz_target!(|input: &[u8]| {
    let body = match Reply::parse(input, MOST_BYTES) {
        Ok(reply) => {
            assert!(reply.body.len() <= MOST_BYTES);
            assert!(input.ends_with(&reply.body));
            reply.body
        }
        Err(HttpError::Garbled(_) | HttpError::TooLarge(MOST_BYTES)) => input.to_vec(),
        Err(other) => panic!("bytes alone cannot fail so: {other}"),
    };
    let agent = Agent {
        node: "node".to_owned(),
        pod: "pod".to_owned(),
        address: None,
        port: 1,
        why_not: None,
    };
    let read = part(&agent, &body);
    let answered = usize::from(read.is_ok());
    let report = merge(&[agent], vec![read], 1, ("now".to_owned(), 0.0));
    assert_eq!(report.nodes.len(), answered);
    assert_eq!(report.unanswered.len(), 1 - answered);
    assert!(report.pods.len() <= MOST_ROWS && report.flows.len() <= MOST_ROWS);
});
