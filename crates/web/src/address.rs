//! Addresses of the page.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// Longest path of a socket that the kernel accepts, without the final zero.
const LONGEST_SOCKET_PATH: usize = 107;

/// Address of the page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// `IP:PORT`. Access requires the token.
    Tcp(SocketAddr),
    /// `unix:/PATH`. Access requires permission to open the socket.
    Unix(PathBuf),
}

/// Reason why a text is no address of the page.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum AddressError {
    /// The text has neither form.
    #[error(
        "'{0}' is not an address: write IP:PORT such as 127.0.0.1:9478 or [::1]:9478, or \
         unix:/PATH such as unix:/run/cofferdam/web.sock"
    )]
    Form(String),
    /// The kernel does not accept the path.
    #[error(
        "write an absolute path of at most {LONGEST_SOCKET_PATH} bytes after 'unix:', such as \
         unix:/run/cofferdam/web.sock"
    )]
    Path,
    /// Other hosts could read the traffic.
    #[error(
        "{0} is not an address of this host alone: the page has no TLS, so that others could read \
         the token and the figures; use a loopback address and a tunnel (ssh -L), or allow it with \
         remote = true"
    )]
    Remote(SocketAddr),
}

impl Address {
    /// Whether only this host reaches the address.
    pub fn is_local(&self) -> bool {
        match self {
            Address::Tcp(address) => address.ip().to_canonical().is_loopback(),
            Address::Unix(_) => true,
        }
    }

    /// Refuses an address that other hosts reach, unless `remote` allows it.
    ///
    /// # Errors
    /// [`AddressError::Remote`].
    pub fn check(&self, remote: bool) -> Result<(), AddressError> {
        match self {
            Address::Tcp(address) if !remote && !self.is_local() => {
                Err(AddressError::Remote(*address))
            }
            _ => Ok(()),
        }
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Address, AddressError> {
        if let Some(path) = text.strip_prefix("unix:") {
            let path = PathBuf::from(path);
            let bytes = path.as_os_str().as_encoded_bytes();
            let fits = bytes.len() <= LONGEST_SOCKET_PATH && !bytes.contains(&0);
            if !fits || !path.is_absolute() || path.file_name().is_none() {
                return Err(AddressError::Path);
            }
            return Ok(Address::Unix(path));
        }
        let form = |_| AddressError::Form(text.to_owned());
        text.parse().map(Address::Tcp).map_err(form)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(address) => write!(f, "{address}"),
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_read_and_written_again() {
        for text in ["127.0.0.1:9478", "[::1]:0", "unix:/run/cofferdam/web.sock"] {
            let address: Address = text.parse().unwrap();
            assert_eq!(address.to_string(), text);
            assert_eq!(address.check(false), Ok(()));
        }
        let long = format!("unix:/{}", "x".repeat(LONGEST_SOCKET_PATH));
        for text in [
            "",
            "9478",
            "localhost:9478",
            "127.0.0.1",
            "127.0.0.1:99999",
            "unix:",
            "unix:web.sock",
            "unix:/",
            "unix:/run/..",
            "unix:/a\0b",
            &long,
        ] {
            assert!(text.parse::<Address>().is_err(), "{text:?}");
        }
    }

    /// Promise 73.
    #[test]
    fn a_reachable_address_needs_permission() {
        for text in [
            "0.0.0.0:9478",
            "192.0.2.1:80",
            "[::]:9478",
            "[2001:db8::1]:1",
        ] {
            let address: Address = text.parse().unwrap();
            let refused = address.check(false).unwrap_err().to_string();
            assert!(
                refused.contains("no TLS") && refused.contains("remote = true"),
                "{refused}"
            );
            assert_eq!(address.check(true), Ok(()));
        }
        let mapped: Address = "[::ffff:127.0.0.1]:1".parse().unwrap();
        assert!(mapped.is_local());
    }
}
