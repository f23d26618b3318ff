//! Law 10: whatever happens to a call, no text that this crate makes has a secret of it.
//!
//! Secrets are in the url, in headers and bodies of requests and responses. Errors of other crates, which pass
//! through untouched, are those crates' text: reqwest's own has the url.
#![cfg(test)]

#[path = "support/capture.rs"]
mod capture;
#[path = "support/failures.rs"]
mod failures;
mod support;

use std::fmt::{Debug, Display};
use std::sync::{Arc, Mutex};

use capture::Capture;
use reqwest::Body;
use reqwest_admission::gate::Gate;
use reqwest_admission::observe::{DecisionEvent, Observer};
use reqwest_admission::policy::OnSpill;
use reqwest_admission::reading::Profile;
use reqwest_admission::{
    Admission, AdmissionClient, AdmissionPolicy, BuildError, CallReport, RetryConflict, SpillOver,
};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Error, RequestBuilder};
use support::{Answer, Origin, ms};

/// All texts of one test.
#[derive(Clone, Default)]
struct Texts(Arc<Mutex<Vec<String>>>);

impl Texts {
    fn debug(&self, value: &impl Debug) {
        self.0.lock().unwrap().extend([format!("{value:?}"), format!("{value:#?}")]);
    }

    fn both(&self, value: &(impl Debug + Display)) {
        self.debug(value);
        self.0.lock().unwrap().push(value.to_string());
    }

    fn are_clean(&self) {
        let texts = self.0.lock().unwrap();
        assert!(!texts.is_empty());
        for text in &*texts {
            assert!(!text.to_lowercase().contains("s3cr3t"), "{text}");
        }
    }
}

impl Observer for Texts {
    fn decided(&self, event: &DecisionEvent<'_>) {
        self.debug(event);
    }

    fn conflicted(&self, conflict: &RetryConflict) {
        self.both(conflict);
    }
}

/// An answer that has the secret wherever a server may put it.
fn answer(status: u16) -> Answer {
    Answer::status(status)
        .header("set-cookie", "session=S3CR3T")
        .header("x-account", "S3CR3T")
        .header("www-authenticate", "Bearer realm=S3CR3T")
        .header("location", "http://api.example/?key=S3CR3T")
        .header("ratelimit", "\"S3CR3T\";r=0;t=1")
        .header("ratelimit-policy", "\"S3CR3T\";q=1;w=60;pk=:U0VDUkVU:")
        .header("x-ratelimit-type", "S3CR3T")
        .header("x-ms-spillover-from-deployment", "S3CR3T")
        .header("x-ms-spillover-error", "S3CR3T")
        .body(
            r#"{"S3CR3T":{"retry_after":1},"error":{"code":"S3CR3T","type":"S3CR3T","S3CR3T":"S3CR3T",
               "message":"key S3CR3T is over its rate limit, please try again in 1s","details":
               [{"S3CR3T":1,"retryDelay":"1s","reason":"S3CR3T"}]}}"#,
        )
}

/// A call that has the secret wherever a caller may put it, but for the host.
fn call(client: &ClientWithMiddleware) -> RequestBuilder {
    client
        .post("http://user:S3CR3T@api.example/v1/S3CR3T/items?key=S3CR3T#S3CR3T")
        .header("authorization", "Bearer S3CR3T")
        .header("api-key", "S3CR3T")
        .header("cookie", "S3CR3T")
        .header("idempotency-key", "S3CR3T")
        .body("a prompt with the S3CR3T")
}

/// Everything that one outcome can be asked to print.
fn print(texts: &Texts, outcome: &Result<reqwest::Response, Error>, report: &CallReport) {
    texts.debug(report);
    texts.debug(&report.details());
    texts.debug(&report.decision());
    texts.debug(&report.conflicts());
    if let Some(spill) = SpillOver::of(outcome) {
        texts.both(spill);
        texts.debug(&spill.hint());
        texts.0.lock().unwrap().extend(spill.hint().map(|hint| hint.source().to_string()));
    }
    if let Some(conflict) = RetryConflict::of(outcome) {
        texts.both(conflict);
    }
    if let Err(error @ Error::Middleware(_)) = outcome {
        texts.both(error);
        let chain = std::error::Error::source(error);
        texts.0.lock().unwrap().extend(chain.map(ToString::to_string));
    }
}

/// Runs a call against each answer of `script` and collects every text.
async fn run(script: impl FnMut(usize, &reqwest::Request) -> Answer + Send + 'static, on_spill: OnSpill) {
    let (capture, _guard) = Capture::start();
    let texts = Texts::default();
    let policy = AdmissionPolicy::builder().on_spill(on_spill).build().unwrap();
    let builder = Admission::builder().policy(policy).observer(texts.clone());
    texts.debug(&builder);
    let admission = builder.build().unwrap();
    texts.debug(&admission);
    let client = Origin::new(script).behind(admission);
    for streaming in [false, true] {
        let report = CallReport::new();
        let mut call = call(&client).with_extension(report.clone());
        if streaming {
            call = call.body(Body::wrap(http_body_util::Full::new(bytes::Bytes::from("S3CR3T"))));
        }
        let outcome = call.send().await;
        print(&texts, &outcome, &report);
    }
    assert!(!capture.events("admission decision").is_empty());
    texts.0.lock().unwrap().push(capture.text());
    texts.are_clean();
}

#[tokio::test(start_paused = true)]
async fn no_text_of_a_response_has_a_secret_whatever_its_status() {
    for on_spill in [OnSpill::Error, OnSpill::Response] {
        for status in [200, 301, 400, 401, 402, 403, 404, 408, 413, 429, 500, 502, 503, 504, 529] {
            run(move |_, _| answer(status), on_spill).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn no_text_of_a_wait_or_a_spill_over_has_a_secret_wherever_the_advice_stands() {
    for (name, value) in [
        ("retry-after", "1"),
        ("retry-after", "S3CR3T"),
        ("retry-after", "99999"),
        ("retry-after-ms", "20"),
        ("x-ratelimit-reset-requests", "1s"),
        ("x-ratelimit-reset", "S3CR3T"),
        ("x-should-retry", "false"),
        ("x-request-id", "tab\tS3CR3T"),
        ("x-envoy-attempt-count", "3"),
    ] {
        run(move |_, _| answer(429).header(name, value), OnSpill::Error).await;
        run(
            move |_, _| Answer::status(503).header("x-account", "S3CR3T").header(name, value),
            OnSpill::Error,
        )
        .await;
    }
    run(|_, _| answer(429).after(ms(60_000)), OnSpill::Error).await;
}

#[tokio::test(start_paused = true)]
async fn no_text_of_a_failed_attempt_has_a_secret() {
    for failure in [
        failures::no_connection as fn() -> reqwest::Error,
        failures::lost_connection,
        failures::timed_out,
        failures::bad_request,
    ] {
        run(move |_, _| Answer::error(failure().into()), OnSpill::Error).await;
    }
}

#[tokio::test(start_paused = true)]
async fn no_text_of_a_conflict_has_a_secret() {
    let (capture, _guard) = Capture::start();
    let texts = Texts::default();
    let admission = || Admission::builder().observer(texts.clone()).build().unwrap();
    let nested = ClientBuilder::new(reqwest::Client::new())
        .with(admission())
        .with(admission())
        .with(Origin::always(|| answer(429)))
        .build();
    let report = CallReport::new();
    let outcome =
        call(&nested).header("x-stainless-retry-count", "1").with_extension(report.clone()).send().await;
    assert!(RetryConflict::of(&outcome).is_some());
    print(&texts, &outcome, &report);

    // A layer outside that runs a call again after it was given up.
    let client = Origin::always(|| answer(429).header("retry-after", "99")).behind(admission());
    let mut extensions = http::Extensions::new();
    for _ in 0..2 {
        let request = call(&client).build().unwrap();
        let outcome = client.execute_with_extensions(request, &mut extensions).await;
        print(&texts, &outcome, extensions.get::<CallReport>().unwrap());
    }
    assert!(capture.events("retry conflict").len() >= 3);
    texts.0.lock().unwrap().push(capture.text());
    texts.are_clean();
}

#[tokio::test(start_paused = true)]
async fn no_path_shows_up_in_what_a_gate_tells() {
    let texts = Texts::default();
    let gate = Gate::builder().build().unwrap();
    let client = Origin::always(Answer::ok).behind(Admission::builder().gate(gate.clone()).build().unwrap());
    for url in [
        "https://hooks.slack.com/services/T000/B000/S3CR3T",
        "https://hooks.slack.com/triggers/T000/1/S3CR3T",
        "https://hooks.slack.com/api/S3CR3T",
        "https://bucket.s3.amazonaws.com/model/S3CR3T",
        "https://s3.eu-west-1.amazonaws.com/bucket/model/S3CR3T/invoke",
        "https://bucket.s3.amazonaws.com/model/S3CR3T/object",
        "https://w.cloud.databricks.com/serving-endpoints/S3CR3T",
        "https://w.cloud.databricks.com/api/2.0/token/S3CR3T/serving-endpoints/S3CR3T/invocations",
        "https://discord.com/api/webhooks/1/S3CR3T",
        "https://api.telegram.org/bot1:S3CR3T/sendMessage",
        "https://S3CR3T@h.example/S3CR3T?key=S3CR3T&api_key=S3CR3T",
    ] {
        assert!(client.get(url).send().await.unwrap().status().is_success(), "{url}");
    }
    let snapshot = gate.snapshot(tokio::time::Instant::now().into_std());
    assert!(snapshot.scopes.len() >= 7);
    texts.debug(&snapshot);
    texts.debug(&gate);
    texts.0.lock().unwrap().push(serde_json::to_string(&snapshot).unwrap());
    texts.are_clean();
}

#[test]
fn no_text_of_a_builder_or_its_errors_has_a_secret() {
    let texts = Texts::default();
    let held = String::from("S3CR3T");
    let observer = move |event: &DecisionEvent<'_>| assert!(event.host != held);
    let builder =
        || Admission::builder().profile(Profile::standard()).draws(|| 0.5).observer(observer.clone());
    texts.debug(&builder());
    texts.debug(&builder().build().unwrap());

    let mut headers = http::HeaderMap::new();
    headers.insert("authorization", http::HeaderValue::from_static("Bearer S3CR3T"));
    let client = || {
        let reqwest = reqwest::Client::builder().default_headers(headers.clone()).user_agent("S3CR3T");
        AdmissionClient::builder(reqwest).admission(builder())
    };
    texts.debug(&client());
    // The client itself is reqwest's, and prints its default headers.

    let bad = builder().max_attempts(0).build().unwrap_err();
    texts.both(&bad);
    let BuildError::Policy(policy) = &bad else { panic!("{bad:?}") };
    texts.both(policy);
    texts.both(&client().admission(builder().max_attempts(0)).build().unwrap_err());
    texts.both(&client().with(Admission::default()).build().unwrap_err());
    texts.are_clean();
}

#[tokio::test(start_paused = true)]
async fn the_signal_still_gives_all_of_it_to_a_caller_who_asks() {
    let client = Origin::always(|| answer(429).header("retry-after", "99")).behind(Admission::default());
    let outcome = call(&client).send().await;
    let spill = SpillOver::of(&outcome).unwrap();
    assert_eq!(spill.headers().unwrap()["x-account"], "S3CR3T");
    assert!(std::str::from_utf8(spill.body()).unwrap().contains("S3CR3T"));
}
