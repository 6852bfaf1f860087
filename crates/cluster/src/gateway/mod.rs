//! The gateway of a node: serves the answers of the agent to clients in the cluster that have the
//! token.
//!
//! The gateway is a process of its own, because the agent has root's rights and it has none: it can
//! read from the agent's socket and nothing else. One thread asks the agent and stores the
//! documents. The other one serves them from the loop of [`cofferdam_exporter`], whose bounds apply
//! to every client.

mod access;
mod documents;
mod route;
mod sampler;

use crate::http::{self, Limits, Peer};
use access::Access;
use cofferdam_exporter::{Answer, Exporter, Exposition, Format, Request};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use route::{Route, route};
use sampler::Sampler;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

pub use access::SHORTEST_TOKEN;
pub use documents::MOST_BYTES;

/// Time limit for the agent's metrics.
const METRICS_WITHIN: Duration = Duration::from_secs(2);
/// Largest metrics that are forwarded, bytes.
const MOST_METRICS_BYTES: usize = 32 << 20;
/// Largest report of the doctor, bytes.
const MOST_DOCTOR_BYTES: u64 = 1 << 20;

/// Options of a gateway.
#[derive(Clone, Debug)]
pub struct Options {
    /// Address on which the gateway listens.
    pub listen: SocketAddr,
    /// The agent's socket.
    pub socket: PathBuf,
    /// File with the token. It is read at each request: a new token is in force at once.
    pub token_file: PathBuf,
    /// File with the doctor's report, if there is one.
    pub doctor_file: Option<PathBuf>,
}

/// Reason why the gateway cannot serve.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    /// The listening socket failed.
    #[error(
        "cannot listen on {address}: {why}; give --listen an address and a free port of this node"
    )]
    Listen {
        /// Address.
        address: SocketAddr,
        /// Error.
        why: io::Error,
    },
    /// Waiting failed.
    #[error("cannot wait for connections: {0}")]
    Poll(#[source] io::Error),
    /// There is no thread.
    #[error("cannot start the thread that asks the agent: {0}")]
    Thread(#[source] io::Error),
}

/// A gateway that listens.
pub struct Gateway {
    exporter: Exporter,
    access: Access,
    sampler: Sampler,
    doctor_file: Option<PathBuf>,
}

impl Gateway {
    /// Listens, and starts to ask the agent, which may not run yet.
    ///
    /// # Errors
    /// Any [`GatewayError`].
    pub fn start(options: &Options) -> Result<Gateway, GatewayError> {
        let format = Format {
            metrics: Exposition::OpenMetrics,
            index: "",
        };
        let exporter =
            Exporter::bind(options.listen, format).map_err(|why| GatewayError::Listen {
                address: options.listen,
                why,
            })?;
        Ok(Gateway {
            exporter,
            access: Access::new(options.token_file.clone()),
            sampler: Sampler::start(options.socket.clone()).map_err(GatewayError::Thread)?,
            doctor_file: options.doctor_file.clone(),
        })
    }

    /// Address on which the gateway listens.
    pub fn address(&self) -> Option<SocketAddr> {
        self.exporter.address()
    }

    /// Serves until `stop` is readable.
    ///
    /// # Errors
    /// Fails when it cannot wait.
    pub fn run(&mut self, stop: BorrowedFd<'_>) -> Result<(), GatewayError> {
        loop {
            let wait = match self.exporter.deadline() {
                Some(at) => at.saturating_duration_since(Instant::now()),
                None => Duration::from_secs(3600),
            };
            let timeout =
                PollTimeout::try_from(wait + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX);
            let ready: Vec<bool> = {
                let mut fds: Vec<PollFd<'_>> = self.exporter.poll_fds().collect();
                fds.push(PollFd::new(stop.as_fd(), PollFlags::POLLIN));
                match poll(&mut fds, timeout) {
                    Ok(_) | Err(nix::errno::Errno::EINTR) => {}
                    Err(why) => return Err(GatewayError::Poll(why.into())),
                }
                fds.iter().map(|fd| fd.any().unwrap_or(false)).collect()
            };
            let Some((stopped, clients)) = ready.split_last() else {
                return Ok(());
            };
            if *stopped {
                return Ok(());
            }
            let (access, sampler, doctor) = (&self.access, &self.sampler, &self.doctor_file);
            self.exporter
                .route(clients, |request| match route(request, access) {
                    Route::Fixed(answer) => answer,
                    Route::Ready => sampler.ready(),
                    Route::Document(which) => sampler.document(which),
                    Route::Doctor => doctor_report(doctor.as_deref()),
                    Route::Metrics => metrics(request, sampler.metrics_address()),
                });
        }
    }
}

const UNAVAILABLE: &str = "503 Service Unavailable";

/// Report of the doctor, as written when the pod started.
fn doctor_report(file: Option<&std::path::Path>) -> Answer<'static> {
    let Some(file) = file else {
        return Answer::text(
            "404 Not Found",
            "this gateway has no report of the doctor\n",
        );
    };
    match cofferdam_paths::read_text(file, MOST_DOCTOR_BYTES) {
        Ok(text) => Answer {
            status: "200 OK",
            content_type: route::JSON,
            body: text.into(),
        },
        Err(why) => {
            let text = format!(
                "cannot read the doctor's report {}: {why}\n",
                file.display()
            );
            Answer::text(UNAVAILABLE, text)
        }
    }
}

/// Metrics of the agent, forwarded in the format that `request` prefers. The agent serves them on
/// the node's loopback address within milliseconds; other clients wait meanwhile.
fn metrics(request: &Request<'_>, address: Result<SocketAddr, String>) -> Answer<'static> {
    let asked = address.and_then(|address| {
        let limits = Limits {
            deadline: Instant::now() + METRICS_WITHIN,
            most_bytes: MOST_METRICS_BYTES,
        };
        let reply = http::get(&Peer::Tcp(address), "/metrics", &[], limits)
            .map_err(|why| format!("the agent's metrics on {address}: {why}"))?;
        match (reply.status, String::from_utf8(reply.body)) {
            (200, Ok(text)) => Ok(text),
            (status, _) => Err(format!("the agent's metrics on {address}: status {status}")),
        }
    });
    match asked {
        Ok(text) => Answer::metrics(request, text, Exposition::OpenMetrics),
        Err(why) => Answer::text(UNAVAILABLE, why + "\n"),
    }
}
