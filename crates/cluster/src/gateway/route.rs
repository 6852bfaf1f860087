//! What a request is for. Pure but for the token, which [`Access`] reads.

use super::access::{Access, Refused};
use super::documents::Which;
use cofferdam_exporter::{Answer, Request};

pub const JSON: &str = "application/json";
const FORBIDDEN: &str = "403 Forbidden";

/// What is answered, or asked for.
#[derive(Debug)]
pub enum Route {
    /// The answer is known.
    Said(Answer<'static>),
    /// Whether the agent answers.
    Ready,
    /// What the sampler keeps.
    Document(Which),
    /// The doctor's report.
    Doctor,
    /// The agent's metrics.
    Metrics,
}

/// Of `request`.
pub fn route(request: &Request<'_>, access: &Access) -> Route {
    // For the kubelet, which has no token: that this process lives, and that it has something to say.
    match request.path {
        "/healthz" => return Route::Said(Answer::text("200 OK", "ok\n")),
        "/readyz" => return Route::Ready,
        _ => {}
    }
    if let Err(refused) = access.check(request) {
        return Route::Said(refusal(refused));
    }
    match request.path {
        "/v1/node" => Route::Document(Which::Node),
        "/v1/explain" => Route::Document(Which::Explain),
        "/v1/status" => Route::Document(Which::Status),
        "/v1/conditions" => Route::Document(Which::Conditions),
        "/v1/doctor" => Route::Doctor,
        "/metrics" => Route::Metrics,
        _ => Route::Said(Answer::text(
            "404 Not Found",
            "there are /v1/node, /v1/explain, /v1/status, /v1/conditions, /v1/doctor and /metrics\n",
        )),
    }
}

fn refusal(refused: Refused) -> Answer<'static> {
    match refused {
        Refused::NoToken(why) => Answer::text(super::UNAVAILABLE, why + "\n"),
        // Not 401: the API server's clients would take it for their own credentials' refusal.
        Refused::NotShown => Answer::text(
            FORBIDDEN,
            "show the token of this gateway as X-Cofferdam-Token, or as a bearer\n",
        ),
        Refused::Wrong => Answer::text(FORBIDDEN, "that is not the token of this gateway\n"),
    }
}
