//! Tests of `examples/web_service.rs`, as a user would write them: the service on one side, wiremock on the other.
#![cfg(test)]

#[path = "../examples/web_service.rs"]
#[allow(dead_code, reason = "tests start the service without its main")]
mod web_service;

use std::future::IntoFuture as _;
use std::time::{Duration, Instant};

use reqwest_admission::{AdmissionClient, Credential};
use web_service::{Service, Settings};
use wiremock::matchers::{header_exists, method, path};
use wiremock::{Mock, MockServer, ResponseTemplate};

const SETTINGS: &str = include_str!("../examples/web_service.toml");

fn service(api: &str) -> Service {
    let settings: Settings = toml::from_str(SETTINGS).unwrap();
    Service::new(AdmissionClient::for_tests(), settings, api).unwrap()
}

/// Starts the service and returns its address.
async fn start(service: Service) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(axum::serve(listener, service.router()).into_future());
    format!("http://{address}")
}

fn refused(milliseconds: u64) -> ResponseTemplate {
    ResponseTemplate::new(429).insert_header("retry-after-ms", milliseconds.to_string())
}

async fn caller(url: String) -> reqwest::Response {
    reqwest::Client::builder().no_proxy().build().unwrap().get(url).send().await.unwrap()
}

#[tokio::test]
async fn a_short_refusal_is_waited_out_unseen_by_the_caller() {
    let api = MockServer::start().await;
    let item = || Mock::given(method("GET")).and(path("/v1/items/7"));
    item().respond_with(refused(40)).up_to_n_times(1).mount(&api).await;
    item().respond_with(ResponseTemplate::new(200).set_body_string("seven")).mount(&api).await;

    let began = Instant::now();
    let response = caller(format!("{}/items/7", start(service(&api.uri())).await)).await;
    assert_eq!((response.status().as_u16(), response.text().await.unwrap().as_str()), (200, "seven"));
    assert!(began.elapsed() >= Duration::from_millis(40));
    assert_eq!(api.received_requests().await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_refusal_beyond_the_budget_is_a_503_that_says_when_to_come_back() {
    let api = MockServer::start().await;
    Mock::given(method("GET")).respond_with(refused(30_000)).mount(&api).await;
    let service = start(service(&api.uri())).await;
    for _ in 0..2 {
        let response = caller(format!("{service}/items/7")).await;
        assert_eq!(response.status(), 503);
        let seconds: u64 = response.headers()["retry-after"].to_str().unwrap().parse().unwrap();
        assert!((30..=31).contains(&seconds), "{seconds}");
        assert_eq!(response.text().await.unwrap(), r#"{"error":"budget_exceeded"}"#);
    }
    // The second call was turned away by the gate, without a request.
    assert_eq!(api.received_requests().await.unwrap().len(), 1);
}

#[tokio::test]
async fn an_api_that_is_out_of_order_is_a_502() {
    let api = MockServer::start().await;
    Mock::given(method("GET")).respond_with(ResponseTemplate::new(404)).mount(&api).await;
    assert_eq!(caller(format!("{}/items/7", start(service(&api.uri())).await)).await.status(), 502);
}

#[tokio::test]
async fn a_job_that_cannot_run_now_becomes_a_ticket_that_runs_later() {
    let api = MockServer::start().await;
    let report = || Mock::given(method("POST")).and(path("/v1/reports"));
    report().respond_with(refused(60_000)).up_to_n_times(1).mount(&api).await;
    let later = report().and(header_exists("authorization")).and(header_exists("idempotency-key"));
    later.respond_with(ResponseTemplate::new(201)).mount(&api).await;

    let service = service(&api.uri());
    let jobs = service.jobs.clone();
    let url = format!("{}/reports", start(service).await);
    let call = reqwest::Client::builder().no_proxy().build().unwrap().post(url).body("a long report");
    assert_eq!(call.send().await.unwrap().status(), 202);

    // The worker has a client of its own here, since the service's waits out the minute.
    let ticket = jobs.lock().unwrap().pop().unwrap();
    assert!(ticket.retry_at().is_some());
    let worker = AdmissionClient::for_tests().build().unwrap();
    let call = ticket.into_call(&worker, &Credential::bearer("a fresh token")).unwrap();
    assert_eq!(call.send().await.unwrap().status(), 201);
}
