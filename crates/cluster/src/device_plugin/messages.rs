//! Messages of the kubelet's `v1beta1` device plugin API. Fields that the plugin does not need are
//! left out, which the encoding allows.

#[derive(Clone, PartialEq, prost::Message)]
pub struct RegisterRequest {
    /// Version of the API.
    #[prost(string, tag = "1")]
    pub version: String,
    /// Name of the socket in the kubelet's folder.
    #[prost(string, tag = "2")]
    pub endpoint: String,
    #[prost(string, tag = "3")]
    pub resource_name: String,
}

/// Message without content, for requests and answers.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Empty {}

#[derive(Clone, PartialEq, prost::Message)]
pub struct ListAndWatchResponse {
    #[prost(message, repeated, tag = "1")]
    pub devices: Vec<Device>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Device {
    #[prost(string, tag = "1")]
    pub id: String,
    #[prost(string, tag = "2")]
    pub health: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct AllocateRequest {
    #[prost(message, repeated, tag = "1")]
    pub container_requests: Vec<Empty>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct AllocateResponse {
    /// One answer for each request: nothing is added to the container.
    #[prost(message, repeated, tag = "1")]
    pub container_responses: Vec<Empty>,
}
