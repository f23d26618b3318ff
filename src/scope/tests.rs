use super::label::{LONGEST_LABEL, LONGEST_SEARCH, model_of, named_in_path};
use super::*;

/// Headers that carry a credential or name an account.
const CREDENTIAL_HEADERS: [&str; 26] = [
    "authorization",
    "api-key",
    "x-api-key",
    "x-goog-api-key",
    "ocp-apim-subscription-key",
    "private-token",
    "x-access-token",
    "x-auth-key",
    "x-auth-token",
    "x-figma-token",
    "x-rapidapi-key",
    "x-shopify-access-token",
    "x-subscription-token",
    "xi-api-key",
    "auth",
    "helicone-auth",
    "cf-aig-authorization",
    "x-jwt-assertion",
    "x-portkey-virtual-key",
    "x-session",
    "x-ms-client-principal",
    "cookie",
    "openai-organization",
    "openai-project",
    "x-goog-user-project",
    "anthropic-organization-id",
];

fn parts_of<'a>(request: &'a Request, profile: &'a Profile) -> Parts<'a> {
    Parts::of(request, profile)
}

fn request(url: &str) -> Request {
    Request::new(http::Method::POST, url.parse().unwrap())
}

fn scope(request: &Request) -> ScopeKey {
    parts_of(request, Profile::named("openai")).key()
}

#[test]
fn endpoint_credential_and_model_tell_scopes_apart_and_nothing_else_does() {
    let base = request("https://api.example/v1/chat?page=1");
    assert_eq!(scope(&base), scope(&request("https://api.example/v1/other?page=2")));
    assert_eq!(scope(&base).endpoint(), "https://api.example");
    for other in [
        "https://api.example:8443/v1/chat",
        "http://api.example/v1/chat",
        "https://api.example/v1/chat?key=SECRET",
        "https://user:SECRET@api.example/v1/chat",
        "https://api.example/openai/deployments/large/chat/completions",
        "https://api.example/v1beta/models/large:generateContent",
    ] {
        let other = scope(&request(other));
        assert_ne!(scope(&base), other);
        assert!(!format!("{other:?}").contains("SECRET"), "{other:?}");
    }
}

#[test]
fn a_remembered_scope_is_the_one_that_would_be_made() {
    let scopes = RecentScopes::default();
    for round in 0..3 {
        for number in 0..12 {
            let url = format!("https://user:{}@api{}.example/v1?x#y", number % 3, number % 5);
            let request = request(&url);
            let profile = Profile::standard();
            assert_eq!(
                scopes.scope_of(&request, profile),
                parts_of(&request, profile).key(),
                "{round} {number}"
            );
        }
    }
}

#[test]
fn a_remembered_origin_is_not_the_beginning_of_another() {
    let scopes = RecentScopes::default();
    let profile = Profile::standard();
    for _ in 0..2 {
        for url in [
            "https://api.example",
            "https://api.example.org/v1",
            "https://api.example:8443/v1",
            "https://api.example?x=/y#/z",
            "https://api.example.org:8443/",
        ] {
            let request = request(url);
            assert_eq!(scopes.scope_of(&request, profile), parts_of(&request, profile).key(), "{url}");
        }
    }
}

#[test]
fn each_credential_header_counts() {
    let base = request("https://api.example/");
    for name in CREDENTIAL_HEADERS {
        let with = |value: &'static str| {
            let mut request = request("https://api.example/");
            request.headers_mut().insert(name, http::HeaderValue::from_static(value));
            scope(&request)
        };
        assert_ne!(with("one"), with("two"), "{name}");
        assert_ne!(with("one"), scope(&base), "{name}");
    }
}

#[test]
fn all_credential_headers_count_however_many_and_in_any_order() {
    let with = |headers: &mut dyn Iterator<Item = (&'static str, &'static str)>| {
        let mut request = request("https://api.example/");
        for (name, value) in headers {
            request.headers_mut().insert(name, http::HeaderValue::from_static(value));
        }
        scope(&request)
    };
    let all = CREDENTIAL_HEADERS.map(|name| (name, "k"));
    let same = with(&mut all.into_iter());
    assert_eq!(same, with(&mut all.into_iter().rev()));
    for name in CREDENTIAL_HEADERS {
        assert_ne!(same, with(&mut all.into_iter().chain([(name, "other")])), "{name}");
    }
}

#[test]
fn all_credentials_of_a_url_count() {
    let of = |url: &str| scope(&request(url));
    for (one, other) in [
        ("https://h/?key=doc&access_token=A", "https://h/?key=doc&access_token=B"),
        ("https://h/?access_token=A&key=doc", "https://h/?access_token=B&key=doc"),
        ("https://h/?key=A&key=B", "https://h/?key=A&key=C"),
        ("https://h/?key=A&api_key=B", "https://h/?key=B&api_key=A"),
        ("https://h/?key=1%00key=1:2&key=3", "https://h/?key=1&key=2%00key=1:3"),
        ("https://tok1@h/", "https://tok2@h/"),
        ("https://tok1@h/", "https://h/"),
        ("https://tok1@h/?key=doc", "https://tok2@h/?key=doc"),
        ("https://one:x@h/", "https://other:x@h/"),
        ("https://one:x@h/", "https://one:y@h/"),
        ("https://h/?accessToken=A", "https://h/?accessToken=B"),
        ("https://h/?session=A", "https://h/?session=B"),
        ("https://h/?X-Amz-Credential=A", "https://h/?X-Amz-Credential=B"),
        ("https://h/?sig=A", "https://h/?sig=B"),
    ] {
        assert_ne!(of(one), of(other), "{one} {other}");
    }
    assert_eq!(of("https://h/?access_token=A&key=doc"), of("https://h/?key=doc&page=2&access_token=A"));
    assert_eq!(of("https://tok1@h/a"), of("https://tok1@h/b?page=2"));
    assert!(!format!("{:?}", of("https://S3CR3T@h/?key=S3CR3T&api_key=S3CR3T")).contains("S3CR3T"));
}

#[test]
fn credentials_of_headers_and_of_the_url_count_together() {
    let with = |url: &str, key: &'static str| {
        let mut request = request(url);
        request.headers_mut().insert("x-api-key", http::HeaderValue::from_static(key));
        scope(&request)
    };
    assert_ne!(with("https://h/?token=A", "k"), with("https://h/?token=B", "k"));
    assert_ne!(with("https://a:b@h/", "k"), with("https://a:c@h/", "k"));
    assert_eq!(with("https://h/?page=1", "k"), with("https://h/?page=2", "k"));
}

#[test]
fn a_signature_counts_only_where_nothing_else_tells_the_caller() {
    let with = |key: &'static str, signature: &'static str| {
        let mut request = request("https://h/");
        request.headers_mut().insert("x-signature", http::HeaderValue::from_static(signature));
        if !key.is_empty() {
            request.headers_mut().insert("x-api-key", http::HeaderValue::from_static(key));
        }
        scope(&request)
    };
    assert_eq!(with("k", "1"), with("k", "2"));
    assert_ne!(with("k", "1"), with("l", "1"));
    assert_ne!(with("", "1"), with("", "2"));
}

#[test]
fn a_client_of_its_own_shares_no_scope_and_knows_its_own_again() {
    let request = request("https://h/?key=A");
    let profile = Profile::standard();
    let (one, own, other) = (RecentScopes::default(), RecentScopes::apart(), RecentScopes::apart());
    let of = |scopes: &RecentScopes| scopes.scope_of(&request, profile);
    assert_eq!(of(&one), scope(&request));
    assert_eq!(of(&own), of(&own));
    assert!(of(&own) != of(&other) && of(&own) != of(&one));
    assert_eq!(of(&own).endpoint(), "https://h");
}

#[test]
fn no_long_model_is_a_label() {
    for start in [r#"{"model":""#, r#"{"n":1,"model":""#, r#"{"model":"\u0061"#] {
        let label = |length| {
            let mut request = request("https://api.example/v1/chat");
            *request.body_mut() = Some(format!("{start}{}\"}}", "x".repeat(length)).into());
            parts_of(&request, Profile::named("openai")).key().label_str().map(str::len)
        };
        assert_eq!((label(900_000), label(LONGEST_LABEL + 1)), (None, None), "{start}");
        assert!(label(LONGEST_LABEL - 1).is_some_and(|length| length <= LONGEST_LABEL), "{start}");
    }
}

#[test]
fn the_model_field_counts_where_the_vendor_limits_by_model() {
    let with = |model: &str, profile| {
        let mut request = request("https://api.example/v1/chat");
        *request.body_mut() = Some(format!(r#"{{"messages":[{{"model":"no"}}],"model":"{model}"}}"#).into());
        parts_of(&request, profile).key()
    };
    for vendor in ["openai", "github-models", "perplexity", "dashscope"] {
        let vendor = Profile::named(vendor);
        assert_ne!(with("a", vendor), with("b", vendor));
        assert_eq!(with("a", vendor).label_str(), Some("a"));
    }
    assert_eq!(with("a", Profile::standard()), with("b", Profile::standard()));
}

#[test]
fn a_model_is_found_at_the_start_of_a_body_of_any_length() {
    let long = "x".repeat(2 * LONGEST_SEARCH);
    for start in [r#"{"model":"#, r#"{"n":1, "model": "#] {
        let mut request = request("https://api.example/v1/chat");
        *request.body_mut() = Some(format!(r#"{start}"large","prompt":"{long}"}}"#).into());
        assert_eq!(parts_of(&request, Profile::named("openai")).label.as_deref(), Some("large"));
    }
}

#[test]
fn routes_with_limits_of_their_own_are_scopes_of_their_own() {
    let label = |vendor: &str, path: &str| {
        let request = request(&format!("https://api.example{path}"));
        parts_of(&request, Profile::named(vendor)).key().label_str().map(str::to_owned)
    };
    for (vendor, path, expected) in [
        ("github", "/repos/a/search/issues", None),
        ("github", "/user", None),
        ("github", "/search/issues?q=x", Some("search")),
        ("github", "/search/code?q=x", Some("code_search")),
        ("github", "/graphql", Some("graphql")),
        ("github", "/api/v3/search/issues", Some("search")),
        ("slack", "/api/chat.postMessage", Some("chat.postMessage")),
        ("slack", "/api/users.list?cursor=1", Some("users.list")),
        ("slack", "/services/T000/B000/SECRET", None),
        (
            "aws-bedrock",
            "/model/anthropic.claude-3-haiku-v1:0/converse",
            Some("anthropic.claude-3-haiku-v1:0"),
        ),
        ("slack", "/api/", None),
        ("slack", "/api/SECRET/x", None),
        ("slack", "/x/api/SECRET", None),
        ("slack-webhooks", "/api/SECRET", None),
        ("aws-bedrock", "/model/a-v1%3A0/invoke", Some("a-v1:0")),
        ("aws-bedrock", "/model/a-v1%3a0/invoke-with-response-stream", Some("a-v1:0")),
        ("aws-bedrock", "/model/", None),
        ("aws-bedrock", "/model//invoke", None),
        ("aws-bedrock", "/model/SECRET", None),
        ("aws-bedrock", "/model/SECRET/object", None),
        ("aws-bedrock", "/model/SECRET/invoke/x", None),
        ("aws-bedrock", "/bucket/model/SECRET/invoke", None),
        ("aws-bedrock", "/models/SECRET/invoke", None),
        ("databricks", "/serving-endpoints/SECRET", None),
        ("databricks", "/serving-endpoints/SECRET/config", None),
        ("databricks", "/serving-endpoints/llama/invocations", Some("llama")),
        ("stripe", "/v1/charges", None),
    ] {
        assert_eq!(label(vendor, path).as_deref(), expected, "{vendor} {path}");
    }
}

#[test]
fn a_key_shows_no_path_of_the_hosts_whose_paths_name_something() {
    for url in [
        "https://hooks.slack.com/services/T000/B000/SECRET",
        "https://hooks.slack.com/api/SECRET",
        "https://bucket.s3.amazonaws.com/model/SECRET",
        "https://w.cloud.databricks.com/serving-endpoints/SECRET",
    ] {
        let request = request(url);
        let profile = Profile::for_host(request.url().host_str().unwrap());
        let key = parts_of(&request, profile).key();
        assert!(!format!("{key:?}").contains("SECRET"), "{key:?}");
    }
}

#[test]
fn no_long_part_of_a_path_is_a_label() {
    for (vendor, start, end) in [
        ("aws-bedrock", "/model/", "/invoke"),
        ("slack", "/api/", ""),
        ("standard", "/openai/deployments/", "/chat"),
        ("standard", "/v1/models/", ":generate"),
    ] {
        let label = |length| {
            let request = request(&format!("https://api.example{start}{}{end}", "x".repeat(length)));
            parts_of(&request, Profile::named(vendor)).label.map(|label| label.len())
        };
        assert_eq!((label(LONGEST_LABEL), label(LONGEST_LABEL + 1)), (Some(LONGEST_LABEL), None), "{start}");
    }
}

#[test]
fn signatures_of_one_key_share_a_scope() {
    let signed = |key: &str, signature: &str| {
        let mut request = request("https://bedrock-runtime.us-east-1.amazonaws.com/model/m/invoke");
        let value = format!(
            "AWS4-HMAC-SHA256 Credential={key}/20261130/us-east-1/bedrock/aws4_request, SignedHeaders=host, Signature={signature}"
        );
        request.headers_mut().insert("authorization", value.parse().unwrap());
        scope(&request)
    };
    assert_eq!(signed("one", "5d67"), signed("one", "aeb1"));
    assert_ne!(signed("one", "5d67"), signed("other", "5d67"));
}

#[test]
fn the_model_is_found_wherever_it_stands() {
    let model = |body: &str| model_of(body.as_bytes()).map(Cow::into_owned);
    for body in [
        r#"{"model":"a b","messages":[]}"#,
        r#"{"model":"a\u0020b"}"#,
        r#" { "messages": [{"model":"no"}], "model" : "a b", "n": 1 }"#,
        r#"{"model":"a b" and nothing that is read"#,
    ] {
        assert_eq!(model(body).as_deref(), Some("a b"), "{body}");
    }
    for body in ["", "[]", r#"{"model":null}"#, r#"{"model":"a"#, r#"{"models":"a"}"#, r#"{"model":1}"#] {
        assert_eq!(model(body), None, "{body}");
    }
}

#[test]
fn deployments_and_models_are_named_in_the_path() {
    assert_eq!(named_in_path("/openai/deployments/gpt/chat/completions"), Some("gpt"));
    assert_eq!(named_in_path("/v1beta/models/gemini-pro:generateContent"), Some("gemini-pro"));
    assert_eq!(named_in_path("/v1/models/gpt"), None);
    assert_eq!(named_in_path("/deployments/"), None);
}

#[test]
fn a_scope_seen_at_a_glance_is_the_one_that_a_look_finds() {
    let openai = Profile::named("openai");
    let paths = ["/v1/chat", "/openai/deployments/a/chat", "/v1/models/a:run", "/v1/models/a", "/seas/a", ""];
    let bodies = [
        None,
        Some(r#"{"model":"a"}"#),
        Some(r#"{"model":"a","model":"b"}"#),
        Some(r#"{"model":"ab"}"#),
        Some(r#"{"model":"a\"b"}"#),
        Some(r#"{"model":"a"b"}"#),
        Some(r#"{"model":"a\\"}"#),
        Some(r#"{"model":"a\"}"#),
        Some(r#"{"model":""}"#),
        Some(r#"{"model":"a"#),
        Some(r#"{"n":1,"model":"a"}"#),
        Some(r#"{"n":1,"model":"a\"b"}"#),
    ];
    for first in bodies {
        for second in bodies {
            let scopes = RecentScopes::default();
            for (path, body) in paths.iter().flat_map(|path| [(path, first), (path, second), (path, first)]) {
                let mut request = request(&format!("https://api.example{path}"));
                *request.body_mut() = body.map(Into::into);
                let expected = parts_of(&request, openai).key();
                assert_eq!(scopes.scope_of(&request, openai), expected, "{path} {body:?}");
            }
        }
    }
}

#[test]
fn a_scope_is_found_again_by_its_profile_and_request() {
    let scopes = RecentScopes::default();
    for (vendor, path, body) in [
        ("openai", "https://one.example/v1/chat", r#"{"model":"a"}"#),
        ("standard", "https://other.example/v1/chat", r#"{"model":"a"}"#),
        ("standard", "https://third.example/openai/deployments/a/chat", ""),
    ] {
        let mut request = request(path);
        *request.body_mut() = Some(body.into());
        let scope = scopes.scope_of(&request, Profile::named(vendor));
        assert_eq!(scopes.scope_of(&request, Profile::named(vendor)), scope);
    }
}
