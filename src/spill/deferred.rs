//! [`Deferred`]: a call that is put off, as a ticket that a job queue can carry.

use std::fmt;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use jiff::Timestamp;
use reqwest::{Request, Url};
use reqwest_middleware::{ClientWithMiddleware, RequestBuilder};
use serde::{Deserialize, Serialize};

use super::SpillOver;
use super::credential::{Credential, InvalidCredential};
use super::ticket::{TicketBody, VERSION, first_version, known_version, method};
use crate::credentials::{identifies_caller, keep_query, strip_url};
use crate::request::CallSettings;

/// Headers that go into a ticket unless told otherwise.
const KEPT_HEADERS: [&str; 9] = [
    "accept",
    "accept-encoding",
    "accept-language",
    "anthropic-version",
    "content-encoding",
    "content-language",
    "content-type",
    "openai-beta",
    "x-goog-api-client",
];

const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// A call that is put off: what it takes to send it later, in a form that serde reads and writes.
///
/// It holds the method, the URL, a few headers, the body, the idempotency key, why and until when the call is put off, and
/// what the call [set for itself](crate::AdmissionRequestExt): latency budget, priority, token estimate, attempts, and whether
/// it is repeatable. It never holds a credential: credential headers, cookies, headers marked
/// [sensitive](http::HeaderValue::set_sensitive), user information and credential parameters of the query are left out,
/// and set again by [`into_call`](Self::into_call). The *body* is kept as it is; a caller who writes credentials
/// or personal data into bodies has them in the queue.
///
/// ```
/// # async fn example(client: reqwest_middleware::ClientWithMiddleware) -> Result<(), Box<dyn std::error::Error>> {
/// use reqwest_admission::{Credential, SpillOver, spill::Deferred};
///
/// let call = client.post("https://api.example/v1/embed").bearer_auth("0123").body("text");
/// let outcome = call.send().await;
/// if let Some(spill) = SpillOver::of(&outcome) {
///     let ticket = spill.clone().into_deferred()?;
///     let job: String = serde_json::to_string(&ticket)?;
///     // ... and in the worker, once `ticket.retry_at()` has come:
///     let ticket: Deferred = serde_json::from_str(&job)?;
///     ticket.into_call(&client, &Credential::bearer("0123"))?.send().await?;
/// }
/// # Ok(())
/// # }
/// ```
///
/// A ticket names the version of its format, 1 today. Later releases read tickets of all earlier versions; a ticket of a
/// later version is an error of serde that says so.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deferred {
    #[serde(default = "first_version", deserialize_with = "known_version")]
    version: u32,
    #[serde(with = "method")]
    method: Method,
    url: String,
    headers: Vec<(String, String)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    body: Option<TicketBody>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    idempotency_key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retry_at: Option<Timestamp>,
    reason: String,
    attempts: u32,
    #[serde(default)]
    possibly_processed: bool,
    #[serde(default, skip_serializing_if = "CallSettings::is_empty")]
    settings: CallSettings,
}

impl SpillOver {
    /// The call as a ticket for later; see [`Deferred`]. The request stays with the signal.
    ///
    /// If the server may have processed the request ([`possibly_processed`](Self::possibly_processed)), the ticket says
    /// so; whether to send it again is for the caller to decide.
    ///
    /// # Errors
    ///
    /// [`NotDeferrable`] if there is no copy of the request: its body is a stream, or [`take_request`](Self::take_request)
    /// has taken it.
    pub fn into_deferred(self) -> Result<Deferred, NotDeferrable> {
        self.into_deferred_with(|_| false)
    }

    /// As [`into_deferred`](Self::into_deferred), with the headers that `keep` names as well. Those that carry a credential
    /// are left out all the same.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn into_deferred_with(self, keep: impl Fn(&HeaderName) -> bool) -> Result<Deferred, NotDeferrable> {
        self.with_request(|request| Deferred::new(&self, request, keep)).flatten().ok_or(NotDeferrable)
    }
}

impl Deferred {
    fn new(spill: &SpillOver, request: &Request, keep: impl Fn(&HeaderName) -> bool) -> Option<Self> {
        let body = match request.body() {
            Some(body) => TicketBody::new(body.as_bytes()?),
            None => None,
        };
        let kept = |(name, value): &(&HeaderName, &HeaderValue)| {
            name.as_str() != IDEMPOTENCY_KEY
                && !identifies_caller(name, value)
                && (KEPT_HEADERS.contains(&name.as_str()) || keep(name))
        };
        let text = |(name, value): (&HeaderName, &HeaderValue)| {
            Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned()))
        };
        let key = request.headers().get(IDEMPOTENCY_KEY).filter(|key| !key.is_sensitive());
        let key = key.and_then(|key| key.to_str().ok());
        let mut url = request.url().clone();
        strip_url(&mut url, |_| false);
        url.set_fragment(None);
        Some(Self {
            version: VERSION,
            method: request.method().clone(),
            url: url.into(),
            headers: request.headers().iter().filter(kept).filter_map(text).collect(),
            body,
            idempotency_key: key.map(str::to_owned),
            retry_at: spill.retry_at().and_then(|at| Timestamp::try_from(at).ok()),
            reason: spill.reason().as_str().to_owned(),
            attempts: spill.attempts(),
            possibly_processed: spill.possibly_processed(),
            settings: spill.settings(),
        })
    }

    /// Takes a parameter off the URL, for one that is a secret under a name of one's own.
    #[must_use]
    pub fn without_query(mut self, name: &str) -> Self {
        if let Ok(mut url) = Url::parse(&self.url) {
            keep_query(&mut url, |other, _| other != name);
            self.url = url.into();
        }
        self
    }

    /// The call again, with `credential` on it, the same idempotency key, and the budget, priority and other settings that
    /// it was made with. The whole budget counts anew from `send()`.
    ///
    /// # Errors
    ///
    /// As [`into_request`](Self::into_request).
    pub fn into_call(
        mut self,
        client: &ClientWithMiddleware,
        credential: &Credential,
    ) -> Result<RequestBuilder, InvalidTicket> {
        let settings = std::mem::take(&mut self.settings);
        let request = self.into_request(credential)?;
        Ok(settings.apply(RequestBuilder::from_parts(client.clone(), request)))
    }

    /// The request alone, with `credential` on it and the same idempotency key, for clients other than reqwest-middleware's.
    /// It has no room for the call's budget and priority; [`into_call`](Self::into_call) keeps them.
    ///
    /// # Errors
    ///
    /// [`InvalidTicket`] if the ticket was changed on its way, so that its URL, a header or its body is not valid, or if no
    /// header can carry the credential.
    pub fn into_request(self, credential: &Credential) -> Result<Request, InvalidTicket> {
        credential.check()?;
        let mut url = super::target::checked_url(&self.url).ok_or(InvalidTicket::Url)?;
        let mut headers = HeaderMap::new();
        let key = self.idempotency_key.map(|key| (IDEMPOTENCY_KEY.to_owned(), key));
        for (name, value) in self.headers.into_iter().chain(key) {
            let name = HeaderName::try_from(name).map_err(|_| InvalidTicket::Header)?;
            headers.append(name, HeaderValue::try_from(value).map_err(|_| InvalidTicket::Header)?);
        }
        credential.apply(&mut headers, &mut url);
        let mut request = Request::new(self.method, url);
        *request.headers_mut() = headers;
        *request.body_mut() = match self.body {
            Some(TicketBody::Text(text)) => Some(text.into()),
            Some(TicketBody::Base64(coded)) => {
                Some(BASE64_STANDARD.decode(coded).map_err(|_| InvalidTicket::Body)?.into())
            }
            None => None,
        };
        Ok(request)
    }

    /// The request's method.
    #[must_use]
    pub const fn method(&self) -> &Method {
        &self.method
    }

    /// The request's URL, without user information and credential parameters.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The moment, by the wall clock, before which sending is of no use; `None` if no deployment named one.
    #[must_use]
    pub fn retry_at(&self) -> Option<SystemTime> {
        let since_epoch = Duration::try_from(self.retry_at?.as_duration()).unwrap_or_default();
        SystemTime::UNIX_EPOCH.checked_add(since_epoch)
    }

    /// The time from `now` to [`retry_at`](Self::retry_at); zero if it is past or not known.
    #[must_use]
    pub fn wait(&self, now: SystemTime) -> Duration {
        self.retry_at().and_then(|at| at.duration_since(now).ok()).unwrap_or_default()
    }

    /// Why the call was put off: the name of a [`Reason`](crate::Reason), as [`as_str`](crate::Reason::as_str) has it.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// How many times the request was sent before it was put off.
    #[must_use]
    pub const fn attempts(&self) -> u32 {
        self.attempts
    }

    /// The key that lets a server see that two requests are one call.
    #[must_use]
    pub fn idempotency_key(&self) -> Option<&str> {
        self.idempotency_key.as_deref()
    }

    /// Whether a server may have processed the request already.
    #[must_use]
    pub const fn possibly_processed(&self) -> bool {
        self.possibly_processed
    }
}

/// Neither the path nor the body, which are the caller's own.
impl fmt::Debug for Deferred {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deferred")
            .field("method", &self.method)
            .field("retry_at", &self.retry_at)
            .field("reason", &self.reason)
            .field("attempts", &self.attempts)
            .finish_non_exhaustive()
    }
}

/// There is no copy of the request to put off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("there is no copy of the request: its body is a stream, or take_request took it")]
#[non_exhaustive]
pub struct NotDeferrable;

/// A ticket that makes no request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidTicket {
    /// The URL is no absolute `http` or `https` URL without credentials.
    #[error("the ticket's URL must be an absolute http or https URL without credentials")]
    Url,
    /// A header has a name or value that no header can have.
    #[error("a header of the ticket has a name or value that no header can have")]
    Header,
    /// The body is not in the encoding that it says.
    #[error("the ticket's body is not the Base64 that it says it is")]
    Body,
    /// The credential cannot be used.
    #[error(transparent)]
    Credential(#[from] InvalidCredential),
}
