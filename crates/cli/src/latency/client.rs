//! `cofferdam latency on`, `off` and `read`: the protocol of the socket, for people.

use super::args::{ClientArgs, OnArgs, Protocol, ReadArgs};
use crate::exit::{Failure, Outcome};
use crate::interrupt::Interrupt;
use crate::output::Output;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Connection to the server.
pub struct Connection {
    stream: BufReader<UnixStream>,
}

impl Connection {
    /// Connects to the socket.
    pub fn open(args: &ClientArgs) -> Result<Connection, Failure> {
        let stream = UnixStream::connect(&args.socket).map_err(|e| {
            Failure::failed(format!(
                "cannot reach the latency socket {}: {e}; on the host, 'cofferdam latency serve' \
                 creates it; mount it into the container (--socket names it)",
                args.socket.display()
            ))
        })?;
        let limited = stream.set_read_timeout(Some(Duration::from_millis(200)));
        limited.map_err(|e| Failure::failed(format!("cannot use the latency socket: {e}")))?;
        Ok(Connection {
            stream: BufReader::new(stream),
        })
    }

    /// Sends one request.
    pub fn send(&mut self, line: &str) -> Result<(), Failure> {
        let text = format!("{line}\n");
        self.stream
            .get_mut()
            .write_all(text.as_bytes())
            .map_err(|e| Failure::failed(format!("the latency socket is lost: {e}")))
    }

    /// Returns the next line without its end; `None` when none came within 200 ms.
    pub fn line(&mut self) -> Result<Option<String>, Failure> {
        let mut line = String::new();
        match self.stream.read_line(&mut line) {
            Ok(0) => Err(Failure::failed(
                "the latency socket was closed by the server",
            )),
            Ok(_) if line.ends_with('\n') => {
                line.pop();
                Ok(Some(line))
            }
            Ok(_) => Err(Failure::failed(
                "the latency socket was closed by the server",
            )),
            Err(e) if e.kind() == ErrorKind::WouldBlock => Ok(None),
            Err(e) => Err(Failure::failed(format!("the latency socket is lost: {e}"))),
        }
    }

    /// Sends a request whose answer ends with `ok` or `error`; returns the lines before that.
    pub fn ask(&mut self, request: &str) -> Result<Vec<String>, Failure> {
        self.send(request)?;
        let (mut lines, mut silent) = (Vec::new(), 0);
        loop {
            match self.line()? {
                Some(line) if line.starts_with("ok") => return Ok(lines),
                Some(line) => match line.strip_prefix("error ") {
                    Some(why) => return Err(Failure::failed(why.to_owned())),
                    None => lines.push(line),
                },
                None if silent < 25 => silent += 1,
                None => return Err(Failure::failed("the latency socket does not answer")),
            }
        }
    }
}

/// `cofferdam latency on`.
pub fn on(args: &OnArgs) -> Outcome {
    let mut request = "on".to_owned();
    for protocol in &args.protocol {
        request.push_str(match protocol {
            Protocol::Icmp => " icmp",
            Protocol::Udp => " udp",
            Protocol::Tcp => " tcp",
            Protocol::Other => " other",
        });
    }
    if let Some(port) = args.port {
        request.push_str(&format!(" port {port}"));
    }
    Connection::open(&args.client)?.ask(&request).map(|_| ())
}

/// `cofferdam latency off`.
pub fn off(args: &ClientArgs) -> Outcome {
    Connection::open(args)?.ask("off").map(|_| ())
}

/// `cofferdam latency read`.
pub fn read(args: &ReadArgs, interrupt: &Interrupt) -> Outcome {
    let mut connection = Connection::open(&args.client)?;
    let mut output = Output::stdout();
    let form = if args.mace { " mace" } else { "" };
    connection.send(&format!("read{form}"))?;
    let mut silent = 0;
    loop {
        match connection.line()? {
            Some(line) if line.is_empty() || line.starts_with("ok ") => break,
            Some(line) => match line.strip_prefix("error ") {
                Some(why) => return Err(Failure::failed(why.to_owned())),
                None => output.write(&format!("{line}\n"))?,
            },
            None if silent < 25 => silent += 1,
            None => return Err(Failure::failed("the latency socket does not answer")),
        }
    }
    if !args.follow {
        return Ok(());
    }
    connection.send(&format!("follow{form}"))?;
    while !interrupt.raised() {
        if let Some(line) = connection.line()? {
            output.write(&format!("{line}\n"))?;
        }
    }
    Err(Failure::Interrupted(None))
}
