//! Routes of requests. Pure functions except for the token, which [`Access`] reads.

use super::access::{Access, Refusal};
use super::documents::DocumentKind;
use cofferdam_exporter::{Answer, Request};

pub const JSON: &str = "application/json";
const FORBIDDEN: &str = "403 Forbidden";

/// Answer to a request, or the source of it.
#[derive(Debug)]
pub enum Route {
    /// A fixed answer.
    Fixed(Answer<'static>),
    /// Whether the agent answers.
    Ready,
    /// Document of the sampler.
    Document(DocumentKind),
    /// The doctor's report.
    Doctor,
    /// The agent's metrics.
    Metrics,
}

/// Route of `request`.
pub fn route(request: &Request<'_>, access: &Access) -> Route {
    // The kubelet has no token: it may check that this process lives and has documents.
    match request.path {
        "/healthz" => return Route::Fixed(Answer::text("200 OK", "ok\n")),
        "/readyz" => return Route::Ready,
        _ => {}
    }
    if let Err(refusal) = access.check(request) {
        return Route::Fixed(answer_to(refusal));
    }
    match request.path {
        "/v1/node" => Route::Document(DocumentKind::Node),
        "/v1/explain" => Route::Document(DocumentKind::Explain),
        "/v1/status" => Route::Document(DocumentKind::Status),
        "/v1/conditions" => Route::Document(DocumentKind::Conditions),
        "/v1/doctor" => Route::Doctor,
        "/metrics" => Route::Metrics,
        _ => Route::Fixed(Answer::text(
            "404 Not Found",
            "there are /v1/node, /v1/explain, /v1/status, /v1/conditions, /v1/doctor \
             and /metrics\n",
        )),
    }
}

fn answer_to(refusal: Refusal) -> Answer<'static> {
    match refusal {
        Refusal::NoToken(why) => Answer::text(super::UNAVAILABLE, why + "\n"),
        // Not 401: clients of the API server would take that for a refusal of their own
        // credentials.
        Refusal::NotShown => Answer::text(
            FORBIDDEN,
            "show the token of this gateway as X-Cofferdam-Token, or as a bearer\n",
        ),
        Refusal::Wrong => Answer::text(FORBIDDEN, "that is not the token of this gateway\n"),
    }
}
