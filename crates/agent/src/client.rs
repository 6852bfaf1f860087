//! Client of a running agent, over the agent's control socket.

use crate::wire::{
    Answer, ChangeResult, LONGEST_ANSWER_BYTES, ReloadResult, Request, StopResult, VERSION,
    WireSnapshot, other_schema,
};
use cofferdam_records::status::{STATUS, StatusReport};
use cofferdam_types::Snapshot;
use serde::de::DeserializeOwned;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longest wait for one answer.
const PATIENCE: Duration = Duration::from_secs(35);

/// Connection to a running agent.
#[derive(Debug)]
pub struct Client {
    path: PathBuf,
    stream: Option<BufReader<UnixStream>>,
    /// Uptime of the agent at the last snapshot.
    last_uptime: Option<Duration>,
}

/// Failure of a request.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nothing listens on the socket.
    #[error(
        "no agent is running ({} does not answer): start one with 'systemctl start cofferdam', \
         or with 'sudo cofferdam agent'",
        .0.display()
    )]
    NotRunning(PathBuf),
    /// An agent runs, and this user may not use it.
    #[error(
        "the agent on {} refuses this user: use sudo, or join the group of its socket",
        .0.display()
    )]
    Denied(PathBuf),
    /// The agent ended, or sent no valid answer.
    #[error("the agent on {} did not answer: {why}", path.display())]
    Broken {
        /// Path of the agent's socket.
        path: PathBuf,
        /// Cause.
        why: String,
    },
    /// The agent refused the request.
    #[error("{0}")]
    Refused(String),
}

impl Client {
    /// Connects to the agent that listens on `path`.
    pub fn connect(path: &Path) -> Result<Client, ClientError> {
        let mut client = Client {
            path: path.to_owned(),
            stream: None,
            last_uptime: None,
        };
        client.reconnect()?;
        Ok(client)
    }

    fn reconnect(&mut self) -> Result<(), ClientError> {
        let stream = UnixStream::connect(&self.path).map_err(|e| match e.kind() {
            ErrorKind::NotFound | ErrorKind::ConnectionRefused => {
                ClientError::NotRunning(self.path.clone())
            }
            ErrorKind::PermissionDenied => ClientError::Denied(self.path.clone()),
            _ => self.connection_error(&e),
        })?;
        let timeouts = stream
            .set_read_timeout(Some(PATIENCE))
            .and_then(|()| stream.set_write_timeout(Some(PATIENCE)));
        timeouts.map_err(|e| self.connection_error(&e))?;
        self.stream = Some(BufReader::new(stream));
        Ok(())
    }

    fn connection_error(&self, why: &dyn std::fmt::Display) -> ClientError {
        ClientError::Broken {
            path: self.path.clone(),
            why: why.to_string(),
        }
    }

    /// Reads the state of the agent.
    pub fn status(&mut self) -> Result<StatusReport, ClientError> {
        let document: serde_json::Value = self.request(&Request::Status)?;
        cofferdam_records::check(&document, STATUS).map_err(|e| self.connection_error(&e))?;
        serde_json::from_value(document).map_err(|e| self.connection_error(&e))
    }

    /// Reads the ledger, including the containers that have ended since this client's last reading.
    /// The agent then counts everything for a while.
    pub fn snapshot(&mut self) -> Result<Snapshot, ClientError> {
        self.read_snapshot(false)
    }

    /// Reads the ledger like [`Client::snapshot`], for a client that no person watches. The agent
    /// keeps its mode, and part of the ledger may be estimated.
    pub fn glance(&mut self) -> Result<Snapshot, ClientError> {
        self.read_snapshot(true)
    }

    fn read_snapshot(&mut self, estimates: bool) -> Result<Snapshot, ClientError> {
        let request = Request::Snapshot {
            gone_after: self.last_uptime,
            estimates,
        };
        let line = self.answer(&request)?;
        let wire: WireSnapshot = self
            .read(&line)
            .map_err(|e| other_schema(&line).map_or(e, |other| self.connection_error(&other)))?;
        let snapshot = wire
            .into_snapshot()
            .map_err(|e| self.connection_error(&e))?;
        self.last_uptime = Some(snapshot.uptime);
        Ok(snapshot)
    }

    /// Makes the agent read its configuration again.
    pub fn reload(&mut self) -> Result<ReloadResult, ClientError> {
        self.request(&Request::Reload)
    }

    /// Sets a rule before those of the file, or clears one.
    pub fn change(&mut self, request: &Request) -> Result<ChangeResult, ClientError> {
        self.request(request)
    }

    /// Makes the agent revert its changes and end.
    pub fn stop(&mut self) -> Result<StopResult, ClientError> {
        self.request(&Request::Stop)
    }

    /// Sends `request` and returns the parsed answer.
    fn request<T: DeserializeOwned>(&mut self, request: &Request) -> Result<T, ClientError> {
        let line = self.answer(request)?;
        self.read(&line)
    }

    /// Sends `request` and returns the line of the answer. Connects again, once, if the agent has
    /// closed the connection.
    fn answer(&mut self, request: &Request) -> Result<Vec<u8>, ClientError> {
        // The agent closes connections that are silent for long.
        let line = match self.exchange(request) {
            Err(e) if is_closed(&e) => {
                self.reconnect()?;
                self.exchange(request)
            }
            other => other,
        };
        line.map_err(|e| {
            self.stream = None;
            self.connection_error(&e)
        })
    }

    fn read<T: DeserializeOwned>(&self, line: &[u8]) -> Result<T, ClientError> {
        let answer: Answer<T> =
            serde_json::from_slice(line).map_err(|e| self.connection_error(&e))?;
        match answer {
            Answer { error: Some(e), .. } => Err(ClientError::Refused(e.text)),
            Answer { version, .. } if version != VERSION => {
                Err(self.connection_error(&format!("it speaks version {version} of the protocol")))
            }
            Answer {
                ok: Some(value), ..
            } => Ok(value),
            Answer { ok: None, .. } => {
                Err(self.connection_error(&"it returned neither an answer nor an error"))
            }
        }
    }

    fn exchange(&mut self, request: &Request) -> io::Result<Vec<u8>> {
        let stream = self.stream.as_mut().ok_or(ErrorKind::NotConnected)?;
        // An agent with too many connections says so unasked and closes.
        let wrote = stream.get_mut().write_all(&request.line());
        let mut line = Vec::new();
        let limit = LONGEST_ANSWER_BYTES as u64;
        stream.take(limit).read_until(b'\n', &mut line)?;
        if line.is_empty() {
            wrote?;
        }
        match line.last() {
            Some(b'\n') => Ok(line),
            None => Err(ErrorKind::UnexpectedEof.into()),
            Some(_) => Err(io::Error::other("its answer is incomplete")),
        }
    }
}

fn is_closed(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::UnexpectedEof
            | ErrorKind::BrokenPipe
            | ErrorKind::ConnectionReset
            | ErrorKind::NotConnected
    )
}
