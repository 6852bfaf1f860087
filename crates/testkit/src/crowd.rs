//! Many connections that a server has no use for.

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::io::Write;
use std::net::{SocketAddr, TcpStream};

/// Connections that are held open: in turn one that says nothing, one that stops in the middle of
/// a request and one that sends what is no request.
#[derive(Default)]
pub struct Crowd(Vec<TcpStream>);

impl Crowd {
    /// Nobody yet. Raises this process's limit of open files as far as it may.
    pub fn new() -> Crowd {
        let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).expect("a limit");
        setrlimit(Resource::RLIMIT_NOFILE, hard, hard).expect("the limit can be raised");
        Crowd::default()
    }

    /// Opens `count` more to `server`.
    pub fn grow(&mut self, server: SocketAddr, count: usize) {
        for _ in 0..count {
            let mut stream = TcpStream::connect(server).expect("the server takes connections");
            // The server may have closed it by then.
            let _ = match self.0.len() % 3 {
                0 => Ok(()),
                1 => stream.write_all(b"GET /met"),
                _ => stream.write_all(&[b'x'; 9000]),
            };
            self.0.push(stream);
        }
    }
}
