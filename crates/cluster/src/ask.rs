//! Requests to all agents: a limited number at a time, each with its own limit, all within one.

use crate::TOKEN_HEADER;
use crate::agents::{Agent, check_name};
use crate::http::{self, Limits, Peer};
use crate::kubectl::{self, Api, ApiError};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Default number of agents that are asked at the same time.
pub const PARALLEL: usize = 32;
/// Longest wait for one agent.
pub const EACH_WITHIN: Duration = Duration::from_secs(5);
/// Largest answer of an agent, bytes.
pub const MOST_ANSWER_BYTES: usize = 8 << 20;
/// Largest Secret, bytes; etcd takes no more.
const MOST_SECRET_BYTES: usize = 2 << 20;

/// Way to ask an agent.
#[derive(Clone, Copy, Debug)]
pub enum Way<'a> {
    /// Through the API server, which passes requests on to pods.
    Api(&'a Api),
    /// On the address of its node.
    Direct,
}

/// Request to the agents.
#[derive(Clone, Debug)]
pub struct Question<'a> {
    /// Namespace of the agents.
    pub namespace: &'a str,
    /// Token of the gateways.
    pub token: &'a str,
    /// Path of the document: `/v1/node`.
    pub path: &'a str,
    /// Agents asked at the same time.
    pub parallel: usize,
    /// Time by which all must have answered.
    pub deadline: Instant,
}

/// Reason why the token cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The API server failed.
    #[error(
        "cannot read the Secret {name} in namespace {namespace}, \
         which has the token of the agents: {why}"
    )]
    Api {
        /// Name of the Secret.
        name: String,
        /// Namespace of the Secret.
        namespace: String,
        /// Failure of the API server.
        why: ApiError,
    },
    /// The Secret has no token.
    #[error("the Secret {0} has no key 'token' with printable text in base64")]
    None(String),
    /// A name is invalid.
    #[error(transparent)]
    Name(#[from] crate::agents::AgentsError),
}

#[derive(Deserialize)]
struct Secret {
    #[serde(default)]
    data: Data,
}

#[derive(Default, Deserialize)]
struct Data {
    token: Option<String>,
}

/// Reads the token in the Secret `name`.
///
/// # Errors
/// Any [`TokenError`].
pub fn token(
    api: &Api,
    namespace: &str,
    name: &str,
    deadline: Instant,
) -> Result<String, TokenError> {
    let (namespace, name) = (check_name(namespace)?, check_name(name)?);
    let path = format!("/api/v1/namespaces/{namespace}/secrets/{name}");
    let limits = Limits {
        deadline,
        most_bytes: MOST_SECRET_BYTES,
    };
    let body = api.get(&path, &[], limits).map_err(|why| TokenError::Api {
        name: name.to_owned(),
        namespace: namespace.to_owned(),
        why,
    })?;
    of_secret(&body).ok_or_else(|| TokenError::None(name.to_owned()))
}

fn of_secret(body: &[u8]) -> Option<String> {
    let secret: Secret = serde_json::from_slice(body).ok()?;
    let bytes = STANDARD.decode(secret.data.token?).ok()?;
    let text = String::from_utf8(bytes).ok()?;
    let text = text.trim();
    // The token goes into a header.
    let fits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic());
    fits.then(|| text.to_owned())
}

/// Parses a document of the schema `schema` in an agent's answer.
///
/// # Errors
/// The reason, if the answer is no document or has another schema.
pub fn document<T: DeserializeOwned>(body: &[u8], schema: &'static str) -> Result<T, String> {
    let garbled = |why: serde_json::Error| format!("its answer cannot be read: {why}");
    let document: serde_json::Value = serde_json::from_slice(body).map_err(garbled)?;
    cofferdam_records::check(&document, schema).map_err(|why| why.to_string())?;
    serde_json::from_value(document).map_err(garbled)
}

/// Asks each of `agents`. The thread that gets an answer passes it to `read`. The results are in
/// the order of `agents`; an error is the reason for a missing one.
pub fn all<T: Send>(
    way: Way<'_>,
    agents: &[Agent],
    question: &Question<'_>,
    interrupted: &AtomicBool,
    read: impl Fn(&Agent, &[u8]) -> Result<T, String> + Sync,
) -> Vec<Result<T, String>> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::with_capacity(agents.len()));
    let work = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(agent) = agents.get(at) else { return };
            let result = one(way, agent, question, interrupted).and_then(|body| read(agent, &body));
            let mut all = results.lock().unwrap_or_else(PoisonError::into_inner);
            all.push((at, result));
        }
    };
    std::thread::scope(|scope| {
        // This thread is one of the workers.
        for _ in 1..question.parallel.clamp(1, agents.len().max(1)) {
            // If a thread cannot be started, the others do its part.
            let _ = std::thread::Builder::new().spawn_scoped(scope, work);
        }
        work();
    });
    let mut all = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    all.sort_by_key(|(at, _)| *at);
    all.into_iter().map(|(_, result)| result).collect()
}

/// Asks one agent.
fn one(
    way: Way<'_>,
    agent: &Agent,
    question: &Question<'_>,
    interrupted: &AtomicBool,
) -> Result<Vec<u8>, String> {
    if let Some(why) = &agent.why_not {
        return Err(why.clone());
    }
    if interrupted.load(Ordering::Relaxed) {
        return Err("not asked: interrupted".to_owned());
    }
    let now = Instant::now();
    if now >= question.deadline {
        return Err(
            "not asked: the time was over; give more with --timeout or --parallel".to_owned(),
        );
    }
    let limits = Limits {
        deadline: question.deadline.min(now + EACH_WITHIN),
        most_bytes: MOST_ANSWER_BYTES,
    };
    let token = [(TOKEN_HEADER, question.token)];
    let answer = match way {
        Way::Api(api) => {
            let path = format!(
                "/api/v1/namespaces/{}/pods/{}:{}/proxy{}",
                question.namespace, agent.pod, agent.port, question.path
            );
            api.get(&path, &token, limits)
        }
        Way::Direct => {
            let address = agent.address.ok_or("its node has no address yet")?;
            let peer = Peer::Tcp((address, agent.port).into());
            let reply = http::get(&peer, question.path, &token, limits);
            reply.map_err(ApiError::from).and_then(kubectl::body)
        }
    };
    answer.map_err(|why| why.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn secret(token: &str) -> Option<String> {
        of_secret(format!(r#"{{"kind":"Secret","data":{{"token":"{token}"}}}}"#).as_bytes())
    }

    #[test]
    fn the_token_is_the_text_in_the_secret() {
        assert_eq!(secret("YWJj").as_deref(), Some("abc"));
        assert_eq!(secret("YWJjZA==").as_deref(), Some("abcd"));
        assert_eq!(secret("YWJjZGU=").as_deref(), Some("abcde"));
        // An editor's line end is not part of the token; a line end inside makes it invalid.
        assert_eq!(secret("YWJjCg==").as_deref(), Some("abc"));
        for wrong in [
            "",
            "=",
            "====",
            "YWJ",
            "YW\u{e9}j",
            "YQpYOiB5",
            "YWJj=YWJj",
            "gICA",
        ] {
            assert_eq!(secret(wrong), None, "{wrong}");
        }
        assert_eq!(of_secret(b"{}"), None);
        assert_eq!(of_secret(b"no"), None);
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[A-Za-z0-9+/=]{0,40}") {
            let _ = secret(&text);
        }
    }
}
