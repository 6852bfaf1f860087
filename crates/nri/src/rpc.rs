//! Messages of ttrpc itself: the called method, and the result.

use crate::frame::{Message, MessageKind};
use prost::Message as _;

/// gRPC's code for an unknown method.
pub const UNIMPLEMENTED: i32 = 12;

/// A call.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Request {
    /// Called service.
    #[prost(string, tag = "1")]
    pub service: String,
    /// Called method.
    #[prost(string, tag = "2")]
    pub method: String,
    /// Message of the method.
    #[prost(bytes = "vec", tag = "3")]
    pub payload: Vec<u8>,
    /// Time that the caller waits, nanoseconds; 0: unknown.
    #[prost(int64, tag = "4")]
    pub timeout_nano: i64,
}

/// An answer.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Response {
    /// Set on failure.
    #[prost(message, optional, tag = "1")]
    pub status: Option<Status>,
    /// Message of the method.
    #[prost(bytes = "vec", tag = "2")]
    pub payload: Vec<u8>,
}

/// Failure of a call.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Status {
    /// Code of gRPC.
    #[prost(int32, tag = "1")]
    pub code: i32,
    /// Description.
    #[prost(string, tag = "2")]
    pub message: String,
}

/// Answer to a call on `connection`.
pub fn response(connection: u32, stream: u32, payload: Vec<u8>) -> Message {
    let data = Response {
        status: None,
        payload,
    };
    Message {
        connection,
        stream,
        kind: MessageKind::Response,
        data: data.encode_to_vec(),
    }
}

/// Answer to a call that cannot be served.
pub fn refusal(connection: u32, stream: u32, code: i32, message: String) -> Message {
    let data = Response {
        status: Some(Status { code, message }),
        payload: Vec::new(),
    };
    Message {
        connection,
        stream,
        kind: MessageKind::Response,
        data: data.encode_to_vec(),
    }
}

/// Call of `method`.
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
        kind: MessageKind::Request,
        data: data.encode_to_vec(),
    }
}
