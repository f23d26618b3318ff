//! # Who retries?
//!
//! A page of documentation. Two layers that both retry multiply: five attempts of one, each with three of the other,
//! are fifteen requests, sent to a server that has just asked for fewer. So one layer of a stack owns the repeats.
//! This page says what is done about the others.
//!
//! * **Prevented**: it cannot happen. reqwest's own retries are switched off, or the attempt is sealed.
//! * **Detected**: it is stopped, with a [`RetryConflict`] that says which layer it is, as far as that can be seen, and what
//!   to do. Most are stopped before a second copy reaches the wire; a layer that sends requests of its own, after the first
//!   refusal. It is also an event, a metric and in [`CallReport::conflicts`].
//! * **Invisible**: nothing in the process shows it. [`verify_sole_owner`] counts on the wire, and the shared cool-down of a
//!   scope limits the harm.
//!
//! # Which constructor
//!
//! | Your case | Take |
//! |---|---|
//! | You build the client yourself | [`AdmissionClient`] |
//! | Redirects 307 or 308 of requests with a body | [`AdmissionClient`] |
//! | A layer signs the body, refreshes tokens or caches *inside* of the admission layer | [`AdmissionClient`] |
//! | HTTP/2 to a server that closes connections in mid-flight, and every request counts | [`Admission`] with [`RetryOwnership::Report`] |
//! | The client is built elsewhere, and you can add a middleware | [`Admission`], outermost |
//!
//! [`AdmissionClient`] owns reqwest's builder: it switches reqwest's own retries off, puts the admission layer outermost and a
//! guard innermost, and refuses layers that are known to retry. Requests stay as they are.
//!
//! A bare [`Admission`] cannot know what is below it. So it **seals** each attempt: the body is wrapped so that
//! `Request::try_clone` returns `None`. Whatever is below can send the request once and cannot copy it.
//!
//! # What sealing costs
//!
//! On HTTP/1 the same bytes are sent, framed in the same way. But for layers inside, and for reqwest itself:
//!
//! * A redirect 307 or 308 of a request with a body is not followed. The caller gets the 307. Redirects of a request
//!   without a body, and 301, 302 and 303, are followed as always.
//! * Layers that read `request.body().as_bytes()`, as some signatures do, find `None`.
//! * Layers that copy the request, to send it again with a fresh token or without a condition, cannot. Most of them then
//!   hand the first response on: the caller sees the 401. Outside of the admission layer they work.
//! * reqwest-retry inside fails every call, also those that would have succeeded: it copies before it sends.
//! * HTTP/2 requests that the server says it never looked at (`GOAWAY`, `REFUSED_STREAM`) are not sent anew by reqwest, as
//!   under [`AdmissionClient`]. Where a repeat is harmless, the admission layer repeats them.
//!
//! A deployment's [own client](crate::Deployment::client) is held to the same: a guard stands at its inner end, and what the
//! guard lets through is sealed for reqwest. Outside of an [`AdmissionClient`] the attempt is sealed before it enters, so
//! that the client's layers cannot read or copy the body either.
//!
//! The opt-out is [`RetryOwnership::Report`]: attempts are not sealed, and conflicts are only reported.
//!
//! # The tables
//!
//! Each row is a test of `tests/stacking.rs`: one call, through the real layers, to a server on loopback that always
//! answers 429. The policy allows 3 attempts. The columns *fits* and *exceeds* have the requests that reach the server
//! if the advised wait fits into the latency budget and if it does not. With one owner they are 3 and 1.
//! reqwest-retry has 3 retries in these stacks, and reqwest's own policy 2. A layer that *builds requests anew* makes them of
//! method, URL and headers of the one that it was given, and sends up to 3.
//!
//! An outer layer may put the error into one of its own. [`SpillOver::of`] and [`RetryConflict::of`] look through it. What
//! they do not see any more is called *wrapped* here: a [`CallReport`] that was passed in with the call still has it.
//!
//! ## With `AdmissionClient`
//!
//! | Stack | fits | exceeds | the caller sees | why |
//! |---|---|---|---|---|
//! | none | 3 | 1 | `SpillOver` | |
//! | none, `OnSpill::Response` | 3 | 1 | `SpillOver` | |
//! | reqwest-retry | 0 | 0 | `RetryConflict`: `KnownRetryLayer` | detected by type at `build()` |
//! | reqwest-retry in a wrapper | 0 | 0 | `RetryConflict`: `KnownRetryLayer` | detected: the wrapper's type names it |
//! | reqwest-retry by `with_arc` | 1 | 1 | `RetryConflict`: `RepeatedAttempt` | detected: the guard counts |
//! | reqwest's own retry, for the host | 3 | 1 | `SpillOver` | prevented: switched off |
//! | reqwest's own retry, always | 3 | 1 | `SpillOver` | prevented: switched off |
//! | reqwest's own retry, out of scope | 3 | 1 | `SpillOver` | prevented: switched off |
//! | two admission layers | 0 | 0 | `RetryConflict`: `NestedAdmission` | detected by type at `build()` |
//! | two admission layers by `with_arc` | 0 | 0 | `RetryConflict`: `NestedAdmission` | detected: the inner one finds the outer one's mark |
//! | auth refresh | 3 | 1 | `SpillOver` | after a 401 the guard lets the attempt pass again |
//! | cache | 3 | 1 | `SpillOver` | after a 304 the guard lets the attempt pass again |
//! | tracing | 3 | 1 | `SpillOver` | |
//! | streaming body | 1 | 1 | `SpillOver` | it cannot be sent twice |
//! | body | 3 | 1 | `SpillOver` | |
//! | 302 | 3 | 1 | `SpillOver` | followed at each attempt |
//! | 302, body | 3 | 1 | `SpillOver` | followed as a GET |
//! | 307 | 3 | 1 | `SpillOver` | followed at each attempt |
//! | 307, body | 3 | 1 | `SpillOver` | followed with its body |
//! | sends twice | 1 | 1 | `RetryConflict`: `RepeatedAttempt` | detected: the guard counts |
//! | builds requests anew | 1 | 1 | `RetryConflict`: `RepeatedAttempt` | detected: the guard counts |
//! | builds requests anew, with new extensions | 3 | 3 | `RetryConflict`: `ReplacedRequest` | detected after the first refusal, which the guard has not seen coming |
//! | sends twice, with new extensions | 2 | 2 | `RetryConflict`: `ReplacedRequest` | detected after the first refusal |
//! | sends by a client of its own | 3 | 3 | `RetryConflict`: `ReplacedRequest` | detected after the first refusal |
//! | hedge | 3 | 1 | `SpillOver` | detected: the second copy is stopped, the first goes on |
//!
//! The guard lets an attempt pass again after a response that no layer retries for lack of capacity: anything but 408,
//! 425, 429 and 5xx. After those, after a failure, and while the first is on its way, a second is stopped.
//!
//! ## Around a client that exists
//!
//! | Stack | fits | exceeds | the caller sees | why |
//! |---|---|---|---|---|
//! | none | 3 | 1 | `SpillOver` | |
//! | reqwest-retry outside | 3 | 1 | `SpillOver` | the signal is an error that it does not retry |
//! | reqwest-retry outside, `OnSpill::Response` | 3 | 1 | `RetryConflict`: `Reentry` | detected: the call comes again after it was given up |
//! | reqwest-retry inside | 0 | 0 | `RetryConflict`: `CopiedAttempt` | prevented by the seal; the error says what to do |
//! | reqwest-retry outside and inside | 0 | 0 | `RetryConflict`: `CopiedAttempt`, wrapped | prevented by the seal |
//! | reqwest's own retry, for the host | 3 | 1 | `SpillOver` | prevented by the seal |
//! | reqwest's own retry, always | 3 | 1 | `SpillOver` | prevented by the seal |
//! | reqwest's own retry, out of scope | 3 | 1 | `SpillOver` | prevented by the seal |
//! | reqwest's own retry, POST | 3 | 1 | `SpillOver` | prevented by the seal |
//! | two admission layers | 0 | 0 | `RetryConflict`: `NestedAdmission` | detected: the inner one finds the outer one's mark |
//! | auth refresh outside | 3 | 1 | `SpillOver` | a repeat after a 401 is not a conflict |
//! | auth refresh inside | 3 | 1 | `SpillOver` | but it cannot refresh: see the costs of sealing |
//! | cache outside | 3 | 1 | `SpillOver` | |
//! | cache inside | 3 | 1 | `SpillOver` | but it cannot revalidate: see the costs of sealing |
//! | tracing outside | 3 | 1 | `SpillOver` | |
//! | tracing inside | 3 | 1 | `SpillOver` | |
//! | streaming body | 1 | 1 | `SpillOver` | it cannot be sent twice |
//! | body | 3 | 1 | `SpillOver` | |
//! | 302 | 3 | 1 | `SpillOver` | followed at each attempt |
//! | 302, body | 3 | 1 | `SpillOver` | followed as a GET |
//! | 307 | 3 | 1 | `SpillOver` | followed at each attempt |
//! | 307, body | 0 | 0 | the 307 | not followed: see the costs of sealing |
//! | sends twice, outside | 3 | 1 | `RetryConflict`: `Reentry` | detected: the call comes again after it was given up |
//! | sends twice, inside | 0 | 0 | the layer's error | prevented by the seal |
//! | builds requests anew, inside | 3 | 3 | `RetryConflict`: `ReplacedRequest` | detected after the first refusal: the sealed request never came to the client |
//! | sends by a client of its own, inside | 3 | 3 | `RetryConflict`: `ReplacedRequest` | detected after the first refusal |
//! | hedge, inside | 0 | 0 | the layer's error | prevented by the seal |
//!
//! A layer that sends a request of its own in place of the attempt's hides how often it sends. Its successes pass. After a
//! refusal or failure that came over a connection the call ends: the error is the [`RetryConflict`] and the [`SpillOver`]
//! with the response, and a failure such as 500 is handed on as it is. If such a layer sends only once, have it hand on the
//! request and the extensions that it was given, or use [`RetryOwnership::Report`].
//!
//! ## What is not stopped
//!
//! | Stack | fits | exceeds | the caller sees | why |
//! |---|---|---|---|---|
//! | `Report`: reqwest-retry inside | 12 | 4 | `SpillOver` | invisible: nothing is sealed and there is no guard |
//! | `Report`: reqwest's own retry | 9 | 3 | `SpillOver` | invisible: it is below all middlewares |
//! | `Report`: reqwest's own retry, out of scope | 6 | 2 | `SpillOver` | invisible; reqwest checks the scope only after the first repeat |
//! | `Report`: `AdmissionClient` with reqwest-retry | 12 | 4 | `SpillOver` | detected and only reported |
//! | hedge outside | 6 | 2 | `SpillOver` | invisible: two calls at the same time, each with its own extensions |
//! | `Report`: builds requests anew, inside | 9 | 3 | `SpillOver` | detected and only reported under `AdmissionClient`, else invisible |
//! | `AdmissionClient`: reqwest-retry added to the built client | 12 | 4 | `SpillOver` | invisible: it is inside of the guard |
//!
//! Do not add layers to a client that [`AdmissionClient`] built: `ClientBuilder::from_client(..).with(..)` puts them inside of
//! the guard. [`verify_sole_owner`] finds all rows of this table.
//!
//! ## Where the server does not answer
//!
//! One call to a server that never answers, by the default policy (30 s, 6 attempts), with a layer that drops each try after
//! 7 s and sends another, for two minutes. With one owner it is sent once.
//!
//! | Stack | requests | the caller sees | why |
//! |---|---|---|---|
//! | the layer inside | 0 | the layer's error | prevented by the seal |
//! | the layer inside, `AdmissionClient` | 1 | `RetryConflict`: `RepeatedAttempt` | detected: the guard counts |
//! | the layer inside, builds requests anew | 5 | `SpillOver` | invisible without a response; the budget ends it |
//! | the layer outside | 5 | `RetryConflict`: `Reentry` | detected once attempts or time of the call are used up |
//! | the layer outside, a copy of the extensions for each try | 17 | the layer's error | invisible: each try is a call of its own |
//!
//! [`verify_sole_owner`] does not see them, since its listener answers at once. Have [`LatencyBudget`] be the only time limit
//! outside of the admission layer, and `RequestBuilder::timeout` that of an attempt.
//!
//! # A retry layer outside
//!
//! Two things are told apart. A call that was *refused* ends at its [`SpillOver`], an error that retry layers do not repeat.
//! A *failure* such as 500, after our own repeats if it may be repeated, is handed on as it is, and a layer outside may send
//! the call again. Each of its sends is one request, since the attempts of earlier runs count: GET with 3 attempts of ours
//! and 3 retries of reqwest-retry is sent 6 times, POST 4 times, and the caller gets the last 500 with its body.
//! [`SoleOwnerReport::failure_arrivals`] shows whether there is such a layer.
//!
//! # Loops around the client
//!
//! A loop that makes each call anew, as SDKs, `backon`, tower's `Retry` and a hand-written `for` do, shares nothing with
//! the call before. Two things hold it back. The signal is an error, which those loops that look at statuses do not
//! retry. And the server's advice closes the scope for all calls: a call that comes before its end, and whose budget does not
//! reach to it, spills over on the spot without a request. If the advice fits, each call makes its own 3 attempts, and the
//! loop multiplies them: it should stop at a [`SpillOver`].
//!
//! | Loop | fits | exceeds | why |
//! |---|---|---|---|
//! | async-openai by `with_http_service` | 3 | 1 | this takes the place of its retry layer |
//! | async-openai with its retry layer around us | 3 | 1 | the signal is an error that it does not retry |
//! | the same, `OnSpill::Response` | 12 | 1 | new calls; refused while the scope is closed |
//! | a hand-written loop of 20 calls | 60 | 1 | new calls; refused while the scope is closed |
//! | `backon`, 20 retries | 63 | 1 | new calls; refused while the scope is closed |
//! | tower's `Retry`, 20 retries | 63 | 1 | new calls; refused while the scope is closed |
//!
//! `examples/async_openai.rs` shows the first two beside async-openai alone.
//!
//! # The same extensions again
//!
//! `ClientWithMiddleware::execute_with_extensions` lets a caller keep the extensions. After a success or an ordinary error
//! such as a 404 they serve the next call. After a spill-over they do not, nor for a minute after a call was dropped on its
//! way and its deadline has passed: the next call is a [`ConflictKind::Reentry`]. Use new extensions for each call, or copies
//! of extensions that no call has used.
//!
//! # Evidence of others
//!
//! Two headers are read and reported, and stop nothing: `x-stainless-retry-count` of a request
//! ([`ConflictKind::AnnouncedRepeat`]: an SDK repeats), and `x-envoy-attempt-count` of a response
//! ([`ConflictKind::ProxyRepeat`]: a proxy repeats on its way to the server, and only the proxy's settings help).
//!
//! # A check at start-up
//!
//! [`verify_sole_owner`] sends one request through the client to a listener of its own on the loopback interface, which
//! refuses it, counts what arrives, and says which layer is the likely cause; then one that fails with a 500, to see
//! whether a layer outside repeats failures.
//!
//! ```no_run
//! # async fn example(client: reqwest_middleware::ClientWithMiddleware) -> std::io::Result<()> {
//! let report = reqwest_admission::verify_sole_owner(&client).await?;
//! if !report.is_sole_owner() {
//!     eprintln!("{} requests for one call: {:?}", report.arrivals(), report.verdict());
//! }
//! # Ok(())
//! # }
//! ```
//!
//! [`Admission`]: crate::Admission
//! [`AdmissionClient`]: crate::AdmissionClient
//! [`CallReport`]: crate::CallReport
//! [`CallReport::conflicts`]: crate::CallReport::conflicts
//! [`ConflictKind::AnnouncedRepeat`]: crate::ConflictKind::AnnouncedRepeat
//! [`ConflictKind::ProxyRepeat`]: crate::ConflictKind::ProxyRepeat
//! [`ConflictKind::Reentry`]: crate::ConflictKind::Reentry
//! [`LatencyBudget`]: crate::LatencyBudget
//! [`RetryConflict`]: crate::RetryConflict
//! [`RetryConflict::of`]: crate::RetryConflict::of
//! [`RetryOwnership::Report`]: crate::policy::RetryOwnership::Report
//! [`SoleOwnerReport::failure_arrivals`]: crate::SoleOwnerReport::failure_arrivals
//! [`SpillOver`]: crate::SpillOver
//! [`SpillOver::of`]: crate::SpillOver::of
//! [`verify_sole_owner`]: crate::verify_sole_owner
