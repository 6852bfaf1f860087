//! Registration of the plugin with the kubelet.

use super::grpc::{GrpcError, body, frame};
use super::messages::RegisterRequest;
use http::Request;
use std::io;
use std::path::Path;
use std::time::Duration;
use tokio::net::UnixStream;

/// Time limit for the kubelet's answer.
const WITHIN: Duration = Duration::from_secs(5);
/// Version of the kubelet's API.
const VERSION: &str = "v1beta1";

/// Reason why the kubelet did not register the plugin.
#[derive(Debug, thiserror::Error)]
pub enum RegisterError {
    /// The kubelet does not listen.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The kubelet does not speak gRPC.
    #[error("{0}")]
    Grpc(#[from] GrpcError),
    /// The kubelet refused, with this message.
    #[error("it refused: {0}")]
    Refused(String),
    /// The kubelet did not answer.
    #[error("no answer within {} s", WITHIN.as_secs())]
    Late,
}

impl From<h2::Error> for RegisterError {
    fn from(error: h2::Error) -> RegisterError {
        RegisterError::Grpc(error.into())
    }
}

/// Registers the plugin on the socket `endpoint` for `resource`.
pub async fn register(kubelet: &Path, endpoint: &str, resource: &str) -> Result<(), RegisterError> {
    let asked = ask(kubelet, endpoint, resource);
    tokio::time::timeout(WITHIN, asked)
        .await
        .map_err(|_| RegisterError::Late)?
}

async fn ask(kubelet: &Path, endpoint: &str, resource: &str) -> Result<(), RegisterError> {
    let stream = UnixStream::connect(kubelet).await?;
    let (send, connection) = h2::client::handshake(stream).await?;
    let connection = tokio::spawn(connection);
    let request = Request::post("http://localhost/v1beta1.Registration/Register")
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(())
        .map_err(|_| GrpcError::Garbled)?;
    let (response, mut to) = send.ready().await?.send_request(request, false)?;
    let message = RegisterRequest {
        version: VERSION.to_owned(),
        endpoint: endpoint.to_owned(),
        resource_name: resource.to_owned(),
    };
    to.send_data(frame(&message), true)?;
    let response = response.await?;
    let (head, mut stream) = response.into_parts();
    body(&mut stream).await?;
    // A refusal without a message has its status in the head.
    let trailers = stream.trailers().await?.unwrap_or(head.headers);
    connection.abort();
    match trailers.get("grpc-status").map(|s| s.as_bytes()) {
        Some(b"0") => Ok(()),
        _ => {
            let why = trailers.get("grpc-message").map(|m| m.as_bytes());
            let why = String::from_utf8_lossy(why.unwrap_or(b"no reason given"));
            Err(RegisterError::Refused(crate::kubectl::shown(&why)))
        }
    }
}
