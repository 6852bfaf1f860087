//! The words of the socket: one request a line, plain text, so that `nc -U` is a client.
//!
//! ```text
//! on [icmp] [udp] [tcp] [other] [egress] [ingress] [port N]
//! off
//! status
//! read [mace]
//! follow [mace]
//! help
//! quit
//! ```
//! An answer ends with a line that begins with `ok` or `error`; after `mace` it ends with an
//! empty line, so that what comes before is MACE's format and nothing else.

use cofferdam_bpf::latency::Filter;

/// Longest line that is taken, its end included.
pub const MAX_LINE_BYTES: usize = 256;

/// What a client asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Measure from now on; forgets what was measured before.
    On(Filter),
    /// Stop measuring; what was measured can still be read.
    Off,
    /// Whether it measures, and how well.
    Status,
    /// What this connection has not read yet.
    Read(Form),
    /// What comes, as it comes, until the next line.
    Follow(Form),
    /// The words.
    Help,
    /// The end.
    Quit,
}

/// How reports are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// All that is known, as `name=value`.
    Full,
    /// `[sec.usec] (id) egress: ns`.
    Mace,
}

/// A line that makes no sense; says what does.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Not text.
    #[error("a request is one line of ASCII text; 'help' lists them")]
    NotText,
    /// Unknown.
    #[error("unknown request; 'help' lists them")]
    Unknown,
    /// Known, but not with these words after it.
    #[error("{0}")]
    Words(&'static str),
}

/// One line without its end.
pub fn parse(line: &[u8]) -> Result<Request, Refusal> {
    let text = std::str::from_utf8(line).map_err(|_| Refusal::NotText)?;
    if text.chars().any(|c| c.is_control() && c != '\t') || !text.is_ascii() {
        return Err(Refusal::NotText);
    }
    let mut words = text.split_ascii_whitespace();
    let request = match words.next().ok_or(Refusal::Unknown)? {
        "on" => return filter(words).map(Request::On),
        "read" => return form(words).map(Request::Read),
        "follow" => return form(words).map(Request::Follow),
        "off" => Request::Off,
        "status" => Request::Status,
        "help" => Request::Help,
        "quit" => Request::Quit,
        _ => return Err(Refusal::Unknown),
    };
    match words.next() {
        None => Ok(request),
        Some(_) => Err(Refusal::Words("this request takes no arguments")),
    }
}

fn form<'a>(mut words: impl Iterator<Item = &'a str>) -> Result<Form, Refusal> {
    let form = match words.next() {
        None => return Ok(Form::Full),
        Some("mace") => Form::Mace,
        Some(_) => {
            return Err(Refusal::Words("the only other form is 'mace'"));
        }
    };
    match words.next() {
        None => Ok(form),
        Some(_) => Err(Refusal::Words("nothing may follow 'mace'")),
    }
}

fn filter<'a>(mut words: impl Iterator<Item = &'a str>) -> Result<Filter, Refusal> {
    const KNOWN: Refusal =
        Refusal::Words("'on' takes icmp, udp, tcp, other, egress, ingress and port N");
    let mut classes = [false; 4];
    let (mut egress, mut ingress, mut port) = (false, false, None);
    while let Some(word) = words.next() {
        match word {
            "icmp" => classes[0] = true,
            "udp" => classes[1] = true,
            "tcp" => classes[2] = true,
            "other" => classes[3] = true,
            "egress" => egress = true,
            "ingress" => ingress = true,
            "port" => match words.next().and_then(|n| n.parse().ok()) {
                Some(number) if number > 0 => port = Some(number),
                _ => return Err(Refusal::Words("a port is a number from 1 to 65535")),
            },
            _ => return Err(KNOWN),
        }
    }
    if classes == [false; 4] {
        classes = [true; 4];
    }
    if !egress && !ingress {
        (egress, ingress) = (true, true);
    }
    Ok(Filter {
        egress,
        ingress,
        classes,
        port,
        ..Filter::default()
    })
}

/// The answer to `help`.
pub const HELP: &str = "\
on [icmp] [udp] [tcp] [other] [egress] [ingress] [port N]  measure from now on
off                                    stop; existing reports can still be read
status                                 whether it measures, and its coverage
read [mace]                            reports not yet read by this connection
follow [mace]                          new reports, until the next line
quit                                   end the connection
ok
";

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_words_are_understood() {
        assert_eq!(parse(b"on"), Ok(Request::On(Filter::default())));
        assert_eq!(parse(b" read  mace "), Ok(Request::Read(Form::Mace)));
        assert_eq!(parse(b"follow"), Ok(Request::Follow(Form::Full)));
        let filter = Filter {
            ingress: false,
            classes: [true, false, false, false],
            port: Some(53),
            ..Filter::default()
        };
        assert_eq!(parse(b"on icmp egress port 53"), Ok(Request::On(filter)));
    }

    /// Promise 76.
    #[test]
    fn nonsense_is_refused() {
        for line in [
            &b""[..],
            b"ON",
            b"on port",
            b"on port 0",
            b"on port 65536",
            b"on all",
            b"off now",
            b"read mace mace",
            b"read json",
            b"\xff\xfe",
            b"on\0",
            b"read\x1b[2J",
        ] {
            assert!(parse(line).is_err(), "{line:?}");
        }
    }

    proptest! {
        /// Promise 76.
        #[test]
        fn any_bytes_are_parsed_or_refused(line in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = parse(&line);
        }
    }
}
