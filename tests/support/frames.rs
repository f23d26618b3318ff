//! A response body in pieces: with pauses, without an end, with an error, with a panic.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part of this")]

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::Frame;
use tokio::time::Sleep;

#[derive(Debug, Clone)]
pub enum Piece {
    Data(Bytes),
    Pause(Duration),
    /// The connection is lost.
    Fail,
    Panic,
    /// Nothing more comes, for ever.
    Hang,
}

pub fn data(text: impl Into<String>) -> Piece {
    Piece::Data(text.into().into())
}

/// How many bodies are open, and the most that ever were.
#[derive(Debug, Clone, Default)]
pub struct Open(Arc<(AtomicUsize, AtomicUsize)>);

impl Open {
    pub fn now(&self) -> usize {
        self.0.0.load(Ordering::SeqCst)
    }

    pub fn most(&self) -> usize {
        self.0.1.load(Ordering::SeqCst)
    }
}

pub struct Frames {
    pieces: VecDeque<Piece>,
    pause: Option<Pin<Box<Sleep>>>,
    open: Open,
}

impl Frames {
    pub fn body(pieces: impl IntoIterator<Item = Piece>) -> reqwest::Body {
        Self::counted(pieces, &Open::default())
    }

    /// A body that is counted as long as it is open.
    pub fn counted(pieces: impl IntoIterator<Item = Piece>, open: &Open) -> reqwest::Body {
        let now = open.0.0.fetch_add(1, Ordering::SeqCst) + 1;
        open.0.1.fetch_max(now, Ordering::SeqCst);
        reqwest::Body::wrap(Self { pieces: pieces.into_iter().collect(), pause: None, open: open.clone() })
    }
}

impl Drop for Frames {
    fn drop(&mut self) {
        self.open.0.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl http_body::Body for Frames {
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
            return Poll::Ready(match self.pieces.pop_front() {
                None => None,
                Some(Piece::Data(data)) => Some(Ok(Frame::data(data))),
                Some(Piece::Fail) => Some(Err(std::io::Error::other("the connection was lost"))),
                Some(Piece::Panic) => panic!("a body that panics"),
                Some(Piece::Hang) => {
                    self.pieces.push_front(Piece::Hang);
                    return Poll::Pending;
                }
                Some(Piece::Pause(pause)) => {
                    self.pause = Some(Box::pin(tokio::time::sleep(pause)));
                    continue;
                }
            });
        }
    }

    fn is_end_stream(&self) -> bool {
        self.pieces.is_empty()
    }
}
