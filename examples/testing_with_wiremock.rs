//! How to test code that uses this middleware, against a server that refuses.
//!
//! The tests are at the end: `cargo test --example testing_with_wiremock` runs them (as does `cargo test`), and
//! `cargo run --example testing_with_wiremock` runs the code under test once.
//!
//! Three habits make such tests fast and steady:
//!
//! * Advise short waits. The middleware takes `retry-after-ms`, so 40 ms prove as much as 40 s.
//! * Compare times with `>=` against the advice, never with an upper bound: a busy machine is late, never early.
//! * Do not pause tokio's clock around sockets. It jumps while the runtime waits for the network, and timeouts then
//!   fire early. Where a wait must be exact or long, answer inside the stack instead of over a socket, as
//!   `Refusing` does here; then a paused clock is exact and a wait of an hour takes no time.

use std::error::Error;
use std::time::SystemTime;

use reqwest_admission::{Admission, SpillOver};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
use wiremock::matchers::{method, path};
use wiremock::{Mock, MockServer, ResponseTemplate};

/// What the code under test makes of a call.
#[derive(Debug, PartialEq)]
enum Fetched {
    Text(String),
    /// Not in time; the moment to try again, if the server named one.
    Later(Option<SystemTime>),
}

/// The code under test.
async fn fetch(client: &ClientWithMiddleware, url: &str) -> reqwest_middleware::Result<Fetched> {
    let outcome = client.get(url).send().await;
    if let Some(spill) = SpillOver::of(&outcome) {
        return Ok(Fetched::Later(spill.retry_at()));
    }
    Ok(Fetched::Text(outcome?.error_for_status()?.text().await?))
}

/// A server that refuses the first `times` calls with this advice and serves all later ones.
async fn refusing(times: u64, advice_ms: u64) -> MockServer {
    let server = MockServer::start().await;
    let refusal = ResponseTemplate::new(429).insert_header("retry-after-ms", advice_ms.to_string());
    let items = || Mock::given(method("GET")).and(path("/v1/items"));
    items().respond_with(refusal).up_to_n_times(times).mount(&server).await;
    items().respond_with(ResponseTemplate::new(200).set_body_string("items")).mount(&server).await;
    server
}

/// The client under test; no proxy, since the server is on this machine.
fn client(admission: Admission) -> reqwest::Result<ClientWithMiddleware> {
    let http = reqwest::Client::builder().no_proxy().build()?;
    Ok(ClientBuilder::new(http).with(admission).build())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = refusing(1, 40).await;
    let fetched = fetch(&client(Admission::default())?, &format!("{}/v1/items", server.uri())).await?;
    println!("{fetched:?} after {} requests", server.received_requests().await.unwrap_or_default().len());
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use http::Extensions;
    use reqwest::{Request, Response, ResponseBuilderExt as _};
    use reqwest_admission::{CallReport, LatencyBudget, Reason};
    use reqwest_middleware::{Middleware, Next};

    use super::*;

    #[tokio::test]
    async fn a_short_refusal_is_waited_out() {
        let server = refusing(2, 40).await;
        let url = format!("{}/v1/items", server.uri());
        let start = Instant::now();
        let fetched = fetch(&client(Admission::default()).unwrap(), &url).await.unwrap();
        assert_eq!(fetched, Fetched::Text("items".to_owned()));
        assert!(start.elapsed() >= Duration::from_millis(80));
        assert_eq!(server.received_requests().await.unwrap().len(), 3);
    }

    #[tokio::test]
    async fn a_refusal_longer_than_the_budget_is_spilled_over_after_one_request() {
        let server = refusing(u64::MAX, 3_600_000).await;
        let url = format!("{}/v1/items", server.uri());
        let before = SystemTime::now();
        let fetched = fetch(&client(Admission::default()).unwrap(), &url).await.unwrap();
        let Fetched::Later(Some(at)) = fetched else { panic!("{fetched:?}") };
        assert!(at >= before + Duration::from_secs(3600));
        assert_eq!(server.received_requests().await.unwrap().len(), 1);
    }

    #[tokio::test]
    async fn a_call_brings_its_own_budget_and_its_report_tells_what_happened() {
        let server = refusing(1, 60_000).await;
        let report = CallReport::new();
        let outcome = client(Admission::default())
            .unwrap()
            .get(format!("{}/v1/items", server.uri()))
            .with_extension(LatencyBudget::new(Duration::from_secs(20)))
            .with_extension(report.clone())
            .send()
            .await;
        assert_eq!(SpillOver::of(&outcome).unwrap().reason(), Reason::BudgetExceeded);
        assert_eq!((report.attempts(), report.waited()), (1, Duration::ZERO));
    }

    /// The innermost layer of a stack: refuses the first call for an hour, without any socket.
    #[derive(Default)]
    struct Refusing(std::sync::atomic::AtomicBool);

    #[async_trait::async_trait]
    impl Middleware for Refusing {
        async fn handle(
            &self,
            request: Request,
            _: &mut Extensions,
            _: Next<'_>,
        ) -> reqwest_middleware::Result<Response> {
            let refused = self.0.swap(true, std::sync::atomic::Ordering::Relaxed);
            let response = http::Response::builder().url(request.url().clone());
            let response =
                if refused { response } else { response.status(429).header("retry-after", "3600") };
            Ok(response.body("items").unwrap().into())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_hour_takes_no_time_on_a_paused_clock() {
        // Draws of 0 leave out the jitter, so that the wait is exact.
        let admission =
            Admission::builder().latency_budget(Duration::from_secs(7200)).draws(|| 0.0).build().unwrap();
        let client =
            ClientBuilder::new(reqwest::Client::new()).with(admission).with(Refusing::default()).build();
        let start = tokio::time::Instant::now();
        let fetched = fetch(&client, "http://api.example/v1/items").await.unwrap();
        assert_eq!(fetched, Fetched::Text("items".to_owned()));
        assert_eq!(start.elapsed(), Duration::from_secs(3600));
    }
}
