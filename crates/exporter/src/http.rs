//! Part of HTTP/1.1 that a scraper needs: one GET per connection.

use crate::negotiate::{Exposition, as_text};
use std::borrow::Cow;

/// Longest head of a request.
pub const LONGEST_REQUEST_BYTES: usize = 8 << 10;
const MOST_HEADERS: usize = 64;
/// Documents of the exporter.
#[derive(Clone, Copy, Debug)]
pub struct Format {
    /// Format of the metrics as their owner builds them.
    pub metrics: Exposition,
    /// Page at `/`.
    pub index: &'static str,
}

/// Length of a request's head, its empty line included. `None` while it is incomplete.
pub fn head_length(bytes: &[u8]) -> Option<usize> {
    bytes
        .windows(4)
        .position(|w| w == b"\r\n\r\n")
        .map(|at| at + 4)
}

/// GET or HEAD request, as far as an answer depends on it.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Path without the query.
    pub path: &'a str,
    headers: &'a [httparse::Header<'a>],
}

impl<'a> Request<'a> {
    /// Value of the header `name`, in any case. `None` if there are two.
    pub fn header(&self, name: &str) -> Option<&'a [u8]> {
        let mut all = self.headers(name);
        let first = all.next()?;
        all.next().is_none().then_some(first)
    }

    /// Values of all headers `name`, in any case.
    fn headers(&self, name: &str) -> impl Iterator<Item = &'a [u8]> {
        let of = move |h: &&httparse::Header<'_>| h.name.eq_ignore_ascii_case(name);
        self.headers.iter().filter(of).map(|h| h.value)
    }
}

/// Answer to a request.
#[derive(Clone, Debug)]
pub struct Answer<'a> {
    /// Status line, such as `200 OK`.
    pub status: &'static str,
    /// Type of the body.
    pub content_type: &'static str,
    /// Body of the answer.
    pub body: Cow<'a, str>,
}

impl<'a> Answer<'a> {
    /// Builds an answer of one line of text.
    pub fn text(status: &'static str, text: impl Into<Cow<'a, str>>) -> Answer<'a> {
        Answer {
            status,
            content_type: "text/plain; charset=utf-8",
            body: text.into(),
        }
    }

    /// Builds an answer with metrics, in the format that `request` prefers. Metrics that are text
    /// already stay text.
    pub fn metrics(request: &Request<'_>, text: String, format_of_text: Exposition) -> Answer<'a> {
        let format = match format_of_text {
            Exposition::OpenMetrics => Exposition::preferred(request.headers("accept")),
            Exposition::Text => Exposition::Text,
        };
        let body = match format == format_of_text {
            true => text,
            false => as_text(&text),
        };
        Answer {
            status: "200 OK",
            content_type: format.content_type(),
            body: body.into(),
        }
    }
}

/// Builds the complete answer to a request's head. `metrics` is called only if they are requested.
pub fn answer(head: &[u8], format: &Format, metrics: impl FnOnce() -> String) -> Vec<u8> {
    route(head, |request| match request.path {
        "/metrics" => Answer::metrics(request, metrics(), format.metrics),
        "/" => Answer {
            status: "200 OK",
            content_type: "text/html",
            body: format.index.into(),
        },
        _ => Answer::text("404 Not Found", "only /metrics is here\n"),
    })
}

/// Builds the complete answer to a request's head. `handle` answers a GET or HEAD.
pub fn route<'a>(head: &[u8], handle: impl FnOnce(&Request<'_>) -> Answer<'a>) -> Vec<u8> {
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    if request.parse(head).is_err() {
        return response(
            "400 Bad Request",
            "text/plain",
            "not an HTTP request\n",
            false,
        );
    }
    let head_only = match request.method {
        Some("GET") => false,
        Some("HEAD") => true,
        _ => {
            let text = "only GET and HEAD\n";
            return response("405 Method Not Allowed", "text/plain", text, false);
        }
    };
    let whole = request.path.unwrap_or_default();
    let path = whole.split_once('?').map_or(whole, |(path, _)| path);
    let answer = handle(&Request {
        path,
        headers: request.headers,
    });
    response(answer.status, answer.content_type, &answer.body, head_only)
}

/// Builds the answer to a head that is too long.
pub fn too_long() -> Vec<u8> {
    let text = "the request is longer than 8 KiB\n";
    response(
        "431 Request Header Fields Too Large",
        "text/plain",
        text,
        false,
    )
}

fn response(status: &str, kind: &str, body: &str, head_only: bool) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        body.len()
    );
    let mut bytes = head.into_bytes();
    if !head_only {
        bytes.extend_from_slice(body.as_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: Format = Format {
        metrics: Exposition::OpenMetrics,
        index: "index",
    };

    fn status(request: &str) -> String {
        let answer = answer(request.as_bytes(), &FORMAT, || "x 1\n".to_owned());
        let text = String::from_utf8(answer).expect("text");
        text.lines().next().expect("text").to_owned()
    }

    #[test]
    fn a_scraper_gets_the_metrics_and_nothing_else() {
        for (request, code) in [
            ("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", "200"),
            ("GET /metrics?x=1 HTTP/1.0\r\n\r\n", "200"),
            ("HEAD /metrics HTTP/1.1\r\n\r\n", "200"),
            ("GET / HTTP/1.1\r\n\r\n", "200"),
            ("GET /etc/passwd HTTP/1.1\r\n\r\n", "404"),
            ("POST /metrics HTTP/1.1\r\n\r\n", "405"),
            ("nonsense\r\n\r\n", "400"),
            ("\u{0}\u{1}\r\n\r\n", "400"),
        ] {
            assert!(status(request).contains(code), "{request}");
        }
        let head = answer(b"HEAD /metrics HTTP/1.1\r\n\r\n", &FORMAT, || {
            "x 1\n".to_owned()
        });
        assert!(String::from_utf8(head).expect("text").ends_with("\r\n\r\n"));
    }

    /// Promise 22.
    #[test]
    fn metrics_are_in_the_format_that_was_asked_for() {
        let ask = |accept: &str, metrics| {
            let format = Format { metrics, ..FORMAT };
            let request = format!("GET /metrics HTTP/1.1\r\n{accept}\r\n");
            let text = "# TYPE x counter\nx_total 1\n# EOF\n";
            let answer = answer(request.as_bytes(), &format, || text.to_owned());
            String::from_utf8(answer).expect("text")
        };
        let plain = "Accept: text/plain;version=0.0.4\r\n";
        for (accept, metrics, kind, end) in [
            (
                "",
                Exposition::OpenMetrics,
                "application/openmetrics-text; version=1.0.0",
                "# EOF\n",
            ),
            (
                plain,
                Exposition::OpenMetrics,
                "text/plain; version=0.0.4",
                "x_total 1\n",
            ),
            ("", Exposition::Text, "text/plain; version=0.0.4", "# EOF\n"),
        ] {
            let answer = ask(accept, metrics);
            let head = format!("\r\nContent-Type: {kind}; charset=utf-8\r\n");
            assert!(answer.contains(&head), "{answer}");
            assert!(answer.ends_with(end), "{answer}");
            let (_, body) = answer.split_once("\r\n\r\n").expect("a body");
            assert!(
                answer.contains(&format!("Content-Length: {}\r\n", body.len())),
                "{answer}"
            );
        }
    }

    #[test]
    fn a_header_that_comes_twice_is_none() {
        let ask = |head: &str| {
            let mut found = None;
            route(head.as_bytes(), |request| {
                found = request.header("x-key").map(<[u8]>::to_vec);
                Answer::text("200 OK", "")
            });
            found
        };
        assert_eq!(
            ask("GET / HTTP/1.1\r\nX-Key: a\r\n\r\n"),
            Some(b"a".to_vec())
        );
        assert_eq!(ask("GET / HTTP/1.1\r\n\r\n"), None);
        let twice = "GET / HTTP/1.1\r\nX-Key: a\r\nx-kEY: b\r\n\r\n";
        assert_eq!(ask(twice), None);
    }

    #[test]
    fn a_head_ends_with_an_empty_line() {
        assert_eq!(head_length(b"GET / HTTP/1.1\r\n"), None);
        assert_eq!(head_length(b"a\r\n\r\nmore"), Some(5));
        assert_eq!(head_length(b""), None);
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..300)) {
            let _ = answer(&bytes, &FORMAT, String::new);
        }
    }
}
