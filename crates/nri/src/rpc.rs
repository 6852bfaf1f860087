//! ttrpc's own messages: which method is called, and how it ended.

use crate::frame::{Kind, Message};
use prost::Message as _;

/// gRPC's code of a method that is not known.
pub const UNIMPLEMENTED: i32 = 12;

/// A call.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Request {
    /// The service.
    #[prost(string, tag = "1")]
    pub service: String,
    /// Its method.
    #[prost(string, tag = "2")]
    pub method: String,
    /// The method's message.
    #[prost(bytes = "vec", tag = "3")]
    pub payload: Vec<u8>,
    /// The caller waits so long, nanoseconds; 0 does not say.
    #[prost(int64, tag = "4")]
    pub timeout_nano: i64,
}

/// An answer.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Response {
    /// Set when it failed.
    #[prost(message, optional, tag = "1")]
    pub status: Option<Status>,
    /// The method's message.
    #[prost(bytes = "vec", tag = "2")]
    pub payload: Vec<u8>,
}

/// Why a call failed.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Status {
    /// gRPC's code.
    #[prost(int32, tag = "1")]
    pub code: i32,
    /// In words.
    #[prost(string, tag = "2")]
    pub message: String,
}

/// The answer to a call on `connection`.
pub fn response(connection: u32, stream: u32, payload: Vec<u8>) -> Message {
    let data = Response {
        status: None,
        payload,
    };
    Message {
        connection,
        stream,
        kind: Kind::Response,
        data: data.encode_to_vec(),
    }
}

/// The answer to a call that cannot be served.
pub fn refusal(connection: u32, stream: u32, code: i32, message: String) -> Message {
    let data = Response {
        status: Some(Status { code, message }),
        payload: Vec::new(),
    };
    Message {
        connection,
        stream,
        kind: Kind::Response,
        data: data.encode_to_vec(),
    }
}

/// A call of `method`.
pub fn request(
    connection: u32,
    stream: u32,
    service: &str,
    method: &str,
    payload: Vec<u8>,
) -> Message {
    let data = Request {
        service: service.to_owned(),
        method: method.to_owned(),
        payload,
        timeout_nano: 0,
    };
    Message {
        connection,
        stream,
        kind: Kind::Request,
        data: data.encode_to_vec(),
    }
}
