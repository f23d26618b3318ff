//! Whose limits are whose: callers that differ only in a credential share no scope, whatever carries it. Paused clock, fake
//! origins.
#![cfg(test)]

mod support;

use http::{HeaderMap, HeaderName, HeaderValue};
use proptest::prelude::*;
use reqwest::{Client, Request};
use reqwest_admission::gate::{Gate, ScopeKey};
use reqwest_admission::reading::Profile;
use reqwest_admission::{Admission, AdmissionClient, Credential, Deployment, LatencyBudget, SpillOver};
use reqwest_middleware::ClientWithMiddleware;
use support::{Answer, Origin, ms};
use tokio::time::Instant;

const URL: &str = "https://api.example/v1";

fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(test)
}

/// How many scopes a gate has after these requests.
fn scopes(requests: impl IntoIterator<Item = Request>) -> usize {
    run(async {
        let gate = Gate::default();
        let client =
            Origin::always(Answer::ok).behind(Admission::builder().gate(gate.clone()).build().unwrap());
        for request in requests {
            client.execute(request).await.unwrap();
        }
        gate.scopes()
    })
}

fn request(url: &str) -> Request {
    Request::new(http::Method::GET, url.parse().unwrap())
}

fn with_header(name: &str, value: &str) -> Request {
    let mut request = request(URL);
    request.headers_mut().insert("authorization", HeaderValue::from_static("Bearer same"));
    let name = HeaderName::try_from(name).unwrap();
    request.headers_mut().insert(name, HeaderValue::try_from(value).unwrap());
    request
}

fn with_parameter(name: &str, value: &str) -> Request {
    let mut request = request(URL);
    request.url_mut().query_pairs_mut().append_pair("api-version", "1").append_pair(name, value);
    request
}

#[test]
fn every_credential_and_account_tells_callers_apart() {
    for name in [
        "authorization",
        "proxy-authorization",
        "x-authorization",
        "cf-aig-authorization",
        "api-key",
        "x-api-key",
        "apikey",
        "x-apikey",
        "x-functions-key",
        "x-access-key",
        "x-auth-key",
        "dd-api-key",
        "x-portkey-virtual-key",
        "auth",
        "x-auth",
        "helicone-auth",
        "access-token",
        "x-amz-security-token",
        "x-jwt",
        "x-jwt-assertion",
        "x-session",
        "x-ms-client-principal",
        "cookie",
        "openai-organization",
        "openai-project",
        "x-goog-user-project",
        "anthropic-organization-id",
    ] {
        assert_eq!(scopes(["a", "b", "a"].map(|value| with_header(name, value))), 2, "{name}");
    }
    let referer = |token: &str| with_header("referer", &format!("https://app.example/?token={token}"));
    assert_eq!(scopes([referer("a"), referer("b"), referer("a")]), 2);
    for name in [
        "key",
        "api_key",
        "apikey",
        "apiToken",
        "accessToken",
        "access_token",
        "refresh_token",
        "token",
        "sig",
        "code",
        "pass",
        "session",
        "ticket",
        "hmac",
        "X-Amz-Credential",
        "X-Amz-Signature",
    ] {
        assert_eq!(scopes(["a", "b", "a"].map(|value| with_parameter(name, value))), 2, "{name}");
    }
    for (one, other) in [
        ("https://a@api.example/", "https://b@api.example/"),
        ("https://u:a@api.example/", "https://u:b@api.example/"),
    ] {
        assert_eq!(scopes([request(one), request(other), request(one)]), 2, "{one}");
    }
}

/// A token is one whatever it is called, and so is an account whose name is written as one word.
#[test]
fn a_token_under_a_harmless_name_tells_callers_apart() {
    let jwt = |id: &str| format!("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOi{id}In0.c2lnbmF0dXJl");
    let bearer = |id: &str| format!("Bearer 0123456789{id}");
    for make in [&jwt as &dyn Fn(&str) -> String, &bearer] {
        assert_eq!(scopes(["a", "b", "a"].map(|id| with_header("x-upstream", &make(id)))), 2);
    }
    assert_eq!(scopes(["a", "b", "a"].map(|id| with_parameter("on-behalf", &jwt(id)))), 2);
    for name in ["x-scope-orgid", "x-accountid", "x-projectid", "x-workspaceid"] {
        assert_eq!(scopes(["a", "b", "a"].map(|value| with_header(name, value))), 2, "{name}");
    }
}

/// A scope for each call would learn nothing.
#[test]
fn what_is_new_with_each_request_tells_nobody_apart_beside_a_key() {
    for name in ["oauth_nonce", "oauth_timestamp", "x-auth-timestamp", "X-Auth-Nonce", "sign", "x-session-ts"]
    {
        assert_eq!(scopes(["a", "b"].map(|value| with_header(name, value))), 1, "{name}");
    }
    let signed = |key: &str, nonce: &str| {
        let mut request = with_parameter("oauth_consumer_key", key);
        request
            .url_mut()
            .query_pairs_mut()
            .append_pair("oauth_nonce", nonce)
            .append_pair("oauth_timestamp", nonce);
        request
    };
    assert_eq!(scopes([signed("a", "1"), signed("a", "2"), signed("b", "3")]), 2);
}

#[test]
fn what_is_no_credential_tells_nobody_apart() {
    for name in
        ["accept", "user-agent", "x-request-id", "idempotency-key", "traceparent", "referer", "x-max-tokens"]
    {
        assert_eq!(scopes(["a", "b"].map(|value| with_header(name, value))), 1, "{name}");
    }
    for name in
        ["page", "page_token", "max_tokens", "sort_key", "country_code", "pagination_token", "start_key"]
    {
        assert_eq!(scopes(["a", "b"].map(|value| with_parameter(name, value))), 1, "{name}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(128) })]
    #[test]
    fn a_credential_of_any_name_tells_callers_apart(
        before in proptest::collection::vec("x|my|acme|user|service", 0..3),
        word in proptest::sample::select(vec![
            "token", "key", "secret", "auth", "session", "password", "jwt", "apikey", "authorization", "cookie",
        ]),
        after in proptest::option::of("id|value|v"),
        separator in proptest::sample::select(vec!["-", "_", "."]),
    ) {
        let words: Vec<String> = before.into_iter().chain([word.to_owned()]).chain(after).collect();
        let name = words.join(separator);
        prop_assert_eq!(scopes([with_header(&name, "a"), with_header(&name, "b")]), 2, "{}", &name);
        prop_assert_eq!(scopes([with_parameter(&name, "a"), with_parameter(&name, "b")]), 2, "{}", &name);
    }
}

fn owned(gate: &Gate, origin: &Origin, key: &'static str, by_name: bool) -> ClientWithMiddleware {
    let mut headers = HeaderMap::new();
    headers.insert("api-key", HeaderValue::from_static(key));
    let mut admission = Admission::builder().gate(gate.clone()).draws(|| 0.0);
    if by_name {
        admission = admission.scope_by(|_| ScopeKey::new("ours"));
    }
    let http = Client::builder().default_headers(headers);
    AdmissionClient::builder(http).admission(admission).with(origin.clone()).build().unwrap()
}

/// Whether a call spills over, unsent.
async fn is_held(client: &ClientWithMiddleware) -> bool {
    let outcome = client.get(URL).with_extension(LatencyBudget::new(ms(2000))).send().await;
    SpillOver::of(&outcome).is_some_and(|spill| spill.attempts() == 0)
}

#[tokio::test(start_paused = true)]
async fn clients_whose_default_headers_differ_do_not_hold_each_other_up_at_one_gate() {
    for by_name in [false, true] {
        let origin = Origin::in_order([Answer::status(429).header("retry-after", "60")]);
        let gate = Gate::default();
        let (one, other) = (owned(&gate, &origin, "one", by_name), owned(&gate, &origin, "other", by_name));
        assert!(!is_held(&one).await);
        assert!(is_held(&one).await && is_held(&one.clone()).await);
        // Only who names the scope shares it.
        assert_eq!(is_held(&other).await, by_name);
    }
}

/// The credential that reaches a deployment through the client's own stack is in its default headers as well.
#[tokio::test(start_paused = true)]
async fn deployments_behind_clients_whose_default_headers_differ_do_not_hold_each_other_up() {
    let origin = Origin::always(|| Answer::status(429).header("retry-after", "60"));
    let gate = Gate::default();
    for (n, key) in ["one", "other"].into_iter().enumerate() {
        let mut headers = HeaderMap::new();
        headers.insert("api-key", HeaderValue::from_static(key));
        let standby = Deployment::new("standby", "https://api.example/standby").model("m");
        let admission = Admission::builder().gate(gate.clone()).primary(URL).spill_to(standby);
        let http = Client::builder().default_headers(headers);
        let client =
            AdmissionClient::builder(http).admission(admission).with(origin.clone()).build().unwrap();
        assert!(client.post(URL).body("{}").send().await.is_err());
        assert_eq!(origin.count(), 2 * (n + 1));
    }
}

#[tokio::test(start_paused = true)]
async fn the_only_client_of_a_gate_has_the_scopes_that_their_parts_name() {
    let origin = Origin::always(Answer::ok);
    let gate = Gate::default();
    let client = owned(&gate, &origin, "one", false);
    assert!(!is_held(&client).await);
    gate.close(&ScopeKey::new("https://api.example"), ms(60_000), Instant::now().into_std());
    assert!(is_held(&client).await);
}

#[tokio::test(start_paused = true)]
async fn deployments_whose_credentials_cannot_be_seen_share_no_scope() {
    let renewed = || {
        Credential::from_fn(|headers, _| {
            headers.insert("api-key", HeaderValue::from_static("k"));
        })
    };
    type Make = fn(Deployment, &Origin, Credential) -> Deployment;
    let kinds: [(Make, usize); 4] = [
        (|deployment, origin, _| deployment.client(origin.client()), 3),
        (|deployment, origin, renewed| deployment.credential(renewed).client(origin.client()), 3),
        (
            |deployment, origin, _| {
                let key = if format!("{deployment:?}").contains("\"a\"") { "one" } else { "two" };
                deployment.query("key", key).client(origin.client())
            },
            3,
        ),
        (|deployment, origin, _| deployment.api_key("same").client(origin.client()), 2),
    ];
    for (index, (make, expected)) in kinds.into_iter().enumerate() {
        let origin = Origin::new(|_, request| match request.url().path() {
            "/b" => Answer::ok(),
            _ => Answer::status(429).header("retry-after", "60"),
        });
        let gate = Gate::default();
        let at = |path: &str| Deployment::new(path, &format!("https://standby.example/{path}"));
        let admission = Admission::builder()
            .gate(gate.clone())
            .primary(URL)
            .spill_to(make(at("a"), &origin, renewed()))
            .spill_to(make(at("b"), &origin, renewed()));
        let client = origin.behind(admission.build().unwrap());
        let outcome = client.get(URL).with_extension(LatencyBudget::new(ms(2000))).send().await;
        assert_eq!((outcome.is_ok(), gate.scopes()), (expected == 3, expected), "{index}");
    }
}

#[test]
fn models_of_any_length_make_a_snapshot_of_bounded_size() {
    let size = run(async {
        let gate = Gate::default();
        let admission =
            Admission::builder().gate(gate.clone()).profile(Profile::named("openai")).build().unwrap();
        let client = Origin::always(Answer::ok).behind(admission);
        for n in 0..20 {
            let body = format!(r#"{{"model":"{n}{}"}}"#, "x".repeat(900_000));
            client.post(URL).body(body).send().await.unwrap();
        }
        serde_json::to_string(&gate.snapshot(Instant::now().into_std())).unwrap().len()
    });
    assert!(size < 10_000, "{size}");
}
