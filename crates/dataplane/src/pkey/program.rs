//! Built-in servers that run in the dataplane's thread, isolated by protection keys. The
//! configuration names one as `program = "echo 10.0.0.9:7"`.

use crate::applications::{Echo, Faulty, Http, Memcached};
use crate::session::Application;
use std::net::SocketAddr;
use std::str::FromStr;

/// Bytes of values that `memcached` stores.
const MEMCACHED_BYTES: usize = 64 << 20;

/// A server and its address.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Program {
    server: Server,
    address: SocketAddr,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Server {
    Echo,
    Http,
    Memcached,
    Faulty,
    Custom(Constructor),
}

/// Constructor of an application that is not built in.
#[derive(Clone, Copy, Debug)]
struct Constructor(fn() -> Box<dyn Application>);

impl PartialEq for Constructor {
    /// Two functions cannot be compared.
    fn eq(&self, _other: &Constructor) -> bool {
        false
    }
}

/// Error for a text that names no program.
#[derive(Debug, thiserror::Error)]
#[error(
    "program = \"{0}\": write a server (echo, http, memcached or faulty) and its address, such as \
        \"echo 10.0.0.9:7\""
)]
pub struct ProgramError(String);

impl FromStr for Program {
    type Err = ProgramError;

    fn from_str(text: &str) -> Result<Program, ProgramError> {
        let wrong = || ProgramError(text.to_owned());
        let words: Vec<&str> = text.split_whitespace().collect();
        let [server, address] = words.as_slice() else {
            return Err(wrong());
        };
        let server = match *server {
            "echo" => Server::Echo,
            "http" => Server::Http,
            "memcached" => Server::Memcached,
            "faulty" => Server::Faulty,
            _ => return Err(wrong()),
        };
        let address = address.parse().map_err(|_| wrong())?;
        Ok(Program { server, address })
    }
}

impl Program {
    /// Program with an application that `make` creates, instead of a built-in server. `make` runs
    /// with the dataplane's rights and allocates in unprotected memory.
    pub fn new(make: fn() -> Box<dyn Application>) -> Program {
        Program {
            server: Server::Custom(Constructor(make)),
            address: ([0, 0, 0, 0], 0).into(),
        }
    }

    /// Creates the application.
    pub(crate) fn make(self) -> Box<dyn Application> {
        let address = self.address;
        match self.server {
            Server::Echo => Box::new(Echo::new(address)),
            Server::Http => Box::new(Http::new(address)),
            Server::Memcached => Box::new(Memcached::new(address, MEMCACHED_BYTES)),
            Server::Faulty => Box::new(Faulty::new(address)),
            Server::Custom(Constructor(make)) => make(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_a_server_and_an_address() {
        let program: Program = "echo  10.0.0.9:7".parse().expect("a program");
        let expected = (Server::Echo, "10.0.0.9:7".parse().expect("an address"));
        assert_eq!((program.server, program.address), expected);
        for text in [
            "",
            "echo",
            "echo 10.0.0.9",
            "ftp 10.0.0.9:21",
            "echo 10.0.0.9:7 more",
        ] {
            let error = text.parse::<Program>().expect_err("refused").to_string();
            assert!(
                error.starts_with(&format!("program = \"{text}\": write a server")),
                "{error}"
            );
        }
    }
}
