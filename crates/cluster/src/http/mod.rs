//! One request over HTTP/1.0, with a deadline and a bound: all that asking a gateway or the API server
//! needs. HTTP/1.0, because its answers end with the connection and are never in chunks.

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

/// Who is asked.
#[derive(Clone, Debug)]
pub enum Peer {
    /// An address.
    Tcp(SocketAddr),
    /// A socket with a path.
    Unix(PathBuf),
}

/// How long, and how much.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The whole answer must be there by then.
    pub deadline: Instant,
    /// Largest body, bytes.
    pub most_bytes: usize,
}

/// An answer, whatever its status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// 200 where all is well.
    pub status: u16,
    /// The body.
    pub body: Vec<u8>,
}

/// No answer.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// Nobody listens, or the connection broke.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It took too long.
    #[error("no whole answer in time")]
    Late,
    /// It is larger than anything expected.
    #[error("the answer is larger than {0} bytes")]
    TooLarge(usize),
    /// It is no HTTP, or was cut off.
    #[error("the answer is not whole HTTP: {0}")]
    Garbled(&'static str),
}

/// What is sent with a request that changes something.
#[derive(Clone, Copy, Debug)]
pub struct Content<'a> {
    /// `POST` or `PATCH`.
    pub method: &'a str,
    /// Of `body`.
    pub content_type: &'a str,
    /// What is sent.
    pub body: &'a [u8],
}

/// Asks `peer` for `path`. `headers` are names with values, without line ends.
///
/// # Errors
/// [`HttpError`]; an answer with any status is none.
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
/// As of [`get`].
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

/// Time until the deadline; none is an error.
fn left(limits: Limits) -> Result<Duration, HttpError> {
    let left = limits.deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        Err(HttpError::Late)
    } else {
        Ok(left)
    }
}

/// A connection whose waits have an end.
trait Bounded {
    fn read_within(&self, bytes: &mut [u8], wait: Duration) -> io::Result<usize>;
    fn write_within(&self, bytes: &[u8], wait: Duration) -> io::Result<usize>;
}

struct Tcp(TcpStream);
struct Unix(UnixStream);

macro_rules! bounded {
    ($kind:ty) => {
        impl Bounded for $kind {
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

fn exchange(stream: &dyn Bounded, request: &[u8], limits: Limits) -> Result<Reply, HttpError> {
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

/// Whether to go on after `error`: a wait that is over shows at the next look at the clock.
fn again(error: io::Error) -> Result<(), HttpError> {
    match error.kind() {
        ErrorKind::Interrupted | ErrorKind::WouldBlock | ErrorKind::TimedOut => Ok(()),
        _ => Err(error.into()),
    }
}

impl Reply {
    /// Understands all that came until the end of the connection; a body has `most_bytes` at most. Pure.
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
