//! The client of a deployment on another origin, apart from the primary's.

use reqwest::redirect::Policy;
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
use std::time::Duration;

use crate::ownership::Guard;

/// As many redirects as reqwest follows by default.
const MOST_REDIRECTS: usize = 10;

/// A connection that takes longer has failed; then the next deployment is asked.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A client that knows nothing of the primary: no default headers, no cookies, no layers, no retries.
///
/// It follows redirects within an origin only. reqwest takes `Authorization` and `Cookie` off when a redirect leads
/// elsewhere, but no `api-key`; and `Referer` would reveal the query.
pub(super) fn plain() -> reqwest::Result<ClientWithMiddleware> {
    let within_origin = Policy::custom(|attempt| {
        let first = attempt.previous().first().map(reqwest::Url::origin);
        if first.as_ref() == Some(&attempt.url().origin()) && attempt.previous().len() <= MOST_REDIRECTS {
            attempt.follow()
        } else {
            attempt.stop()
        }
    });
    let client = reqwest::Client::builder()
        .redirect(within_origin)
        .referer(false)
        .retry(reqwest::retry::never())
        .connect_timeout(CONNECT_TIMEOUT)
        .build()?;
    Ok(client.into())
}

/// The client with a guard at its inner end, so that nothing in it sends an attempt twice.
pub(super) fn guarded(client: ClientWithMiddleware, guard: Guard) -> ClientWithMiddleware {
    ClientBuilder::from_client(client).with(guard).build()
}
