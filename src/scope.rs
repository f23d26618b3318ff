//! Which scope a request belongs to: the calls that share a server's limits.
//!
//! Limits are counted per endpoint and credential; some services count them per deployment or model as well. The default
//! reads all three off the request; a caller who knows better says so per call or per client.

use std::borrow::Cow;

use arrayvec::ArrayVec;
use reqwest::Request;
use serde::Deserialize;

use crate::gate::ScopeKey;
use crate::reading::Profile;

/// Headers that carry a credential, besides those that are marked as sensitive.
const CREDENTIAL_HEADERS: [&str; 14] = [
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
];

/// The most credentials of one request that are told apart.
const MOST_CREDENTIALS: usize = 4;

/// Query parameters that carry a credential.
const CREDENTIAL_PARAMETERS: [&str; 6] =
    ["key", "api_key", "api-key", "apikey", "access_token", "subscription-key"];

/// The largest request body that a model name is looked for in, in bytes.
const LARGEST_BODY: usize = 1024 * 1024;

/// The scope of a request: endpoint and credential, and the deployment or model where limits are counted apart.
///
/// The credential is kept as a keyed hash only.
pub(crate) fn default_scope(request: &Request, profile: &Profile) -> ScopeKey {
    let url = request.url();
    // The origin is what stands before the path, which a URL with a host always has.
    let endpoint = url.as_str().split(['?', '#']).next().and_then(|text| text.strip_suffix(url.path()));
    let scope = ScopeKey::new(without_user(endpoint.unwrap_or_default()).as_ref());
    let scope = match credential(request) {
        Some(credential) => scope.credential(&credential),
        None => scope,
    };
    match label(request, profile) {
        Some(label) => scope.label(&label),
        None => scope,
    }
}

/// `user:password@` is a credential, not a part of the endpoint.
fn without_user(endpoint: &str) -> Cow<'_, str> {
    match (endpoint.split_once("://"), endpoint.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, host))) => Cow::Owned(format!("{scheme}://{host}")),
        _ => Cow::Borrowed(endpoint),
    }
}

fn credential(request: &Request) -> Option<Cow<'_, [u8]>> {
    let mut found: ArrayVec<(&str, &[u8]), MOST_CREDENTIALS> = request
        .headers()
        .iter()
        .filter(|(name, value)| value.is_sensitive() || CREDENTIAL_HEADERS.contains(&name.as_str()))
        .map(|(name, value)| (name.as_str(), value.as_bytes()))
        .take(MOST_CREDENTIALS)
        .collect();
    match found.as_slice() {
        [] => {}
        [(_, value)] => return Some(Cow::Borrowed(*value)),
        // A gateway's key beside a service's: limits may be counted by either.
        _ => {
            found.sort_unstable();
            let parts = found.iter().flat_map(|(name, value)| [name.as_bytes(), b"\0", *value, b"\0"]);
            return Some(Cow::Owned(parts.flatten().copied().collect()));
        }
    }
    let url = request.url();
    if url.query().is_some() {
        let found = url.query_pairs().find(|(name, _)| CREDENTIAL_PARAMETERS.contains(&name.as_ref()));
        if let Some((_, value)) = found {
            return Some(Cow::Owned(value.into_owned().into_bytes()));
        }
    }
    url.password().map(|password| Cow::Borrowed(password.as_bytes()))
}

/// The deployment or model of a request.
fn label<'a>(request: &'a Request, profile: &Profile) -> Option<Cow<'a, str>> {
    if let Some(name) = named_in_path(request.url().path()) {
        return Some(Cow::Borrowed(name));
    }
    if !profile.limits_by_model {
        return None;
    }
    let body = request.body()?.as_bytes().filter(|body| body.len() <= LARGEST_BODY)?;
    let named: Named<'_> = serde_json::from_slice(body).ok()?;
    named.model
}

/// `/openai/deployments/{name}/...` (Azure OpenAI) and `/models/{name}:{method}` (Gemini, Vertex).
fn named_in_path(path: &str) -> Option<&str> {
    let after = |marker: &str| path.split_once(marker).and_then(|(_, rest)| rest.split('/').next());
    let deployment = after("/openai/deployments/");
    let model = || after("/models/").and_then(|name| name.split_once(':')).map(|(name, _)| name);
    deployment.or_else(model).filter(|name| !name.is_empty())
}

#[derive(Deserialize)]
struct Named<'a> {
    #[serde(borrow)]
    model: Option<Cow<'a, str>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(url: &str) -> Request {
        Request::new(http::Method::POST, url.parse().unwrap())
    }

    fn scope(request: &Request) -> ScopeKey {
        default_scope(request, Profile::named("openai"))
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
        let both = |key: &'static str| {
            let mut request = request("https://api.example/");
            request.headers_mut().insert("authorization", http::HeaderValue::from_static("shared"));
            request.headers_mut().insert("api-key", http::HeaderValue::from_static(key));
            scope(&request)
        };
        assert_ne!(both("one"), both("two"));
        let marked = |token: &'static str| {
            let mut request = request("https://api.example/");
            let mut value = http::HeaderValue::from_static(token);
            value.set_sensitive(true);
            request.headers_mut().insert("x-anything", value);
            scope(&request)
        };
        assert_ne!(marked("one"), marked("two"));
    }

    #[test]
    fn the_model_field_counts_where_the_vendor_limits_by_model() {
        let with = |model: &str, profile| {
            let mut request = request("https://api.example/v1/chat");
            *request.body_mut() =
                Some(format!(r#"{{"messages":[{{"model":"no"}}],"model":"{model}"}}"#).into());
            default_scope(&request, profile)
        };
        let openai = Profile::named("openai");
        assert_ne!(with("a", openai), with("b", openai));
        assert_eq!(with("a", openai).label_str(), Some("a"));
        assert_eq!(with("a", Profile::standard()), with("b", Profile::standard()));
    }

    #[test]
    fn deployments_and_models_are_named_in_the_path() {
        assert_eq!(named_in_path("/openai/deployments/gpt/chat/completions"), Some("gpt"));
        assert_eq!(named_in_path("/v1beta/models/gemini-pro:generateContent"), Some("gemini-pro"));
        assert_eq!(named_in_path("/v1/models/gpt"), None);
        assert_eq!(named_in_path("/openai/deployments/"), None);
        // Other services deploy as well, and limit by account.
        assert_eq!(named_in_path("/repos/owner/name/deployments/7/statuses"), None);
    }
}
