//! Spilled calls as tickets: what is in them, what is not, and the way back. Paused clock, fake origins.
#![cfg(test)]

mod support;

use std::time::{Duration, SystemTime};

use proptest::prelude::*;
use reqwest_admission::spill::{Deferred, InvalidTicket, NotDeferrable};
use reqwest_admission::{Admission, AdmissionPolicy, Credential, Deployment, LatencyBudget, SpillOver};
use reqwest_middleware::{ClientWithMiddleware, RequestBuilder};
use support::{Answer, Origin, ms};

fn refused(milliseconds: u64) -> Answer {
    Answer::status(429).header("retry-after-ms", &milliseconds.to_string())
}

fn call(client: &ClientWithMiddleware) -> RequestBuilder {
    client
        .post("https://user:S3CR3T@api.example/v1/items?key=S3CR3T&page_token=5&sig=S3CR3T#part")
        .header("authorization", "Bearer S3CR3T")
        .header("cookie", "S3CR3T")
        .header("x-custom-token", "S3CR3T")
        .header("x-other", "S3CR3T")
        .header("x-tenant", "contoso")
        .header("content-type", "application/json")
        .with_extension(LatencyBudget::new(ms(2000)))
        .body(r#"{"a":1}"#)
}

async fn spilled(call: RequestBuilder) -> SpillOver {
    SpillOver::of(&call.send().await).unwrap().clone()
}

#[tokio::test(start_paused = true)]
async fn a_ticket_brings_the_call_back_without_ever_holding_a_credential() {
    let origin = Origin::in_order([refused(60_000)]);
    let policy = AdmissionPolicy::builder().mint_idempotency_key(true).build().unwrap();
    let client = origin.behind(Admission::builder().policy(policy).build().unwrap());
    let spill = spilled(call(&client)).await;
    let ticket =
        spill.clone().into_deferred_with(|name| name == "x-tenant" || name == "authorization").unwrap();
    let text = serde_json::to_string(&ticket).unwrap();
    assert!(!text.contains("S3CR3T") && !format!("{ticket:?}").contains("items"), "{text}");
    let ticket: Deferred = serde_json::from_str(&text).unwrap();
    assert_eq!((ticket.reason(), ticket.attempts()), ("budget_exceeded", 1));
    assert_eq!(ticket.url(), "https://api.example/v1/items?page_token=5");
    assert!(!ticket.possibly_processed());
    assert_eq!(ticket.retry_at(), spill.retry_at());
    let wait = ticket.wait(SystemTime::now());
    assert!(wait > Duration::from_secs(50) && wait <= Duration::from_secs(60), "{wait:?}");

    // The reset comes, and the worker sends it.
    tokio::time::sleep(ms(61_000)).await;
    let request = ticket.into_request(&Credential::bearer("fresh")).unwrap();
    assert_eq!(client.execute(request).await.unwrap().status(), 200);
    let seen = origin.seen();
    assert_eq!(seen[1].url.as_str(), "https://api.example/v1/items?page_token=5");
    assert_eq!(seen[1].headers["authorization"], "Bearer fresh");
    assert_eq!(seen[1].headers["idempotency-key"], seen[0].headers["idempotency-key"]);
    assert_eq!(
        (&seen[1].headers["x-tenant"], &seen[1].method),
        (&seen[0].headers["x-tenant"], &seen[0].method)
    );
    assert!(!seen[1].headers.contains_key("x-other") && !seen[1].headers.contains_key("cookie"));
}

#[tokio::test(start_paused = true)]
async fn every_kind_of_spill_has_a_ticket_unless_its_body_is_a_stream() {
    // After the last attempt, never sent, cut off.
    let origin = Origin::new(|n, _| if n == 0 { refused(60_000) } else { Answer::ok().after(ms(9000)) });
    let client = origin.behind(Admission::builder().max_attempts(1).build().unwrap());
    let sent = spilled(call(&client)).await;
    let unsent = spilled(call(&client)).await;
    assert_eq!((sent.attempts(), unsent.attempts()), (1, 0));
    let cut_off =
        spilled(client.post("https://other.example/").with_extension(LatencyBudget::new(ms(10)))).await;
    for (spill, processed) in [(sent, false), (unsent, false), (cut_off, true)] {
        let ticket = spill.into_deferred().unwrap();
        assert_eq!((ticket.possibly_processed(), ticket.retry_at().is_some()), (processed, !processed));
        assert!(ticket.into_request(&Credential::none()).is_ok());
    }
    let body = || reqwest::Body::wrap(http_body_util::Full::new(bytes::Bytes::from_static(b"once")));
    let spill = spilled(call(&client).body(body())).await;
    assert!(matches!(spill.into_deferred(), Err(NotDeferrable { .. })));
    let spill = spilled(call(&client)).await;
    assert!(spill.take_request().is_some());
    assert!(matches!(spill.into_deferred(), Err(NotDeferrable { .. })));
}

#[tokio::test(start_paused = true)]
async fn with_routes_the_ticket_is_for_the_primary_and_for_the_first_that_is_back() {
    let origin = Origin::new(|_, request| match request.url().host_str() {
        Some("standby.example") => refused(9_000),
        _ => refused(60_000),
    });
    let standby = Deployment::openai_compatible("standby", "https://standby.example/v1", "other")
        .bearer("S3CR3T")
        .client(origin.client());
    let admission = Admission::builder().primary("https://api.example").spill_to(standby);
    let client = origin.behind(admission.build().unwrap());
    let ticket = spilled(call(&client)).await.into_deferred().unwrap();
    assert_eq!((origin.count(), ticket.attempts()), (2, 2));
    assert!(ticket.url().starts_with("https://api.example/"));
    assert!(ticket.wait(SystemTime::now()) <= ms(9000));
    let text = serde_json::to_string(&ticket).unwrap();
    assert!(text.contains(r#"{\"a\":1}"#) && !text.contains("S3CR3T"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_ticket_holds_no_header_that_is_marked_as_sensitive() {
    let origin = Origin::always(|| refused(60_000));
    let client = origin.behind(Admission::default());
    let mut marked = http::HeaderValue::from_static("S3CR3T");
    marked.set_sensitive(true);
    let call = client.post("https://api.example/v1").body("x");
    let call =
        ["idempotency-key", "accept"].into_iter().fold(call, |call, name| call.header(name, marked.clone()));
    let ticket = SpillOver::of(&call.send().await).unwrap().clone().into_deferred().unwrap();
    assert!(!serde_json::to_string(&ticket).unwrap().contains("S3CR3T"));
}

#[test]
fn a_changed_ticket_is_an_error_and_no_panic() {
    let ticket = |url: &str, header: &str, body: &str| -> Result<reqwest::Request, InvalidTicket> {
        let text = format!(
            r#"{{"method":"POST","url":"{url}","headers":[["{header}","v"]],"body":{body},"reason":"x","attempts":1}}"#
        );
        serde_json::from_str::<Deferred>(&text).unwrap().into_request(&Credential::none())
    };
    let good = r#"{"text":"a"}"#;
    assert!(ticket("https://a.example/", "x", good).is_ok());
    assert_eq!(ticket("nowhere", "x", good).unwrap_err(), InvalidTicket::Url);
    assert_eq!(ticket("https://u:p@a.example/", "x", good).unwrap_err(), InvalidTicket::Url);
    assert_eq!(ticket("https://a.example/", "no header", good).unwrap_err(), InvalidTicket::Header);
    assert_eq!(ticket("https://a.example/", "x", r#"{"base64":"?"}"#).unwrap_err(), InvalidTicket::Body);
    let bad = Credential::header("no header", "x");
    let text = r#"{"method":"GET","url":"https://a.example/","headers":[],"reason":"x","attempts":1}"#;
    let ticket = || serde_json::from_str::<Deferred>(text).unwrap();
    assert!(matches!(ticket().into_request(&bad), Err(InvalidTicket::Credential(_))));
    assert_eq!(ticket().wait(SystemTime::now()), Duration::ZERO);
    assert!(serde_json::from_str::<Deferred>(&text.replace("GET", "no method")).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_body_comes_back_as_it_was(body in proptest::collection::vec(any::<u8>(), 0..200)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        let back = runtime.block_on(async {
            let client = Origin::always(|| refused(60_000)).behind(Admission::default());
            let ticket = spilled(call(&client).body(body.clone())).await.into_deferred().unwrap();
            let text = serde_json::to_vec(&ticket).unwrap();
            let ticket: Deferred = serde_json::from_slice(&text).unwrap();
            ticket.into_request(&Credential::none()).unwrap()
        });
        prop_assert_eq!(back.body().and_then(reqwest::Body::as_bytes).unwrap(), &body[..]);
    }
}
