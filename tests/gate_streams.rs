//! Responses that hold their permit to the end of their body, and what their bodies say was used. Over a real wire.
#![cfg(test)]

#[path = "support/frames.rs"]
mod frames;
#[path = "support/server.rs"]
mod server;
mod support;

use std::sync::Arc;
use std::time::Duration;

use frames::{Frames, Piece, data};
use http_body_util::BodyExt as _;
use reqwest_admission::gate::{Gate, ScopeKey};
use reqwest_admission::pace::{Limits, TokenEstimate, TokenUsage};
use reqwest_admission::units::QuotaUnit;
use reqwest_admission::{Admission, AdmissionBuilder, CallReport};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
use server::{Reply, Server, chunk, chunked, response};
use support::{Answer, Origin, ms};
use tokio::sync::Notify;
use tokio::time::Instant;

const URL: &str = "https://api.example/v1/items";
const SSE: (&str, &str) = ("content-type", "text/event-stream; charset=utf-8");

fn gated(limits: Limits) -> (Gate, AdmissionBuilder) {
    let gate = Gate::builder().limits(limits).build().unwrap();
    (gate.clone(), Admission::builder().gate(gate).scope_by(|_| ScopeKey::new("scope")))
}

fn wired(admission: AdmissionBuilder) -> ClientWithMiddleware {
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    ClientBuilder::new(client).with(admission.build().unwrap()).build()
}

fn in_flight(gate: &Gate) -> u32 {
    gate.snapshot(Instant::now().into_std()).scopes[0].in_flight
}

fn level(gate: &Gate, unit: QuotaUnit) -> f64 {
    let scope = gate.snapshot(Instant::now().into_std()).scopes.remove(0);
    scope.units.iter().find(|state| state.unit == unit).unwrap().level.unwrap()
}

/// A second stream waits for the first, however that one ends, and for nothing else.
async fn holds_until(end: &str) {
    let told = Arc::new(Notify::new());
    let server = Server::start({
        let told = Arc::clone(&told);
        let end = end.to_owned();
        move |n, _| {
            let first = chunked(200, &[SSE], "data: {\"delta\":1}\n\n");
            match (n, &*end) {
                (0, "end") => {
                    Reply::InTwo(first, Arc::clone(&told), [chunk("data: [DONE]\n\n"), chunk("")].concat())
                }
                (0, "error") => Reply::InTwo(first, Arc::clone(&told), b"no chunk\r\n".to_vec()),
                (0, _) => Reply::ThenHang(first),
                _ => Reply::Whole(response(200, &[], "second")),
            }
        }
    })
    .await;
    let (gate, admission) = gated(Limits::new().concurrency(1));
    let client = wired(admission);
    let mut stream = client.get(&server.url).send().await.unwrap();
    assert_eq!(stream.status(), 200);
    assert_eq!(in_flight(&gate), 1, "{end}: headers are there, the body is not");
    let second = tokio::spawn(client.get(&server.url).send());
    assert_eq!(stream.chunk().await.unwrap().unwrap(), "data: {\"delta\":1}\n\n");
    // On one thread the second runs until it waits for its turn.
    while gate.snapshot(Instant::now().into_std()).scopes[0].waiting.normal == 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!((in_flight(&gate), server.count()), (1, 1), "{end}: half read");
    match end {
        "end" => {
            told.notify_one();
            assert_eq!(stream.text().await.unwrap(), "data: [DONE]\n\n");
        }
        "error" => {
            told.notify_one();
            assert!(stream.chunk().await.is_err());
            // The response is still there, its permit is not.
            assert_eq!(in_flight(&gate), 1, "the second has it");
            assert_eq!(second.await.unwrap().unwrap().text().await.unwrap(), "second");
            drop(stream);
            assert_eq!((in_flight(&gate), server.count()), (0, 2));
            return;
        }
        _ => drop(stream),
    }
    assert_eq!(second.await.unwrap().unwrap().text().await.unwrap(), "second");
    assert_eq!((in_flight(&gate), server.count()), (0, 2), "{end}");
}

#[tokio::test]
async fn law_8_a_stream_holds_its_permit_to_its_end() {
    holds_until("end").await;
}

#[tokio::test]
async fn law_8_a_stream_holds_its_permit_until_it_fails() {
    holds_until("error").await;
}

#[tokio::test]
async fn law_8_a_stream_holds_its_permit_until_it_is_dropped() {
    holds_until("drop").await;
}

#[tokio::test]
async fn law_8_a_response_without_a_body_holds_nothing_even_where_it_is_kept() {
    let server = Server::start(|n, _| match n {
        0 => Reply::Whole(b"HTTP/1.1 204 No Content\r\n\r\n".to_vec()),
        1 => Reply::Whole(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n".to_vec()),
        2 => Reply::Whole(b"HTTP/1.1 304 Not Modified\r\n\r\n".to_vec()),
        _ => Reply::Whole(response(200, &[], "")),
    })
    .await;
    let (gate, admission) = gated(Limits::new().concurrency(1));
    let client = wired(admission);
    let mut kept = Vec::new();
    for method in [http::Method::DELETE, http::Method::HEAD, http::Method::GET, http::Method::GET] {
        let response = client.request(method.clone(), &server.url).send().await.unwrap();
        assert_eq!(in_flight(&gate), 0, "{method} {}", response.status());
        kept.push(response);
    }
    assert_eq!(kept[1].headers()["content-length"], "1000");
}

#[derive(Clone)]
struct Mark;

#[tokio::test]
async fn a_held_response_looks_as_it_did() {
    let server = Server::start(|_, _| {
        Reply::Whole(response(200, &[("x-own", "kept"), ("content-type", "application/json")], "{\"a\": 1}"))
    })
    .await;
    let (gate, admission) = gated(Limits::new().concurrency(1));
    let client = wired(admission.settle_from_usage(true));
    let plain = reqwest::Client::builder().no_proxy().build().unwrap();
    let plain = plain.get(&server.url).send().await.unwrap();
    let mut held = client.get(&server.url).send().await.unwrap();
    assert_eq!(in_flight(&gate), 1);
    assert_eq!(held.url(), plain.url());
    assert_eq!((held.status(), held.version()), (plain.status(), plain.version()));
    assert_eq!(held.content_length(), Some(8));
    assert_eq!(held.headers(), plain.headers());
    assert_eq!(held.remote_addr(), plain.remote_addr(), "an extension of reqwest's own");
    held.extensions_mut().insert(Mark);
    assert!(held.extensions().get::<CallReport>().is_some());
    // As another stack would have it: the permit goes along, and so does everything else.
    let converted = http::Response::<reqwest::Body>::from(held);
    assert!(converted.extensions().get::<Mark>().is_some());
    assert_eq!(in_flight(&gate), 1);
    assert_eq!(converted.into_body().collect().await.unwrap().to_bytes(), "{\"a\": 1}");
    assert_eq!(in_flight(&gate), 0);
}

/// Name, content type, pieces, and the tokens in and out that they state.
type Stated = (&'static str, &'static str, Vec<&'static str>, (u64, u64));

/// Bodies of successes.
fn bodies() -> Vec<Stated> {
    vec![
        (
            "OpenAI, whole",
            "application/json",
            vec![
                r#"{"id":"x","choices":[{"message":{"content":"{\"usage\":{\"prompt_tokens\":9}}"}}],"usage":{"prompt_tok"#,
                r#"ens":700,"completion_tokens":200,"total_tokens":900,"prompt_tokens_details":{"cached_tokens":100}}}"#,
            ],
            (600, 200),
        ),
        (
            "OpenAI, streamed",
            "text/event-stream",
            vec![
                "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}],\"usage\":null}\n\n",
                "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":700,\"completion_tokens\":50}}\n\ndata: [DO",
                "NE]\n\n",
            ],
            (700, 50),
        ),
        (
            "Responses API, streamed",
            "text/event-stream",
            vec![
                "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"usage\":",
                "{\"input_tokens\":30,\"output_tokens\":20,\"total_tokens\":50}}}\n\n",
            ],
            (30, 20),
        ),
        (
            "Anthropic, whole",
            "application/json; charset=utf-8",
            vec![
                r#"{"type":"message","content":[],"usage":{"input_tokens":10,"cache_creation_input_tokens":5,"#,
                r#""cache_read_input_tokens":400,"output_tokens":7}}"#,
            ],
            (15, 7),
        ),
        (
            "Anthropic, streamed",
            "text/event-stream",
            vec![
                "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":1200,\"output_tokens\":1}}}\n\n",
                "event: message_delta\ndata: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":",
                "300}}\n\n",
                "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
            ],
            (1_200, 300),
        ),
        (
            "Gemini, whole",
            "application/json",
            vec![
                r#"{"candidates":[],"usageMetadata":{"promptTokenCount":800,"candidatesTokenCount":100,"thoughtsTokenCount":50}}"#,
            ],
            (800, 150),
        ),
        (
            "Gemini, streamed",
            "text/event-stream",
            vec![
                "data: {\"usageMetadata\":{\"promptTokenCount\":800,\"candidatesTokenCount\":1}}\r\n\r\n",
                "data: {\"usageMetadata\":{\"promptTokenCount\":800,\"candidatesTokenCount\":90}}\r\n\r\n",
            ],
            (800, 90),
        ),
    ]
}

fn tokens_limited() -> (Gate, AdmissionBuilder) {
    gated(
        Limits::new()
            .tokens_per_minute(60_000)
            .input_tokens_per_minute(60_000)
            .output_tokens_per_minute(60_000),
    )
}

fn close_to(level: f64, used: u64) -> bool {
    let used = f64::from(u32::try_from(used).unwrap());
    (level - (60_000.0 - used)).abs() < 1e-6
}

#[tokio::test(start_paused = true)]
async fn usage_is_booked_in_both_directions_whatever_the_shape_of_the_body() {
    for (name, kind, pieces, (input, output)) in bodies() {
        // More than any of them uses, and less.
        for (prompt, most) in [(5_000, 1_000), (10, 5)] {
            let body = pieces.clone();
            let origin = Origin::always(move || {
                let pieces: Vec<_> = body.iter().map(|text| data(*text)).collect();
                Answer::ok().header("content-type", kind).body(Frames::body(pieces))
            });
            let (gate, admission) = tokens_limited();
            let client = origin.behind(admission.settle_from_usage(true).build().unwrap());
            let call = client.post(URL).with_extension(TokenEstimate::new(prompt, most));
            let held = call.send().await.unwrap();
            assert!(close_to(level(&gate, QuotaUnit::Tokens), prompt + most), "{name}");
            assert_eq!(held.text().await.unwrap(), pieces.concat(), "{name}: the body is the caller's");
            assert!(close_to(level(&gate, QuotaUnit::Tokens), input + output), "{name}");
            assert!(close_to(level(&gate, QuotaUnit::InputTokens), input), "{name}");
            assert!(close_to(level(&gate, QuotaUnit::OutputTokens), output), "{name}");
            assert_eq!(in_flight(&gate), 0, "{name}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_is_cut_keeps_its_estimate() {
    let usage = "data: {\"usage\":{\"prompt_tokens\":700,\"completion_tokens\":50}}\n\n";
    for how in ["dropped", "failed"] {
        let origin = Origin::always(move || {
            let last = if how == "failed" { Piece::Fail } else { Piece::Hang };
            Answer::ok().header("content-type", "text/event-stream").body(Frames::body([data(usage), last]))
        });
        let (gate, admission) = tokens_limited();
        let client = origin.behind(admission.settle_from_usage(true).build().unwrap());
        let call = client.post(URL).with_extension(TokenEstimate::new(5_000, 1_000));
        let mut held = call.send().await.unwrap();
        assert_eq!(held.chunk().await.unwrap().unwrap(), usage);
        if how == "failed" {
            assert!(held.chunk().await.is_err());
        }
        drop(held);
        assert!(close_to(level(&gate, QuotaUnit::Tokens), 6_000), "{how}");
        assert_eq!(in_flight(&gate), 0, "{how}");
    }
}

#[tokio::test(start_paused = true)]
async fn usage_is_not_looked_for_unless_asked_nor_in_other_bodies() {
    let usage = r#"{"usage":{"prompt_tokens":700,"completion_tokens":50}}"#;
    for (settle, kind) in [(false, "application/json"), (true, "text/plain"), (true, "text/html")] {
        let origin = Origin::always(move || Answer::ok().header("content-type", kind).body(usage));
        let (gate, admission) = tokens_limited();
        let client = origin.behind(admission.settle_from_usage(settle).build().unwrap());
        let call = client.post(URL).with_extension(TokenEstimate::new(5_000, 1_000));
        assert_eq!(call.send().await.unwrap().text().await.unwrap(), usage);
        assert!(close_to(level(&gate, QuotaUnit::Tokens), 6_000), "{settle} {kind}");
    }
}

#[tokio::test(start_paused = true)]
async fn each_piece_of_a_stream_is_passed_on_when_it_comes() {
    let origin = Origin::always(|| {
        let pieces =
            (0..20_u32).flat_map(|n| [data(format!("data: {{\"n\":{n}}}\n\n")), Piece::Pause(ms(100))]);
        Answer::ok().header("content-type", "text/event-stream").body(Frames::body(pieces))
    });
    let (_, admission) = tokens_limited();
    let client = origin.behind(admission.settle_from_usage(true).build().unwrap());
    let start = Instant::now();
    let mut held = client.post(URL).send().await.unwrap();
    for n in 0..20_u32 {
        assert_eq!(held.chunk().await.unwrap().unwrap(), format!("data: {{\"n\":{n}}}\n\n"));
        assert_eq!(start.elapsed(), ms(100) * n, "nothing is kept back");
    }
}

#[tokio::test(start_paused = true)]
async fn a_report_settles_during_and_after_the_body_and_not_once_the_scope_is_gone() {
    let origin = Origin::always(|| Answer::ok().body(Frames::body([data("a"), data("b")])));
    let gate = Gate::builder().limits(Limits::new().tokens_per_minute(60_000)).max_scopes(1).build().unwrap();
    let admission =
        Admission::builder().gate(gate.clone()).scope_by(|request| ScopeKey::new(request.url().path()));
    let client = origin.behind(admission.build().unwrap());
    let report = CallReport::new();
    assert!(!report.settle(TokenUsage::new(1, 1)), "not sent yet");
    let call = client.post(URL).with_extension(TokenEstimate::new(5_000, 1_000));
    let mut held = call.with_extension(report.clone()).send().await.unwrap();
    held.chunk().await.unwrap();
    assert!(report.settle(TokenUsage::new(10_000, 0)));
    assert!(close_to(level(&gate, QuotaUnit::Tokens), 10_000));
    assert!(held.extensions().get::<CallReport>().unwrap().settle(TokenUsage::new(2_000, 0)));
    assert!(close_to(level(&gate, QuotaUnit::Tokens), 2_000));
    while held.chunk().await.unwrap().is_some() {}
    assert!(report.settle(TokenUsage::new(300, 0)), "better numbers after the end");
    assert!(close_to(level(&gate, QuotaUnit::Tokens), 300));
    drop(held);
    // A kept report does not keep the scope.
    client.post("https://api.example/other").send().await.unwrap();
    assert_eq!(gate.scopes(), 1);
    assert!(!report.settle(TokenUsage::new(1, 1)));
}

#[tokio::test(start_paused = true)]
async fn settling_lets_go_who_waits_for_what_was_estimated_too_high() {
    let origin = Origin::always(|| Answer::ok().body(Frames::body([data("a"), Piece::Hang])));
    let (_, admission) = gated(Limits::new().tokens_per_minute(1_000));
    let client = origin.behind(admission.build().unwrap());
    let large = || client.post(URL).with_extension(TokenEstimate::new(900, 0));
    let first = large().send().await.unwrap();
    let second =
        tokio::spawn(large().with_extension(reqwest_admission::LatencyBudget::new(ms(120_000))).send());
    tokio::time::sleep(ms(1_000)).await;
    assert_eq!(origin.count(), 1);
    let start = Instant::now();
    assert!(first.extensions().get::<CallReport>().unwrap().settle(TokenUsage::new(50, 0)));
    assert_eq!(second.await.unwrap().unwrap().status(), 200);
    assert_eq!((start.elapsed(), origin.count()), (Duration::ZERO, 2));
}

#[cfg(feature = "estimate")]
#[tokio::test(start_paused = true)]
async fn an_estimator_tells_the_cost_of_calls_that_bring_none() {
    use reqwest_admission::estimate::BodyEstimator;

    let origin = Origin::always(Answer::ok);
    let (gate, admission) = tokens_limited();
    let words = |text: &str| text.split_whitespace().count().try_into().unwrap_or(0);
    let admission = admission.estimator(BodyEstimator::default().counter(words));
    let client = origin.behind(admission.build().unwrap());
    let chat = r#"{"max_tokens":400,"messages":[{"role":"user","content":"one two three"}]}"#;
    client.post(URL).body(chat).send().await.unwrap();
    assert!(close_to(level(&gate, QuotaUnit::Tokens), 403));
    assert!(close_to(level(&gate, QuotaUnit::OutputTokens), 400));
    // What the call brings itself goes before.
    client.post(URL).body(chat).with_extension(TokenEstimate::new(1_000, 0)).send().await.unwrap();
    assert!(close_to(level(&gate, QuotaUnit::Tokens), 1_403));
}

/// Decoders (reqwest's features `gzip`, `brotli`, ..) do not say of an empty body that it has ended. The frames here say
/// as little.
#[tokio::test(start_paused = true)]
async fn law_8_a_response_that_has_no_body_holds_no_permit_whatever_its_body_says_of_itself() {
    for (method, status, holds) in [
        ("GET", 204, false),
        ("POST", 205, false),
        ("GET", 304, false),
        ("GET", 101, false),
        ("HEAD", 200, false),
        ("HEAD", 404, false),
        ("HEAD", 500, false),
        ("GET", 200, true),
        ("GET", 404, true),
    ] {
        let (gate, admission) = gated(Limits::new().concurrency(1));
        let silent = || Frames::body([Piece::Pause(ms(1))]);
        let origin = Origin::always(move || Answer::status(status).body(silent()));
        let client = origin.behind(admission.max_attempts(1).build().unwrap());
        let response = client.request(method.parse().unwrap(), URL).send().await.unwrap();
        assert_eq!(response.status(), status);
        assert_eq!(in_flight(&gate), u32::from(holds), "{method} {status}");
        // Whoever reads it all the same finds nothing wrong.
        assert!(response.bytes().await.unwrap().is_empty(), "{method} {status}");
        assert_eq!(in_flight(&gate), 0, "{method} {status}");
    }
}

/// Law 9, where the response itself is the signal and its connection was given up for a wait.
#[tokio::test(start_paused = true)]
async fn law_9_a_marked_response_whose_body_was_cut_off_ends_in_an_error_and_never_in_silence() {
    let long = || "x".repeat(40_000);
    type Pieces = Vec<Piece>;
    let bodies: [(&str, Pieces, bool); 6] = [
        ("short", vec![data("all of it")], true),
        ("in parts", vec![data("all "), Piece::Pause(ms(10)), data("of it")], true),
        ("without anything", vec![], true),
        ("long", (0..8).map(|_| data(long())).collect(), false),
        ("never ending", vec![data("some"), Piece::Hang], false),
        ("broken off", vec![data("some"), Piece::Fail], false),
    ];
    for (line, pieces, is_whole) in bodies {
        let whole: usize =
            pieces.iter().map(|piece| if let Piece::Data(data) = piece { data.len() } else { 0 }).sum();
        let policy = reqwest_admission::AdmissionPolicy::builder()
            .on_spill(reqwest_admission::policy::OnSpill::Response)
            .build()
            .unwrap();
        let (gate, admission) = gated(Limits::new());
        let refused = Answer::status(429).header("retry-after", "5").body(Frames::body(pieces));
        let origin = Origin::in_order([refused]);
        let client = origin.behind(admission.policy(policy).build().unwrap());
        let call = tokio::spawn(client.get(URL).send());
        tokio::time::sleep(ms(3000)).await;
        // While the call waits, the scope is closed for longer than it has.
        gate.close(&ScopeKey::new("scope"), ms(600_000), Instant::now().into_std());
        let outcome = call.await.unwrap();
        assert!(reqwest_admission::SpillOver::of(&outcome).is_some(), "{line}");
        let response = outcome.unwrap();
        assert_eq!(response.status(), 429);
        match response.bytes().await {
            Ok(body) => assert!(is_whole && body.len() == whole, "{line}: {} of {whole}", body.len()),
            Err(_) => assert!(!is_whole, "{line}"),
        }
    }
}
