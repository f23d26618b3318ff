//! What a routed request looks like on the wire, and which routes cannot be built. Real sockets, no waits.
#![cfg(test)]

use std::error::Error as _;
use std::time::Duration;

use http::HeaderValue;
use reqwest_admission::spill::{RouteError, RouteProblem};
use reqwest_admission::{
    Admission, AdmissionBuilder, BuildError, CallReport, Credential, Deployment, Reason,
};
use reqwest_middleware::ClientWithMiddleware;
use wiremock::matchers::any;
use wiremock::{Mock, MockServer, Request, ResponseTemplate};

async fn server(status: u16) -> MockServer {
    let server = MockServer::start().await;
    let answer = ResponseTemplate::new(status).insert_header("retry-after", "600").set_body_string("{}");
    Mock::given(any()).respond_with(answer).mount(&server).await;
    server
}

fn client(admission: AdmissionBuilder) -> ClientWithMiddleware {
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    reqwest_middleware::ClientBuilder::new(http).with(admission.build().unwrap()).build()
}

fn to(primary: &MockServer) -> AdmissionBuilder {
    Admission::builder().primary(&primary.uri())
}

/// The request that the deployment got of one that the primary refused, and everything in it as one text.
async fn routed(deployment: impl FnOnce(&str) -> Deployment, path: &str, body: &str) -> (Request, String) {
    let (primary, standby) = (server(429).await, server(200).await);
    let client = client(to(&primary).spill_to(deployment(&standby.uri()).forward_header("x-kept")));
    let mut marked = HeaderValue::from_static("S3CR3T");
    marked.set_sensitive(true);
    let mut call = client
        .post(format!("{}{path}", primary.uri()))
        .header("authorization", "Bearer S3CR3T")
        .header("x-private", marked)
        .header("x-kept", "kept")
        .header("content-type", "application/json")
        .header("idempotency-key", "same");
    for name in [
        "proxy-authorization",
        "api-key",
        "x-api-key",
        "x-goog-api-key",
        "ocp-apim-subscription-key",
        "cookie",
        "x-auth-token",
        "x-amz-security-token",
        "openai-organization",
    ] {
        call = call.header(name, "S3CR3T");
    }
    let response = call.body(body.to_owned()).send().await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(response.extensions().get::<CallReport>().unwrap().legs().len(), 2);
    let seen_by_primary = primary.received_requests().await.unwrap();
    assert_eq!(seen_by_primary.len(), 1);
    assert_eq!(seen_by_primary[0].headers["authorization"], "Bearer S3CR3T");
    let request = standby.received_requests().await.unwrap().remove(0);
    assert_eq!(request.headers["x-kept"], "kept");
    assert_eq!(request.headers["idempotency-key"], "same");
    let text = format!("{} {:?}", request.url, request.headers);
    (request, text)
}

const QUERY: &str = "?key=S3CR3T&api-version=1&max_tokens=5&access_token=S3CR3T&sig=S3CR3T";

#[tokio::test]
async fn nothing_that_the_request_proved_itself_with_reaches_another_deployment() {
    type Make = fn(&str) -> Deployment;
    let kinds: [(Make, &str, &str); 5] = [
        (|url| Deployment::new("standby", url).api_key("theirs"), "api-key", "theirs"),
        (|url| Deployment::new("standby", url).bearer("theirs"), "authorization", "Bearer theirs"),
        (|url| Deployment::new("standby", url).credential(Credential::query("key", "theirs")), "", ""),
        (
            |url| {
                let renewed = Credential::from_fn(|headers, _| {
                    headers.insert("x-api-key", HeaderValue::from_static("renewed"));
                });
                Deployment::new("standby", url).credential(renewed)
            },
            "x-api-key",
            "renewed",
        ),
        (|url| Deployment::new("standby", url), "", ""),
    ];
    for (make, header, value) in kinds {
        let (request, text) = routed(make, &format!("/v1/chat{QUERY}"), "{}").await;
        assert!(!text.contains("S3CR3T"), "{text}");
        assert_eq!(request.url.path(), "/v1/chat");
        assert!(request.url.query().unwrap().starts_with("api-version=1&max_tokens=5"), "{text}");
        if !header.is_empty() {
            assert_eq!(request.headers[header], value);
        }
    }
}

#[tokio::test]
async fn azure_and_openai_forms_are_mapped_into_each_other() {
    let body = r#"{"model":"gpt-a","messages":[],"temperature":0.10}"#;
    let azure =
        |url: &str| Deployment::azure_openai("s", url, "gpt-b").api_key("k").query("api-version", "2");
    let openai = |url: &str| Deployment::openai_compatible("s", &format!("{url}/v1"), "gpt-b").bearer("k");
    for from in ["/openai/deployments/gpt-a/chat/completions", "/v1/chat/completions"] {
        let (request, _) = routed(azure, &format!("{from}{QUERY}"), body).await;
        assert_eq!(request.url.path(), "/openai/deployments/gpt-b/chat/completions");
        assert_eq!(request.url.query(), Some("max_tokens=5&api-version=2"));
        assert_eq!(request.headers["api-key"], "k");
        assert_eq!(request.body, body.as_bytes());

        let (request, _) = routed(openai, &format!("{from}{QUERY}"), body).await;
        assert_eq!((request.url.path(), request.url.query()), ("/v1/chat/completions", Some("max_tokens=5")));
        assert_eq!(request.headers["authorization"], "Bearer k");
        let mapped = r#"{"messages":[],"model":"gpt-b","temperature":0.10}"#;
        assert_eq!(std::str::from_utf8(&request.body).unwrap(), mapped);
        assert_eq!(request.headers["content-length"].to_str().unwrap(), mapped.len().to_string());
    }
}

#[tokio::test]
async fn a_function_may_map_the_body_or_say_that_it_cannot() {
    let upper = |url: &str| {
        Deployment::new("s", &format!("{url}/fixed?v=2"))
            .map_body(|body| Some(body.to_ascii_uppercase()))
            .remove_header("x-noise")
    };
    let (request, _) = routed(upper, "/any/path?v=1&w=3", "text").await;
    assert_eq!((request.url.path(), request.url.query()), ("/fixed", Some("w=3&v=2")));
    assert_eq!(request.body, b"TEXT");

    let (primary, standby) = (server(429).await, server(200).await);
    let never = Deployment::new("never", "https://never.example").map_body(|_| None);
    let client = client(to(&primary).spill_to(never).spill_to(Deployment::new("s", &standby.uri())));
    let response = client.post(format!("{}/v1", primary.uri())).body("x").send().await.unwrap();
    let legs = response.extensions().get::<CallReport>().unwrap().legs();
    let names: Vec<_> = legs.iter().map(|leg| (leg.deployment(), leg.attempts())).collect();
    assert_eq!(names, [("primary", 1), ("never", 0), ("s", 1)]);
}

#[tokio::test]
async fn a_primary_that_refuses_connections_is_left_at_once() {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let standby = server(200).await;
    let routes = Admission::builder().primary(&url).spill_to(Deployment::new("s", &standby.uri()));
    let client = client(routes);
    for reason in [Reason::Unreachable, Reason::AwaitingProbe] {
        let response = client.post(format!("{url}/v1/chat")).body("{}").send().await.unwrap();
        let legs = response.extensions().get::<CallReport>().unwrap().legs();
        assert_eq!((legs[0].reason(), legs[1].deployment()), (Some(reason), "s"));
    }
    assert_eq!(standby.received_requests().await.unwrap().len(), 2);
}

#[tokio::test]
async fn only_calls_to_the_primary_are_routed_and_never_to_where_they_were() {
    let (primary, standby) = (server(429).await, server(200).await);
    let url = primary.uri();
    let routes =
        || Admission::builder().primary(&format!("{url}/v1")).spill_to(Deployment::new("s", &standby.uri()));
    let client_of_v1 = client(routes());
    assert!(client_of_v1.get(format!("{url}/v1/chat")).send().await.is_ok());
    for path in ["/v2/chat", "/v10/chat", "/"] {
        assert!(client_of_v1.get(format!("{url}{path}")).send().await.is_err(), "{path}");
    }
    assert_eq!(standby.received_requests().await.unwrap().len(), 1);

    // The same place with the same key would be a circle; with another key it is another account.
    // It has a client of its own, since the primary's may add the primary's key.
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let second_account = || Deployment::new("second", &url).api_key("two").client(http.clone());
    for (key, sends) in [("two", 1), ("one", 2)] {
        let before = primary.received_requests().await.unwrap().len();
        let client = client(to(&primary).spill_to(second_account()));
        assert!(client.get(format!("{url}/v1/chat")).header("api-key", key).send().await.is_err());
        assert_eq!(primary.received_requests().await.unwrap().len(), before + sends, "{key}");
    }
}

#[test]
fn circles_and_other_faults_are_errors_of_construction() {
    let a = || Deployment::new("a", "https://a.example").api_key("S3CR3T");
    let b = || Deployment::new("b", "https://b.example");
    let build = |admission: AdmissionBuilder| match admission.build() {
        Ok(_) => None,
        Err(BuildError::Route(error)) => {
            let texts = format!("{error} {error:?} {}", BuildError::Route(error.clone()));
            assert!(!texts.contains("S3CR3T"), "{texts}");
            Some(RouteError::problem(&error))
        }
        Err(other) => panic!("{:?} {:?}", other, other.source()),
    };
    let from = || Admission::builder().primary("https://primary.example");
    let to = |deployment| from().spill_to(deployment);
    assert_eq!(build(to(a()).spill_to(b())), None);
    let same = Deployment::new("c", "https://a.example/").api_key("S3CR3T");
    for (admission, problem) in [
        (Admission::builder().spill_to(a()).primary("https://a.example/v1"), RouteProblem::IsPrimary),
        (
            Admission::builder()
                .spill_to(Deployment::azure_openai("s", "https://a.example", "gpt"))
                .primary("https://a.example/openai/deployments/gpt/chat/completions"),
            RouteProblem::IsPrimary,
        ),
        (to(a()).spill_to(same), RouteProblem::SamePlace),
        (to(a()).spill_to(a()), RouteProblem::SameName),
        (to(Deployment::new("primary", "https://x.example")), RouteProblem::Name),
        (to(Deployment::new("x", "ftp://x.example")), RouteProblem::Url),
        (to(Deployment::new("x", "not a url")), RouteProblem::Url),
        (to(Deployment::new("x", "https://u:S3CR3T@x.example")), RouteProblem::Url),
        (to(a().api_key("S3CR3T\n")), RouteProblem::Credential),
        (to(a().remove_header("no header")), RouteProblem::Header),
        (to(a().weight(0)), RouteProblem::Weight),
        (to(a().weight(1)).spill_to(b()), RouteProblem::MixedWeights),
        (to(a().api_key("S3CR3T")), RouteProblem::TwoCredentials),
        (to(a().credential(Credential::query("key", "S3CR3T"))), RouteProblem::TwoCredentials),
        (to(a().forward_header("no header")), RouteProblem::Header),
        (Admission::builder().spill_to(a()), RouteProblem::NoPrimary),
        (to(a()).spill_reserve(Duration::from_secs(30)), RouteProblem::Reserve),
        (
            to(a()).latency_budget(Duration::from_secs(2)).spill_reserve(Duration::from_secs(3)),
            RouteProblem::Reserve,
        ),
        (to(a().budget_share(0.0)), RouteProblem::BudgetShare),
        (to(a().budget_share(f64::NAN)), RouteProblem::BudgetShare),
        (Admission::builder().primary("https://a.example"), RouteProblem::NoDeployment),
    ] {
        assert_eq!(build(admission), Some(problem));
    }
    let many = (0..65).fold(from(), |admission, n| {
        admission.spill_to(Deployment::new(&n.to_string(), &format!("https://d{n}.example")))
    });
    assert_eq!(build(many), Some(RouteProblem::TooMany));
    assert!(!format!("{:?}", a()).contains("S3CR3T"));
}
