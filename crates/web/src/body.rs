//! Bodies of answers: a complete one, or the stream of readings.

use crate::sampler::{Message, Viewer};
use crate::visitors::StreamPlace;
use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::watch;

type Next = Pin<Box<dyn Future<Output = Option<(watch::Receiver<Message>, Bytes)>> + Send>>;

/// Body of an answer.
pub(crate) enum PageBody {
    /// Complete body.
    Whole(Option<Bytes>),
    /// Endless stream with a message for each reading. There is no queue: a late reader gets the
    /// newest message next, and never more than one.
    Live(Live),
}

/// State of a stream: the next message, and the places that the stream occupies.
pub(crate) struct Live {
    next: Next,
    _viewer: Viewer,
    _place: StreamPlace,
}

impl PageBody {
    pub fn whole(bytes: impl Into<Bytes>) -> PageBody {
        PageBody::Whole(Some(bytes.into()))
    }

    pub fn live(
        mut messages: watch::Receiver<Message>,
        viewer: Viewer,
        place: StreamPlace,
    ) -> PageBody {
        // The newest message, if there is one, is new to this reader.
        messages.mark_changed();
        PageBody::Live(Live {
            next: Box::pin(next_message(messages)),
            _viewer: viewer,
            _place: place,
        })
    }
}

/// Waits for the next message. `None` when the page ends.
async fn next_message(
    mut messages: watch::Receiver<Message>,
) -> Option<(watch::Receiver<Message>, Bytes)> {
    loop {
        messages.changed().await.ok()?;
        let message = messages.borrow_and_update().clone();
        if let Some(message) = message {
            return Some((messages, message));
        }
    }
}

impl Body for PageBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            PageBody::Whole(bytes) => Poll::Ready(bytes.take().map(|b| Ok(Frame::data(b)))),
            PageBody::Live(live) => match live.next.as_mut().poll(context) {
                Poll::Pending => Poll::Pending,
                Poll::Ready(None) => Poll::Ready(None),
                Poll::Ready(Some((messages, message))) => {
                    live.next = Box::pin(next_message(messages));
                    Poll::Ready(Some(Ok(Frame::data(message))))
                }
            },
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, PageBody::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            PageBody::Whole(bytes) => {
                let length = bytes.as_ref().map_or(0, Bytes::len);
                SizeHint::with_exact(length as u64)
            }
            PageBody::Live(_) => SizeHint::default(),
        }
    }
}
