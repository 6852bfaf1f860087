//! Language of the socket: one request a line, plain text, so that `nc -U` is a client.
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
//! An answer ends with a line that begins with `ok` or `error`. After `mace` it ends with an empty
//! line instead, so that all before it is MACE's format.

use cofferdam_bpf::latency::Filter;

/// Most bytes of a line, with its end.
pub const MAX_LINE_BYTES: usize = 256;

/// Request of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Measure from now on; forgets former samples.
    On(Filter),
    /// Stop measuring; the samples can still be read.
    Off,
    /// Report whether it measures, and how well.
    Status,
    /// Return the samples that this connection has not read yet.
    Read(Form),
    /// Return samples as they come, until the next line.
    Follow(Form),
    /// List the requests.
    Help,
    /// End the connection.
    Quit,
}

/// Form of the reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// All fields, as `name=value`.
    Full,
    /// `[sec.usec] (id) egress: ns`.
    Mace,
}

/// Refusal of a line, with the correct form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The line is not text.
    #[error("a request is one line of ASCII text; 'help' lists them")]
    NotText,
    /// The request is unknown.
    #[error("unknown request; 'help' lists them")]
    Unknown,
    /// The request is known, but not with these words after it.
    #[error("{0}")]
    Words(&'static str),
}

/// Parses one line without its end.
pub fn parse(line: &[u8]) -> Result<Request, Refusal> {
    let text = std::str::from_utf8(line).map_err(|_| Refusal::NotText)?;
    if text.chars().any(|c| c.is_control() && c != '\t') || !text.is_ascii() {
        return Err(Refusal::NotText);
    }
    let mut words = text.split_ascii_whitespace();
    let request = match words.next().ok_or(Refusal::Unknown)? {
        "on" => return filter(words).map(Request::On),
        "read" => return parse_form(words).map(Request::Read),
        "follow" => return parse_form(words).map(Request::Follow),
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

fn parse_form<'a>(mut words: impl Iterator<Item = &'a str>) -> Result<Form, Refusal> {
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

/// Answer to `help`.
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
