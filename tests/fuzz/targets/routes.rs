//! Rewriting a request for another deployment.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use reqwest::{Body, Request};
use reqwest_admission::policy::RetryOwnership;
use reqwest_admission::{Admission, AdmissionPolicy, Deployment};
use serde_json::value::RawValue;

use super::SECRET;
use super::message::{Message, add_secrets};
use super::stack::{REFUSING, Server, run};

const CREDENTIAL: &str = "the-deployments-own";

/// Words: the name of a header that is marked as sensitive, method, URL, the kind of deployment.
pub(crate) fn routes(input: &[u8]) {
    let Some(message) = Message::read(input) else { return };
    let Some(mut request) = message.request() else { return };
    if request.url_mut().set_host(Some(REFUSING)).is_err() {
        return;
    }
    add_secrets(&mut request, message.word(0), 1);
    let (sent_body, key) = (bytes(&request), request.headers().get("idempotency-key").cloned());
    let kind = message.number(3) % 4;
    let server = Server::default();
    // Without a seal, so that the bodies can be looked at.
    let policy =
        AdmissionPolicy::builder().retry_ownership(RetryOwnership::Report).build().unwrap_or_default();
    let admission = Admission::builder()
        .policy(policy)
        .primary(&request.url().origin().ascii_serialization())
        .spill_to(reached_by(deployment(kind), &server))
        .build();
    let Ok(admission) = admission else { panic!("{:?}", admission.err()) };
    let start = Instant::now();
    let _ = run(server.behind(admission).execute(request));
    let mut arrived = false;
    for request in server.seen() {
        if request.url().host_str() == Some(REFUSING) {
            continue;
        }
        arrived = true;
        let text = format!("{} {:?}", request.url(), request.headers());
        assert!(!text.contains(SECRET), "{text}");
        assert!(!request.headers().values().any(|value| holds_secret(value.as_bytes())), "hidden in {text}");
        assert_eq!(request.url().origin().ascii_serialization(), "https://standby.example");
        assert!(request.url().username().is_empty() && request.url().fragment().is_none());
        let own = request.headers().values().any(|value| value.as_bytes().ends_with(CREDENTIAL.as_bytes()));
        assert!(own, "without its credential: {text}");
        assert_eq!(
            request.headers().get("idempotency-key").cloned(),
            key.clone().filter(|key| !key.is_sensitive())
        );
        match kind {
            0..=2 => assert_eq!(bytes(&request), sent_body),
            _ if sent_body.is_empty() => assert!(bytes(&request).is_empty()),
            _ => assert_eq!(model(&bytes(&request)).as_deref(), Some("\"gpt\"")),
        }
        if kind == 1 {
            assert_eq!(request.url().path(), "/always/here");
        }
    }
    // The others take no requests to paths that their API does not have.
    assert!(arrived || kind > 1, "not routed");
    assert!(start.elapsed() < Duration::from_secs(5), "{:?} for {} bytes", start.elapsed(), input.len());
}

fn deployment(kind: u64) -> Deployment {
    match kind {
        0 => Deployment::new("standby", "https://standby.example").bearer(CREDENTIAL),
        1 => Deployment::new("standby", "https://standby.example/always/here?set=1").api_key(CREDENTIAL),
        2 => Deployment::azure_openai("standby", "https://standby.example", "gpt").api_key(CREDENTIAL),
        _ => Deployment::openai_compatible("standby", "https://standby.example/v1", "gpt").bearer(CREDENTIAL),
    }
}

/// The deployment, reached by a client whose requests come to `server`.
fn reached_by(deployment: Deployment, server: &Server) -> Deployment {
    deployment.client(server.client())
}

fn bytes(request: &Request) -> Vec<u8> {
    request.body().and_then(Body::as_bytes).unwrap_or_default().to_vec()
}

/// The text of the model in a body.
fn model(body: &[u8]) -> Option<String> {
    let fields: BTreeMap<String, Box<RawValue>> = serde_json::from_slice(body).ok()?;
    fields.get("model").map(|model| model.get().to_owned())
}

/// Also in what `Debug` of a sensitive value hides.
fn holds_secret(value: &[u8]) -> bool {
    value.windows(SECRET.len()).any(|part| part == SECRET.as_bytes())
}
