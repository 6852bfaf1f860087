#![allow(clippy::unwrap_used)]
use super::grpc::{body, frame, message};
use super::messages::{AllocateRequest, AllocateResponse, Empty, RegisterRequest};
use super::*;
use http::{HeaderMap, HeaderValue, Request, Response};
use proptest::prelude::*;
use std::path::Path;
use std::sync::Arc;
use tokio::net::UnixStream;

/// Acts as a kubelet that accepts one registration with this status.
async fn registration(folder: &Path, status: &'static str) -> RegisterRequest {
    let _ = std::fs::remove_file(folder.join(KUBELET));
    let listener = UnixListener::bind(folder.join(KUBELET)).unwrap();
    let (stream, _) = listener.accept().await.unwrap();
    let mut connection = h2::server::handshake(stream).await.unwrap();
    let (request, mut respond) = connection.accept().await.unwrap().unwrap();
    assert_eq!(request.uri().path(), "/v1beta1.Registration/Register");
    let serving = tokio::spawn(async move { while connection.accept().await.is_some() {} });
    let mut stream = request.into_body();
    let asked = message(&body(&mut stream).await.unwrap()).unwrap();
    let mut to = respond.send_response(Response::new(()), false).unwrap();
    if status == "0" {
        to.send_data(frame(&Empty {}), false).unwrap();
    }
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static(status));
    trailers.insert("grpc-message", HeaderValue::from_static("invalid\tname"));
    to.send_trailers(trailers).unwrap();
    tokio::time::timeout(Duration::from_secs(10), serving)
        .await
        .unwrap()
        .unwrap();
    asked
}

/// Returns the first message of the plugin's answer to `method`.
async fn ask(
    folder: &Path,
    method: &str,
    request: impl prost::Message,
) -> (Vec<u8>, Option<String>) {
    let stream = UnixStream::connect(folder.join(SOCKET)).await.unwrap();
    let (send, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    let post = Request::post(format!("http://localhost/v1beta1.DevicePlugin/{method}"));
    let post = post.body(()).unwrap();
    let (response, mut to) = send
        .ready()
        .await
        .unwrap()
        .send_request(post, false)
        .unwrap();
    to.send_data(frame(&request), true).unwrap();
    let (head, mut stream) = response.await.unwrap().into_parts();
    let first = match stream.data().await {
        Some(data) => data.unwrap().to_vec(),
        None => Vec::new(),
    };
    let status = match head.headers.get("grpc-status") {
        Some(status) => Some(status.clone()),
        // The list of devices stays open.
        None if method == "ListAndWatch" => None,
        None => stream
            .trailers()
            .await
            .unwrap()
            .and_then(|t| t.get("grpc-status").cloned()),
    };
    (first, status.map(|s| s.to_str().unwrap().to_owned()))
}

/// Runs `body` next to the plugin.
fn with_plugin<F: Future<Output = ()>>(cpus: u32, body: impl FnOnce(PathBuf) -> F) {
    let folder = tempfile::tempdir().unwrap();
    let options = Options {
        folder: folder.path().to_owned(),
        cpus,
    };
    let stop = Arc::new(AtomicBool::new(false));
    let flag = stop.clone();
    let plugin = std::thread::spawn(move || run(&options, &flag));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let body = body(folder.path().to_owned());
    let done =
        runtime.block_on(async { tokio::time::timeout(Duration::from_secs(60), body).await });
    stop.store(true, Ordering::Relaxed);
    plugin.join().unwrap().unwrap();
    done.unwrap();
    assert!(!folder.path().join(SOCKET).exists(), "its socket is left");
}

/// Promise 40.
#[test]
fn the_kubelet_gets_and_allocates_a_device_for_each_cpu() {
    with_plugin(3, |folder| async move {
        let asked = registration(&folder, "0").await;
        assert_eq!(asked.resource_name, RESOURCE);
        assert_eq!(
            (asked.version.as_str(), asked.endpoint.as_str()),
            ("v1beta1", SOCKET)
        );
        let (first, _) = ask(&folder, "ListAndWatch", Empty {}).await;
        let list: ListAndWatchResponse = message(&first).unwrap();
        let ids: std::collections::BTreeSet<_> = list.devices.iter().map(|d| &d.id).collect();
        assert_eq!(ids.len(), 3);
        assert!(list.devices.iter().all(|d| d.health == "Healthy"));
        let two = AllocateRequest {
            container_requests: vec![Empty {}; 2],
        };
        let (first, status) = ask(&folder, "Allocate", two).await;
        let given: AllocateResponse = message(&first).unwrap();
        assert_eq!(
            (given.container_responses.len(), status.as_deref()),
            (2, Some("0"))
        );
        let (_, status) = ask(&folder, "GetDevicePluginOptions", Empty {}).await;
        assert_eq!(status.as_deref(), Some("0"));
        let (_, status) = ask(&folder, "Dance", Empty {}).await;
        assert_eq!(status.as_deref(), Some("12"));
    });
}

/// Promise 40.
#[test]
fn a_kubelet_that_refuses_or_restarts_is_asked_again() {
    with_plugin(1, |folder| async move {
        registration(&folder, "3").await;
        registration(&folder, "0").await;
        // A kubelet that starts empties its folder.
        std::fs::remove_file(folder.join(SOCKET)).unwrap();
        let again = registration(&folder, "0").await;
        assert_eq!(again.resource_name, RESOURCE);
        let (first, _) = ask(&folder, "ListAndWatch", Empty {}).await;
        assert!(message::<ListAndWatchResponse>(&first).is_ok());
    });
}

/// Promise 40.
#[test]
fn an_invalid_frame_is_refused() {
    for bytes in [
        &b""[..],
        &[0; 4],
        &[1, 0, 0, 0, 0],
        &[0, 0, 0, 0, 1],
        &[0, 0xff, 0xff, 0xff, 0xff],
    ] {
        assert!(message::<AllocateRequest>(bytes).is_err(), "{bytes:?}");
    }
}

proptest! {
    #[test]
    fn no_frame_panics(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
        let _ = message::<AllocateRequest>(&bytes);
    }
}
