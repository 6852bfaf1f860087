//! Free CPUs of a node as an extended resource, which an unmodified scheduler counts.
//!
//! With the kubelet's device plugin API one device is one CPU that a strict pod may reserve. The
//! kubelet puts their number into the node's status. A strict pod that requests more than any node
//! has left stays Pending with the reason. This needs no rights in the API server, unlike patching
//! the node's status. Devices are only counted, never assigned: the agent chooses the CPUs.

mod grpc;
mod kubelet;
mod messages;
mod service;
#[cfg(test)]
mod tests;

pub use grpc::GrpcError;
pub use service::{Method, answer};

use cofferdam_paths::{ListenError, SocketAccess, SocketKind, UnixSocket};
use messages::{Device, ListAndWatchResponse};
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::net::UnixListener;

/// Default folder of the kubelet's device plugins.
pub const DEFAULT_FOLDER: &str = "/var/lib/kubelet/device-plugins";
/// Resource that strict pods request, one for each CPU.
pub const RESOURCE: &str = "cofferdam.dev/strict-cpu";
/// Name of our socket in the kubelet's folder.
const SOCKET: &str = "cofferdam-strict-cpu.sock";
/// Name of the kubelet's socket.
const KUBELET: &str = "kubelet.sock";
/// Interval between two checks whether the kubelet has restarted, or the plugin is to end.
const LOOK: Duration = Duration::from_millis(500);

/// Resource of this node.
#[derive(Clone, Debug)]
pub struct Options {
    /// Folder of the kubelet's device plugins.
    pub folder: PathBuf,
    /// Number of CPUs that strict pods of this node may have together.
    pub cpus: u32,
}

/// Reason why the plugin cannot run.
#[derive(Debug, thiserror::Error)]
pub enum DevicePluginError {
    /// There is no runtime.
    #[error("cannot start an event loop: {0}")]
    Runtime(#[source] io::Error),
    /// The folder cannot be used.
    #[error("cannot listen in {folder}, the kubelet's folder of device plugins: {why}")]
    Listen {
        /// The folder.
        folder: String,
        /// The error.
        why: io::Error,
    },
}

/// Offers the CPUs until `stop` is set. Waits for a kubelet that is away or restarts.
///
/// # Errors
/// Any [`DevicePluginError`].
pub fn run(options: &Options, stop: &AtomicBool) -> Result<(), DevicePluginError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()
        .map_err(DevicePluginError::Runtime)?;
    runtime.block_on(offer(options, stop))
}

async fn offer(options: &Options, stop: &AtomicBool) -> Result<(), DevicePluginError> {
    let path = options.folder.join(SOCKET);
    let listen = |why| DevicePluginError::Listen {
        folder: options.folder.display().to_string(),
        why,
    };
    let mut is_reported = false;
    while !stop.load(Ordering::Relaxed) {
        // The kubelet empties the folder when it starts, and creates a missing one.
        if !options.folder.exists() {
            tokio::time::sleep(LOOK).await;
            continue;
        }
        let socket = match UnixSocket::listen(&path, SocketKind::Stream, SocketAccess::Owner) {
            Ok(socket) => socket,
            // The socket belongs to a pod that is being replaced, and ends soon.
            Err(ListenError::Taken(_)) => {
                tokio::time::sleep(LOOK).await;
                continue;
            }
            Err(why) => return Err(listen(io::Error::other(why))),
        };
        let (socket, file) = socket.into_parts();
        let listener = std::os::unix::net::UnixListener::from(socket);
        let listener = UnixListener::from_std(listener).map_err(listen)?;
        let serving = tokio::spawn(service::serve(listener, devices(options.cpus)));
        match kubelet::register(&options.folder.join(KUBELET), SOCKET, RESOURCE).await {
            Ok(()) => {
                is_reported = false;
                tracing::info!(
                    "the kubelet counts {} {RESOURCE} on this node",
                    options.cpus
                );
                while !stop.load(Ordering::Relaxed) && file.is_in_place() {
                    tokio::time::sleep(LOOK).await;
                }
            }
            Err(why) => {
                if !is_reported {
                    tracing::warn!("the kubelet does not take {RESOURCE} yet: {why}");
                }
                is_reported = true;
                tokio::time::sleep(LOOK).await;
            }
        }
        serving.abort();
    }
    Ok(())
}

/// One device for each CPU, all of them healthy.
fn devices(cpus: u32) -> ListAndWatchResponse {
    let device = |i| Device {
        id: format!("strict-cpu-{i}"),
        health: "Healthy".to_owned(),
    };
    ListAndWatchResponse {
        devices: (0..cpus).map(device).collect(),
    }
}
