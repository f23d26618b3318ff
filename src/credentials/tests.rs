use http::HeaderValue;
use http::header::HeaderName;
use proptest::prelude::*;

use super::*;

/// Names under which credentials are sent, as headers or parameters.
const CREDENTIALS: &str = "authorization proxy-authorization x-authorization api-key x-api-key apikey x-apikey xapikey \
    x-goog-api-key ocp-apim-subscription-key subscription-key x-functions-key x-rapidapi-key dd-api-key xi-api-key \
    x-auth-key x-access-key AWSAccessKeyId key x-portkey-virtual-key virtualKey private-key signing_key \
    private-token x-auth-token x-access-token access-token accessToken access_token apiToken refresh_token id_token \
    authToken x-amz-security-token X-Amz-Credential X-Amz-Signature token x-figma-token bearerToken tokenid \
    auth x-auth helicone-auth xauth oauth2 x-oauth cf-aig-authorization cf-access-client-secret clientSecret \
    x-jwt x-jwt-assertion jwt x-signature signature sig hmac x-hmac-sha256 dpop \
    x-session session sessionId JSESSIONID PHPSESSID sid session_key cookie cookie2 x-csrf-token _csrf xsrf \
    pass password passwd pwd passphrase ticket code auth_code accessCode otp \
    x-ms-client-principal x-ms-client-principal-name client_assertion SAMLResponse \
    APIkey x-api-keys awsaccesskeyid x-accesskeyid page_access_token pageAccessToken pageaccesstoken sync_service_token \
    message_api_key public-api-key event-access-key end_user_token country_access_code userpwd userpass pswd psw sess \
    _gh_sess tkn mfa x-mfa sign cb-access-sign appid apisig x-amzn-oidc-data oauth_nonce \
    admintoken accounttoken x-backendtoken nextpageaccesstoken tokenstring";

/// Names that have such words, or parts that look like them, and mean something else.
const OTHERS: &str = "content-type accept user-agent idempotency-key x-idempotency-key traceparent host origin x-request-id \
    max_tokens maxTokens max_completion_tokens tokens tokenizer page_token pageToken nextPageToken next_token \
    continuationToken skiptoken sync_token token_type token_count prompt_cache_key sort_key partitionKey keyword monkey \
    country_code zipcode status_code ticket_id pass_through bypass compass author authority authors \
    sec-websocket-key keys codes page cursor api-version x-stainless-lang design signal encode passenger sessions \
    x-tenant x-kept q sort order limit idempotency_token pagination_token paginationToken paging_token scroll_token \
    start_token StartingToken stop_token delta_token deltatoken token_usage total_token user_token_limit \
    access_token_count start_key startKey page_key key_prefix lookup_key ExclusiveStartKey LastEvaluatedKey \
    surrogate-key thread_key correlation-key unique_key user_sort_key iso_code phone_code possession sign_up signed \
    assign resign surpass";

fn list(names: &str) -> impl Iterator<Item = &str> {
    names.split_whitespace()
}

#[test]
fn names_of_credentials_are_known_and_others_are_not() {
    for name in list(CREDENTIALS) {
        assert!(names_credential(name), "{name}");
    }
    for name in list(OTHERS) {
        assert!(!names_credential(name), "{name}");
    }
}

#[test]
fn the_list_of_harmless_headers_is_sorted_and_has_no_credential() {
    assert!(HARMLESS.is_sorted());
    for name in HARMLESS {
        assert!(!names_credential(name), "{name}");
    }
}

#[test]
fn a_referer_counts_where_its_url_has_a_credential() {
    let counts = |value: &'static str| identifies_caller(&header::REFERER, &HeaderValue::from_static(value));
    for value in [
        "https://a.example/?token=x",
        "https://u:p@a.example/",
        "https://a.example/#access_token=x",
        "?key=x",
    ] {
        assert!(counts(value), "{value}");
    }
    for value in ["https://a.example/", "https://a.example/?page=2", "/a"] {
        assert!(!counts(value), "{value}");
    }
}

#[test]
fn a_relative_referer_counts_by_its_query() {
    let counts = |value: &'static str| identifies_caller(&header::REFERER, &HeaderValue::from_static(value));
    assert!(counts("/a?token=x") && counts("?a=1&key=x") && !counts("/a?page=2") && !counts("/a?page=2#top"));
}

#[test]
fn a_token_is_known_by_its_form() {
    let counts = |value: &str| {
        identifies_caller(&HeaderName::from_static("x-data"), &HeaderValue::try_from(value).unwrap())
    };
    let jwt = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhIn0.";
    for value in
        [jwt, "eyJhbGciOiJub25lIn0.e.e-_.e.e", "Bearer 0123", "bearer  a.b~c/d==", &format!("Bearer {jwt}")]
    {
        assert!(counts(value), "{value}");
    }
    for value in [
        "eyJhIjoxfQ",
        "eyJhIjoxfQ.a",
        "eyJ hello. there. is",
        "Bearer",
        "bearer of news",
        "bearers",
        "a.b.c",
        "",
    ] {
        assert!(!counts(value), "{value}");
    }
}

#[test]
fn what_is_marked_as_sensitive_is_a_credential() {
    let mut value = HeaderValue::from_static("x");
    assert!(!identifies_caller(&HeaderName::from_static("accept"), &value));
    value.set_sensitive(true);
    assert!(identifies_caller(&HeaderName::from_static("accept"), &value));
}

#[test]
fn an_account_is_named_by_its_words() {
    let value = HeaderValue::from_static("x");
    for name in ["openai-organization", "openai-project", "x-goog-user-project", "x-account-id", "x-org"] {
        assert!(identifies_caller(&HeaderName::from_static(name), &value), "{name}");
        assert!(!names_credential(name), "{name}");
    }
    assert!(!identifies_caller(&HeaderName::from_static("origin"), &value));
}

#[test]
fn stripping_a_url_leaves_the_rest_of_its_query_as_it_is_written() {
    let strip = |url: &str| {
        let mut url = Url::parse(url).unwrap();
        strip_url(&mut url, |name| name == "code");
        url.to_string()
    };
    assert_eq!(strip("https://u:p@a.example/x?a=%20+b&a=c"), "https://a.example/x?a=%20+b&a=c");
    assert_eq!(
        strip("https://u@a.example/?sig=x&a=1&code=2&Access%54oken=y"),
        "https://a.example/?a=1&code=2"
    );
    assert_eq!(strip("https://a.example/?token"), "https://a.example/");
    assert_eq!(
        strip("https://a.example/?$f=a%20eq%20b&&key=x&b=%2B+%7e&flag&"),
        "https://a.example/?$f=a%20eq%20b&b=%2B+%7e&flag"
    );
}

/// A word that means a credential, with words around it that mean nothing.
fn around(words: Vec<String>, word: &str, at: usize) -> Vec<String> {
    let mut all = words;
    all.insert(at % (all.len() + 1), word.to_owned());
    all
}

fn capitalized(word: &str) -> String {
    let (first, rest) = word.split_at(1);
    first.to_ascii_uppercase() + rest
}

proptest! {
    #[test]
    fn a_credential_is_known_among_any_other_words(
        others in proptest::collection::vec("x|my|acme|v|client|service|request|foo", 0..4),
        word in proptest::sample::select(vec![
            "token", "key", "secret", "auth", "session", "signature", "password", "pass", "jwt", "hmac", "apikey",
            "authorization", "credential", "cookie", "sig", "dpop", "ticket", "code", "csrf", "bearer",
        ]),
        at in 0_usize..4,
        upper in any::<bool>(),
    ) {
        let all = around(others, word, at);
        for separator in ["-", "_", ".", "--", "[", " "] {
            let name = all.join(separator);
            let name = if upper { name.to_ascii_uppercase() } else { name };
            prop_assert!(names_credential(&name), "{name}");
        }
        let camel: String = all.iter().map(|word| capitalized(word)).collect();
        prop_assert!(names_credential(&camel), "{camel}");
    }

    #[test]
    fn any_name_is_read(name in "\\PC{0,80}") {
        names_credential(&name);
        words::names_account(&name);
        is_proof(&name);
    }
}
