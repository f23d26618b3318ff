//! reqwest-retry and this crate side by side: the same calls to the same server, and what changed.
//!
//! `cargo run --example migrating`. It exits with a failure if the numbers are not as the text says.

use std::error::Error;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use reqwest_admission::{AdmissionClient, SpillOver};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
use reqwest_retry::{Jitter, RetryTransientMiddleware, policies::ExponentialBackoff};
use wiremock::matchers::any;
use wiremock::{Mock, MockServer, ResponseTemplate};

/// Before: three retries, after 200, 400 and 800 ms.
fn before() -> reqwest::Result<ClientWithMiddleware> {
    let backoff = ExponentialBackoff::builder()
        .retry_bounds(Duration::from_millis(200), Duration::from_secs(1))
        .jitter(Jitter::None)
        .build_with_max_retries(3);
    let http = reqwest::Client::builder().no_proxy().build()?;
    Ok(ClientBuilder::new(http).with(RetryTransientMiddleware::new_with_policy(backoff)).build())
}

/// After: the same number of sends.
fn after() -> Result<ClientWithMiddleware, Box<dyn Error>> {
    Ok(AdmissionClient::for_tests().max_attempts(4).build()?)
}

/// What a server does first; then it answers 200.
struct Case {
    name: &'static str,
    method: reqwest::Method,
    answer: ResponseTemplate,
    times: u64,
    /// The requests that reach the server, before and after.
    requests: [usize; 2],
    what_changed: &'static str,
}

fn cases() -> [Case; 5] {
    let refused = |name, value: &str| ResponseTemplate::new(429).insert_header(name, value);
    let (get, post) = (reqwest::Method::GET, reqwest::Method::POST);
    let case = |name, method, answer, times, requests, what_changed| Case {
        name,
        method,
        answer,
        times,
        requests,
        what_changed,
    };
    [
        case(
            "429, try again in 50 ms",
            get.clone(),
            refused("retry-after-ms", "50"),
            1,
            [2, 2],
            "waits 50 ms, not a guess",
        ),
        case(
            "429, try again in an hour",
            get.clone(),
            refused("retry-after", "3600"),
            9,
            [4, 1],
            "gives up at once, with the moment to try again",
        ),
        case("GET, 500", get.clone(), ResponseTemplate::new(500), 2, [3, 3], "nothing: a GET is repeated"),
        case(
            "POST, 500",
            post,
            ResponseTemplate::new(500),
            2,
            [3, 1],
            "a POST may have been processed, and is not repeated",
        ),
        case("GET, 501", get, ResponseTemplate::new(501), 9, [4, 1], "no repeat mends it"),
    ]
}

#[tokio::main]
async fn main() -> Result<ExitCode, Box<dyn Error>> {
    let mut as_told = true;
    for case in cases() {
        println!("{}", case.name);
        let halves = [("before, reqwest-retry", before()?), ("after, this crate", after()?)];
        for ((name, client), expected) in halves.into_iter().zip(case.requests) {
            as_told &= show(name, &client, &case).await? == expected;
        }
        println!("  changed: {}\n", case.what_changed);
    }
    println!("max_retries(3) and max_attempts(4) both mean four requests at most.");
    Ok(if as_told { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Makes one call, prints what came of it, and returns how many requests that took.
async fn show(name: &str, client: &ClientWithMiddleware, case: &Case) -> Result<usize, Box<dyn Error>> {
    let server = MockServer::start().await;
    Mock::given(any()).respond_with(case.answer.clone()).up_to_n_times(case.times).mount(&server).await;
    Mock::given(any()).respond_with(ResponseTemplate::new(200)).mount(&server).await;
    let start = Instant::now();
    let outcome = client.request(case.method.clone(), server.uri()).send().await;
    let took = start.elapsed().as_millis();
    let outcome = match (SpillOver::of(&outcome), &outcome) {
        (Some(spill), _) => spill.to_string(),
        (None, Ok(response)) => response.status().to_string(),
        (None, Err(error)) => error.to_string(),
    };
    let requests = server.received_requests().await.unwrap_or_default().len();
    println!("  {name:<22} {requests} requests, {took:>5} ms: {outcome}");
    Ok(requests)
}
