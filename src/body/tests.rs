use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http_body_util::{BodyExt as _, StreamBody};

use super::*;

fn response(body: Body) -> Response {
    let url = Url::parse("http://host.example/path").unwrap();
    let mut response =
        http::Response::builder().status(429).header("x-kept", "1").url(url).body(body).unwrap();
    response.extensions_mut().insert(42_u8);
    Response::from(response)
}

fn far() -> Instant {
    clock::now() + Duration::from_secs(5)
}

/// Yields `first`, then stays silent for ever.
fn endless(first: &'static [u8]) -> Body {
    struct Endless(Option<Bytes>);
    impl http_body::Body for Endless {
        type Data = Bytes;
        type Error = Infallible;
        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            self.0.take().map_or(Poll::Pending, |data| Poll::Ready(Some(Ok(Frame::data(data)))))
        }
    }
    Body::wrap(Endless(Some(Bytes::from_static(first))))
}

#[tokio::test]
async fn a_response_comes_back_as_if_never_looked_into() {
    for body in ["", "short", &"long ".repeat(10_000)] {
        let original = response(Body::from(body.to_owned()));
        let length = original.content_length();
        let mut peeked = Peeked::unread(original);
        peeked.read(1000, far()).await;
        assert_eq!(peeked.text(1000), &body.as_bytes()[..body.len().min(1000)]);
        let back = peeked.into_response();
        assert_eq!(back.status(), 429);
        assert_eq!(back.url().as_str(), "http://host.example/path");
        assert_eq!(back.extensions().get::<u8>(), Some(&42));
        assert_eq!(back.headers()["x-kept"], "1");
        assert_eq!(back.content_length(), length);
        assert_eq!(back.text().await.unwrap(), body);
    }
}

#[tokio::test]
async fn many_frames_are_joined_up_to_the_bound_and_all_given_back() {
    let frames = (0..10).map(|n| Ok::<_, Infallible>(Frame::data(Bytes::from(vec![b'0' + n; 100]))));
    let body = Body::wrap(StreamBody::new(futures_of(frames)));
    let mut peeked = Peeked::unread(response(body));
    peeked.read(250, far()).await;
    assert_eq!(peeked.text(250).len(), 250);
    assert_eq!(peeked.text(250)[249], b'2');
    assert_eq!(peeked.into_response().bytes().await.unwrap().len(), 1000);
}

fn futures_of<T: Unpin>(items: impl Iterator<Item = T> + Unpin) -> impl futures_core::Stream<Item = T> {
    struct Items<I>(I);
    impl<I: Iterator + Unpin> futures_core::Stream for Items<I> {
        type Item = I::Item;
        fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<I::Item>> {
            Poll::Ready(self.0.next())
        }
    }
    Items(items)
}

#[tokio::test(start_paused = true)]
async fn a_body_that_never_ends_is_read_until_the_deadline_and_kept() {
    let until = clock::now() + Duration::from_secs(2);
    let mut peeked = Peeked::unread(response(endless(b"{\"error\"")));
    peeked.read_arrived(1000).await;
    assert!(clock::now() < until && !peeked.is_read(1000));
    peeked.read(1000, until).await;
    assert_eq!(clock::now(), until);
    assert_eq!(peeked.text(1000), &b"{\"error\""[..]);
    let mut back = peeked.into_response();
    assert_eq!(back.chunk().await.unwrap().unwrap(), &b"{\"error\""[..]);
}

/// Yields one frame with which it ends, and is not to be asked again.
struct Last(Option<Bytes>);

impl http_body::Body for Last {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(Some(Ok(Frame::data(self.0.take().expect("not asked again")))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_none()
    }
}

#[tokio::test]
async fn a_body_that_has_ended_is_not_asked_again_and_its_end_is_told_once() {
    struct Told(tokio::sync::mpsc::UnboundedSender<bool>);
    impl Held for Told {
        fn data(&mut self, data: &[u8]) {
            assert_eq!(data, b"all");
        }
        fn end(&mut self, cleanly: bool) {
            self.0.send(cleanly).unwrap();
        }
    }
    let (told, mut ends) = tokio::sync::mpsc::unbounded_channel();
    let held = hold(response(Body::wrap(Last(Some(Bytes::from_static(b"all"))))), false, Told(told));
    assert_eq!(held.bytes().await.unwrap(), "all");
    assert_eq!((ends.recv().await, ends.recv().await), (Some(true), None));
}

/// Yields frames and says when they are through, with trailers as the last.
struct Frames(VecDeque<Result<Frame<Bytes>, io::Error>>);

impl http_body::Body for Frames {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        Poll::Ready(self.0.pop_front())
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        let left = self.0.iter().flatten().filter_map(Frame::data_ref).map(|data| data.len() as u64).sum();
        SizeHint::with_exact(left)
    }
}

#[derive(Clone, Default)]
struct Noted(Arc<Mutex<Vec<String>>>);

impl Held for Noted {
    fn data(&mut self, data: &[u8]) {
        self.0.lock().unwrap().push(String::from_utf8_lossy(data).into_owned());
    }
    fn end(&mut self, cleanly: bool) {
        self.0.lock().unwrap().push(format!("end {cleanly}"));
    }
}

#[tokio::test]
async fn a_body_that_holds_gives_every_frame_on_and_says_of_itself_what_it_said_before() {
    let data = |data: &'static str| Ok(Frame::data(Bytes::from_static(data.as_bytes())));
    let trailers = || {
        let mut trailers = http::HeaderMap::new();
        trailers.insert("x-late", http::HeaderValue::from_static("1"));
        Ok(Frame::trailers(trailers))
    };
    let failure = || Err(io::Error::other("reset"));
    let cases = [
        (vec![data("one"), data(""), data("two"), trailers()], "one//two/end true"),
        (vec![trailers()], "end true"),
        (vec![data(""), data("two")], "/two/end true"),
        (vec![data("one"), failure()], "one/end false"),
        // Not even where something comes after an error is the end told twice, or kept from the reader what comes.
        (vec![data("one"), failure(), data("two"), trailers()], "one/end false"),
    ];
    for (frames, expected) in cases {
        let noted = Noted::default();
        let sent = frames.len();
        let with_trailers = frames.iter().flatten().any(Frame::is_trailers);
        let frames = Frames(frames.into());
        let left = frames.size_hint().exact();
        let held = hold(response(Body::wrap(frames)), false, noted.clone());
        let mut body = Body::from(held);
        assert_eq!(body.size_hint().exact(), left, "{expected}");
        let mut has_trailers = false;
        for _ in 0..sent {
            assert!(!body.is_end_stream(), "{expected}");
            let frame = body.frame().await.expect("as many as were sent");
            has_trailers |= frame.is_ok_and(|frame| frame.is_trailers());
        }
        assert!(body.is_end_stream(), "{expected}");
        assert_eq!(body.size_hint().exact(), Some(0), "{expected}");
        assert!(body.frame().await.is_none() && body.frame().await.is_none(), "{expected}");
        assert_eq!(noted.0.lock().unwrap().join("/"), expected);
        assert_eq!(has_trailers, with_trailers, "{expected}");
    }
}

/// A server may send nothing but frames with nothing in them, as fast as they are asked for.
#[tokio::test]
async fn a_body_of_empty_frames_is_read_up_to_the_bound() {
    struct Empty(Arc<Mutex<usize>>);
    impl http_body::Body for Empty {
        type Data = Bytes;
        type Error = Infallible;
        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            let mut given = self.0.lock().unwrap();
            *given += 1;
            assert!(*given <= 1_000, "without an end");
            Poll::Ready(Some(Ok(Frame::data(Bytes::new()))))
        }
    }
    let given = Arc::new(Mutex::new(0));
    let mut peeked = Peeked::unread(response(Body::wrap(Empty(Arc::clone(&given)))));
    peeked.read(100, far()).await;
    assert!(peeked.is_read(100));
    assert_eq!(*given.lock().unwrap(), 100);
}
