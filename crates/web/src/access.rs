//! Access control: the token, the cookie, and the host names of the page.
//!
//! This module is pure: it takes bytes of a request and returns a decision. A page of another
//! origin can make a browser send requests here. The check of the Host header prevents it from
//! reading the answers under a name of its own (DNS rebinding), and no answer allows another origin
//! to read it.

use crate::address::Address;
use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr};
use subtle::ConstantTimeEq;

/// Number of random bytes of a token.
const TOKEN_BYTES: usize = 32;
/// Query parameter of the URL that has the token.
pub(crate) const TOKEN_PARAMETER: &str = "token";

/// Secret that admits a browser, as hexadecimal digits.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// Creates a token from the kernel's random numbers.
    ///
    /// # Errors
    /// `/dev/urandom` cannot be read.
    pub fn new() -> io::Result<Token> {
        let mut bytes = [0u8; TOKEN_BYTES];
        std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        Ok(Token(bytes.iter().map(|b| format!("{b:02x}")).collect()))
    }

    /// Digits of the token.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether `request` is the token. The time of the comparison reveals only the length.
    pub(crate) fn is(&self, request: &[u8]) -> bool {
        self.0.as_bytes().ct_eq(request).into()
    }
}

/// Hides the digits, which would end up in a log.
impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(…)")
    }
}

/// Access rules of one page.
#[derive(Clone, Debug)]
pub struct Access {
    /// Token that a request must have. `None` admits everyone who can connect.
    token: Option<Token>,
    /// Name of the cookie, with the port: cookies are not separate by port, and two pages may run
    /// on one host.
    cookie: String,
    /// Host names without port, in lower case.
    hosts: Vec<String>,
    bound: Option<SocketAddr>,
}

/// Parts of a request that the decision depends on.
#[derive(Clone, Copy, Debug, Default)]
pub struct RequestFacts<'a> {
    /// Host headers.
    pub host: Option<&'a [u8]>,
    /// Cookie headers, joined by `; `.
    pub cookie: Option<&'a [u8]>,
    /// Token in the query.
    pub token: Option<&'a [u8]>,
    /// `Sec-Fetch-Site`: relation of the site that made the browser send the request.
    pub fetch_site: Option<&'a [u8]>,
    /// `Sec-Fetch-Mode`: `navigate` when the user follows a link.
    pub fetch_mode: Option<&'a [u8]>,
}

/// Decision about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The request is answered.
    Allowed,
    /// The request has the token: store it as a cookie, and redirect to the URL without it.
    Remember,
    /// The Host header has a foreign name.
    WrongHost,
    /// Another site's page sent the request.
    CrossSite,
    /// The request has neither token nor cookie.
    NoToken,
    /// The request has a wrong token.
    WrongToken,
}

impl Access {
    /// Rules of a page bound to `bound`, with `hosts` as further names.
    pub fn new(bound: &Address, token: Option<Token>, hosts: &[String]) -> Access {
        let (cookie, bound) = match bound {
            Address::Tcp(address) => (format!("cofferdam_{}", address.port()), Some(*address)),
            Address::Unix(_) => ("cofferdam".to_owned(), None),
        };
        Access {
            token,
            cookie,
            hosts: hosts.iter().map(|h| h.to_ascii_lowercase()).collect(),
            bound,
        }
    }

    /// Whether a request needs the token.
    pub(crate) fn needs_token(&self) -> bool {
        self.token.is_some()
    }

    /// Decides about one request.
    pub fn decide(&self, request: &RequestFacts<'_>) -> Decision {
        if !request.host.is_some_and(|host| self.is_own(host)) {
            return Decision::WrongHost;
        }
        let navigates = request.fetch_mode == Some(b"navigate");
        if request.fetch_site == Some(b"cross-site") && !navigates {
            return Decision::CrossSite;
        }
        let Some(token) = &self.token else {
            return Decision::Allowed;
        };
        if let Some(brought) = request.token {
            return match token.is(brought) {
                true => Decision::Remember,
                false => Decision::WrongToken,
            };
        }
        let name = self.cookie.as_bytes();
        let value = request.cookie.and_then(|all| cookie(all, name));
        match value {
            Some(value) if token.is(value) => Decision::Allowed,
            Some(_) => Decision::WrongToken,
            None => Decision::NoToken,
        }
    }

    /// Header that makes a browser store the token.
    pub(crate) fn set_cookie(&self) -> Option<String> {
        let token = self.token.as_ref()?.as_str();
        let name = &self.cookie;
        Some(format!("{name}={token}; Path=/; HttpOnly; SameSite=Strict"))
    }

    /// Whether `host`, of a Host header, names this page. The port is ignored: behind a tunnel it
    /// is another.
    fn is_own(&self, host: &[u8]) -> bool {
        let Ok(host) = std::str::from_utf8(host) else {
            return false;
        };
        let Some(name) = without_port(host) else {
            return false;
        };
        let name = name.to_ascii_lowercase();
        if name == "localhost" || self.hosts.contains(&name) {
            return true;
        }
        let bare = name.strip_prefix('[').and_then(|n| n.strip_suffix(']'));
        let Ok(ip) = bare.unwrap_or(&name).parse::<IpAddr>() else {
            return false;
        };
        // A foreign page cannot make its own name an address. Only addresses of this page are
        // accepted.
        let ip = ip.to_canonical();
        let own = self.bound.map(|b| b.ip().to_canonical());
        ip.is_loopback() || own.is_some_and(|own| own == ip || own.is_unspecified())
    }
}

/// Host of `host[:port]`, with brackets if it has them. `None` if the text has another form.
fn without_port(host: &str) -> Option<&str> {
    let is_port = |p: &str| p.len() <= 5 && p.bytes().all(|b| b.is_ascii_digit());
    if host.starts_with('[') {
        let end = host.find(']')?;
        let (name, rest) = host.split_at(end + 1);
        return match rest.strip_prefix(':') {
            Some(port) if is_port(port) => Some(name),
            None if rest.is_empty() => Some(name),
            _ => None,
        };
    }
    match host.split_once(':') {
        Some((name, port)) if is_port(port) && !name.is_empty() => Some(name),
        None if !host.is_empty() => Some(host),
        _ => None,
    }
}

/// Value of the cookie `name` in a Cookie header.
fn cookie<'a>(header: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let mut all = header.split(|b| *b == b';').map(<[u8]>::trim_ascii);
    all.find_map(|pair| pair.strip_prefix(name)?.strip_prefix(b"="))
}

#[cfg(test)]
mod tests;
