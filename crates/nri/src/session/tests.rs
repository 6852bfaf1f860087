use super::*;
use crate::frame::{Decoder, PLUGIN, RUNTIME};
use crate::simulated;
use proptest::prelude::*;

/// Session, and the runtime's view of it.
struct Pair {
    session: Session,
    decoder: Decoder,
    stream: u32,
}

impl Pair {
    fn new() -> Pair {
        let mut pair = Pair {
            session: Session::begin("cofferdam", "90"),
            decoder: Decoder::default(),
            stream: 1,
        };
        let first = pair.sent_messages();
        assert_eq!((first.len(), first[0].connection), (1, RUNTIME));
        let request = rpc::Request::decode(first[0].data.as_slice()).unwrap();
        assert_eq!(request.service, api::RUNTIME_SERVICE);
        assert_eq!(request.method, "RegisterPlugin");
        pair.give(&rpc::response(RUNTIME, first[0].stream, Vec::new()));
        pair
    }

    fn sent_messages(&mut self) -> Vec<Message> {
        let mut messages = Vec::new();
        let bytes = self.session.unsent().to_vec();
        self.decoder.push(&bytes, &mut messages).unwrap();
        self.session.sent(bytes.len());
        messages
    }

    fn give(&mut self, message: &Message) -> Vec<Event> {
        let (mut bytes, mut events) = (Vec::new(), Vec::new());
        frame::encode(message, &mut bytes).unwrap();
        self.session.handle(&bytes, &mut events).unwrap();
        events
    }

    fn call(&mut self, method: &str, payload: Vec<u8>) -> Vec<Event> {
        self.stream += 2;
        let service = api::PLUGIN_SERVICE;
        let message = rpc::request(PLUGIN, self.stream, service, method, payload);
        self.give(&message)
    }

    fn answer(&mut self) -> rpc::Response {
        let sent_messages = self.sent_messages();
        assert_eq!(sent_messages.len(), 1);
        assert_eq!(
            (sent_messages[0].connection, sent_messages[0].stream),
            (PLUGIN, self.stream)
        );
        rpc::Response::decode(sent_messages[0].data.as_slice()).unwrap()
    }
}

fn on_container(id: &str) -> api::ContainerRequest {
    api::ContainerRequest {
        pod: Some(simulated::pod("1", "shop", "web")),
        container: Some(simulated::container(id, "1", "app", 1024)),
        linux_resources: Some(simulated::shares_of(2048)),
    }
}

#[test]
fn a_plugin_is_registered_and_notified_of_containers() {
    let mut pair = Pair::new();
    let configure = api::ConfigureRequest {
        runtime_name: "containerd".into(),
        request_timeout: 2000,
        ..api::ConfigureRequest::default()
    };
    let events = pair.call("Configure", configure.encode_to_vec());
    assert!(
        matches!(&events[..], [Event::Configured { runtime, request_timeout, .. }]
            if runtime == "containerd" && *request_timeout == Duration::from_secs(2))
    );
    let answer = api::ConfigureResponse::decode(pair.answer().payload.as_slice()).unwrap();
    assert_eq!(answer.events, event::ALL);

    let events = pair.call("CreateContainer", on_container("c1").encode_to_vec());
    let [Event::Create(container, call)] = &events[..] else {
        panic!("{events:?}");
    };
    assert_eq!(container.pod.full_name(), "shop/web");
    assert_eq!(container.resources.request_milli_cpus, Some(1000));
    let adjustment = Adjustment {
        cpus: "1".into(),
        annotations: vec![("a".into(), "b".into())],
    };
    pair.session.answer(*call, Some(adjustment), &[]);
    let answer = api::CreateContainerResponse::decode(pair.answer().payload.as_slice()).unwrap();
    let adjust = answer.adjust.unwrap();
    let resources = adjust.linux.unwrap().resources.unwrap();
    assert_eq!(resources.cpu.unwrap().cpus, "1");
    assert_eq!(adjust.annotations["a"], "b");

    let events = pair.call("UpdateContainer", on_container("c1").encode_to_vec());
    let [Event::Update(_, wanted, call)] = &events[..] else {
        panic!("{events:?}");
    };
    assert_eq!(wanted.request_milli_cpus, Some(2000));
    let update = Update {
        container: "c1".into(),
        cpus: "0-1".into(),
    };
    pair.session.answer(*call, None, &[update]);
    let answer = api::UpdateContainerResponse::decode(pair.answer().payload.as_slice()).unwrap();
    assert_eq!(answer.update[0].container_id, "c1");
    for (method, event) in [
        ("StopContainer", Event::Stopped("c1".into())),
        ("RemoveContainer", Event::Gone("c1".into())),
        ("RemovePodSandbox", Event::PodGone("1".into())),
        ("Shutdown", Event::Shutdown),
    ] {
        assert_eq!(
            pair.call(method, on_container("c1").encode_to_vec()),
            [event]
        );
        assert_eq!(pair.answer(), rpc::Response::default());
    }
}

#[test]
fn older_versions_send_state_changes() {
    let mut pair = Pair::new();
    let request = on_container("c1");
    let mut change = api::StateChangeEvent {
        event: event::START_CONTAINER,
        pod: request.pod,
        container: request.container,
    };
    let events = pair.call("StateChange", change.encode_to_vec());
    let [Event::Start(id, call)] = &events[..] else {
        panic!("{events:?}");
    };
    assert_eq!(id, "c1");
    assert!(pair.sent_messages().is_empty(), "it waits for the answer");
    pair.session.answer(*call, None, &[]);
    assert_eq!(pair.answer(), rpc::Response::default());
    change.event = event::RUN_POD_SANDBOX;
    let events = pair.call("StateChange", change.encode_to_vec());
    assert!(matches!(&events[..], [Event::Pod(pod)] if pod.name == "web"));
}

#[test]
fn a_synchronization_may_come_in_parts() {
    let mut pair = Pair::new();
    let mut part = api::SynchronizeRequest {
        pods: vec![simulated::pod("1", "shop", "web")],
        containers: Vec::new(),
        more: true,
    };
    assert!(pair.call("Synchronize", part.encode_to_vec()).is_empty());
    let answer = api::SynchronizeResponse::decode(pair.answer().payload.as_slice()).unwrap();
    assert!(answer.more);
    part = api::SynchronizeRequest {
        pods: Vec::new(),
        containers: vec![
            simulated::container("c1", "1", "app", 512),
            simulated::container("c2", "unknown", "app", 512),
        ],
        more: false,
    };
    let events = pair.call("Synchronize", part.encode_to_vec());
    let [
        Event::Synchronized {
            pods,
            containers,
            call,
        },
    ] = &events[..]
    else {
        panic!("{events:?}");
    };
    assert_eq!((pods.len(), containers.len()), (1, 1));
    assert_eq!(containers[0].pod.name, "web");
    pair.session.answer(*call, None, &[]);
    let answer = api::SynchronizeResponse::decode(pair.answer().payload.as_slice()).unwrap();
    assert!(!answer.more);
}

/// Promise 72.
#[test]
fn a_malformed_message_never_fails_a_pod() {
    let mut pair = Pair::new();
    for method in [
        "Configure",
        "Synchronize",
        "CreateContainer",
        "UpdateContainer",
        "StartContainer",
        "StateChange",
    ] {
        assert!(pair.call(method, vec![0xff; 9]).is_empty());
        assert_eq!(pair.answer(), rpc::Response::default(), "{method}");
    }
    // A request without a pod, or without a container.
    assert!(pair.call("CreateContainer", Vec::new()).is_empty());
    assert_eq!(pair.answer(), rpc::Response::default());
    assert_eq!(pair.session.malformed(), 7);
    assert!(pair.call("Dance", Vec::new()).is_empty());
    assert_eq!(pair.answer().status.unwrap().code, rpc::UNIMPLEMENTED);
}

#[test]
fn a_refused_registration_ends_the_session() {
    let mut session = Session::begin("cofferdam", "90");
    let refusal = rpc::refusal(RUNTIME, 1, 2, "no plugins here".into());
    let mut bytes = Vec::new();
    frame::encode(&refusal, &mut bytes).unwrap();
    let ended = session.handle(&bytes, &mut Vec::new()).unwrap_err();
    assert!(ended.to_string().contains("no plugins here"), "{ended}");
}

/// Promise 72.
#[test]
fn a_runtime_that_does_not_read_ends_the_session() {
    let mut session = Session::begin("cofferdam", "90");
    let service = api::PLUGIN_SERVICE;
    let mut bytes = Vec::new();
    for stream in 0..200_000u32 {
        let message = rpc::request(PLUGIN, stream, service, "Dance", Vec::new());
        frame::encode(&message, &mut bytes).unwrap();
    }
    let mut parts = bytes.chunks(64 << 10);
    let ended = parts.find_map(|part| session.handle(part, &mut Vec::new()).err());
    assert!(matches!(ended, Some(SessionError::Unread)), "{ended:?}");
}

proptest! {
    /// Promise 72.
    #[test]
    fn any_bytes_are_handled(
        messages in proptest::collection::vec(
            (1u32..=3, any::<u32>(), any::<bool>(), proptest::collection::vec(any::<u8>(), 0..200)),
            0..20,
        ),
    ) {
        let mut session = Session::begin("cofferdam", "90");
        let mut events = Vec::new();
        for (connection, stream, is_request, data) in messages {
            let kind = [MessageKind::Response, MessageKind::Request][usize::from(is_request)];
            let mut bytes = Vec::new();
            let message = Message { connection, stream, kind, data };
            frame::encode(&message, &mut bytes).unwrap();
            if session.handle(&bytes, &mut events).is_err() {
                break;
            }
        }
    }
}
