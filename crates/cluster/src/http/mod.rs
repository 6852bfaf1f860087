//! One request over HTTP/1.0, with a deadline and a bound: all that is needed to ask a gateway or
//! the API server. Answers of HTTP/1.0 end with the connection and are never in chunks.

#[cfg(test)]
mod tests;

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Longest head of an answer, bytes.
const LONGEST_HEAD_BYTES: usize = 32 << 10;
const MOST_HEADERS: usize = 100;
/// Bytes read at once.
const CHUNK_BYTES: usize = 64 << 10;

/// Server that is asked.
#[derive(Clone, Debug)]
pub enum Peer {
    /// An address.
    Tcp(SocketAddr),
    /// A socket with a path.
    Unix(PathBuf),
}

/// Limits of time and size.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Time by which the complete answer must have arrived.
    pub deadline: Instant,
    /// Largest body, bytes.
    pub most_bytes: usize,
}

/// Answer with any status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Status; 200 for success.
    pub status: u16,
    /// The body.
    pub body: Vec<u8>,
}

/// Reason why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// No server listens, or the connection broke.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The deadline passed.
    #[error("no complete answer in time")]
    Late,
    /// The answer exceeds the bound.
    #[error("the answer is larger than {0} bytes")]
    TooLarge(usize),
    /// The answer is not HTTP, or was cut off.
    #[error("the answer is not complete HTTP: {0}")]
    Garbled(&'static str),
}

/// Content of a request that changes something.
#[derive(Clone, Copy, Debug)]
pub struct Content<'a> {
    /// `POST` or `PATCH`.
    pub method: &'a str,
    /// Content type of `body`.
    pub content_type: &'a str,
    /// Content.
    pub body: &'a [u8],
}

/// Requests `path` from `peer`. `headers` are names with values, without line ends.
///
/// # Errors
/// Any [`HttpError`]; an answer with any status is no error.
pub fn get(
    peer: &Peer,
    path: &str,
    headers: &[(&str, &str)],
    limits: Limits,
) -> Result<Reply, HttpError> {
    let mut request =
        format!("GET {path} HTTP/1.0\r\nHost: localhost\r\nAccept: application/json\r\n");
    for (name, value) in headers {
        request += &format!("{name}: {value}\r\n");
    }
    request += "\r\n";
    connect(peer, request.as_bytes(), limits)
}

/// Sends `content` to `path` of `peer`.
///
/// # Errors
/// The errors of [`get`].
pub fn send(
    peer: &Peer,
    path: &str,
    content: &Content<'_>,
    limits: Limits,
) -> Result<Reply, HttpError> {
    let head = format!(
        "{} {path} HTTP/1.0\r\nHost: localhost\r\nAccept: application/json\r\nContent-Type: {}\r\n\
         Content-Length: {}\r\n\r\n",
        content.method,
        content.content_type,
        content.body.len()
    );
    connect(peer, &[head.as_bytes(), content.body].concat(), limits)
}

fn connect(peer: &Peer, request: &[u8], limits: Limits) -> Result<Reply, HttpError> {
    match peer {
        Peer::Tcp(address) => {
            let stream = TcpStream::connect_timeout(address, left(limits)?)?;
            exchange(&Tcp(stream), request, limits)
        }
        Peer::Unix(path) => exchange(&Unix(UnixStream::connect(path)?), request, limits),
    }
}

/// Time until the deadline; fails if there is none.
fn left(limits: Limits) -> Result<Duration, HttpError> {
    let left = limits.deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        Err(HttpError::Late)
    } else {
        Ok(left)
    }
}

/// Stream whose waits have a time limit.
trait TimedStream {
    fn read_within(&self, bytes: &mut [u8], wait: Duration) -> io::Result<usize>;
    fn write_within(&self, bytes: &[u8], wait: Duration) -> io::Result<usize>;
}

struct Tcp(TcpStream);
struct Unix(UnixStream);

macro_rules! bounded {
    ($kind:ty) => {
        impl TimedStream for $kind {
            fn read_within(&self, bytes: &mut [u8], wait: Duration) -> io::Result<usize> {
                self.0.set_read_timeout(Some(wait))?;
                (&self.0).read(bytes)
            }
            fn write_within(&self, bytes: &[u8], wait: Duration) -> io::Result<usize> {
                self.0.set_write_timeout(Some(wait))?;
                (&self.0).write(bytes)
            }
        }
    };
}
bounded!(Tcp);
bounded!(Unix);

fn exchange(stream: &dyn TimedStream, request: &[u8], limits: Limits) -> Result<Reply, HttpError> {
    let mut rest = request;
    while !rest.is_empty() {
        match stream.write_within(rest, left(limits)?) {
            Ok(0) => return Err(HttpError::Garbled("it takes no request")),
            Ok(n) => rest = rest.get(n..).unwrap_or_default(),
            Err(e) => again(e)?,
        }
    }
    let (mut bytes, mut chunk) = (Vec::new(), vec![0; CHUNK_BYTES]);
    loop {
        match stream.read_within(&mut chunk, left(limits)?) {
            Ok(0) => return Reply::parse(&bytes, limits.most_bytes),
            Ok(n) => bytes.extend_from_slice(chunk.get(..n).unwrap_or_default()),
            Err(e) => again(e)?,
        }
        if bytes.len() > limits.most_bytes + LONGEST_HEAD_BYTES {
            return Err(HttpError::TooLarge(limits.most_bytes));
        }
    }
}

/// Whether to continue after `error`: an expired wait shows at the next check of the clock.
fn again(error: io::Error) -> Result<(), HttpError> {
    match error.kind() {
        ErrorKind::Interrupted | ErrorKind::WouldBlock | ErrorKind::TimedOut => Ok(()),
        _ => Err(error.into()),
    }
}

impl Reply {
    /// Parses everything that came until the end of the connection; a body has `most_bytes` at
    /// most. A pure function.
    ///
    /// # Errors
    /// [`HttpError::Garbled`] or [`HttpError::TooLarge`].
    pub fn parse(bytes: &[u8], most_bytes: usize) -> Result<Reply, HttpError> {
        let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
        let mut response = httparse::Response::new(&mut headers);
        let head = bytes.get(..LONGEST_HEAD_BYTES).unwrap_or(bytes);
        let length = match response.parse(head) {
            Ok(httparse::Status::Complete(length)) => length,
            Ok(httparse::Status::Partial) => return Err(HttpError::Garbled("its head has no end")),
            Err(_) => return Err(HttpError::Garbled("its head is none")),
        };
        let header = |name: &str| {
            let mut all = response.headers.iter();
            all.find(|h| h.name.eq_ignore_ascii_case(name))
                .map(|h| h.value)
        };
        if header("transfer-encoding").is_some() {
            return Err(HttpError::Garbled(
                "it is in chunks though HTTP/1.0 was asked for",
            ));
        }
        let body = bytes.get(length..).unwrap_or_default();
        if body.len() > most_bytes {
            return Err(HttpError::TooLarge(most_bytes));
        }
        if let Some(announced) = header("content-length") {
            let announced = std::str::from_utf8(announced)
                .ok()
                .and_then(|n| n.parse().ok());
            if announced != Some(body.len()) {
                return Err(HttpError::Garbled("it was cut off"));
            }
        }
        Ok(Reply {
            status: response.code.unwrap_or_default(),
            body: body.to_vec(),
        })
    }
}
