//! Who gets in: the token, the cookie, and the names under which the page may be asked for.
//!
//! Pure: bytes of a request in, a decision out. A page of another origin can make a browser send
//! requests here; the check of the Host header keeps it from reading the answers under a name of its
//! own (DNS rebinding), and no answer allows another origin to read it.

use crate::address::Address;
use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr};
use subtle::ConstantTimeEq;

/// Random bytes of a token.
const TOKEN_BYTES: usize = 32;
/// Query parameter of the URL that brings the token.
pub(crate) const TOKEN_PARAMETER: &str = "token";

/// What a browser shows to be let in, as hexadecimal digits.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// A new one from the kernel's random numbers.
    ///
    /// # Errors
    /// When `/dev/urandom` cannot be read.
    pub fn new() -> io::Result<Token> {
        let mut bytes = [0u8; TOKEN_BYTES];
        std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        Ok(Token(bytes.iter().map(|b| format!("{b:02x}")).collect()))
    }

    /// Its digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether `shown` is it; the time this takes says nothing about it but its length.
    pub(crate) fn is(&self, shown: &[u8]) -> bool {
        self.0.as_bytes().ct_eq(shown).into()
    }
}

/// Never shows its digits: they would end up in a log.
impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(…)")
    }
}

/// The rules of one page.
#[derive(Clone, Debug)]
pub struct Access {
    /// `None`: whoever can connect gets in.
    token: Option<Token>,
    /// Name of its cookie: cookies are not separate by port, and two pages may run on one host.
    cookie: String,
    /// Host names without port, in lower case.
    hosts: Vec<String>,
    bound: Option<SocketAddr>,
}

/// What a request shows of itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shown<'a> {
    /// Every Host header.
    pub host: Option<&'a [u8]>,
    /// Cookie headers, joined by `; `.
    pub cookie: Option<&'a [u8]>,
    /// The token in the query.
    pub token: Option<&'a [u8]>,
    /// `Sec-Fetch-Site`: which page made the browser ask.
    pub fetch_site: Option<&'a [u8]>,
    /// `Sec-Fetch-Mode`: `navigate` when the user follows a link.
    pub fetch_mode: Option<&'a [u8]>,
}

/// What becomes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It is answered.
    Allowed,
    /// It has brought the token: keep that as a cookie, and ask again without it in the URL.
    Remember,
    /// Asked for under a foreign name.
    WrongHost,
    /// Another site's page asks.
    CrossSite,
    /// Neither token nor cookie.
    NoToken,
    /// A token, and not this page's.
    WrongToken,
}

impl Access {
    /// The rules of a page bound to `bound`, that may also be asked for as one of `hosts`.
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

    /// Whether a request must show the token.
    pub(crate) fn needs_token(&self) -> bool {
        self.token.is_some()
    }

    /// Decides about one request.
    pub fn decide(&self, shown: &Shown<'_>) -> Decision {
        if !shown.host.is_some_and(|host| self.is_own(host)) {
            return Decision::WrongHost;
        }
        let navigates = shown.fetch_mode == Some(b"navigate");
        if shown.fetch_site == Some(b"cross-site") && !navigates {
            return Decision::CrossSite;
        }
        let Some(token) = &self.token else {
            return Decision::Allowed;
        };
        if let Some(brought) = shown.token {
            return match token.is(brought) {
                true => Decision::Remember,
                false => Decision::WrongToken,
            };
        }
        let name = self.cookie.as_bytes();
        let kept = shown.cookie.and_then(|all| cookie(all, name));
        match kept {
            Some(value) if token.is(value) => Decision::Allowed,
            Some(_) => Decision::WrongToken,
            None => Decision::NoToken,
        }
    }

    /// The header that has a browser keep the token.
    pub(crate) fn set_cookie(&self) -> Option<String> {
        let token = self.token.as_ref()?.as_str();
        let name = &self.cookie;
        Some(format!("{name}={token}; Path=/; HttpOnly; SameSite=Strict"))
    }

    /// Whether `host`, of a Host header, names this page. Behind a tunnel the port is another.
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
        // A foreign page cannot make its own name an address; but only ours are asked for here.
        let ip = ip.to_canonical();
        let own = self.bound.map(|b| b.ip().to_canonical());
        ip.is_loopback() || own.is_some_and(|own| own == ip || own.is_unspecified())
    }
}

/// The host of `host[:port]`, with brackets if it has them; `None` if it has another form.
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

/// The value of the cookie `name` in a Cookie header.
fn cookie<'a>(header: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let mut all = header.split(|b| *b == b';').map(<[u8]>::trim_ascii);
    all.find_map(|pair| pair.strip_prefix(name)?.strip_prefix(b"="))
}

#[cfg(test)]
mod tests;
