//! One session with a runtime, from the registration to the end, without I/O.

mod request;
#[cfg(test)]
mod tests;

use crate::api;
#[cfg(test)]
use crate::api::event;
use crate::frame::{self, Decoder, FrameError, Kind, Message};
use crate::pods::{Container, Pod, Resources};
use crate::roster::MOST_KEPT_BYTES;
use crate::rpc;
use prost::Message as _;
use std::sync::Arc;
use std::time::Duration;

/// Answers that may wait for the runtime to read them.
const MOST_UNSENT_BYTES: usize = 2 * frame::LARGEST_CHUNK_BYTES;
/// Stream of the registration, the first call.
const REGISTRATION: u32 = 1;

/// A request that waits for [`Session::answer`].
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

/// What the runtime says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// It has accepted the plugin.
    Configured {
        /// `containerd`, `cri-o`.
        runtime: String,
        /// Its version.
        version: String,
        /// It waits so long for an answer, then it goes on without and drops the plugin.
        request_timeout: Duration,
    },
    /// All that is there now. To be answered.
    Synchronized {
        /// The pods.
        pods: Vec<Arc<Pod>>,
        /// Their containers.
        containers: Vec<Container>,
        /// Which request.
        call: Call,
    },
    /// A pod is about to run.
    Pod(Arc<Pod>),
    /// A pod is gone: its id.
    PodGone(String),
    /// A container is about to be made. To be answered.
    Create(Container, Call),
    /// A container that was made, its cgroup too, is about to execute its program. To be answered.
    Start(String, Call),
    /// The resources of a container are about to change. To be answered.
    Update(Container, Resources, Call),
    /// The resources of a container have changed: its id.
    Changed(String),
    /// The process of a container has ended: its id.
    Stopped(String),
    /// A container is gone: its id.
    Gone(String),
    /// The outcome of [`Session::update`].
    Updated {
        /// Containers that kept what they had.
        failed: Vec<String>,
        /// Why the whole request failed, where it did.
        error: Option<String>,
    },
    /// The runtime wants no more of this plugin.
    Shutdown,
}

/// What is to be different about a container that is made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Adjustment {
    /// The CPUs that it may run on, as a list.
    pub cpus: String,
    /// Annotations of its OCI configuration.
    pub annotations: Vec<(String, String)>,
}

/// What is to change about a container that is there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Update {
    /// Its id.
    pub container: String,
    /// The CPUs that it may run on, as a list. Empty: as they are.
    pub cpus: String,
}

/// The session has ended, or must.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The runtime has closed it.
    #[error("the runtime has closed the connection")]
    Closed,
    /// The socket.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// The runtime does not speak NRI.
    #[error("the runtime does not keep to the protocol: {0}")]
    Frame(#[from] FrameError),
    /// The runtime refuses the plugin.
    #[error("the runtime has refused the registration: {0}")]
    Refused(String),
    /// The runtime does not read.
    #[error("the runtime has left {MOST_UNSENT_BYTES} bytes of answers unread")]
    Unread,
    /// More than is kept.
    #[error("the runtime described more than {MOST_KEPT_BYTES} bytes of pods and containers")]
    TooMuch,
}

/// One session.
#[derive(Debug)]
pub struct Session {
    decoder: Decoder,
    messages: Vec<Message>,
    unsent: Vec<u8>,
    sent: usize,
    next_stream: u32,
    synchronizing: Synchronizing,
    malformed: u64,
}

/// The parts of a `Synchronize` that comes in several.
#[derive(Debug, Default)]
struct Synchronizing {
    pods: Vec<Arc<Pod>>,
    containers: Vec<api::Container>,
    bytes: usize,
}

impl Session {
    /// Begins one: registers the plugin `name`, which the runtime calls in the order of `index`, two
    /// digits.
    pub fn begin(name: &str, index: &str) -> Session {
        let mut session = Session {
            decoder: Decoder::default(),
            messages: Vec::new(),
            unsent: Vec::new(),
            sent: 0,
            next_stream: REGISTRATION,
            synchronizing: Synchronizing::default(),
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

    /// Takes in what was read.
    ///
    /// # Errors
    /// [`SessionError`]: close the connection.
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
            (frame::PLUGIN, Kind::Request) => {
                let Ok(request) = rpc::Request::decode(message.data.as_slice()) else {
                    self.malformed += 1;
                    let why = "the request cannot be decoded".to_owned();
                    self.put(&rpc::refusal(frame::PLUGIN, message.stream, 3, why));
                    return Ok(());
                };
                self.requested(message.stream, &request, events)
            }
            (frame::RUNTIME, Kind::Response) => self.answered(&message, events),
            // Neither side has business there.
            _ => {
                self.malformed += 1;
                Ok(())
            }
        }
    }

    /// The runtime has answered a call.
    fn answered(&mut self, message: &Message, events: &mut Vec<Event>) -> Result<(), SessionError> {
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

    /// Answers a call: `adjustment` where a container is made, `updates` of others that are there.
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

    /// Asks the runtime to change containers; [`Event::Updated`] tells the outcome.
    pub fn update(&mut self, updates: &[Update]) {
        let request = api::UpdateContainersRequest {
            update: updates.iter().map(container_update).collect(),
        };
        self.call("UpdateContainers", request.encode_to_vec());
    }

    /// What is to be written now.
    pub fn unsent(&self) -> &[u8] {
        &self.unsent[self.sent..]
    }

    /// So much of it was written.
    pub fn sent(&mut self, bytes: usize) {
        self.sent += bytes;
        if self.sent >= self.unsent.len() {
            self.unsent.clear();
            self.sent = 0;
        }
    }

    /// Messages that could not be understood; each was answered with nothing, or not at all.
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
        // What is too large for a message is longer than all that is ever asked for.
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
        // One that has ended meanwhile must not fail the others.
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
