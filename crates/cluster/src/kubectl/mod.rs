//! The API server with the user's rights, through a `kubectl proxy` that this process starts.
//!
//! The proxy has the user's credentials, contexts and plugins. One process serves any number of
//! nodes, on a socket that only this user can reach, for GETs of the few paths that are needed.

mod context;

pub use context::Context;

use crate::http::{self, Content, HttpError, Limits, Peer, Reply};
use serde::Deserialize;
use std::io::{self, ErrorKind};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Time limit until the proxy listens. Credentials of clouds come from programs that take seconds.
const READY_WITHIN: Duration = Duration::from_secs(20);
/// Interval between two checks whether it listens.
const LOOK: Duration = Duration::from_millis(10);
/// Paths that the proxy forwards, below the path of the server.
const PATHS: [&str; 2] = [
    "/api/v1/namespaces/[^/]+/(pods|secrets)($|/|\\?)",
    "/apis/apps/v1/namespaces/[^/]+/daemonsets",
];

/// Cluster, by the options of kubectl.
#[derive(Clone, Debug, Default)]
pub struct Cluster {
    /// `--kubeconfig`
    pub kubeconfig: Option<PathBuf>,
    /// `--context`
    pub context: Option<String>,
}

/// Reason why the cluster cannot be asked.
#[derive(Debug, thiserror::Error)]
pub enum KubectlError {
    /// There is no kubectl.
    #[error("cannot run kubectl: {0}; install it, and put it into PATH")]
    NoKubectl(#[source] io::Error),
    /// The proxy ended at once.
    #[error("kubectl cannot reach the cluster: {0}")]
    Ended(String),
    /// The proxy does not listen.
    #[error("kubectl proxy does not listen after {} s: {text}", READY_WITHIN.as_secs())]
    Silent {
        /// Last output of the proxy.
        text: String,
    },
    /// There is no folder for the socket.
    #[error("cannot make a folder for the socket of kubectl proxy: {0}")]
    Folder(#[source] io::Error),
}

/// Reason why the API server did not return the requested object.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// There was no answer.
    #[error("{0}")]
    Http(#[from] HttpError),
    /// The API server refused.
    #[error("{message} (status {status})")]
    Refused {
        /// Status of HTTP.
        status: u16,
        /// Message of the API server.
        message: String,
    },
}

/// Connection to the API server. A proxy that was started for it ends with it.
#[derive(Debug)]
pub struct Api {
    peer: Peer,
    /// Prefix of every path, because `kubectl proxy` leaves out the path of the server's URL. Its
    /// option `--append-server-path` would add it, but releases before 1.25 lack that.
    server_path: String,
    proxy: Option<Child>,
    // Dropped after the proxy: the folder of its socket.
    _folder: Option<tempfile::TempDir>,
}

/// Message of the API server about a failure.
#[derive(Deserialize)]
struct Status {
    #[serde(default)]
    message: String,
}

impl Api {
    /// Connection through a proxy that runs already, and that adds the path of the server's URL if
    /// needed.
    pub fn through(peer: Peer) -> Api {
        Api {
            peer,
            server_path: String::new(),
            proxy: None,
            _folder: None,
        }
    }

    /// Starts a proxy to the cluster of `context`, and waits until it listens.
    ///
    /// # Errors
    /// Any [`KubectlError`]. Only the first request shows whether the cluster answers.
    pub fn start(cluster: &Cluster, context: &Context) -> Result<Api, KubectlError> {
        let folder = tempfile::Builder::new()
            .prefix("cofferdam-kubectl-")
            .tempdir()
            .map_err(KubectlError::Folder)?;
        let socket = folder.path().join("proxy");
        let log = folder.path().join("log");
        let words = std::fs::File::create(&log).map_err(KubectlError::Folder)?;
        let mut command = kubectl(cluster);
        command
            .arg("proxy")
            .arg(format!("--unix-socket={}", socket.display()))
            .arg(format!("--accept-paths={}", accepted(&context.server_path)))
            .arg("--reject-methods=^(POST|PUT|PATCH|DELETE|OPTIONS|CONNECT)$")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(words);
        // SAFETY: prctl is async-signal-safe, and the closure allocates nothing.
        #[allow(unsafe_code)]
        unsafe {
            command.pre_exec(|| {
                Ok(nix::sys::prctl::set_pdeathsig(
                    nix::sys::signal::Signal::SIGTERM,
                )?)
            });
        }
        let child = command.spawn().map_err(KubectlError::NoKubectl)?;
        let mut api = Api {
            peer: Peer::Unix(socket.clone()),
            server_path: context.server_path.clone(),
            proxy: Some(child),
            _folder: Some(folder),
        };
        let begun = Instant::now();
        loop {
            if let Some(child) = &mut api.proxy
                && matches!(child.try_wait(), Ok(Some(_)) | Err(_))
            {
                return Err(KubectlError::Ended(last_words(&log)));
            }
            if std::os::unix::net::UnixStream::connect(&socket).is_ok() {
                return Ok(api);
            }
            if begun.elapsed() > READY_WITHIN {
                return Err(KubectlError::Silent {
                    text: last_words(&log),
                });
            }
            std::thread::sleep(LOOK);
        }
    }

    /// GETs `path` of the API server, and returns the body of a status 200.
    ///
    /// # Errors
    /// Any [`ApiError`].
    pub fn get(
        &self,
        path: &str,
        headers: &[(&str, &str)],
        limits: Limits,
    ) -> Result<Vec<u8>, ApiError> {
        let path = format!("{}{path}", self.server_path);
        body(http::get(&self.peer, &path, headers, limits)?)
    }

    /// Sends `content` to `path` of the API server, and returns the body of a status 200 or 201.
    ///
    /// # Errors
    /// Any [`ApiError`].
    pub fn send(
        &self,
        path: &str,
        content: &Content<'_>,
        limits: Limits,
    ) -> Result<Vec<u8>, ApiError> {
        let path = format!("{}{path}", self.server_path);
        body(http::send(&self.peer, &path, content, limits)?)
    }
}

/// Body of an answer that is not a refusal.
pub(crate) fn body(reply: Reply) -> Result<Vec<u8>, ApiError> {
    match reply.status {
        200 | 201 => Ok(reply.body),
        status => Err(ApiError::Refused {
            status,
            message: message(&reply.body),
        }),
    }
}

impl Drop for Api {
    fn drop(&mut self) {
        if let Some(mut child) = self.proxy.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Command kubectl for this cluster. As a plugin, this process runs under the kubectl that the user
/// started.
fn kubectl(cluster: &Cluster) -> Command {
    let mut command = Command::new("kubectl");
    if let Some(file) = &cluster.kubeconfig {
        command.arg("--kubeconfig").arg(file);
    }
    if let Some(context) = &cluster.context {
        command.arg("--context").arg(context);
    }
    command
}

/// Regular expressions of the paths that the proxy forwards, separated by commas.
fn accepted(server_path: &str) -> String {
    // In hexadecimal, because the path may contain a comma or a character with a meaning.
    let escaped = |byte: u8| match byte {
        b'/' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => char::from(byte).to_string(),
        byte => format!("\\x{byte:02x}"),
    };
    let prefix: String = server_path.bytes().map(escaped).collect();
    PATHS.map(|path| format!("^{prefix}{path}")).join(",")
}

/// Most characters of a peer's text that are printed.
const MOST_SHOWN: usize = 300;

/// Failure in the words of the API server or of a gateway.
fn message(body: &[u8]) -> String {
    let text = match serde_json::from_slice::<Status>(body) {
        Ok(status) if !status.message.is_empty() => status.message,
        _ => String::from_utf8_lossy(body).into_owned(),
    };
    shown(&text)
}

/// `text` as one line of bounded length.
pub(crate) fn shown(text: &str) -> String {
    bounded(text, MOST_SHOWN)
}

/// `text` as one line of at most `most` characters.
pub(crate) fn bounded(text: &str, most: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(most) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None if line.is_empty() => "no reason given".to_owned(),
        None => line,
    }
}

fn last_words(log: &Path) -> String {
    let text = match std::fs::read(log) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(e) if e.kind() == ErrorKind::NotFound => String::new(),
        Err(e) => return format!("its messages cannot be read: {e}"),
    };
    shown(text.lines().last().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise 25.
    #[test]
    fn the_proxy_forwards_only_paths_below_the_servers() {
        let plain = accepted("");
        assert!(
            plain.starts_with("^/api/v1/namespaces/[^/]+/(pods|secrets)"),
            "{plain}"
        );
        assert!(plain.contains(",^/apis/apps/v1/"), "{plain}");
        let below = accepted("/k8s/clusters/c-m.a,b");
        assert!(
            below.starts_with("^/k8s/clusters/c\\x2dm\\x2ea\\x2cb/api/v1/"),
            "{below}"
        );
        assert_eq!(below.split(',').count(), PATHS.len());
    }

    #[test]
    fn a_refusal_is_one_line_in_the_servers_words() {
        let status = br#"{"kind":"Status","message":"pods \"x\" is forbidden"}"#;
        assert_eq!(message(status), "pods \"x\" is forbidden");
        assert_eq!(message(b"a\nb"), "a b");
        assert_eq!(message(b""), "no reason given");
        assert_eq!(message(b"{}"), "{}");
        let long = message("\u{e9}".repeat(5000).as_bytes());
        assert_eq!(long.chars().count(), MOST_SHOWN + 1);
        assert_eq!(message(&[0xff, 0xfe]), "\u{fffd}\u{fffd}");
    }
}
