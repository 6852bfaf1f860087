//! One request to a collector, and its answer.

use opentelemetry_proto::tonic::collector::metrics::v1::{
    ExportMetricsServiceRequest, ExportMetricsServiceResponse,
};
use prost::Message;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;
use ureq::Agent;
use ureq::http::Uri;

/// Longest time for a request and its answer.
pub(super) const LONGEST: Duration = Duration::from_secs(10);
/// Largest part of an answer that is read.
const LARGEST_ANSWER_BYTES: u64 = 64 << 10;
/// Longest part of a collector's message that is repeated, letters.
const LONGEST_WORDS: usize = 200;
/// Default path of an endpoint.
const PATH: &str = "/v1/metrics";

/// HTTP URL of a collector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint(Uri);

/// Text that is no [`Endpoint`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is not an endpoint: write http://HOST:PORT such as http://127.0.0.1:4318, or off. \
     TLS is a collector's task: run one on this host"
)]
pub struct EndpointError(String);

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Endpoint, EndpointError> {
        let wrong = || EndpointError(text.chars().take(LONGEST_WORDS).collect());
        let uri: Uri = text.parse().map_err(|_| wrong())?;
        if uri.scheme_str() != Some("http") || uri.host().is_none_or(str::is_empty) {
            return Err(wrong());
        }
        // Credentials in a URL end up in logs.
        if uri.authority().is_some_and(|a| a.as_str().contains('@')) {
            return Err(wrong());
        }
        if uri.path() != "/" {
            return Ok(Endpoint(uri));
        }
        let authority = uri.authority().ok_or_else(wrong)?.clone();
        let whole = Uri::builder().scheme("http").authority(authority);
        let whole = whole.path_and_query(PATH).build();
        Ok(Endpoint(whole.map_err(|_| wrong())?))
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Failure of a request.
#[derive(Debug, thiserror::Error)]
pub(super) enum SendError {
    #[error("{endpoint}: {why}")]
    Unreachable {
        endpoint: Endpoint,
        why: ureq::Error,
    },
    #[error("{endpoint} answers {status}: {words}")]
    Refused {
        endpoint: Endpoint,
        status: u16,
        words: String,
    },
    #[error("{endpoint} rejects {points} data points: {words}")]
    Rejected {
        endpoint: Endpoint,
        points: i64,
        words: String,
    },
}

/// Client of one collector, which sends one request after the other.
#[derive(Debug)]
pub(super) struct Sender {
    endpoint: Endpoint,
    agent: Agent,
}

impl Sender {
    pub fn new(endpoint: Endpoint) -> Sender {
        let config = Agent::config_builder()
            .timeout_global(Some(LONGEST))
            .http_status_as_error(false)
            // The administrator chose the endpoint: no answer may redirect the request.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .proxy(None)
            .user_agent(concat!("cofferdam/", env!("CARGO_PKG_VERSION")))
            .build();
        Sender {
            endpoint,
            agent: config.new_agent(),
        }
    }

    /// Sends `request` and waits for the answer.
    pub fn send(&self, request: &ExportMetricsServiceRequest) -> Result<(), SendError> {
        let endpoint = || self.endpoint.clone();
        let unreachable = |why| SendError::Unreachable {
            endpoint: endpoint(),
            why,
        };
        let mut answer = self
            .agent
            .post(&self.endpoint.0)
            .header("content-type", "application/x-protobuf")
            .send(&request.encode_to_vec()[..])
            .map_err(unreachable)?;
        let status = answer.status();
        let body = answer.body_mut().with_config().limit(LARGEST_ANSWER_BYTES);
        let body = body.read_to_vec();
        if !status.is_success() {
            return Err(SendError::Refused {
                endpoint: endpoint(),
                status: status.as_u16(),
                words: first_line(&body.unwrap_or_default()),
            });
        }
        // The request was accepted. An unreadable answer does not change that.
        let read = ExportMetricsServiceResponse::decode(&body.map_err(unreachable)?[..]);
        match read.ok().and_then(|r| r.partial_success) {
            Some(partial) if partial.rejected_data_points > 0 => Err(SendError::Rejected {
                endpoint: endpoint(),
                points: partial.rejected_data_points,
                words: first_line(partial.error_message.as_bytes()),
            }),
            _ => Ok(()),
        }
    }
}

/// Begin of a collector's message, as one line of text.
fn first_line(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let clean = |c: char| if c.is_control() { ' ' } else { c };
    let text: String = text.chars().map(clean).take(LONGEST_WORDS).collect();
    let text = text.trim();
    let message = if text.is_empty() { "no reason" } else { text };
    message.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_without_a_path_has_the_usual_one() {
        for (text, whole) in [
            ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/metrics"),
            ("http://[::1]:4318/", "http://[::1]:4318/v1/metrics"),
            ("http://otel:4318/a/b", "http://otel:4318/a/b"),
        ] {
            assert_eq!(text.parse::<Endpoint>().unwrap().to_string(), whole);
        }
    }

    #[test]
    fn an_invalid_endpoint_is_refused_with_an_example() {
        for text in [
            "",
            "on",
            "127.0.0.1:4318",
            "https://otel:4318",
            "http://",
            "http://user:secret@otel:4318",
            "unix:/run/otel.sock",
        ] {
            let refused = text.parse::<Endpoint>().unwrap_err().to_string();
            assert!(refused.contains("http://127.0.0.1:4318"), "{refused}");
        }
    }

    #[test]
    fn the_words_of_a_collector_are_one_short_line() {
        assert_eq!(first_line(b"no\n\x1b[2Jroom"), "no  [2Jroom");
        assert_eq!(first_line(b""), "no reason");
        assert_eq!(first_line(&[b'a'; 4096]).len(), LONGEST_WORDS);
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in ".{0,300}") {
            let _ = text.parse::<Endpoint>();
            let _ = first_line(text.as_bytes());
        }
    }
}
