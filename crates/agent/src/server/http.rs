//! As much HTTP/1.1 as a scraper needs: one `GET /metrics` a connection.

/// Longest head of a request.
pub(super) const LONGEST_REQUEST_BYTES: usize = 8 << 10;
const MOST_HEADERS: usize = 64;
/// The OpenMetrics text format, which Prometheus takes.
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

const INDEX: &str = "<!doctype html><title>cofferdam agent</title>\
    <p><a href=\"/metrics\">metrics</a>\n";

/// Length of the head of a request, its empty line included; `None` while it is incomplete.
pub(super) fn head_length(bytes: &[u8]) -> Option<usize> {
    bytes
        .windows(4)
        .position(|w| w == b"\r\n\r\n")
        .map(|at| at + 4)
}

/// The whole answer to a request's head. `metrics` is asked only when they are wanted.
pub(super) fn answer(head: &[u8], metrics: impl FnOnce() -> String) -> Vec<u8> {
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
        "/metrics" => response("200 OK", OPENMETRICS, &metrics(), head_only),
        "/" => response("200 OK", "text/html", INDEX, head_only),
        _ => response(
            "404 Not Found",
            "text/plain",
            "only /metrics is here\n",
            head_only,
        ),
    }
}

/// The answer to a head that is too long.
pub(super) fn too_long() -> Vec<u8> {
    let text = "the request is longer than 8 KiB\n";
    response(
        "431 Request Header Fields Too Large",
        "text/plain",
        text,
        false,
    )
}

/// The answer when there are too many connections.
pub(super) fn busy() -> Vec<u8> {
    response(
        "503 Service Unavailable",
        "text/plain",
        "too many connections\n",
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

    fn status(request: &str) -> String {
        let answer = answer(request.as_bytes(), || "x 1\n".to_owned());
        let text = String::from_utf8(answer).unwrap();
        text.lines().next().unwrap().to_owned()
    }

    #[test]
    fn a_scraper_gets_the_metrics_and_nobody_more() {
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
        let head = answer(b"HEAD /metrics HTTP/1.1\r\n\r\n", || "x 1\n".to_owned());
        assert!(String::from_utf8(head).unwrap().ends_with("\r\n\r\n"));
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
            let _ = answer(&bytes, String::new);
        }
    }
}
