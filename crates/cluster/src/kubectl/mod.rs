//! The API server, as the user may ask it: through a `kubectl proxy` of our own, which has the user's
//! credentials, contexts and plugins for both. One process for any number of nodes, on a socket that
//! only this user can reach, for GETs of the few paths that are needed.

mod context;

pub use context::Context;

use crate::http::{self, Content, HttpError, Limits, Peer, Reply};
use serde::Deserialize;
use std::io::{self, ErrorKind};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The proxy listens by then. Credentials of clouds come from programs that take seconds.
const READY_WITHIN: Duration = Duration::from_secs(20);
/// How often it is looked whether it does.
const LOOK: Duration = Duration::from_millis(10);
/// Paths that it passes on, below the path of the server.
const PATHS: [&str; 2] = [
    "/api/v1/namespaces/[^/]+/(pods|secrets)($|/|\\?)",
    "/apis/apps/v1/namespaces/[^/]+/daemonsets",
];

/// Which cluster, as kubectl is told.
#[derive(Clone, Debug, Default)]
pub struct Cluster {
    /// `--kubeconfig`
    pub kubeconfig: Option<PathBuf>,
    /// `--context`
    pub context: Option<String>,
}

/// The cluster cannot be asked.
#[derive(Debug, thiserror::Error)]
pub enum KubectlError {
    /// No such program.
    #[error("cannot run kubectl: {0}; install it, and put it into PATH")]
    NoKubectl(#[source] io::Error),
    /// It ended at once.
    #[error("kubectl cannot reach the cluster: {0}")]
    Ended(String),
    /// It does not listen.
    #[error("kubectl proxy does not listen after {} s: {text}", READY_WITHIN.as_secs())]
    Silent {
        /// Its last words.
        text: String,
    },
    /// No folder for its socket.
    #[error("cannot make a folder for the socket of kubectl proxy: {0}")]
    Folder(#[source] io::Error),
}

/// The API server did not give what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// No answer.
    #[error("{0}")]
    Http(#[from] HttpError),
    /// It refused, in its own words.
    #[error("{message} (status {status})")]
    Refused {
        /// Of HTTP.
        status: u16,
        /// The API server's.
        message: String,
    },
}

/// A way to the API server; a proxy that was started for it ends with it.
#[derive(Debug)]
pub struct Api {
    peer: Peer,
    /// Before every path, as `kubectl proxy` leaves out the path of the server's URL. Its option
    /// `--append-server-path` would do the same, but releases before 1.25 lack it.
    server_path: String,
    proxy: Option<Child>,
    // After the child in time: the folder of its socket.
    _folder: Option<tempfile::TempDir>,
}

/// What the API server says of a failure.
#[derive(Deserialize)]
struct Status {
    #[serde(default)]
    message: String,
}

impl Api {
    /// By a proxy that runs already, and adds the path of the server's URL if there is one.
    pub fn through(peer: Peer) -> Api {
        Api {
            peer,
            server_path: String::new(),
            proxy: None,
            _folder: None,
        }
    }

    /// Starts a proxy to the cluster of which kubectl says `context`, and waits until it listens.
    ///
    /// # Errors
    /// [`KubectlError`]. That the cluster answers is only known after the first question.
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

    /// GETs `path` of the API server. The body of a status 200.
    ///
    /// # Errors
    /// [`ApiError`].
    pub fn get(
        &self,
        path: &str,
        headers: &[(&str, &str)],
        limits: Limits,
    ) -> Result<Vec<u8>, ApiError> {
        let path = format!("{}{path}", self.server_path);
        body(http::get(&self.peer, &path, headers, limits)?)
    }

    /// Sends `content` to `path` of the API server. The body of a status 200 or 201.
    ///
    /// # Errors
    /// [`ApiError`].
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

/// The body of an answer that is no refusal.
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

/// kubectl for this cluster. As a plugin we run beside the one that the user typed.
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

/// Regular expressions of the paths that the proxy passes on, separated by commas.
fn accepted(server_path: &str) -> String {
    // In hexadecimal: a comma, or a character with a meaning, may be in the path.
    let escaped = |byte: u8| match byte {
        b'/' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => char::from(byte).to_string(),
        byte => format!("\\x{byte:02x}"),
    };
    let prefix: String = server_path.bytes().map(escaped).collect();
    PATHS.map(|path| format!("^{prefix}{path}")).join(",")
}

/// Most of a text that is shown of a peer, characters.
const MOST_SHOWN: usize = 300;

/// What went wrong, as the API server or a gateway says it.
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

/// `text` as one line of so many characters at most.
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
    fn the_proxy_passes_on_paths_below_the_servers() {
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
    fn refusals_are_one_line_in_the_servers_words() {
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
