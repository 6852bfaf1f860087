//! Answers, with headers that restrict what a browser may do with them.

use crate::body::PageBody;
use bytes::Bytes;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};

/// Content security policy: only scripts, styles, pictures and connections of this page, and no
/// frame around it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
    connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
    require-trusted-types-for 'script'; trusted-types 'none'";

const HEADERS: [(HeaderName, &str); 7] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("permissions-policy"),
        "camera=(), geolocation=(), microphone=()",
    ),
];

pub(crate) const TEXT: &str = "text/plain; charset=utf-8";
pub(crate) const JSON: &str = "application/json";
pub(crate) const EVENTS: &str = "text/event-stream";

/// Builds an answer of `media_type`.
pub(crate) fn answer(
    status: StatusCode,
    media_type: &'static str,
    body: PageBody,
) -> Response<PageBody> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    // The figures are those of a moment, and for this user alone.
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Builds a refusal with a text.
pub(crate) fn refuse(status: StatusCode, text: &str) -> Response<PageBody> {
    answer(status, TEXT, PageBody::whole(format!("{text}\n")))
}

/// Builds an answer with a JSON document.
pub(crate) fn json<T: serde::Serialize>(document: &T) -> Response<PageBody> {
    match serde_json::to_vec(document) {
        Ok(bytes) => answer(StatusCode::OK, JSON, PageBody::whole(Bytes::from(bytes))),
        Err(why) => {
            tracing::error!("cannot write a document of the page: {why}");
            refuse(
                StatusCode::INTERNAL_SERVER_ERROR,
                "the document cannot be written",
            )
        }
    }
}
