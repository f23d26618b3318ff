//! [`Credential`]: what a deployment is shown.

use std::fmt;
use std::sync::Arc;

use http::HeaderMap;
use http::header::{self, HeaderName, HeaderValue};
use reqwest::Url;

use crate::credentials::set_query;

/// What a deployment wants to be shown: an API key in a header, a bearer token, a query parameter, or whatever a function
/// sets.
///
/// Neither `Debug` nor any error text shows it.
///
/// ```
/// use reqwest_admission::Credential;
///
/// let key = Credential::header("api-key", "0123");
/// assert_eq!(format!("{key:?}"), "Credential(header)");
/// ```
#[derive(Clone)]
pub struct Credential(Kind);

type Apply = dyn Fn(&mut HeaderMap, &mut Url) + Send + Sync;

#[derive(Clone)]
enum Kind {
    None,
    Header(Result<(HeaderName, HeaderValue), InvalidCredential>),
    Query(Arc<(String, String)>),
    Function(Arc<Apply>),
}

impl Credential {
    /// No credential.
    #[must_use]
    pub const fn none() -> Self {
        Self(Kind::None)
    }

    /// A header, for example `api-key`. A name or value that no header can have is an error when the credential is used.
    #[must_use]
    pub fn header(name: &str, value: &str) -> Self {
        let name = HeaderName::try_from(name).map_err(|_| InvalidCredential);
        let value = HeaderValue::try_from(value).map_err(|_| InvalidCredential);
        Self(Kind::Header(name.and_then(|name| {
            let mut value = value?;
            value.set_sensitive(true);
            Ok((name, value))
        })))
    }

    /// `Authorization: Bearer` ([RFC 6750](https://www.rfc-editor.org/rfc/rfc6750#section-2.1)).
    #[must_use]
    pub fn bearer(token: &str) -> Self {
        Self::header(header::AUTHORIZATION.as_str(), &format!("Bearer {token}"))
    }

    /// A query parameter.
    #[must_use]
    pub fn query(name: &str, value: &str) -> Self {
        Self(Kind::Query(Arc::new((name.to_owned(), value.to_owned()))))
    }

    /// Whatever `apply` sets, asked for each attempt: for tokens that are renewed. It runs in the task of the call and
    /// should return soon.
    #[must_use]
    pub fn from_fn(apply: impl Fn(&mut HeaderMap, &mut Url) + Send + Sync + 'static) -> Self {
        Self(Kind::Function(Arc::new(apply)))
    }

    pub(crate) const fn is_none(&self) -> bool {
        matches!(self.0, Kind::None)
    }

    /// Whether it can be used at all.
    pub(crate) fn check(&self) -> Result<(), InvalidCredential> {
        match &self.0 {
            Kind::Header(header) => header.as_ref().map(|_| ()).map_err(|invalid| *invalid),
            Kind::None | Kind::Query(_) | Kind::Function(_) => Ok(()),
        }
    }

    /// Sets it on a request that has no other.
    pub(crate) fn apply(&self, headers: &mut HeaderMap, url: &mut Url) {
        match &self.0 {
            Kind::None | Kind::Header(Err(_)) => {}
            Kind::Header(Ok((name, value))) => {
                headers.insert(name, value.clone());
            }
            Kind::Query(pair) => set_query(url, &pair.0, &pair.1),
            Kind::Function(apply) => apply(headers, url),
        }
    }

    /// What tells one credential from another, for the scope's keyed hash; nothing if it changes over time.
    pub(crate) fn identity(&self) -> Option<&[u8]> {
        match &self.0 {
            Kind::Header(Ok((_, value))) => Some(value.as_bytes()),
            Kind::Query(pair) => Some(pair.1.as_bytes()),
            Kind::None | Kind::Header(Err(_)) | Kind::Function(_) => None,
        }
    }
}

impl Default for Credential {
    fn default() -> Self {
        Self::none()
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.0 {
            Kind::None => "Credential(none)",
            Kind::Header(_) => "Credential(header)",
            Kind::Query(_) => "Credential(query)",
            Kind::Function(_) => "Credential(function)",
        })
    }
}

/// A credential that no header can carry. Says nothing of what it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the credential has a name or value that no header can carry")]
#[non_exhaustive]
pub struct InvalidCredential;
