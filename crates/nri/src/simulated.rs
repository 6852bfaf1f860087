//! Runtime side of a session, for tests and measurements: calls a plugin and receives its messages.
//! Blocking.

use crate::api;
use crate::frame::{self, Decoder, Message, MessageKind};
use crate::rpc;
use prost::Message as _;
use std::collections::VecDeque;
use std::io::{self, Error, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;

/// Call by a plugin.
#[derive(Clone, Debug, PartialEq)]
pub enum PluginCall {
    /// Registration of the plugin.
    Register(api::RegisterPluginRequest),
    /// Updates that the plugin initiates.
    Update(api::UpdateContainersRequest),
}

/// Simulated runtime.
#[derive(Debug)]
pub struct Runtime {
    stream: UnixStream,
    decoder: Decoder,
    responses: VecDeque<Message>,
    calls: VecDeque<PluginCall>,
    next_stream: u32,
}

impl Runtime {
    /// Creates a runtime for a connection that a plugin has made.
    pub fn new(stream: UnixStream) -> Runtime {
        Runtime {
            stream,
            decoder: Decoder::default(),
            responses: VecDeque::new(),
            calls: VecDeque::new(),
            next_stream: 1,
        }
    }

    /// Waits for the registration, configures the plugin and sends it all pods and containers.
    /// Returns the plugin's name and its updates.
    ///
    /// # Errors
    /// Fails if the plugin closes the connection, or does anything else.
    pub fn greet(
        &mut self,
        pods: Vec<api::PodSandbox>,
        containers: Vec<api::Container>,
    ) -> io::Result<(String, Vec<api::ContainerUpdate>)> {
        let PluginCall::Register(plugin) = self.next_call()? else {
            return Err(Error::new(ErrorKind::InvalidData, "it did not register"));
        };
        let configure = api::ConfigureRequest {
            runtime_name: "simulated".to_owned(),
            runtime_version: "1".to_owned(),
            request_timeout: 2000,
            nri_version: api::VERSION.to_owned(),
        };
        let _: api::ConfigureResponse = self.call("Configure", &configure)?;
        let all = api::SynchronizeRequest {
            pods,
            containers,
            more: false,
        };
        let answer: api::SynchronizeResponse = self.call("Synchronize", &all)?;
        Ok((plugin.plugin_name, answer.update))
    }

    /// Calls `method` and waits for the answer.
    ///
    /// # Errors
    /// Fails if the plugin closes the connection, or answers with an error.
    pub fn call<A: prost::Message + Default>(
        &mut self,
        method: &str,
        request: &impl prost::Message,
    ) -> io::Result<A> {
        let stream = self.next_stream;
        self.next_stream += 2;
        let payload = request.encode_to_vec();
        let service = api::PLUGIN_SERVICE;
        self.send(&rpc::request(
            frame::PLUGIN,
            stream,
            service,
            method,
            payload,
        ))?;
        let bad = |why: String| Error::new(ErrorKind::InvalidData, why);
        loop {
            let answer = |m: &Message| m.kind == MessageKind::Response && m.stream == stream;
            if let Some(at) = self.responses.iter().position(answer) {
                let message = self.responses.remove(at).expect("it was just found");
                let response = rpc::Response::decode(message.data.as_slice())
                    .map_err(|e| bad(e.to_string()))?;
                return match response.status {
                    Some(status) if status.code != 0 => Err(bad(status.message)),
                    _ => A::decode(response.payload.as_slice()).map_err(|e| bad(e.to_string())),
                };
            }
            self.read()?;
        }
    }

    /// Waits for a call by the plugin, and answers it with success.
    ///
    /// # Errors
    /// Fails if the plugin closes the connection.
    pub fn next_call(&mut self) -> io::Result<PluginCall> {
        loop {
            if let Some(next_call) = self.calls.pop_front() {
                return Ok(next_call);
            }
            self.read()?;
        }
    }

    fn read(&mut self) -> io::Result<()> {
        let mut bytes = [0; 64 << 10];
        let read = self.stream.read(&mut bytes)?;
        if read == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let mut messages = Vec::new();
        self.decoder
            .push(&bytes[..read], &mut messages)
            .map_err(|e| Error::new(ErrorKind::InvalidData, e))?;
        for message in messages {
            if message.kind == MessageKind::Request {
                self.handle_call(&message)?;
            } else {
                self.responses.push_back(message);
            }
        }
        Ok(())
    }

    fn handle_call(&mut self, message: &Message) -> io::Result<()> {
        let bad = |e: prost::DecodeError| Error::new(ErrorKind::InvalidData, e);
        let request = rpc::Request::decode(message.data.as_slice()).map_err(bad)?;
        let payload = request.payload.as_slice();
        let next_call = match request.method.as_str() {
            "RegisterPlugin" => {
                PluginCall::Register(api::RegisterPluginRequest::decode(payload).map_err(bad)?)
            }
            _ => PluginCall::Update(api::UpdateContainersRequest::decode(payload).map_err(bad)?),
        };
        self.calls.push_back(next_call);
        self.send(&rpc::response(frame::RUNTIME, message.stream, Vec::new()))
    }

    fn send(&mut self, message: &Message) -> io::Result<()> {
        let mut bytes = Vec::new();
        frame::encode(message, &mut bytes).map_err(|e| Error::new(ErrorKind::InvalidData, e))?;
        self.stream.write_all(&bytes)
    }
}

/// Guaranteed pod of a kubelet.
pub fn pod(id: &str, namespace: &str, name: &str) -> api::PodSandbox {
    let uid = format!("00000000-0000-0000-0000-{id:0>12}");
    api::PodSandbox {
        id: id.to_owned(),
        name: name.to_owned(),
        namespace: namespace.to_owned(),
        linux: Some(api::LinuxPodSandbox {
            cgroup_parent: format!("/kubepods/pod{uid}"),
            namespaces: Vec::new(),
        }),
        uid,
        ..api::PodSandbox::default()
    }
}

/// Container of the pod whose sandbox is `pod`, with `shares` as its `cpu.shares`.
pub fn container(id: &str, pod: &str, name: &str, shares: u64) -> api::Container {
    api::Container {
        id: id.to_owned(),
        pod_sandbox_id: pod.to_owned(),
        name: name.to_owned(),
        linux: Some(api::LinuxContainer {
            resources: Some(shares_of(shares)),
            cgroups_path: format!("/kubepods/pod00000000-0000-0000-0000-{pod:0>12}/{id}"),
            ..api::LinuxContainer::default()
        }),
        ..api::Container::default()
    }
}

/// Resources with `shares` as `cpu.shares`.
pub fn shares_of(shares: u64) -> api::LinuxResources {
    api::LinuxResources {
        cpu: Some(api::LinuxCpu {
            shares: Some(api::OptionalUInt64 { value: shares }),
            ..api::LinuxCpu::default()
        }),
    }
}
