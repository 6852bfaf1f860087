//! Thread that serves: connections, their limits, and the answer to each request.

use crate::access::{Access, Decision, RequestFacts};
use crate::answer::{EVENTS, answer, json, refuse};
use crate::assets::FILES;
use crate::body::PageBody;
use crate::feed::{Past, PastError};
use crate::frame::Frame;
use crate::listen::{Listener, Stream};
use crate::moment::Moment;
use crate::route::{NoRoute, Route, route, token};
use crate::sampler::{Message, PageState, locked};
use crate::series::{SeriesRequest, ms, series};
use crate::stall::Stall;
use crate::story::Story;
use crate::visitors::{MOST_STREAMS, MOST_VIEWERS, Place, Visitors};
use cofferdam_paths::Peer;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Semaphore, watch};

/// Limit on the queries of the past, waiting or running.
const MOST_QUESTIONS: usize = 16;
/// Longest wait for the complete head of a request, and for the first admitted request of a
/// connection.
pub const HEAD_WITHIN: Duration = Duration::from_secs(10);
/// Longest time in which a reader may take nothing.
pub const READ_WITHIN: Duration = Duration::from_secs(10);
/// Largest head of a request, bytes.
pub const LARGEST_HEAD_BYTES: usize = 16 << 10;
/// Limit on the headers of a request.
const MOST_HEADERS: usize = 64;
/// Pause after a failed accept (no descriptor left).
const REST: Duration = Duration::from_millis(200);

/// State that all connections share.
pub(crate) struct Server {
    pub access: Access,
    pub shared: Arc<PageState>,
    pub live: watch::Receiver<Message>,
    pub past: Option<Arc<Mutex<Box<dyn Past>>>>,
    pub visitors: Arc<Visitors>,
    pub questions: Arc<Semaphore>,
    /// Text about where the token is found.
    pub hint: String,
}

impl Server {
    pub fn new(
        access: Access,
        shared: Arc<PageState>,
        live: watch::Receiver<Message>,
        past: Option<Box<dyn Past>>,
        hint: String,
    ) -> Server {
        Server {
            visitors: Visitors::new(!access.needs_token()),
            access,
            shared,
            live,
            past: past.map(|past| Arc::new(Mutex::new(past))),
            questions: Arc::new(Semaphore::new(MOST_QUESTIONS)),
            hint,
        }
    }

    /// Accepts connections as long as this is polled.
    pub async fn run(self: Arc<Server>, listener: Listener) {
        loop {
            match listener.accept().await {
                Ok((Stream::Tcp(stream), peer)) => {
                    let _ = stream.set_nodelay(true);
                    self.admit(stream, peer);
                }
                Ok((Stream::Unix(stream), peer)) => self.admit(stream, peer),
                Err(why) => {
                    tracing::debug!("cannot take a connection of the page: {why}");
                    tokio::time::sleep(REST).await;
                }
            }
            // Let the accepted connections run before the next one replaces one of them.
            tokio::task::yield_now().await;
        }
    }

    /// Serves a connection that has a place, and closes one that has none.
    fn admit<S>(self: &Arc<Server>, stream: S, peer: Peer)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let Some(place) = self.visitors.enter(peer) else {
            return;
        };
        let id = place.id();
        let task = tokio::spawn(self.clone().serve(stream, place));
        self.visitors.set_task(id, task.abort_handle());
    }

    async fn serve<S>(self: Arc<Server>, stream: S, place: Place)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send,
    {
        let place = Arc::new(place);
        let io = TokioIo::new(Stall::new(stream, READ_WITHIN, place.clone()));
        let service = service_fn(|request| {
            let (server, place) = (self.clone(), place.clone());
            async move { Ok::<_, Infallible>(server.handle(&place, &request).await) }
        });
        let served = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_WITHIN)
            .max_buf_size(LARGEST_HEAD_BYTES)
            .max_headers(MOST_HEADERS)
            .serve_connection(io, service)
            .await;
        if let Err(why) = served {
            tracing::debug!("a connection of the page ended: {why}");
        }
    }

    async fn handle<B>(&self, place: &Place, request: &Request<B>) -> Response<PageBody> {
        let query = request.uri().query().unwrap_or_default();
        if let Some(mut refusal) = self.refusal(place, request.headers(), query) {
            if !place.is_viewer() {
                let close = HeaderValue::from_static("close");
                refusal.headers_mut().insert(header::CONNECTION, close);
            }
            return refusal;
        }
        if request.method() != Method::GET && request.method() != Method::HEAD {
            let text = "this page only shows: GET and HEAD are answered";
            let mut response = refuse(StatusCode::METHOD_NOT_ALLOWED, text);
            let allow = HeaderValue::from_static("GET, HEAD");
            response.headers_mut().insert(header::ALLOW, allow);
            return response;
        }
        match route(request.uri().path(), query) {
            Err(NoRoute::NotFound) => refuse(StatusCode::NOT_FOUND, "there is nothing here"),
            Err(NoRoute::Parameter(name)) => {
                let text = format!("parameter '{name}' is missing, or has no such value");
                refuse(StatusCode::BAD_REQUEST, &text)
            }
            Ok(Route::Asset(index)) => asset(index, request.headers()),
            Ok(Route::Live) if request.method() == Method::HEAD => {
                answer(StatusCode::OK, EVENTS, PageBody::Whole(None))
            }
            Ok(Route::Live) => self.live(place),
            Ok(Route::Extent) => self.extent().await,
            Ok(Route::Frame(at)) => {
                self.moment(at, |moment, host| Some(json(&Frame::new(moment, host))))
                    .await
            }
            Ok(Route::Story { container, at }) => {
                self.moment(at, |moment, _| Some(json(&Story::new(moment, container)?)))
                    .await
            }
            Ok(Route::Series {
                from,
                to,
                points,
                container,
            }) => {
                let wanted = SeriesRequest {
                    from,
                    to,
                    points,
                    container,
                };
                self.series(wanted).await
            }
        }
    }

    /// Answer to a request that is not admitted. `None` admits it.
    fn refusal(
        &self,
        place: &Place,
        headers: &HeaderMap,
        query: &str,
    ) -> Option<Response<PageBody>> {
        let bytes = |name: &HeaderName| {
            let mut all = headers.get_all(name).iter();
            let first = all.next().map(HeaderValue::as_bytes);
            // No browser sends a header twice.
            first.filter(|_| all.next().is_none())
        };
        let facts = RequestFacts {
            host: bytes(&header::HOST),
            cookie: bytes(&header::COOKIE),
            token: token(query).map(str::as_bytes),
            fetch_site: bytes(&HeaderName::from_static("sec-fetch-site")),
            fetch_mode: bytes(&HeaderName::from_static("sec-fetch-mode")),
        };
        let decision = self.access.decide(&facts);
        let is_let_in = matches!(decision, Decision::Allowed | Decision::Remember);
        if is_let_in && !place.become_viewer() {
            let text = format!(
                "{MOST_VIEWERS} connections are open, which is the limit: \
                                 close a page, then try again"
            );
            return Some(refuse(StatusCode::SERVICE_UNAVAILABLE, &text));
        }
        match decision {
            Decision::Allowed => None,
            Decision::Remember => {
                let mut response = refuse(StatusCode::SEE_OTHER, "the page is at /");
                let headers = response.headers_mut();
                headers.insert(header::LOCATION, HeaderValue::from_static("/"));
                let cookie = self.access.set_cookie();
                if let Some(cookie) = cookie.and_then(|c| HeaderValue::from_str(&c).ok()) {
                    headers.insert(header::SET_COOKIE, cookie);
                }
                Some(response)
            }
            Decision::WrongHost => Some(refuse(
                StatusCode::MISDIRECTED_REQUEST,
                "this page is not served under that name: ask for localhost or for its address, or \
                 add the name to [web] hosts",
            )),
            Decision::CrossSite => Some(refuse(
                StatusCode::FORBIDDEN,
                "another site's page may not read this one",
            )),
            Decision::NoToken => Some(refuse(
                StatusCode::UNAUTHORIZED,
                &format!("this page needs its token: {}", self.hint),
            )),
            Decision::WrongToken => Some(refuse(
                StatusCode::UNAUTHORIZED,
                &format!(
                    "that is not the token of this page, which gets a new one at each start: {}",
                    self.hint
                ),
            )),
        }
    }

    fn live(&self, place: &Place) -> Response<PageBody> {
        let Some(place) = place.begin_stream() else {
            let text = format!(
                "{MOST_STREAMS} streams are open, which is the limit: close a page, then try again"
            );
            return refuse(StatusCode::SERVICE_UNAVAILABLE, &text);
        };
        let body = PageBody::live(self.live.clone(), self.shared.look(), place);
        answer(StatusCode::OK, EVENTS, body)
    }

    /// Answers with the document that `show` builds of a moment.
    async fn moment(
        &self,
        at: Option<SystemTime>,
        show: impl FnOnce(&Moment, &str) -> Option<Response<PageBody>>,
    ) -> Response<PageBody> {
        let moment = match at {
            None => Ok(locked(&self.shared.recent).moment()),
            Some(at) => self
                .ask(at, move |past| past.at(at))
                .await
                .map(|ledger| ledger.map(Moment::past)),
        };
        match moment {
            Err(refusal) => refusal,
            Ok(None) => refuse(StatusCode::NOT_FOUND, "nothing is known of that moment"),
            Ok(Some(moment)) => show(&moment, &self.shared.host).unwrap_or_else(|| {
                let text = "there was no such container at that moment";
                refuse(StatusCode::NOT_FOUND, text)
            }),
        }
    }

    async fn series(&self, wanted: SeriesRequest) -> Response<PageBody> {
        let answer = self.ask(wanted.from, move |past| series(past, &wanted));
        match answer.await {
            Ok(series) => json(&series),
            Err(refusal) => refusal,
        }
    }

    async fn extent(&self) -> Response<PageBody> {
        // Query from the oldest possible moment.
        let answer = self.ask(SystemTime::UNIX_EPOCH, |past| past.extent()).await;
        match answer {
            Ok(extent) => json(&extent.map(|(first, last)| [ms(first), ms(last)])),
            Err(refusal) => refusal,
        }
    }

    /// Queries the ring if it reaches back to `from`, otherwise the store if there is one. Runs in
    /// a thread that may wait for the disk.
    async fn ask<T: Send + 'static>(
        &self,
        from: SystemTime,
        question: impl Fn(&mut dyn Past) -> Result<T, PastError> + Send + 'static,
    ) -> Result<T, Response<PageBody>> {
        let Ok(permit) = self.questions.clone().try_acquire_owned() else {
            let text = "too many questions about the past are waiting: try again";
            return Err(refuse(StatusCode::SERVICE_UNAVAILABLE, text));
        };
        let (shared, store) = (self.shared.clone(), self.past.clone());
        let result = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            let first = locked(&shared.ring).first();
            if let Some(store) = store.filter(|_| first.is_none_or(|first| first > from)) {
                match question(&mut **locked(&store)) {
                    Err(why) => tracing::debug!("the memory is asked instead: {why}"),
                    known => return known,
                }
            }
            question(&mut *locked(&shared.ring))
        });
        let why = match result.await {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(why)) => why.to_string(),
            Err(why) => format!("the past cannot be read: {why}"),
        };
        tracing::warn!("{why}");
        Err(refuse(StatusCode::INTERNAL_SERVER_ERROR, &why))
    }
}

/// Answers with a file, or with "not modified" if the browser has it already.
fn asset(index: usize, headers: &HeaderMap) -> Response<PageBody> {
    let Some(file) = FILES.get(index) else {
        return refuse(StatusCode::NOT_FOUND, "there is nothing here");
    };
    let tag = file.tag();
    let cached = headers.get(header::IF_NONE_MATCH);
    let mut response = match cached.is_some_and(|k| k.as_bytes() == tag.as_bytes()) {
        true => answer(
            StatusCode::NOT_MODIFIED,
            file.media_type,
            PageBody::Whole(None),
        ),
        false => answer(StatusCode::OK, file.media_type, PageBody::whole(file.bytes)),
    };
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        headers.insert(header::ETAG, tag);
    }
    response
}
