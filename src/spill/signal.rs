//! The signal itself: [`SpillOver`].

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use http::{HeaderMap, StatusCode};
use reqwest::{Request, Response};

use super::LegReport;
use crate::body::LastResponse;
use crate::decision::Reason;
use crate::error_chain::{self, Echo};
use crate::reading::{Hint, NativeSpillOver, Reading};
use crate::request::CallSettings;

/// A call that was given up so that something else can take it.
///
/// By default `send()` returns it as an error, which outer layers do not retry; under
/// [`OnSpill::Response`](crate::policy::OnSpill) it marks the server's last response. [`SpillOver::of`] finds it in
/// both. Cloning is cheap.
///
/// Neither `Display` nor `Debug` shows headers, body, query or credentials.
///
/// ```
/// # async fn example(client: reqwest_middleware::ClientWithMiddleware) -> Result<(), reqwest_middleware::Error> {
/// use reqwest_admission::SpillOver;
///
/// let outcome = client.get("https://api.example/v1/items").send().await;
/// match SpillOver::of(&outcome) {
///     Some(spill) => println!("{}; try again at {:?}", spill.reason(), spill.retry_at()),
///     None => println!("{}", outcome?.status()),
/// }
/// # Ok(())
/// # }
/// ```
pub struct SpillOver {
    inner: Arc<Inner>,
    /// Its own cause, so that it is found in a wrapper that shows the causes of its cause as its own.
    echo: Option<Arc<Echo<Self>>>,
}

struct Inner {
    facts: Facts,
    /// The request or a copy of it, as the caller gave it. If the call was never sent, the first who asks takes it.
    request: Mutex<Option<Request>>,
}

/// What is known of a call that is given up.
pub(crate) struct Facts {
    pub(crate) reason: Reason,
    pub(crate) attempts: u32,
    pub(crate) waited: Duration,
    pub(crate) last: Option<LastResponse>,
    /// Whether the last response is what the call was given up for, and not that of an earlier attempt or another deployment.
    pub(crate) is_about_last: bool,
    /// The wait that the gate expects, and from when.
    pub(crate) expected: Option<(Duration, SystemTime)>,
    pub(crate) possibly_processed: bool,
    pub(crate) legs: Vec<LegReport>,
    pub(crate) never_sent: bool,
    /// What the call set for itself, for a ticket.
    pub(crate) settings: Option<Box<CallSettings>>,
}

impl Clone for SpillOver {
    fn clone(&self) -> Self {
        let echo = || Arc::new(Echo(Self { inner: Arc::clone(&self.inner), echo: None }));
        Self { inner: Arc::clone(&self.inner), echo: Some(self.echo.clone().unwrap_or_else(echo)) }
    }
}

impl SpillOver {
    /// The signal, with the request or a copy of it if there is one.
    pub(crate) fn new(facts: Facts, request: Option<Request>) -> Self {
        let inner = Arc::new(Inner { facts, request: Mutex::new(request) });
        Self { inner, echo: None }.clone()
    }

    /// The signal once more, if it is not itself the echo of another.
    pub(super) fn echo(&self) -> Option<&Echo<Self>> {
        self.echo.as_deref()
    }

    /// The signal in the outcome of `send()`, if the call was spilled over; errors are searched as by [`find`](Self::find).
    #[must_use]
    pub fn of(outcome: &Result<Response, reqwest_middleware::Error>) -> Option<&Self> {
        match outcome {
            Ok(response) => response.extensions().get::<Self>(),
            Err(error) => error_chain::in_middleware_error(error),
        }
    }

    /// The signal in `error` or its causes, for errors that have been boxed or wrapped on their way, as by a layer outside or
    /// by an SDK that is built on a client with this middleware.
    ///
    /// It sees through every error that names its cause by [`source`](std::error::Error::source), also if it shows that
    /// cause's causes in its place (`#[error(transparent)]`, as reqwest-retry and async-openai do), through `Box`, `Arc` (of
    /// `dyn Error`, too) and [`std::io::Error`]. It cannot see through an error that keeps only the text of its cause, or names none: a
    /// [`CallReport`](crate::CallReport) that the caller passed in with the call has the signal even then.
    ///
    /// ```
    /// use reqwest_admission::SpillOver;
    ///
    /// fn is_spilled(error: &(dyn std::error::Error + 'static)) -> bool {
    ///     SpillOver::find(error).is_some()
    /// }
    /// # assert!(!is_spilled(&std::fmt::Error));
    /// ```
    #[must_use]
    pub fn find<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a Self> {
        error_chain::find(error)
    }

    /// Why the call was given up.
    #[must_use]
    pub fn reason(&self) -> Reason {
        self.inner.facts.reason
    }

    /// Whether the call was given up because the server did not answer within the latency budget.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        self.reason() == Reason::NoResponse
    }

    /// How many times the request was sent.
    #[must_use]
    pub fn attempts(&self) -> u32 {
        self.inner.facts.attempts
    }

    /// How long the call waited between attempts.
    #[must_use]
    pub fn waited(&self) -> Duration {
        self.inner.facts.waited
    }

    /// The wait that the last response advised, in full, counted from its receipt; for a call that was not sent, the wait
    /// that the gate expects. Of several [legs](Self::legs) that of the one that [`retry_at`](Self::retry_at) is of.
    #[must_use]
    pub fn advised_wait(&self) -> Option<Duration> {
        let of_legs = self.first_of_legs().map(|(_, wait)| wait);
        of_legs.or(self.hint().map(Hint::wait)).or(self.inner.facts.expected.map(|(wait, _)| wait))
    }

    /// The moment, by the local wall clock, at which the server takes the next request, or after several
    /// [legs](Self::legs) the first of the deployments does; `None` if none named one.
    ///
    /// A ticket made of the signal has the same. If the reason is [`Reason::QuotaExhausted`] no wait is known to help.
    #[must_use]
    pub fn retry_at(&self) -> Option<SystemTime> {
        if let Some((first, _)) = self.first_of_legs() {
            return Some(first);
        }
        let expected = self.inner.facts.expected.and_then(|(wait, at)| at.checked_add(wait));
        let advised = self.reading().and_then(|reading| {
            let wait = reading.hint()?.wait();
            reading.received_at().checked_add(wait)
        });
        // The gate may know of a longer wait, from the refusal of another call.
        expected.max(advised)
    }

    /// The deployment that takes the next call first: when, and the wait until then.
    fn first_of_legs(&self) -> Option<(SystemTime, Duration)> {
        self.inner.facts.legs.iter().filter_map(|leg| leg.retry_at().zip(leg.advised_wait())).min()
    }

    /// The last advice and its source.
    #[must_use]
    pub fn hint(&self) -> Option<&Hint> {
        self.reading().and_then(Reading::hint)
    }

    /// What the last response said about capacity.
    #[must_use]
    pub fn reading(&self) -> Option<&Reading> {
        self.inner.facts.last.as_ref().map(LastResponse::reading)
    }

    /// The last response's status; `None` if there was no response.
    #[must_use]
    pub fn status(&self) -> Option<StatusCode> {
        self.reading().map(Reading::status)
    }

    /// The last response's headers.
    #[must_use]
    pub fn headers(&self) -> Option<&HeaderMap> {
        self.inner.facts.last.as_ref().map(LastResponse::headers)
    }

    /// The last response's body, at most the first 64 KiB; empty if there was none. A call that the head of the response
    /// decided waits for no body: then this is what had arrived with it.
    #[must_use]
    pub fn body(&self) -> &[u8] {
        self.inner.facts.last.as_ref().map_or(&[], LastResponse::body)
    }

    /// The last response's request id, if it has a short and printable one.
    #[must_use]
    pub fn request_id(&self) -> Option<&str> {
        self.reading().and_then(Reading::request_id)
    }

    /// Whether the server may have processed the request: an attempt was cut off by the latency budget before
    /// a response came, lost its connection, or ended in a failure such as 502 that leaves it open. Sending such a call
    /// elsewhere may do its work twice.
    #[must_use]
    pub fn possibly_processed(&self) -> bool {
        self.inner.facts.possibly_processed
    }

    /// The call's way over several deployments, the one that gave it up last included; empty if there are no others
    /// to go to.
    #[must_use]
    pub fn legs(&self) -> &[LegReport] {
        &self.inner.facts.legs
    }

    /// The marks of a service that spilled the call over by itself, or tried to and says why it could not.
    #[must_use]
    pub fn native_spill_over(&self) -> Option<&NativeSpillOver> {
        let of_legs = || self.inner.facts.legs.iter().rev().find_map(LegReport::native_spill_over);
        self.reading().and_then(Reading::native_spill_over).or_else(of_legs)
    }

    pub(super) fn settings(&self) -> CallSettings {
        self.inner.facts.settings.as_deref().cloned().unwrap_or_default()
    }

    /// Shows the request, if it or a copy of it is here.
    pub(super) fn with_request<T>(&self, show: impl FnOnce(&Request) -> T) -> Option<T> {
        self.request().as_ref().map(show)
    }

    /// The request, if it was never sent; the first caller gets it.
    #[must_use]
    pub fn take_request(&self) -> Option<Request> {
        if self.inner.facts.never_sent { self.request().take() } else { None }
    }

    fn request(&self) -> MutexGuard<'_, Option<Request>> {
        self.inner.request.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
mod text;
