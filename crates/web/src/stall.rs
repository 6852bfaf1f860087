//! Stream that ends if its peer reads too slowly, or is not admitted in time.

use crate::visitors::Place;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// Wrapper of a stream.
pub(crate) struct Stall<S> {
    stream: S,
    patience: Duration,
    /// Timer that runs while the peer takes nothing.
    until: Option<Pin<Box<Sleep>>>,
    /// Place of a peer that is still a stranger, and the end of its time.
    stranger: Option<(Arc<Place>, Pin<Box<Sleep>>)>,
}

impl<S> Stall<S> {
    /// Wraps `stream`. `patience` is the longest time in which the peer may take nothing of the
    /// pending data, and in which it must become a viewer.
    pub fn new(stream: S, patience: Duration, place: Arc<Place>) -> Stall<S> {
        Stall {
            stream,
            patience,
            until: None,
            stranger: Some((place, Box::pin(sleep(patience)))),
        }
    }

    /// Whether the peer is a stranger whose time is over.
    fn is_late(&mut self, context: &mut Context<'_>) -> bool {
        let Some((place, end)) = &mut self.stranger else {
            return false;
        };
        if place.is_viewer() {
            self.stranger = None;
            return false;
        }
        end.as_mut().poll(context).is_ready()
    }

    /// Returns `wrote`, or an error if it has been pending for too long.
    fn judge<T>(
        &mut self,
        context: &mut Context<'_>,
        wrote: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if wrote.is_ready() {
            self.until = None;
            return wrote;
        }
        let patience = self.patience;
        let until = self.until.get_or_insert_with(|| Box::pin(sleep(patience)));
        match until.as_mut().poll(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(()) => {
                // Another poll must not find an expired timer.
                until.as_mut().reset(Instant::now() + patience);
                let text = "the reader takes nothing";
                Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, text)))
            }
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Stall<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.is_late(context) {
            // Another poll must not find an expired timer.
            this.stranger = None;
            let text = "the peer has shown nothing that lets it in";
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, text)));
        }
        Pin::new(&mut this.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Stall<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let wrote = Pin::new(&mut this.stream).poll_write(context, bytes);
        this.judge(context, wrote)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let flushed = Pin::new(&mut this.stream).poll_flush(context);
        this.judge(context, flushed)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let wrote = Pin::new(&mut this.stream).poll_write_vectored(context, buffers);
        this.judge(context, wrote)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
