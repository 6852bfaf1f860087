//! As much HTTP/1.1 as a scraper needs: one `GET /metrics` a connection.

/// Longest head of a request.
pub const LONGEST_REQUEST_BYTES: usize = 8 << 10;
const MOST_HEADERS: usize = 64;
/// What the answers look like.
#[derive(Clone, Copy, Debug)]
pub struct Format {
    /// Of the metrics.
    pub content_type: &'static str,
    /// The page at `/`.
    pub index: &'static str,
}

/// Length of the head of a request, its empty line included; `None` while it is incomplete.
pub fn head_length(bytes: &[u8]) -> Option<usize> {
    bytes
        .windows(4)
        .position(|w| w == b"\r\n\r\n")
        .map(|at| at + 4)
}

/// The whole answer to a request's head. `metrics` is asked only when they are wanted.
pub fn answer(head: &[u8], format: &Format, metrics: impl FnOnce() -> String) -> Vec<u8> {
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
    let path = request.path.unwrap_or_default();
    let path = path.split('?').next().unwrap_or_default();
    let head_only = match request.method {
        Some("GET") => false,
        Some("HEAD") => true,
        _ => {
            let text = "only GET and HEAD\n";
            return response("405 Method Not Allowed", "text/plain", text, false);
        }
    };
    match path {
        "/metrics" => response("200 OK", format.content_type, &metrics(), head_only),
        "/" => response("200 OK", "text/html", format.index, head_only),
        _ => response(
            "404 Not Found",
            "text/plain",
            "only /metrics is here\n",
            head_only,
        ),
    }
}

/// The answer to a head that is too long.
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
        content_type: "text/plain",
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
