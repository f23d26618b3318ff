//! Rewriting a request for another deployment: scheme, host, path, query, credentials, body.

use std::borrow::Cow;
use std::collections::BTreeMap;

use http::header::{self, HeaderName};
use http::{HeaderMap, HeaderValue};
use reqwest::{Body, Request, Url};
use serde_json::value::RawValue;

use super::route::{Deployment, PathRule};
use crate::credentials::{identifies_caller, is_harmless, keep_query, set_query, strip_url};

/// How a request becomes one for a deployment.
#[derive(Clone)]
pub(crate) struct Rewrite {
    pub(crate) base: Url,
    pub(crate) path: PathRule,
    /// Query parameters to set.
    pub(crate) set_query: Vec<(String, String)>,
    pub(crate) remove_headers: Vec<HeaderName>,
    /// Whether the deployment is on another origin than the primary.
    pub(crate) crosses_origin: bool,
    /// Headers that go along although they would not otherwise.
    pub(crate) forward_headers: Vec<HeaderName>,
    /// Credential, model and all else as the user set it.
    pub(crate) deployment: Deployment,
}

/// Headers that say something of the body, which a mapped one makes wrong.
const OF_THE_BODY: [&str; 7] = [
    "content-length",
    "content-encoding",
    "transfer-encoding",
    "content-md5",
    "content-digest",
    "repr-digest",
    "digest",
];

impl Rewrite {
    /// Where the request would go, without its query; `None` if this deployment has no such path.
    pub(crate) fn destination(&self, from: &Url) -> Option<Url> {
        let mut to = self.base.clone();
        to.set_query(None);
        match self.path {
            PathRule::Keep => to.set_path(from.path()),
            PathRule::Replace => {}
            PathRule::Under => {
                let tail = tail(from.path())?;
                let base = self.base.path().trim_end_matches('/');
                to.set_path(&format!("{base}/{tail}"));
            }
        }
        to.set_fragment(None);
        Some(to)
    }

    /// Whether the body can be mapped, as far as can be told without mapping it.
    pub(crate) fn takes_body(&self, body: Option<&Body>) -> bool {
        let mapped = self.deployment.model.is_some() || self.deployment.map_body.is_some();
        !mapped || body.is_none_or(|body| body.as_bytes().is_some())
    }

    /// Whether a request to `url` would go where it goes anyway, its credential apart.
    pub(crate) fn stays_at(&self, url: &Url) -> bool {
        let mut here = url.clone();
        here.set_query(None);
        here.set_fragment(None);
        let sets = |(name, value): &(String, String)| {
            !url.query_pairs().any(|(other, known)| other == name.as_str() && known == value.as_str())
        };
        let changes = self.deployment.model.is_some()
            || self.deployment.map_body.is_some()
            || self.set_query.iter().any(sets);
        !changes && self.destination(url).is_some_and(|there| there == here)
    }

    /// Whether the other one leads to the same place with the same credential.
    pub(crate) fn leads_where(&self, other: &Self) -> bool {
        let same_place =
            self.base == other.base && self.path == other.path && self.set_query == other.set_query;
        let same_body = self.deployment.model == other.deployment.model
            && self.deployment.map_body.is_none()
            && other.deployment.map_body.is_none();
        let same_credential =
            match (self.deployment.credential.identity(), other.deployment.credential.identity()) {
                (None, None) => self.deployment.credential.is_none() && other.deployment.credential.is_none(),
                (one, other) => one == other,
            };
        same_place && same_body && same_credential
    }

    /// Makes `request` one for this deployment. Nothing that the request proved itself with to another one is left.
    /// `None`, and a request as it was, if the deployment cannot take it.
    pub(crate) fn apply(&self, request: &mut Request) -> Option<()> {
        let mut to = self.destination(request.url())?;
        let mapped = self.mapped_body(request.body())?;
        to.set_query(request.url().query());
        self.rewrite_query(&mut to);
        let mut headers = self.headers(request.headers());
        if mapped.is_some() {
            for stale in OF_THE_BODY {
                headers.remove(stale);
            }
        }
        // A function of the user's may panic; until then the request is as it was.
        self.deployment.credential.apply(&mut headers, &mut to);
        if self.crosses_origin {
            // Made anew, so that nothing goes along that a request can carry unseen.
            let mut fresh = Request::new(request.method().clone(), to);
            *fresh.body_mut() = request.body_mut().take();
            *fresh.timeout_mut() = request.timeout().copied();
            *fresh.version_mut() = request.version();
            *request = fresh;
        } else {
            *request.url_mut() = to;
        }
        *request.headers_mut() = headers;
        if let Some(body) = mapped {
            *request.body_mut() = Some(body.into());
        }
        Some(())
    }

    /// Those that go along.
    fn headers(&self, of_request: &HeaderMap) -> HeaderMap {
        let mut headers = of_request.clone();
        for (name, value) in of_request {
            if !self.takes_header(name, value) {
                headers.remove(name);
            }
        }
        headers
    }

    fn takes_header(&self, name: &HeaderName, value: &HeaderValue) -> bool {
        if name == header::HOST || self.remove_headers.contains(name) {
            return false;
        }
        if self.forward_headers.contains(name) {
            return true;
        }
        if self.crosses_origin {
            return is_harmless(name, value);
        }
        !identifies_caller(name, value)
    }

    fn rewrite_query(&self, url: &mut Url) {
        strip_url(url, |name| self.deployment.forward_query.iter().any(|kept| kept == name));
        keep_query(url, |name, _| !self.deployment.remove_query.iter().any(|removed| removed == name));
        for (name, value) in &self.set_query {
            set_query(url, name, value);
        }
    }

    /// The body for this deployment, if that is another one; `None` if it cannot take the request's.
    fn mapped_body(&self, body: Option<&Body>) -> Option<Option<Vec<u8>>> {
        let Some(body) =
            body.filter(|_| self.deployment.model.is_some() || self.deployment.map_body.is_some())
        else {
            return Some(None);
        };
        let mut mapped = Cow::Borrowed(body.as_bytes()?);
        if let Some(model) = self.deployment.model.as_ref().filter(|_| !mapped.is_empty()) {
            mapped = Cow::Owned(with_model(&mapped, model)?);
        }
        if let Some(map) = &self.deployment.map_body {
            mapped = Cow::Owned(map(&mapped)?);
        }
        Some(Some(mapped.into_owned()))
    }
}

/// What follows the version or the deployment in the path of a model's API.
fn tail(path: &str) -> Option<&str> {
    let tail = match path.split_once("/deployments/") {
        Some((_, rest)) => rest.split_once('/')?.1,
        None => path.split_once("/v1/")?.1,
    };
    (!tail.is_empty()).then_some(tail)
}

/// A JSON object with its `model` set to `model`; the text of all other values stays as it is.
fn with_model(body: &[u8], model: &str) -> Option<Vec<u8>> {
    let mut fields: BTreeMap<String, Cow<'_, RawValue>> =
        serde_json::from_slice::<BTreeMap<String, &RawValue>>(body)
            .ok()?
            .into_iter()
            .map(|(name, value)| (name, Cow::Borrowed(value)))
            .collect();
    let model = serde_json::value::to_raw_value(model).ok()?;
    fields.insert("model".to_owned(), Cow::Owned(model));
    serde_json::to_vec(&fields).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_is_set_and_the_text_of_all_other_values_kept() {
        let body = br#"{"model":"a","seed":12345678901234567890123,"messages":[{"b":1,"a":2.50}]}"#;
        let mapped = String::from_utf8(with_model(body, "b\"").unwrap()).unwrap();
        assert_eq!(mapped, r#"{"messages":[{"b":1,"a":2.50}],"model":"b\"","seed":12345678901234567890123}"#);
        assert_eq!(with_model(b"{}", "b").unwrap(), br#"{"model":"b"}"#);
        assert!(with_model(b"[1]", "b").is_none() && with_model(b"text", "b").is_none());
    }

    #[test]
    fn the_tail_of_a_path_is_what_follows_the_version_or_the_deployment() {
        assert_eq!(tail("/openai/deployments/gpt/chat/completions"), Some("chat/completions"));
        assert_eq!(tail("/openai/v1/responses"), Some("responses"));
        assert_eq!(tail("/api/v1/chat/completions"), Some("chat/completions"));
        for path in ["/", "/v1", "/v1/", "/openai/deployments/gpt", "/openai/deployments/gpt/", "/other"] {
            assert_eq!(tail(path), None, "{path}");
        }
    }
}
