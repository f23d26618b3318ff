//! The middleware on real connections: what is sent again and how, what is read, and what reaches the caller.
//!
//! On the real clock, with short waits and one-sided bounds.
#![cfg(test)]

#[path = "support/server.rs"]
mod server;
mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::StreamBody;
use reqwest::{Body, Response};
use reqwest_admission::policy::{AdmissionPolicyBuilder, Backoff, OnSpill};
use reqwest_admission::reading::Profile;
use reqwest_admission::{Admission, AdmissionClient, AdmissionPolicy, CallReport, Reason, SpillOver};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Error};
use server::{Reply, Server, chunk, chunked, response};
use support::ms;
use tokio::sync::Notify;
use wiremock::matchers::{body_bytes, method};
use wiremock::{Mock, MockServer, ResponseTemplate};

/// Much longer than anything here takes, and much shorter than what is ruled out.
const SOON: Duration = Duration::from_secs(20);

/// Advice of 20 ms.
const SHORTLY: [(&str, &str); 1] = [("retry-after-ms", "20")];

/// A policy whose backoff is short.
fn quick() -> AdmissionPolicyBuilder {
    AdmissionPolicy::builder()
        .backoff(Backoff::default().base(ms(5)).cap(ms(10)).floor(ms(2)))
        .max_attempts(3)
}

/// Clients of the same policy: the layer on its own, and the owned stack.
fn clients(policy: AdmissionPolicyBuilder) -> [ClientWithMiddleware; 2] {
    let policy = policy.build().unwrap();
    let admission = Admission::builder().policy(policy.clone()).build().unwrap();
    let reqwest = || reqwest::Client::builder().no_proxy();
    [
        ClientBuilder::new(reqwest().build().unwrap()).with(admission).build(),
        AdmissionClient::builder(reqwest()).policy(policy).build().unwrap(),
    ]
}

/// The given replies in order, then 200s.
async fn in_order(replies: impl IntoIterator<Item = Reply>) -> Server {
    let replies = std::sync::Mutex::new(replies.into_iter().collect::<std::collections::VecDeque<_>>());
    Server::start(move |_, _| {
        replies.lock().unwrap().pop_front().unwrap_or_else(|| Reply::Whole(response(200, &[], "done")))
    })
    .await
}

#[tokio::test]
async fn a_refusal_with_milliseconds_is_waited_out_and_sent_again() {
    for client in clients(quick()) {
        let server = MockServer::start().await;
        let refusal = ResponseTemplate::new(429).insert_header("retry-after-ms", "50");
        Mock::given(method("GET")).respond_with(refusal).up_to_n_times(1).mount(&server).await;
        Mock::given(method("GET")).respond_with(ResponseTemplate::new(200)).mount(&server).await;
        let start = Instant::now();
        let response = client.get(server.uri()).send().await.unwrap();
        assert_eq!(response.status(), 200);
        assert!(start.elapsed() >= ms(50));
        assert_eq!(server.received_requests().await.unwrap().len(), 2);
    }
}

#[tokio::test]
async fn the_body_of_a_post_is_sent_again_byte_for_byte() {
    let bytes: Vec<u8> = (0..300_000_u32).map(|n| n.to_le_bytes()[0] ^ n.to_le_bytes()[1]).collect();
    for client in clients(quick()) {
        let server = MockServer::start().await;
        let refusal = ResponseTemplate::new(429).insert_header("retry-after-ms", "5");
        let post = || Mock::given(method("POST")).and(body_bytes(bytes.clone()));
        post().respond_with(refusal).up_to_n_times(2).mount(&server).await;
        post().respond_with(ResponseTemplate::new(201)).mount(&server).await;
        let response =
            client.post(server.uri()).header("x-own", "1").body(bytes.clone()).send().await.unwrap();
        assert_eq!(response.status(), 201);
        let requests = server.received_requests().await.unwrap();
        assert_eq!(requests.len(), 3);
        for request in requests {
            assert_eq!(request.body, bytes);
            assert_eq!(request.headers["content-length"], "300000");
            assert_eq!(request.headers["x-own"], "1");
            assert!(!request.headers.contains_key("transfer-encoding"));
        }
    }
}

#[tokio::test]
async fn the_bodies_of_refusals_are_read_to_their_end_so_that_the_connection_is_used_again() {
    for client in clients(quick()) {
        let server = Server::start(|number, _| match number % 2 {
            0 => Reply::Whole(response(429, &SHORTLY, "x".repeat(60_000))),
            _ => Reply::Whole(response(200, &[], "done")),
        })
        .await;
        for _ in 0..4 {
            let response = client.get(&server.url).send().await.unwrap();
            assert_eq!(response.text().await.unwrap(), "done");
        }
        assert_eq!((server.count(), server.connections()), (8, 1));
    }
}

#[tokio::test]
async fn a_refusal_whose_body_never_ends_is_not_waited_for() {
    // By length, by chunks, and of the sort that trickles too little.
    let endless = [
        [&response(429, &SHORTLY, "")[..19], b"retry-after-ms: 20\r\ncontent-length: 1000000\r\n\r\n{"]
            .concat(),
        chunked(429, &SHORTLY, "{"),
    ];
    for bytes in endless {
        for client in clients(quick().body_read_timeout(ms(100))) {
            let server = in_order([Reply::ThenHang(bytes.clone())]).await;
            let start = Instant::now();
            let response = client.get(&server.url).send().await.unwrap();
            assert_eq!((response.status().as_u16(), server.count()), (200, 2));
            assert!(start.elapsed() >= ms(20) && start.elapsed() < SOON);
            // A body that was left half read takes its connection with it.
            assert_eq!(server.connections(), 2);
        }
    }
}

#[tokio::test]
async fn a_body_that_streams_is_sent_once_and_a_refusal_comes_back_in_hand() {
    for client in clients(quick()) {
        let server = in_order([Reply::Whole(response(429, &SHORTLY, "busy"))]).await;
        let frames = [&b"one "[..], b"two"].map(|part| Ok::<_, std::convert::Infallible>(Bytes::from(part)));
        let frames = frames.map(|part| part.map(http_body::Frame::data));
        let body = Body::wrap(StreamBody::new(Parts(frames.into_iter())));
        let outcome = client.post(&server.url).body(body).send().await;
        let arrived = server.arrived();
        assert_eq!(arrived.len(), 1);
        assert_eq!(arrived[0].header("transfer-encoding"), Some("chunked"));
        let sent = String::from_utf8_lossy(&arrived[0].body).into_owned();
        assert!(sent.contains("one ") && sent.contains("two"), "{sent}");
        let spill = SpillOver::of(&outcome).unwrap();
        assert_eq!(spill.reason(), Reason::BodyNotReplayable);
        assert_eq!((spill.status().unwrap().as_u16(), spill.body()), (429, &b"busy"[..]));
        assert_eq!(spill.headers().unwrap()["retry-after-ms"], "20");

        // A success of such a body is nothing special.
        let body = Body::wrap(http_body_util::Full::new(Bytes::from("once")));
        assert_eq!(client.post(&server.url).body(body).send().await.unwrap().status(), 200);
    }
}

/// An iterator as a stream that is always ready.
struct Parts<I>(I);

impl<I: Iterator + Unpin> futures_core::Stream for Parts<I> {
    type Item = I::Item;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<I::Item>> {
        std::task::Poll::Ready(self.0.next())
    }
}

#[tokio::test]
async fn a_connection_that_is_refused_is_tried_again_for_any_method_and_the_error_is_reqwests_own() {
    for client in clients(quick()) {
        for method in [http::Method::GET, http::Method::POST] {
            let report = CallReport::new();
            // Nothing can listen on port 0.
            let call = client.request(method, "http://127.0.0.1:0/").body("bytes");
            let outcome = call.with_extension(report.clone()).send().await;
            assert!(SpillOver::of(&outcome).is_none());
            let Err(Error::Reqwest(error)) = outcome else { panic!("{outcome:?}") };
            assert!(error.is_connect(), "{error:?}");
            assert_eq!(report.attempts(), 3);
        }
    }
}

#[tokio::test]
async fn a_server_that_comes_up_within_the_budget_is_reached() {
    let policy = AdmissionPolicy::builder()
        .backoff(Backoff::default().base(ms(200)).cap(ms(200)).floor(ms(200)))
        .max_attempts(100);
    for client in clients(policy) {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let call = tokio::spawn(client.post(format!("http://{address}/")).body("bytes").send());
        tokio::time::sleep(ms(50)).await;
        // Somebody else may have taken the port by now; then there is nothing to see.
        let Ok(listener) = tokio::net::TcpListener::bind(address).await else { continue };
        let (mut stream, _) = listener.accept().await.unwrap();
        let whole = response(200, &[("connection", "close")], "up");
        tokio::io::AsyncWriteExt::write_all(&mut stream, &whole).await.unwrap();
        assert_eq!(call.await.unwrap().unwrap().status(), 200);
    }
}

#[tokio::test]
async fn a_lost_connection_is_tried_again_only_where_that_is_harmless() {
    let losses: [fn() -> Reply; 2] = [
        || Reply::ThenClose(Vec::new()),
        // In the middle of the head.
        || Reply::ThenClose(b"HTTP/1.1 200 OK\r\ncontent-".to_vec()),
    ];
    for loss in losses {
        for (method, key, sends) in
            [("GET", false, 3), ("PUT", false, 3), ("POST", false, 1), ("POST", true, 3)]
        {
            for client in clients(quick()) {
                let server = Server::start(move |_, _| loss()).await;
                let mut call = client.request(method.parse().unwrap(), &server.url).body("bytes");
                if key {
                    call = call.header("idempotency-key", "one");
                }
                let outcome = call.send().await;
                assert_eq!(server.count(), sends, "{method}, key {key}");
                let Err(Error::Reqwest(error)) = outcome else { panic!("{outcome:?}") };
                assert!(error.is_request() && !error.is_connect(), "{error:?}");
                assert!(server.arrived().iter().all(|arrived| arrived.body == b"bytes"));
            }
        }
    }
}

#[tokio::test]
async fn a_body_of_a_success_that_breaks_off_is_the_callers_to_see() {
    for client in clients(quick()) {
        let mut broken = response(200, &[], "x".repeat(1000));
        broken.truncate(broken.len() - 1);
        let server = in_order([Reply::ThenClose(broken)]).await;
        let response = client.get(&server.url).send().await.unwrap();
        assert_eq!(response.status(), 200);
        assert!(response.bytes().await.is_err());
        assert_eq!(server.count(), 1);
    }
}

#[tokio::test]
async fn a_body_of_a_refusal_that_breaks_off_changes_nothing_about_the_wait() {
    for client in clients(quick()) {
        let mut broken = response(429, &SHORTLY, "x".repeat(1000));
        broken.truncate(broken.len() - 1);
        let server = in_order([Reply::ThenClose(broken)]).await;
        assert_eq!(client.get(&server.url).send().await.unwrap().status(), 200);
        assert_eq!(server.count(), 2);
    }
}

#[tokio::test]
async fn a_minted_key_is_the_same_on_each_attempt_and_another_for_each_call() {
    for client in clients(quick().mint_idempotency_key(true)) {
        let server = Server::start(|_, _| Reply::ThenClose(Vec::new())).await;
        for _ in 0..2 {
            assert!(client.post(&server.url).body("bytes").send().await.is_err());
        }
        let keys: Vec<_> = server
            .arrived()
            .iter()
            .map(|arrived| arrived.header("idempotency-key").unwrap().to_owned())
            .collect();
        assert_eq!(keys.len(), 6);
        assert!(keys[..3].iter().all(|key| *key == keys[0]) && keys[3..].iter().all(|key| *key == keys[3]));
        assert_ne!(keys[0], keys[3]);
        for key in keys {
            assert_eq!(key.split('-').map(str::len).collect::<Vec<_>>(), [8, 4, 4, 4, 12]);
            assert!(key[14..].starts_with('4') && key[19..].starts_with(['8', '9', 'a', 'b']), "{key}");
        }
    }
}

#[tokio::test]
async fn a_timeout_of_the_request_is_for_each_attempt_and_repeated_where_that_is_harmless() {
    for (method, sends) in [("GET", 2), ("POST", 1)] {
        for client in clients(quick()) {
            let server = in_order([Reply::ThenHang(Vec::new())]).await;
            let call = client.request(method.parse().unwrap(), &server.url).timeout(ms(300)).body("bytes");
            let start = Instant::now();
            let outcome = call.send().await;
            assert!(start.elapsed() >= ms(300) && start.elapsed() < SOON);
            assert_eq!(server.count(), sends, "{method}");
            match (outcome, sends) {
                (Ok(response), 2) => assert_eq!(response.status(), 200),
                (Err(Error::Reqwest(error)), 1) => assert!(error.is_timeout(), "{error:?}"),
                (other, _) => panic!("{other:?}"),
            }
        }
    }
}

#[tokio::test]
async fn a_timeout_of_the_request_in_a_refusals_body_ends_the_reading_and_not_the_call() {
    for client in clients(quick().body_read_timeout(Duration::from_secs(60))) {
        let server = in_order([Reply::ThenHang(chunked(429, &SHORTLY, "{"))]).await;
        let start = Instant::now();
        let response = client.post(&server.url).timeout(ms(300)).send().await.unwrap();
        assert_eq!((response.status().as_u16(), server.count()), (200, 2));
        assert!(start.elapsed() < SOON);
    }
}

#[tokio::test]
async fn the_latency_budget_cuts_an_attempt_without_a_head_but_never_a_body_that_has_begun() {
    for client in clients(quick().latency_budget(ms(500))) {
        let server = in_order([Reply::ThenHang(Vec::new())]).await;
        let start = Instant::now();
        let outcome = client.get(&server.url).send().await;
        let spill = SpillOver::of(&outcome).unwrap();
        assert!(start.elapsed() >= ms(500) && start.elapsed() < SOON);
        assert_eq!((spill.reason(), spill.status()), (Reason::NoResponse, None));
        assert!(spill.possibly_processed());

        let told = Arc::new(Notify::new());
        let rest = [chunk("two"), chunk("")].concat();
        let server = in_order([Reply::InTwo(chunked(200, &[], "one "), Arc::clone(&told), rest)]).await;
        let response = client.get(&server.url).send().await.unwrap();
        tokio::time::sleep(ms(600)).await;
        told.notify_one();
        assert_eq!(response.text().await.unwrap(), "one two");
    }
}

/// Status, url, version, headers and length of a response, as one text.
fn face(response: &Response) -> String {
    let mut headers: Vec<_> =
        response.headers().iter().map(|(name, value)| format!("{name}: {value:?}")).collect();
    headers.sort();
    format!(
        "{} {} {:?} {:?} {:?}\n{}",
        response.status(),
        response.url(),
        response.version(),
        response.content_length(),
        response.remote_addr(),
        headers.join("\n")
    )
}

#[tokio::test]
async fn a_response_that_is_handed_on_differs_in_nothing_from_one_without_the_layer() {
    let large = "error ".repeat(50_000);
    let headers = [("x-kept", "1"), ("x-kept", "2"), ("set-cookie", "a=b"), ("x-ratelimit-remaining", "7")];
    // Statuses whose bodies are read, and others; short ones and ones longer than what is looked at.
    for status in [200, 206, 301, 400, 401, 403, 404, 413, 500, 503] {
        for body in ["", "short", &large] {
            for by_chunks in [false, true] {
                let bytes = match by_chunks {
                    true => [chunked(status, &headers, body), chunk("")].concat(),
                    false => response(status, &headers, body),
                };
                // An empty chunk is the end already.
                let bytes = if by_chunks && body.is_empty() { chunked(status, &headers, "") } else { bytes };
                let server = Server::start(move |_, _| Reply::Whole(bytes.clone())).await;
                let bare = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none());
                let bare = bare.build().unwrap();
                let policy = quick().on_spill(OnSpill::Response).build().unwrap();
                // This profile reads the bodies of more statuses than others.
                let admission = Admission::builder().policy(policy).profile(Profile::named("github"));
                let client = ClientBuilder::new(bare.clone()).with(admission.build().unwrap()).build();
                let plain = bare.get(&server.url).send().await.unwrap();
                let response = client.get(&server.url).send().await.unwrap();
                assert_eq!(face(&response), face(&plain));
                assert!(response.extensions().get::<CallReport>().is_some());
                assert_eq!(response.text().await.unwrap(), body, "{status}");
            }
        }
    }
}

#[tokio::test]
async fn a_marked_refusal_whose_body_broke_off_keeps_its_length_and_its_fault() {
    for client in clients(quick().on_spill(OnSpill::Response)) {
        let mut broken = response(429, &[("retry-after", "99")], "x".repeat(1000));
        broken.truncate(broken.len() - 1);
        let server = in_order([Reply::ThenClose(broken)]).await;
        let outcome = client.get(&server.url).send().await;
        assert_eq!(SpillOver::of(&outcome).unwrap().body().len(), 999);
        let response = outcome.unwrap();
        assert_eq!(response.content_length(), Some(1000));
        assert!(response.bytes().await.is_err());
    }
}

#[tokio::test]
async fn extensions_and_address_of_a_response_that_was_looked_into_are_kept() {
    for status in [200, 404, 429] {
        let server =
            Server::start(move |_, _| Reply::Whole(response(status, &[("retry-after", "99")], "{}"))).await;
        let policy = quick().on_spill(OnSpill::Response).build().unwrap();
        let admission = Admission::builder().policy(policy).build().unwrap();
        let client = ClientBuilder::new(reqwest::Client::builder().no_proxy().build().unwrap())
            .with(admission)
            .with(Marking)
            .build();
        let response = client.get(&server.url).send().await.unwrap();
        assert_eq!(response.extensions().get::<Mark>(), Some(&Mark(7)));
        assert_eq!(response.url().as_str(), server.url);
        assert!(response.remote_addr().is_some());
        assert_eq!(response.extensions().get::<SpillOver>().is_some(), status == 429);
    }
}

#[derive(Debug, Clone, PartialEq)]
struct Mark(u8);

/// Leaves a mark on every response.
struct Marking;

#[async_trait::async_trait]
impl reqwest_middleware::Middleware for Marking {
    async fn handle(
        &self,
        request: reqwest::Request,
        extensions: &mut http::Extensions,
        next: reqwest_middleware::Next<'_>,
    ) -> reqwest_middleware::Result<Response> {
        let mut response = next.run(request, extensions).await?;
        response.extensions_mut().insert(Mark(7));
        Ok(response)
    }
}

#[tokio::test]
async fn errors_keep_their_whole_body_after_the_last_attempt() {
    let large = "error ".repeat(50_000);
    for client in clients(quick()) {
        for (status, sends) in [(400, 1), (404, 1), (500, 3), (504, 3)] {
            let bytes = response(status, &[], &large);
            let server = Server::start(move |_, _| Reply::Whole(bytes.clone())).await;
            let response = client.get(&server.url).send().await.unwrap();
            assert_eq!((response.status().as_u16(), server.count()), (status, sends));
            assert_eq!(response.text().await.unwrap(), large);
        }
    }
}

#[tokio::test]
async fn an_error_that_streams_is_handed_on_before_its_end() {
    for status in [200, 404] {
        for client in clients(quick()) {
            let told = Arc::new(Notify::new());
            let rest = [chunk("two"), chunk("")].concat();
            let server =
                in_order([Reply::InTwo(chunked(status, &[], "one "), Arc::clone(&told), rest)]).await;
            // The second part is not sent before the first one is in the caller's hands.
            let mut response = client.get(&server.url).send().await.unwrap();
            assert_eq!(response.chunk().await.unwrap().unwrap(), "one ");
            told.notify_one();
            assert_eq!(response.text().await.unwrap(), "two");
        }
    }
}

#[tokio::test]
async fn a_marked_refusal_that_streams_is_handed_on_with_the_rest_of_its_body() {
    let policy = quick().on_spill(OnSpill::Response).body_read_timeout(ms(100));
    for client in clients(policy) {
        let told = Arc::new(Notify::new());
        let (first, rest) = ("x".repeat(100), [chunk("the rest"), chunk("")].concat());
        let begin = chunked(429, &[("retry-after", "99")], &first);
        let server = in_order([Reply::InTwo(begin, Arc::clone(&told), rest)]).await;
        let outcome = client.get(&server.url).send().await;
        let spill = SpillOver::of(&outcome).unwrap().clone();
        assert_eq!(spill.body(), first.as_bytes());
        told.notify_one();
        assert_eq!(outcome.unwrap().text().await.unwrap(), format!("{first}the rest"));
    }
}

/// A client whose connections all fail with the error that `fail` makes.
fn unconnected(policy: AdmissionPolicyBuilder, fail: fn() -> std::io::Error) -> ClientWithMiddleware {
    type Any = Box<dyn std::error::Error + Send + Sync>;
    let layer = tower::util::MapErrLayer::new(move |_: Any| Any::from(fail()));
    let client = reqwest::Client::builder().no_proxy().connector_layer(layer).build().unwrap();
    let admission = Admission::builder().policy(policy.build().unwrap()).build().unwrap();
    ClientBuilder::new(client).with(admission).build()
}

#[tokio::test]
async fn a_connection_that_no_repeat_can_mend_is_tried_once_and_a_name_at_most_once_more() {
    use std::io::{Error as Io, ErrorKind};
    let plain = || clients(quick()).into_iter().next().unwrap();
    let with = |fail| unconnected(quick(), fail);
    let certificate =
        || Io::other(Io::new(ErrorKind::InvalidData, "invalid peer certificate: UnknownIssuer"));
    let name = || Io::other("failed to lookup address information: Name or service not known");
    let reset = || Io::from(ErrorKind::ConnectionReset);
    let handshake = || Io::other(Io::from(ErrorKind::UnexpectedEof));
    let here = "http://127.0.0.1:0/";
    for (line, client, url, sends) in [
        // The tests' reqwest has no TLS.
        ("a scheme that is not compiled in", plain(), "https://127.0.0.1:0/", 1..=1),
        ("a certificate", with(certificate), here, 1..=1),
        ("a name that does not resolve", plain(), "http://no-such-host.invalid/", 1..=2),
        ("a resolver's no", with(name), here, 1..=2),
        ("a connection that is reset", with(reset), here, 3..=3),
        ("a handshake that breaks off", with(handshake), here, 3..=3),
        ("a connection that is refused", plain(), here, 3..=3),
    ] {
        for method in [http::Method::GET, http::Method::POST] {
            let report = CallReport::new();
            let outcome = client.request(method, url).with_extension(report.clone()).send().await;
            let Err(Error::Reqwest(error)) = outcome else { panic!("{line}: {outcome:?}") };
            assert!(error.is_connect(), "{line}: {error:?}");
            assert!(sends.contains(&report.attempts()), "{line}: {} attempts", report.attempts());
        }
    }
}

#[tokio::test]
async fn a_target_with_which_no_connection_can_come_about_is_no_error_of_the_callers() {
    let server = Server::start(|_, _| Reply::Whole(response(429, &[("retry-after", "99")], "busy"))).await;
    let primary = server.url.split("/v1").next().unwrap();
    let standby = reqwest_admission::Deployment::new("standby", "https://127.0.0.1:0").api_key("theirs");
    let admission = Admission::builder().policy(quick().build().unwrap()).primary(primary).spill_to(standby);
    let reqwest = reqwest::Client::builder().no_proxy().build().unwrap();
    let client = ClientBuilder::new(reqwest).with(admission.build().unwrap()).build();
    let outcome = client.post(&server.url).body("bytes").send().await;
    let spill = SpillOver::of(&outcome).unwrap();
    assert_eq!((spill.reason(), spill.attempts()), (Reason::Unreachable, 2));
    assert_eq!((spill.status().unwrap().as_u16(), spill.body()), (429, &b"busy"[..]));
}
