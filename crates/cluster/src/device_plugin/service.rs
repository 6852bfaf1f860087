//! Service for the kubelet's calls.

use super::grpc::{GrpcError, body, frame, message};
use super::messages::{AllocateRequest, AllocateResponse, Empty, ListAndWatchResponse};
use bytes::Bytes;
use h2::RecvStream;
use h2::server::SendResponse;
use http::{HeaderMap, HeaderValue, Request, Response};
use tokio::net::{UnixListener, UnixStream};

/// Status of gRPC for a method that does not exist.
const UNIMPLEMENTED: &str = "12";

/// Accepts the kubelet's connections while this is polled.
pub async fn serve(listener: UnixListener, devices: ListAndWatchResponse) {
    let devices = frame(&devices);
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(connection(stream, devices.clone()));
    }
}

async fn connection(stream: UnixStream, devices: Bytes) {
    let Ok(mut connection) = h2::server::handshake(stream).await else {
        return;
    };
    // Accepting also drives the answers of open calls.
    while let Some(Ok((request, respond))) = connection.accept().await {
        let devices = devices.clone();
        tokio::spawn(async move {
            if let Err(why) = call(request, respond, devices).await {
                tracing::debug!("a call of the kubelet ended: {why}");
            }
        });
    }
}

async fn call(
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    devices: Bytes,
) -> Result<(), GrpcError> {
    let (head, mut stream) = request.into_parts();
    let method = Method::of(head.uri.path());
    if method == Method::ListAndWatch {
        return list_and_watch(&mut respond, devices).await;
    }
    let answer = match answer(method, &body(&mut stream).await?)? {
        Some(answer) => answer,
        None => {
            let mut head = response();
            let status = HeaderValue::from_static(UNIMPLEMENTED);
            head.headers_mut().insert("grpc-status", status);
            respond.send_response(head, true)?;
            return Ok(());
        }
    };
    let mut to = respond.send_response(response(), false)?;
    to.send_data(answer, false)?;
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    to.send_trailers(trailers)?;
    Ok(())
}

/// Method that the kubelet may call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Requests the devices, and keeps the stream open.
    ListAndWatch,
    /// Requests devices for the containers of a pod.
    Allocate,
    /// Requests a function that the plugin does not have.
    Nothing,
    /// Any other method.
    Unknown,
}

impl Method {
    /// Method of a request's path.
    pub fn of(path: &str) -> Method {
        match path.strip_prefix("/v1beta1.DevicePlugin/") {
            Some("ListAndWatch") => Method::ListAndWatch,
            Some("Allocate") => Method::Allocate,
            Some("GetDevicePluginOptions" | "PreStartContainer") => Method::Nothing,
            _ => Method::Unknown,
        }
    }
}

/// Frame that answers a call of `method` with `request`; `None` where one frame does not suffice. A
/// pure function.
///
/// # Errors
/// [`GrpcError::Garbled`] if the request is no message.
pub fn answer(method: Method, request: &[u8]) -> Result<Option<Bytes>, GrpcError> {
    Ok(match method {
        Method::Nothing => Some(frame(&Empty {})),
        Method::Allocate => {
            let asked: AllocateRequest = message(request)?;
            Some(frame(&AllocateResponse {
                container_responses: asked.container_requests,
            }))
        }
        Method::ListAndWatch | Method::Unknown => None,
    })
}

/// Sends the devices once and leaves the stream open, which shows the kubelet that the plugin
/// lives.
async fn list_and_watch(
    respond: &mut SendResponse<Bytes>,
    devices: Bytes,
) -> Result<(), GrpcError> {
    let mut to = respond.send_response(response(), false)?;
    to.send_data(devices, false)?;
    std::future::poll_fn(|context| to.poll_reset(context)).await?;
    Ok(())
}

fn response() -> Response<()> {
    let mut response = Response::new(());
    let kind = HeaderValue::from_static("application/grpc");
    response.headers_mut().insert("content-type", kind);
    response
}
