//! Thread with the socket on which a container reads its own reports. The programs are loaded only
//! while a container measures.

use super::StartError;
use cofferdam_host::{HostFs, host_netns};
use cofferdam_latency::serve::{Limits, OnDemand, Server, bind, peer_of};
use cofferdam_latency::{LatencySizes, Start};
use cofferdam_paths::SocketFile;
use std::os::fd::AsFd;
use std::path::Path;
use std::thread::JoinHandle;

/// Running server. Dropping it ends the thread and removes the socket.
pub(super) struct Service {
    thread: Option<JoinHandle<()>>,
    /// Closing it ends the thread.
    wake: Option<std::io::PipeWriter>,
    _socket: SocketFile,
}

impl Service {
    /// Listens on `path`.
    pub fn start(path: &Path, start: Start) -> Result<Service, StartError> {
        let host = host_netns(&HostFs::host())?;
        let source = OnDemand::new(LatencySizes::default(), start, host);
        let (listener, socket) = bind(path)?;
        let (wait, wake) = std::io::pipe().map_err(StartError::Pipe)?;
        let server = move || {
            let server = Server::new(listener, source, Limits::default(), Box::new(peer_of));
            if let Err(why) = server.and_then(|mut server| server.run(wait.as_fd())) {
                tracing::error!("containers can no longer read latencies: {why}");
            }
        };
        let thread = std::thread::Builder::new()
            .name("cofferdam-latency-socket".into())
            .spawn(server)
            .map_err(StartError::Thread)?;
        Ok(Service {
            thread: Some(thread),
            wake: Some(wake),
            _socket: socket,
        })
    }

    pub fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // The other end of the pipe becomes readable (hung up).
        drop(self.wake.take());
        if let Some(thread) = self.thread.take() {
            // The result does not matter: the thread has ended or panicked.
            let _result = thread.join();
        }
    }
}
