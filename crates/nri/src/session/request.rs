//! Requests of the runtime.
//!
//! A failed request would fail the pod: every known method is answered, with an empty message if it
//! makes no sense.

use super::{Call, CallKind, Event, PartialState, Session, SessionError};
use crate::api::{self, event};
use crate::frame;
use crate::pods::{Container, Pod, resources};
use crate::roster::MOST_STORED_BYTES;
use crate::rpc;
use prost::Message as _;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

impl Session {
    pub(super) fn requested(
        &mut self,
        stream: u32,
        request: &rpc::Request,
        events: &mut Vec<Event>,
    ) -> Result<(), SessionError> {
        let payload = request.payload.as_slice();
        match request.method.as_str() {
            _ if request.service != api::PLUGIN_SERVICE => self.unknown(stream, request),
            "Configure" => self.configure(stream, payload, events),
            "Synchronize" => return self.synchronize(stream, payload, events),
            "CreateContainer" => self.on(stream, event::CREATE_CONTAINER, payload, events),
            "StartContainer" => self.on(stream, event::START_CONTAINER, payload, events),
            "UpdateContainer" => self.on(stream, event::UPDATE_CONTAINER, payload, events),
            "PostUpdateContainer" => self.on(stream, event::POST_UPDATE_CONTAINER, payload, events),
            "StopContainer" => self.on(stream, event::STOP_CONTAINER, payload, events),
            "RemoveContainer" => self.on(stream, event::REMOVE_CONTAINER, payload, events),
            "RunPodSandbox" => self.on(stream, event::RUN_POD_SANDBOX, payload, events),
            "StopPodSandbox" => self.on(stream, event::STOP_POD_SANDBOX, payload, events),
            "RemovePodSandbox" => self.on(stream, event::REMOVE_POD_SANDBOX, payload, events),
            "StateChange" => match api::StateChangeEvent::decode(payload) {
                Ok(change) => {
                    let request = api::ContainerRequest {
                        pod: change.pod,
                        container: change.container,
                        linux_resources: None,
                    };
                    self.handle_event(stream, change.event, request, events);
                }
                Err(_) => self.acknowledge_malformed(stream),
            },
            "Shutdown" => {
                self.acknowledge(stream);
                events.push(Event::Shutdown);
            }
            _ => self.unknown(stream, request),
        }
        Ok(())
    }

    fn on(&mut self, stream: u32, event: i32, payload: &[u8], events: &mut Vec<Event>) {
        match api::ContainerRequest::decode(payload) {
            Ok(request) => self.handle_event(stream, event, request, events),
            Err(_) => self.acknowledge_malformed(stream),
        }
    }

    fn handle_event(
        &mut self,
        stream: u32,
        event: i32,
        request: api::ContainerRequest,
        events: &mut Vec<Event>,
    ) {
        let Some(pod) = request.pod.map(Pod::new) else {
            return self.acknowledge_malformed(stream);
        };
        let call = |kind| Call { stream, kind };
        let container = request.container;
        let id = || container.as_ref().map(|c| c.id.clone());
        match (event, id()) {
            (event::RUN_POD_SANDBOX, _) => events.push(Event::Pod(Arc::new(pod))),
            (event::REMOVE_POD_SANDBOX, _) => events.push(Event::PodGone(pod.id)),
            (event::STOP_CONTAINER, Some(id)) => events.push(Event::Stopped(id)),
            (event::REMOVE_CONTAINER, Some(id)) => events.push(Event::Gone(id)),
            (event::POST_UPDATE_CONTAINER, Some(id)) => events.push(Event::Changed(id)),
            (event::START_CONTAINER, Some(id)) => {
                events.push(Event::Start(id, call(CallKind::Plain)));
                return;
            }
            (event::CREATE_CONTAINER | event::UPDATE_CONTAINER, Some(_)) => {
                let raw = container.expect("its id was just read");
                let container = Container::new(raw, Arc::new(pod));
                events.push(if event == event::CREATE_CONTAINER {
                    Event::Create(container, call(CallKind::Create))
                } else {
                    let mut wanted = request.linux_resources.map(resources).unwrap_or_default();
                    // Only the values to be changed are present.
                    let old = &container.resources;
                    wanted.request_milli_cpus =
                        wanted.request_milli_cpus.or(old.request_milli_cpus);
                    if wanted.cpus.is_empty() {
                        wanted.cpus.clone_from(&old.cpus);
                    }
                    Event::Update(container, wanted, call(CallKind::Update))
                });
                return;
            }
            (event::STOP_POD_SANDBOX, _) => {}
            // An event without subscription, or without its container.
            _ => self.malformed += 1,
        }
        self.acknowledge(stream);
    }

    fn configure(&mut self, stream: u32, payload: &[u8], events: &mut Vec<Event>) {
        let Ok(request) = api::ConfigureRequest::decode(payload) else {
            return self.acknowledge_malformed(stream);
        };
        let answer = api::ConfigureResponse { events: event::ALL };
        let answer = answer.encode_to_vec();
        self.put(&rpc::response(frame::PLUGIN, stream, answer));
        events.push(Event::Configured {
            runtime: request.runtime_name,
            version: request.runtime_version,
            request_timeout: Duration::from_millis(
                u64::try_from(request.request_timeout).unwrap_or(0),
            ),
        });
    }

    /// Handles all pods and containers, in one message or several.
    fn synchronize(
        &mut self,
        stream: u32,
        payload: &[u8],
        events: &mut Vec<Event>,
    ) -> Result<(), SessionError> {
        let Ok(part) = api::SynchronizeRequest::decode(payload) else {
            self.acknowledge_malformed(stream);
            return Ok(());
        };
        let all = &mut self.partial;
        all.bytes += payload.len();
        if all.bytes > MOST_STORED_BYTES {
            return Err(SessionError::TooMuch);
        }
        let pods = part.pods.into_iter().map(Pod::new).map(Arc::new);
        all.pods.extend(pods);
        all.containers.extend(part.containers);
        if part.more {
            let answer = api::SynchronizeResponse {
                update: Vec::new(),
                more: true,
            };
            let answer = answer.encode_to_vec();
            self.put(&rpc::response(frame::PLUGIN, stream, answer));
            return Ok(());
        }
        let PartialState {
            pods, containers, ..
        } = std::mem::take(all);
        let by_id: HashMap<&str, &Arc<Pod>> = pods.iter().map(|p| (p.id.as_str(), p)).collect();
        let containers = containers.into_iter().filter_map(|raw| {
            let pod = by_id.get(raw.pod_sandbox_id.as_str())?;
            Some(Container::new(raw, Arc::clone(pod)))
        });
        let containers = containers.collect();
        events.push(Event::Synchronized {
            containers,
            pods,
            call: Call {
                stream,
                kind: CallKind::Synchronize,
            },
        });
        Ok(())
    }

    /// Answers with an empty message, which is valid for every method.
    fn acknowledge(&mut self, stream: u32) {
        self.put(&rpc::response(frame::PLUGIN, stream, Vec::new()));
    }

    fn acknowledge_malformed(&mut self, stream: u32) {
        self.malformed += 1;
        self.acknowledge(stream);
    }

    fn unknown(&mut self, stream: u32, request: &rpc::Request) {
        let why = format!("{}/{} is not known", request.service, request.method);
        let code = rpc::UNIMPLEMENTED;
        self.put(&rpc::refusal(frame::PLUGIN, stream, code, why));
    }
}
