//! The lab's server on real sockets: its answers, what it counts, and what a caller that hangs up leaves behind.

use std::time::Duration;

use http::StatusCode;
use reqwest_admission::gate::Gate;
use reqwest_admission::{Admission, AdmissionClient};
use tokio::time::Instant;

use crate::model::{Call, Scenario, World};
use crate::sockets::server::{CALL, Seen, Server};

/// A bucket that one call fills for a day, so that no test is too slow for it.
fn start() -> Server {
    Server::start(World::new(Scenario::ptu(1, 0.001, 0.0, 1))).expect("a free port")
}

fn announce(server: &Server) -> usize {
    let start = Instant::now();
    server.expect(Call { size: 100.0, estimate: 100.0, start, deadline: start + Duration::from_secs(60) })
}

/// Settings of a client, and whether it speaks HTTP/2.
fn clients() -> [(reqwest::ClientBuilder, bool); 2] {
    let client = || reqwest::Client::builder().no_proxy();
    [(client().http1_only(), false), (client().http2_prior_knowledge(), true)]
}

#[tokio::test]
async fn one_call_fills_the_bucket_and_another_is_counted_as_early_when_it_comes_again() {
    for (client, is_http2) in clients() {
        let client = client.build().expect("a client");
        let server = start();
        let send = |call: usize| client.post(server.url()).header(CALL, call).body("{}").send();
        let (first, second) = (announce(&server), announce(&server));

        let taken = send(first).await.expect("an answer");
        assert_eq!(taken.status(), StatusCode::OK);
        assert!(taken.text().await.expect("a body").contains(r#""total_tokens":100"#));
        server.ended();

        for early in 0..2 {
            let refused = send(second).await.expect("an answer");
            assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
            let advice = refused.headers()["retry-after-ms"].to_str().expect("text").parse::<u64>();
            assert!((80_000_000..100_000_000).contains(&advice.expect("a number")));
            assert!(refused.text().await.expect("a body").contains("at capacity"));
            assert_eq!(server.seen().early, early);
        }
        let by_http2 = if is_http2 { 3 } else { 0 };
        assert_eq!(server.seen(), Seen { connections: 1, requests: 3, by_http2, early: 1, open: 1 });
        assert_eq!(send(9).await.expect("an answer").status(), StatusCode::BAD_REQUEST);
    }
}

#[tokio::test]
async fn a_caller_that_hangs_up_gives_its_permit_back_at_once() {
    for (client, _) in clients() {
        let gate = Gate::builder().build().expect("a gate");
        let admission = Admission::builder().gate(gate.clone());
        let client = AdmissionClient::builder(client).admission(admission).build().expect("a client");
        let server = start();
        let request = client.post(server.url()).header(CALL, announce(&server)).body("{}");
        let caller = tokio::spawn(async move {
            let _response = request.send().await;
            std::future::pending::<()>().await;
        });
        while server.seen().requests == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let in_flight = || gate.snapshot(Instant::now().into_std()).scopes[0].in_flight;
        assert_eq!(in_flight(), 1);
        caller.abort();
        assert!(caller.await.expect_err("an abort").is_cancelled());
        assert_eq!(in_flight(), 0);
    }
}
