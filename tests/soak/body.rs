//! Bodies in pieces, and the note of their end.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::Frame;
use tokio::time::Sleep;

use super::log::Ms;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Piece {
    Data,
    Pause(Ms),
    /// The connection is lost.
    Fail,
    /// Nothing more comes.
    Hang,
}

/// A body that drops `over` when it has ended or failed, or with itself.
pub(crate) struct Streamed<T> {
    pieces: VecDeque<Piece>,
    pause: Option<Pin<Box<Sleep>>>,
    over: Option<T>,
}

impl<T: Send + Sync + Unpin + 'static> Streamed<T> {
    pub(crate) fn body(pieces: Vec<Piece>, over: T) -> reqwest::Body {
        let over = (!pieces.is_empty()).then_some(over);
        reqwest::Body::wrap(Self { pieces: pieces.into(), pause: None, over })
    }
}

impl<T: Send + Sync + Unpin + 'static> http_body::Body for Streamed<T> {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        loop {
            if let Some(pause) = &mut self.pause {
                ready!(pause.as_mut().poll(context));
                self.pause = None;
            }
            let frame = match self.pieces.pop_front() {
                None => None,
                Some(Piece::Data) => Some(Ok(Frame::data(Bytes::from_static(b"some text")))),
                Some(Piece::Fail) => {
                    self.pieces.clear();
                    Some(Err(std::io::Error::other("the connection was lost")))
                }
                Some(Piece::Hang) => {
                    // Whoever asks again hangs again.
                    self.pieces.push_front(Piece::Hang);
                    return Poll::Pending;
                }
                Some(Piece::Pause(pause)) => {
                    self.pause = Some(Box::pin(tokio::time::sleep(Duration::from_millis(pause))));
                    continue;
                }
            };
            if self.pieces.is_empty() {
                self.over = None;
            }
            return Poll::Ready(frame);
        }
    }

    fn is_end_stream(&self) -> bool {
        self.pieces.is_empty() && self.pause.is_none()
    }
}
