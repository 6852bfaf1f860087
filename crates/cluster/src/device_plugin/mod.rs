//! What a node can still promise, as an extended resource that an unmodified scheduler counts.
//!
//! The kubelet's device plugin API: one device is one CPU that a strict pod may have for its own. The
//! kubelet puts their number into the node's status, and a strict pod that requests more than is left
//! anywhere stays Pending with the reason. No rights in the API server are needed for it, which patching
//! the node's status would. Devices are counted, never handed out: the agent chooses the CPUs.

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

/// Where the kubelet has its plugins.
pub const DEFAULT_FOLDER: &str = "/var/lib/kubelet/device-plugins";
/// The resource that strict pods request, one a CPU.
pub const RESOURCE: &str = "cofferdam.dev/strict-cpu";
/// Our socket in the kubelet's folder.
const SOCKET: &str = "cofferdam-strict-cpu.sock";
/// The kubelet's socket.
const KUBELET: &str = "kubelet.sock";
/// How often it is looked whether the kubelet has restarted, or this is to end.
const LOOK: Duration = Duration::from_millis(500);

/// What is promised.
#[derive(Clone, Debug)]
pub struct Options {
    /// The kubelet's folder of plugins.
    pub folder: PathBuf,
    /// CPUs that strict pods of this node may have together.
    pub cpus: u32,
}

/// It cannot be promised.
#[derive(Debug, thiserror::Error)]
pub enum DevicePluginError {
    /// No runtime.
    #[error("cannot start an event loop: {0}")]
    Runtime(#[source] io::Error),
    /// Of the folder.
    #[error("cannot listen in {folder}, the kubelet's folder of device plugins: {why}")]
    Listen {
        /// Which.
        folder: String,
        /// Why.
        why: io::Error,
    },
}

/// Promises until `stop` is set. A kubelet that is away, or restarts, is waited for.
///
/// # Errors
/// [`DevicePluginError`].
pub fn run(options: &Options, stop: &AtomicBool) -> Result<(), DevicePluginError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()
        .map_err(DevicePluginError::Runtime)?;
    runtime.block_on(promise(options, stop))
}

async fn promise(options: &Options, stop: &AtomicBool) -> Result<(), DevicePluginError> {
    let path = options.folder.join(SOCKET);
    let listen = |why| DevicePluginError::Listen {
        folder: options.folder.display().to_string(),
        why,
    };
    let mut told = false;
    while !stop.load(Ordering::Relaxed) {
        // The kubelet empties the folder when it starts; a folder that is away comes with it.
        if !options.folder.exists() {
            tokio::time::sleep(LOOK).await;
            continue;
        }
        let socket = match UnixSocket::listen(&path, SocketKind::Stream, SocketAccess::Owner) {
            Ok(socket) => socket,
            // Of a pod that is being replaced: it ends soon.
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
                told = false;
                tracing::info!(
                    "the kubelet counts {} {RESOURCE} on this node",
                    options.cpus
                );
                while !stop.load(Ordering::Relaxed) && file.is_in_place() {
                    tokio::time::sleep(LOOK).await;
                }
            }
            Err(why) => {
                if !told {
                    tracing::warn!("the kubelet does not take {RESOURCE} yet: {why}");
                }
                told = true;
                tokio::time::sleep(LOOK).await;
            }
        }
        serving.abort();
    }
    Ok(())
}

/// One device a CPU, all of them healthy.
fn devices(cpus: u32) -> ListAndWatchResponse {
    let device = |i| Device {
        id: format!("strict-cpu-{i}"),
        health: "Healthy".to_owned(),
    };
    ListAndWatchResponse {
        devices: (0..cpus).map(device).collect(),
    }
}
