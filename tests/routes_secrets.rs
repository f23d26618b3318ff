//! What reaches another deployment, over loopback: everything that arrives there is looked at, whatever the caller, the
//! primary's client and its layers put on. Real sockets, no waits.
#![cfg(test)]

use async_trait::async_trait;
use http::{Extensions, HeaderMap, HeaderName, HeaderValue};
use proptest::prelude::*;
use reqwest::{Body, Request};
use reqwest_admission::{Admission, AdmissionBuilder, AdmissionClient, CallReport, Credential, Deployment};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Middleware, Next, Result};
use wiremock::matchers::any;
use wiremock::{Mock, MockServer, ResponseTemplate};

const BODY: &str = "a prompt";

async fn server(answer: ResponseTemplate) -> MockServer {
    let server = MockServer::start().await;
    Mock::given(any()).respond_with(answer).mount(&server).await;
    server
}

async fn primary() -> MockServer {
    server(ResponseTemplate::new(429).insert_header("retry-after", "600")).await
}

async fn standby() -> MockServer {
    server(ResponseTemplate::new(200)).await
}

/// Everything that a server received, as one text.
async fn received(server: &MockServer) -> String {
    let mut text = String::new();
    for request in server.received_requests().await.unwrap() {
        text += &format!("{} {}\n", request.method, request.url);
        for (name, value) in &request.headers {
            text += &format!("{name}: {}\n", String::from_utf8_lossy(value.as_bytes()));
        }
        text += &String::from_utf8_lossy(&request.body);
    }
    text
}

/// A layer inside of the admission layer that adds a fresh token to each attempt, as the README advises.
struct TokenLayer;

#[async_trait]
impl Middleware for TokenLayer {
    async fn handle(
        &self,
        mut request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<reqwest::Response> {
        request.headers_mut().insert("authorization", HeaderValue::from_static("Bearer S3CR3T"));
        request.headers_mut().insert("x-signature", HeaderValue::from_static("S3CR3T"));
        request.url_mut().query_pairs_mut().append_pair("sig", "S3CR3T");
        next.run(request, extensions).await
    }
}

fn reqwest_client() -> reqwest::ClientBuilder {
    let mut headers = HeaderMap::new();
    for name in ["authorization", "api-key", "x-custom", "cookie"] {
        headers.insert(name, HeaderValue::from_static("S3CR3T"));
    }
    reqwest::Client::builder().no_proxy().default_headers(headers).user_agent("S3CR3T")
}

/// Both kinds of client, with credentials in default headers and in an inner layer.
fn clients(admission: impl Fn() -> AdmissionBuilder) -> [ClientWithMiddleware; 2] {
    let stack = ClientBuilder::new(reqwest_client().build().unwrap()).with(admission().build().unwrap());
    let guarded = AdmissionClient::builder(reqwest_client()).admission(admission()).with(TokenLayer).build();
    [stack.with(TokenLayer).build(), guarded.unwrap()]
}

/// A request with the secret wherever a caller may put a credential, and what has to arrive beside it.
fn request(primary: &MockServer) -> Request {
    let url = format!("{}/v1/items?page_token=5&max_tokens=7&key=S3CR3T&session=S3CR3T", primary.uri());
    let mut request = Request::new(http::Method::POST, url.parse().unwrap());
    request.url_mut().set_username("S3CR3T").unwrap();
    request.url_mut().set_password(Some("S3CR3T")).unwrap();
    let mut marked = HeaderValue::from_static("S3CR3T");
    marked.set_sensitive(true);
    request.headers_mut().insert("accept-language", marked);
    for name in [
        "authorization",
        "api-key",
        "cookie",
        "referer",
        "x-session",
        "helicone-auth",
        "x-ms-client-principal",
        "openai-organization",
        "baggage",
        "x-anything",
        "x-forwarded-for",
        "origin",
    ] {
        request.headers_mut().insert(name, HeaderValue::from_static("S3CR3T"));
    }
    for (name, value) in HARMLESS {
        request.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    *request.body_mut() = Some(BODY.into());
    *request.timeout_mut() = Some(std::time::Duration::from_secs(20));
    request
}

const HARMLESS: [(&str, &str); 6] = [
    ("content-type", "text/plain"),
    ("accept", "text/*"),
    ("user-agent", "mine/1"),
    ("idempotency-key", "same"),
    ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
    ("openai-beta", "assistants=v2"),
];

#[tokio::test]
async fn no_credential_reaches_another_origin_wherever_it_was_put() {
    for own in [false, true] {
        let (primary, standby) = (primary().await, standby().await);
        let deployment = || {
            let deployment =
                Deployment::new("standby", &standby.uri()).api_key("theirs").forward_header("x-named");
            let http = reqwest::Client::builder().no_proxy().user_agent("own").build().unwrap();
            if own { deployment.client(http) } else { deployment }
        };
        for client in clients(|| Admission::builder().primary(&primary.uri()).spill_to(deployment())) {
            let mut request = request(&primary);
            request.headers_mut().insert("x-named", HeaderValue::from_static("named"));
            let response = client.execute(request).await.unwrap();
            assert_eq!(response.status(), 200);
            assert_eq!(response.extensions().get::<CallReport>().unwrap().legs().len(), 2);
        }
        assert!(received(&primary).await.contains("S3CR3T"));
        let text = received(&standby).await;
        assert!(!text.to_lowercase().contains("s3cr3t"), "{text}");
        let requests = standby.received_requests().await.unwrap();
        assert_eq!(requests.len(), 2);
        for request in requests {
            assert_eq!(request.url.query(), Some("page_token=5&max_tokens=7"));
            assert_eq!(request.url.path(), "/v1/items");
            assert_eq!(request.body, BODY.as_bytes());
            assert_eq!(request.headers["api-key"], "theirs");
            for (name, value) in HARMLESS.into_iter().chain([("x-named", "named")]) {
                assert_eq!(request.headers[name], value, "{name}");
            }
        }
    }
}

#[tokio::test]
async fn the_body_goes_along_as_it_is_unless_it_is_mapped() {
    let (primary, standby) = (primary().await, standby().await);
    let secret = r#"{"api_key":"S3CR3T"}"#;
    for (maps, expected) in [(false, secret), (true, "{}")] {
        let mut deployment = Deployment::new("standby", &standby.uri());
        if maps {
            deployment = deployment.map_body(|_| Some(b"{}".to_vec()));
        }
        let admission = Admission::builder().primary(&primary.uri()).spill_to(deployment).build().unwrap();
        let client = ClientBuilder::new(reqwest_client().build().unwrap()).with(admission).build();
        client.post(format!("{}/v1", primary.uri())).body(secret).send().await.unwrap();
        let received = standby.received_requests().await.unwrap();
        assert_eq!(received.last().unwrap().body, expected.as_bytes());
    }
}

#[derive(Clone)]
struct OfThePrimary;

/// Would add a credential that it finds in the extensions.
struct FromExtensions;

#[async_trait]
impl Middleware for FromExtensions {
    async fn handle(
        &self,
        mut request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<reqwest::Response> {
        if extensions.get::<OfThePrimary>().is_some() {
            request.headers_mut().insert("x-found", HeaderValue::from_static("S3CR3T"));
        }
        assert!(extensions.get::<CallReport>().is_some());
        let body = request.body().and_then(Body::as_bytes).map(<[u8]>::len).unwrap_or_default();
        request.headers_mut().insert("x-length", body.into());
        next.run(request, extensions).await
    }
}

#[tokio::test]
async fn layers_of_a_targets_client_work_and_see_no_extension_of_the_call() {
    let (primary, standby) = (primary().await, standby().await);
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let own = ClientBuilder::new(http).with(FromExtensions).build();
    let deployment = Deployment::new("standby", &standby.uri()).client(own);
    let admission = Admission::builder().primary(&primary.uri()).spill_to(deployment);
    let client = AdmissionClient::builder(reqwest_client()).admission(admission).build().unwrap();
    let call = client.post(format!("{}/v1", primary.uri())).body(BODY).with_extension(OfThePrimary);
    call.send().await.unwrap();
    let text = received(&standby).await;
    assert!(!text.contains("S3CR3T"), "{text}");
    // In an AdmissionClient they may read the body.
    assert!(text.contains(&format!("x-length: {}", BODY.len())), "{text}");
}

#[tokio::test]
async fn a_redirect_of_a_target_to_another_origin_carries_no_key() {
    for status in [301, 302, 303, 307, 308] {
        let (primary, elsewhere) = (primary().await, standby().await);
        let target = MockServer::start().await;
        let to = |url: String| ResponseTemplate::new(status).insert_header("location", url.as_str());
        let within = wiremock::matchers::path("/v1/here");
        Mock::given(within).respond_with(to("/v1/there".to_owned())).mount(&target).await;
        Mock::given(any()).respond_with(to(format!("{}/stolen", elsewhere.uri()))).mount(&target).await;
        for credential in [
            Credential::header("api-key", "S3CR3T"),
            Credential::bearer("S3CR3T"),
            Credential::query("key", "S3CR3T"),
        ] {
            let deployment = Deployment::new("target", &target.uri()).credential(credential);
            let admission =
                Admission::builder().primary(&primary.uri()).spill_to(deployment).build().unwrap();
            let client = ClientBuilder::new(reqwest_client().build().unwrap()).with(admission).build();
            let response = client.get(format!("{}/v1/here", primary.uri())).send().await.unwrap();
            // The redirect is the answer, after the one within the origin was followed.
            assert_eq!((response.status().as_u16(), response.url().path()), (status, "/v1/there"));
        }
        assert_eq!(received(&elsewhere).await, "");
        assert_eq!(target.received_requests().await.unwrap().len(), 6);
    }
}

#[tokio::test]
async fn a_deployment_on_the_same_origin_goes_through_the_stack_without_the_callers_credential() {
    let server = MockServer::start().await;
    let refusal = ResponseTemplate::new(429).insert_header("retry-after", "600");
    Mock::given(wiremock::matchers::path("/main")).respond_with(refusal).mount(&server).await;
    Mock::given(any()).respond_with(ResponseTemplate::new(200)).mount(&server).await;
    let other = Deployment::new("other", &format!("{}/other", server.uri())).api_key("theirs");
    let admission = Admission::builder().primary(&format!("{}/main", server.uri())).spill_to(other);
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let client = ClientBuilder::new(http).with(admission.build().unwrap()).with(Marks).build();
    let call = client.get(format!("{}/main?key=S3CR3T", server.uri())).header("api-key", "S3CR3T");
    call.header("x-session", "S3CR3T").header("x-kept", "kept").send().await.unwrap();
    let request = server.received_requests().await.unwrap().remove(1);
    assert_eq!((request.url.path(), request.url.query()), ("/other", None));
    assert_eq!(request.headers["api-key"], "theirs");
    assert_eq!(request.headers["x-kept"], "kept");
    assert_eq!(request.headers["x-mark"], "1");
    assert!(!request.headers.contains_key("x-session"));
}

struct Marks;

#[async_trait]
impl Middleware for Marks {
    async fn handle(
        &self,
        mut request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<reqwest::Response> {
        request.headers_mut().insert("x-mark", HeaderValue::from_static("1"));
        next.run(request, extensions).await
    }
}

#[tokio::test]
async fn a_retrying_layer_of_a_targets_client_sends_once() {
    use reqwest_retry::{RetryTransientMiddleware, policies::ExponentialBackoff};
    for guarded in [false, true] {
        let (primary, standby) = (primary().await, server(ResponseTemplate::new(500)).await);
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let retry = RetryTransientMiddleware::new_with_policy(
            ExponentialBackoff::builder().build_with_max_retries(3),
        );
        let own = ClientBuilder::new(http).with(retry).build();
        let deployment = Deployment::new("standby", &standby.uri()).client(own);
        let admission = Admission::builder().primary(&primary.uri()).spill_to(deployment);
        let client = if guarded {
            AdmissionClient::builder(reqwest_client()).admission(admission).build().unwrap()
        } else {
            ClientBuilder::new(reqwest_client().build().unwrap()).with(admission.build().unwrap()).build()
        };
        let outcome = client.post(format!("{}/v1", primary.uri())).body(BODY).send().await;
        assert!(standby.received_requests().await.unwrap().len() <= 1);
        assert!(reqwest_admission::RetryConflict::of(&outcome).is_some(), "{outcome:?}");
    }
}

#[tokio::test]
async fn reqwests_own_retries_of_a_targets_client_send_once() {
    for guarded in [false, true] {
        let (primary, standby) = (primary().await, server(ResponseTemplate::new(500)).await);
        let retry = reqwest::retry::for_host("127.0.0.1").classify_fn(|reply| reply.retryable()).no_budget();
        let http = reqwest::Client::builder().no_proxy().retry(retry).build().unwrap();
        let deployment = Deployment::new("standby", &standby.uri()).client(http);
        let admission = Admission::builder().primary(&primary.uri()).spill_to(deployment);
        let client = if guarded {
            AdmissionClient::builder(reqwest_client()).admission(admission).build().unwrap()
        } else {
            ClientBuilder::new(reqwest_client().build().unwrap()).with(admission.build().unwrap()).build()
        };
        let response = client.post(format!("{}/v1", primary.uri())).body(BODY).send().await.unwrap();
        assert_eq!((response.status().as_u16(), standby.received_requests().await.unwrap().len()), (500, 1));
    }
}

#[tokio::test]
async fn an_admission_client_as_a_targets_client_is_a_conflict() {
    let (primary, standby) = (primary().await, standby().await);
    let own = AdmissionClient::builder(reqwest::Client::builder().no_proxy()).build().unwrap();
    let deployment = Deployment::new("standby", &standby.uri()).client(own);
    let admission = Admission::builder().primary(&primary.uri()).spill_to(deployment).build().unwrap();
    let client = ClientBuilder::new(reqwest_client().build().unwrap()).with(admission).build();
    let outcome = client.get(format!("{}/v1", primary.uri())).send().await;
    assert!(reqwest_admission::RetryConflict::of(&outcome).is_some(), "{outcome:?}");
    assert_eq!(standby.received_requests().await.unwrap().len(), 0);
}

/// One name of words, among them some of credentials, put together in one of the usual ways.
fn name() -> impl Strategy<Value = String> {
    let words =
        "(x|my|acme|id|client|user|token|key|secret|auth|session|signature|pass|jwt|cookie|apikey|principal)";
    (proptest::collection::vec(words, 1..4), proptest::sample::select(vec!["-", "_", ".", ""]))
        .prop_map(|(words, separator)| words.join(separator))
}

#[test]
fn no_header_or_parameter_of_any_name_that_means_a_credential_arrives() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (primary, standby) = runtime.block_on(async { (primary().await, standby().await) });
    let deployment = Deployment::new("standby", &standby.uri());
    let admission = Admission::builder().primary(&primary.uri()).spill_to(deployment).build().unwrap();
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let client = ClientBuilder::new(http).with(admission).build();
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) };
    let meant =
        ["token", "key", "secret", "auth", "session", "signature", "pass", "jwt", "cookie", "principal"];
    proptest!(config, |(names in proptest::collection::vec(name(), 1..6))| {
        let mut request = Request::new(http::Method::GET, format!("{}/v1", primary.uri()).parse().unwrap());
        for name in &names {
            if let Ok(name) = HeaderName::try_from(name) {
                request.headers_mut().insert(name, HeaderValue::from_static("S3CR3T"));
            }
            // Words written together may be read in other ways.
            let is_meant = meant.iter().any(|word| name.split(['-', '_', '.']).any(|part| part == *word));
            let value = if is_meant { "S3CR3T" } else { "open" };
            request.url_mut().query_pairs_mut().append_pair(name, value);
        }
        let received = runtime.block_on(async {
            client.execute(request).await.unwrap();
            standby.received_requests().await.unwrap().pop().unwrap()
        });
        let text = format!("{} {:?}", received.url, received.headers);
        prop_assert!(!text.contains("S3CR3T"), "{text}");
    });
}

/// Names that say nothing, and values that say it all.
#[tokio::test]
async fn a_token_under_a_harmless_name_does_not_arrive_and_the_rest_arrives_as_it_is_written() {
    let (primary, standby) = (primary().await, standby().await);
    let deployment = Deployment::new("standby", &standby.uri());
    let admission = Admission::builder().primary(&primary.uri()).spill_to(deployment).build().unwrap();
    let client = ClientBuilder::new(reqwest_client().build().unwrap()).with(admission).build();
    let jwt = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJTM0NSM1QifQ.S3CR3T";
    let query = format!(
        "$filter=a%20eq%20'b'&x=%2B+%7e&APIkey=S3CR3T&page_access_token=S3CR3T&message_api_key=S3CR3T\
         &awsaccesskeyid=S3CR3T&for={jwt}&sync_token=eyJhIjoxfQ&"
    );
    let request = client.get(format!("{}/v1?{query}", primary.uri()));
    let request = request.header("content-location", "https://a.example/?token=S3CR3T").header("prefer", jwt);
    request.header("accept", "text/*").send().await.unwrap();
    let text = received(&standby).await;
    assert!(!text.contains("S3CR3T"), "{text}");
    let request = standby.received_requests().await.unwrap().remove(0);
    assert_eq!(request.url.query(), Some("$filter=a%20eq%20%27b%27&x=%2B+%7e&sync_token=eyJhIjoxfQ"));
}
