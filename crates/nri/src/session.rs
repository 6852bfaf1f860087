//! Session with a runtime, from the registration to the end, without I/O.

mod request;
#[cfg(test)]
mod tests;

use crate::api;
#[cfg(test)]
use crate::api::event;
use crate::frame::{self, Decoder, FrameError, Message, MessageKind};
use crate::pods::{Container, Pod, Resources};
use crate::roster::MOST_STORED_BYTES;
use crate::rpc;
use prost::Message as _;
use std::sync::Arc;
use std::time::Duration;

/// Most bytes of answers that wait until the runtime reads them.
const MOST_UNSENT_BYTES: usize = 2 * frame::LARGEST_CHUNK_BYTES;
/// Stream of the registration, which is the first call.
const REGISTRATION: u32 = 1;

/// Request that waits for [`Session::answer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    stream: u32,
    kind: CallKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallKind {
    Synchronize,
    Create,
    Update,
    Plain,
}

/// Event that the runtime reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The runtime has accepted the plugin.
    Configured {
        /// Name: `containerd` or `cri-o`.
        runtime: String,
        /// Version of the runtime.
        version: String,
        /// Time that the runtime waits for an answer, after which it continues without and drops
        /// the plugin.
        request_timeout: Duration,
    },
    /// All current pods and containers. Requires an answer.
    Synchronized {
        /// All pods.
        pods: Vec<Arc<Pod>>,
        /// Containers of the pods.
        containers: Vec<Container>,
        /// Request to answer.
        call: Call,
    },
    /// A pod is about to run.
    Pod(Arc<Pod>),
    /// The pod with this ID is gone.
    PodGone(String),
    /// A container is about to be created. Requires an answer.
    Create(Container, Call),
    /// A created container, whose cgroup exists, is about to start its program. Requires an answer.
    Start(String, Call),
    /// The resources of a container are about to change. Requires an answer.
    Update(Container, Resources, Call),
    /// The resources of the container with this ID have changed.
    Changed(String),
    /// The process of the container with this ID has ended.
    Stopped(String),
    /// The container with this ID is gone.
    Gone(String),
    /// Outcome of [`Session::update`].
    Updated {
        /// Containers that were not changed.
        failed: Vec<String>,
        /// Error, if the whole request failed.
        error: Option<String>,
    },
    /// The runtime no longer wants this plugin.
    Shutdown,
}

/// Adjustment of a container that is being created.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Adjustment {
    /// CPUs that it may run on, as a list.
    pub cpus: String,
    /// Annotations of its OCI configuration.
    pub annotations: Vec<(String, String)>,
}

/// Change of an existing container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Update {
    /// ID of the container.
    pub container: String,
    /// CPUs that it may run on, as a list. Empty: unchanged.
    pub cpus: String,
}

/// Reasons why the session has ended, or must end.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The runtime has closed the connection.
    #[error("the runtime has closed the connection")]
    Closed,
    /// The socket failed.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// The runtime does not follow the protocol.
    #[error("the runtime does not keep to the protocol: {0}")]
    Frame(#[from] FrameError),
    /// The runtime refuses the plugin.
    #[error("the runtime has refused the registration: {0}")]
    Refused(String),
    /// The runtime does not read.
    #[error("the runtime has left {MOST_UNSENT_BYTES} bytes of answers unread")]
    Unread,
    /// The descriptions exceed the memory bound.
    #[error("the runtime described more than {MOST_STORED_BYTES} bytes of pods and containers")]
    TooMuch,
}

/// Session with one runtime.
#[derive(Debug)]
pub struct Session {
    decoder: Decoder,
    messages: Vec<Message>,
    unsent: Vec<u8>,
    sent: usize,
    next_stream: u32,
    partial: PartialState,
    malformed: u64,
}

/// Parts of a `Synchronize` request received so far.
#[derive(Debug, Default)]
struct PartialState {
    pods: Vec<Arc<Pod>>,
    containers: Vec<api::Container>,
    bytes: usize,
}

impl Session {
    /// Starts a session: registers the plugin `name`, which the runtime calls in the order of
    /// `index`, two digits.
    pub fn begin(name: &str, index: &str) -> Session {
        let mut session = Session {
            decoder: Decoder::default(),
            messages: Vec::new(),
            unsent: Vec::new(),
            sent: 0,
            next_stream: REGISTRATION,
            partial: PartialState::default(),
            malformed: 0,
        };
        let register = api::RegisterPluginRequest {
            plugin_name: name.to_owned(),
            plugin_idx: index.to_owned(),
            nri_version: api::VERSION.to_owned(),
        };
        session.call("RegisterPlugin", register.encode_to_vec());
        session
    }

    /// Handles received bytes.
    ///
    /// # Errors
    /// [`SessionError`]: the connection must be closed.
    pub fn handle(&mut self, bytes: &[u8], events: &mut Vec<Event>) -> Result<(), SessionError> {
        let mut messages = std::mem::take(&mut self.messages);
        let framed = self.decoder.push(bytes, &mut messages);
        for message in messages.drain(..) {
            self.take(message, events)?;
        }
        self.messages = messages;
        framed?;
        match self.unsent().len() > MOST_UNSENT_BYTES {
            true => Err(SessionError::Unread),
            false => Ok(()),
        }
    }

    fn take(&mut self, message: Message, events: &mut Vec<Event>) -> Result<(), SessionError> {
        match (message.connection, message.kind) {
            (frame::PLUGIN, MessageKind::Request) => {
                let Ok(request) = rpc::Request::decode(message.data.as_slice()) else {
                    self.malformed += 1;
                    let why = "the request cannot be decoded".to_owned();
                    self.put(&rpc::refusal(frame::PLUGIN, message.stream, 3, why));
                    return Ok(());
                };
                self.requested(message.stream, &request, events)
            }
            (frame::RUNTIME, MessageKind::Response) => self.handle_response(&message, events),
            // Neither side sends such messages.
            _ => {
                self.malformed += 1;
                Ok(())
            }
        }
    }

    /// Handles the runtime's answer to a call.
    fn handle_response(
        &mut self,
        message: &Message,
        events: &mut Vec<Event>,
    ) -> Result<(), SessionError> {
        let Ok(response) = rpc::Response::decode(message.data.as_slice()) else {
            self.malformed += 1;
            return Ok(());
        };
        let error = response.status.filter(|s| s.code != 0).map(|s| s.message);
        if message.stream == REGISTRATION {
            return match error {
                Some(why) => Err(SessionError::Refused(why)),
                None => Ok(()),
            };
        }
        let failed = api::UpdateContainersResponse::decode(response.payload.as_slice());
        let failed = failed.map(|r| r.failed).unwrap_or_default();
        events.push(Event::Updated {
            failed: failed.into_iter().map(|u| u.container_id).collect(),
            error,
        });
        Ok(())
    }

    /// Answers a call, with an `adjustment` of a container that is being created, and `updates` of
    /// existing ones.
    pub fn answer(&mut self, call: Call, adjustment: Option<Adjustment>, updates: &[Update]) {
        let update = || updates.iter().map(container_update).collect::<Vec<_>>();
        let payload = match call.kind {
            CallKind::Synchronize => api::SynchronizeResponse {
                update: update(),
                more: false,
            }
            .encode_to_vec(),
            CallKind::Create => api::CreateContainerResponse {
                adjust: adjustment.map(container_adjustment),
                update: update(),
            }
            .encode_to_vec(),
            CallKind::Update => api::UpdateContainerResponse { update: update() }.encode_to_vec(),
            CallKind::Plain => Vec::new(),
        };
        self.put(&rpc::response(frame::PLUGIN, call.stream, payload));
    }

    /// Requests changes of containers from the runtime; [`Event::Updated`] reports the outcome.
    pub fn update(&mut self, updates: &[Update]) {
        let request = api::UpdateContainersRequest {
            update: updates.iter().map(container_update).collect(),
        };
        self.call("UpdateContainers", request.encode_to_vec());
    }

    /// Bytes to be written now.
    pub fn unsent(&self) -> &[u8] {
        &self.unsent[self.sent..]
    }

    /// Records that this number of bytes was written.
    pub fn sent(&mut self, bytes: usize) {
        self.sent += bytes;
        if self.sent >= self.unsent.len() {
            self.unsent.clear();
            self.sent = 0;
        }
    }

    /// Messages that could not be understood; each was answered with an empty message, or not at
    /// all.
    pub fn malformed(&self) -> u64 {
        self.malformed
    }

    fn call(&mut self, method: &str, payload: Vec<u8>) {
        let stream = self.next_stream;
        self.next_stream = self.next_stream.wrapping_add(2);
        let service = api::RUNTIME_SERVICE;
        let call = rpc::request(frame::RUNTIME, stream, service, method, payload);
        self.put(&call);
    }

    fn put(&mut self, message: &Message) {
        // A message that is too large is longer than any request could be.
        if frame::encode(message, &mut self.unsent).is_err() {
            self.malformed += 1;
        }
    }
}

fn container_adjustment(adjustment: Adjustment) -> api::ContainerAdjustment {
    api::ContainerAdjustment {
        annotations: adjustment.annotations.into_iter().collect(),
        linux: Some(api::LinuxContainerAdjustment {
            resources: Some(on_cpus(&adjustment.cpus)),
        }),
    }
}

fn container_update(update: &Update) -> api::ContainerUpdate {
    api::ContainerUpdate {
        container_id: update.container.clone(),
        linux: Some(api::LinuxContainerUpdate {
            resources: Some(on_cpus(&update.cpus)),
        }),
        // A container that has ended meanwhile must not make the others fail.
        ignore_failure: true,
    }
}

fn on_cpus(cpus: &str) -> api::LinuxResources {
    api::LinuxResources {
        cpu: Some(api::LinuxCpu {
            cpus: cpus.to_owned(),
            ..api::LinuxCpu::default()
        }),
    }
}
