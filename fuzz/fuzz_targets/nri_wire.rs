//! Bytes of a container runtime to the agent over NRI: framing, ttrpc and its messages, cut
//! anywhere.
#![no_main]

use cofferdam_nri::frame::{PLUGIN, encode};
use cofferdam_nri::{Event, Roster, Session, rpc};
use libfuzzer_sys::fuzz_target;

const METHODS: [&str; 8] = [
    "Configure",
    "Synchronize",
    "CreateContainer",
    "StartContainer",
    "UpdateContainer",
    "RemoveContainer",
    "RunPodSandbox",
    "StateChange",
];

fuzz_target!(|input: &[u8]| {
    let Some((first, data)) = input.split_first() else {
        return;
    };
    // Half of the inputs are raw bytes; the others the payload of a well-formed call.
    let mut bytes = Vec::new();
    if first & 1 == 0 {
        bytes.extend_from_slice(data);
    } else {
        let method = METHODS[usize::from(first >> 1) % METHODS.len()];
        let service = cofferdam_nri::api::PLUGIN_SERVICE;
        let message = rpc::request(PLUGIN, 1, service, method, data.to_vec());
        if encode(&message, &mut bytes).is_err() {
            return;
        }
    }
    let mut session = Session::begin("fuzz", "00");
    let mut roster = Roster::default();
    let mut events = Vec::new();
    for part in bytes.chunks(usize::from(first >> 4) + 1) {
        if session.handle(part, &mut events).is_err() {
            return;
        }
        for event in events.drain(..) {
            match event {
                Event::Synchronized {
                    pods,
                    containers,
                    call,
                } => {
                    roster.replace(pods, containers);
                    session.answer(call, None, &[]);
                }
                Event::Pod(pod) => roster.add_pod(pod),
                Event::Create(container, call) | Event::Update(container, _, call) => {
                    roster.add(container);
                    session.answer(call, None, &[]);
                }
                Event::Start(_, call) => session.answer(call, None, &[]),
                Event::Gone(id) => drop(roster.remove(&id)),
                Event::PodGone(id) => drop(roster.remove_pod(&id)),
                _ => {}
            }
        }
    }
});
