//! Messages of `nri.pkg.api.v1alpha1`, with the fields that are used; others are skipped.
//!
//! Written by hand instead of generated from `api.proto`: a third of the fields is enough, and the
//! build needs no protocol buffer compiler. Names and tags are the schema's, which explains them.
//! Source: `pkg/api/api.proto` of NRI 0.12.
#![allow(missing_docs)]

use std::collections::BTreeMap;

/// Service that the runtime calls.
pub const PLUGIN_SERVICE: &str = "nri.pkg.api.v1alpha1.Plugin";
/// Service that the plugin calls.
pub const RUNTIME_SERVICE: &str = "nri.pkg.api.v1alpha1.Runtime";
/// Version of NRI that this crate follows; the runtime logs it.
pub const VERSION: &str = "0.12.3";

/// Numbers of events in subscriptions and `StateChange`.
pub mod event {
    pub const RUN_POD_SANDBOX: i32 = 1;
    pub const STOP_POD_SANDBOX: i32 = 2;
    pub const REMOVE_POD_SANDBOX: i32 = 3;
    pub const CREATE_CONTAINER: i32 = 4;
    pub const START_CONTAINER: i32 = 6;
    pub const UPDATE_CONTAINER: i32 = 8;
    pub const POST_UPDATE_CONTAINER: i32 = 9;
    pub const STOP_CONTAINER: i32 = 10;
    pub const REMOVE_CONTAINER: i32 = 11;

    /// Subscription to all of these events.
    pub const ALL: i32 = bit(RUN_POD_SANDBOX)
        | bit(STOP_POD_SANDBOX)
        | bit(REMOVE_POD_SANDBOX)
        | bit(CREATE_CONTAINER)
        | bit(START_CONTAINER)
        | bit(UPDATE_CONTAINER)
        | bit(POST_UPDATE_CONTAINER)
        | bit(STOP_CONTAINER)
        | bit(REMOVE_CONTAINER);

    const fn bit(event: i32) -> i32 {
        1 << (event - 1)
    }
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RegisterPluginRequest {
    #[prost(string, tag = "1")]
    pub plugin_name: String,
    #[prost(string, tag = "2")]
    pub plugin_idx: String,
    #[prost(string, tag = "3")]
    pub nri_version: String,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct UpdateContainersRequest {
    #[prost(message, repeated, tag = "1")]
    pub update: Vec<ContainerUpdate>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct UpdateContainersResponse {
    #[prost(message, repeated, tag = "1")]
    pub failed: Vec<ContainerUpdate>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ConfigureRequest {
    #[prost(string, tag = "2")]
    pub runtime_name: String,
    #[prost(string, tag = "3")]
    pub runtime_version: String,
    /// Milliseconds.
    #[prost(int64, tag = "5")]
    pub request_timeout: i64,
    #[prost(string, tag = "6")]
    pub nri_version: String,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ConfigureResponse {
    #[prost(int32, tag = "2")]
    pub events: i32,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SynchronizeRequest {
    #[prost(message, repeated, tag = "1")]
    pub pods: Vec<PodSandbox>,
    #[prost(message, repeated, tag = "2")]
    pub containers: Vec<Container>,
    #[prost(bool, tag = "3")]
    pub more: bool,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SynchronizeResponse {
    #[prost(message, repeated, tag = "1")]
    pub update: Vec<ContainerUpdate>,
    #[prost(bool, tag = "2")]
    pub more: bool,
}

/// Any request about one pod and one of its containers: they all have the same tags.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ContainerRequest {
    #[prost(message, optional, tag = "1")]
    pub pod: Option<PodSandbox>,
    #[prost(message, optional, tag = "2")]
    pub container: Option<Container>,
    /// Set only in `UpdateContainer`.
    #[prost(message, optional, tag = "3")]
    pub linux_resources: Option<LinuxResources>,
}

/// Event that older versions send instead of requests without an answer.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct StateChangeEvent {
    #[prost(int32, tag = "1")]
    pub event: i32,
    #[prost(message, optional, tag = "2")]
    pub pod: Option<PodSandbox>,
    #[prost(message, optional, tag = "3")]
    pub container: Option<Container>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CreateContainerResponse {
    #[prost(message, optional, tag = "1")]
    pub adjust: Option<ContainerAdjustment>,
    #[prost(message, repeated, tag = "2")]
    pub update: Vec<ContainerUpdate>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct UpdateContainerResponse {
    #[prost(message, repeated, tag = "1")]
    pub update: Vec<ContainerUpdate>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct PodSandbox {
    #[prost(string, tag = "1")]
    pub id: String,
    #[prost(string, tag = "2")]
    pub name: String,
    #[prost(string, tag = "3")]
    pub uid: String,
    #[prost(string, tag = "4")]
    pub namespace: String,
    #[prost(btree_map = "string, string", tag = "5")]
    pub labels: BTreeMap<String, String>,
    #[prost(btree_map = "string, string", tag = "6")]
    pub annotations: BTreeMap<String, String>,
    #[prost(message, optional, tag = "8")]
    pub linux: Option<LinuxPodSandbox>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct LinuxPodSandbox {
    #[prost(string, tag = "3")]
    pub cgroup_parent: String,
    #[prost(message, repeated, tag = "5")]
    pub namespaces: Vec<LinuxNamespace>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct LinuxNamespace {
    #[prost(string, tag = "1")]
    pub r#type: String,
    #[prost(string, tag = "2")]
    pub path: String,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Container {
    #[prost(string, tag = "1")]
    pub id: String,
    #[prost(string, tag = "2")]
    pub pod_sandbox_id: String,
    #[prost(string, tag = "3")]
    pub name: String,
    #[prost(int32, tag = "4")]
    pub state: i32,
    #[prost(btree_map = "string, string", tag = "5")]
    pub labels: BTreeMap<String, String>,
    #[prost(btree_map = "string, string", tag = "6")]
    pub annotations: BTreeMap<String, String>,
    #[prost(message, optional, tag = "11")]
    pub linux: Option<LinuxContainer>,
}

/// `Container.state` of a container whose process has ended.
pub const CONTAINER_STOPPED: i32 = 4;

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct LinuxContainer {
    #[prost(message, repeated, tag = "1")]
    pub namespaces: Vec<LinuxNamespace>,
    #[prost(message, optional, tag = "3")]
    pub resources: Option<LinuxResources>,
    #[prost(string, tag = "5")]
    pub cgroups_path: String,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct LinuxResources {
    #[prost(message, optional, tag = "2")]
    pub cpu: Option<LinuxCpu>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct LinuxCpu {
    #[prost(message, optional, tag = "1")]
    pub shares: Option<OptionalUInt64>,
    #[prost(message, optional, tag = "2")]
    pub quota: Option<OptionalInt64>,
    #[prost(message, optional, tag = "3")]
    pub period: Option<OptionalUInt64>,
    #[prost(string, tag = "6")]
    pub cpus: String,
}

#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct OptionalUInt64 {
    #[prost(uint64, tag = "1")]
    pub value: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct OptionalInt64 {
    #[prost(int64, tag = "1")]
    pub value: i64,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ContainerAdjustment {
    #[prost(btree_map = "string, string", tag = "2")]
    pub annotations: BTreeMap<String, String>,
    #[prost(message, optional, tag = "6")]
    pub linux: Option<LinuxContainerAdjustment>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct LinuxContainerAdjustment {
    #[prost(message, optional, tag = "2")]
    pub resources: Option<LinuxResources>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ContainerUpdate {
    #[prost(string, tag = "1")]
    pub container_id: String,
    #[prost(message, optional, tag = "2")]
    pub linux: Option<LinuxContainerUpdate>,
    #[prost(bool, tag = "3")]
    pub ignore_failure: bool,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct LinuxContainerUpdate {
    #[prost(message, optional, tag = "1")]
    pub resources: Option<LinuxResources>,
}
