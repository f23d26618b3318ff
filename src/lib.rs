//! Admission control for reqwest: a 429 becomes a decision.
//!
//! ```no_run
//! use reqwest_admission::AdmissionClient;
//!
//! async fn items() -> Result<String, Box<dyn std::error::Error>> {
//!     let client = AdmissionClient::builder(reqwest::Client::builder()).build()?;
//!     Ok(client.get("https://api.example/v1/items").send().await?.text().await?)
//! }
//! ```
//!
//! The middleware [`Admission`] reads what a response says about capacity and then does one of three things
//! ([`Decision`]): hands the response on, waits for as long as the server asks and sends again, or gives the call up
//! at once with a [`SpillOver`], because the wait is longer than the call's [`LatencyBudget`] or would not help.
//!
//! ```no_run
//! use std::time::Duration;
//! use reqwest_admission::{LatencyBudget, SpillOver};
//!
//! async fn example(client: reqwest_middleware::ClientWithMiddleware) -> reqwest_middleware::Result<()> {
//!     let call = client.post("https://api.example/v1/generate").body("a prompt");
//!     let outcome = call.with_extension(LatencyBudget::new(Duration::from_secs(5))).send().await;
//!     match SpillOver::of(&outcome) {
//!         Some(spill) => println!("{spill}; try again at {:?}", spill.retry_at()),
//!         None => println!("{}", outcome?.text().await?),
//!     }
//!     Ok(())
//! }
//! ```
//!
//! # Where things are
//!
//! | Room | What it holds |
//! |---|---|
//! | [`AdmissionClient`], [`AdmissionClientBuilder`] | a client in which nothing else retries |
//! | [`Admission`], [`AdmissionBuilder`] | the middleware, for a stack of your own |
//! | [`AdmissionClient`], [`RetryConflict`], [`verify_sole_owner`], [`who_retries`] | one owner of repeats in a stack of layers |
//! | [`SpillOver`] | the signal that a call was given up, with the server's last response |
//! | [`spill`], [`Deployment`], [`Deferred`] | other deployments that take a spilled call; tickets for a job queue |
//! | [`gate`] | who may send, and when: scopes, cool-downs, permits, priorities |
//! | [`observe`], [`CallReport`] | events, fields, the observer; what happened to one call |
//! | [`policy`], [`AdmissionPolicy`] | every setting, its default, its allowed range |
//! | [`budget`], [`LatencyBudget`] | the time of one call; the share of re-sends of a client |
//! | [`decision`], [`decide`] | the decision itself, a pure function |
//! | [`reading`], [`Reading`] | what one response says, read without any client |
//! | [`jitter`] | the random part of a wait |
//! | [`pace`] | the arithmetic of one scope: levels, paced re-opening, learning |
//! | [`units`] | what servers count |
//!
//! Those from [`budget`] on are pure: time and chance are arguments, so that other stacks can use them without any client and
//! tests need no clock.
//!
//! [`walk`] follows one 429 through the code, file by file, and names the tests of each law.
//!
//! # What holds
//!
//! * Nothing is sent before the moment the server named, counted from the receipt of its response, by any call of the
//!   scope. Jitter only adds.
//! * A wait is tested as a whole against what is left of the budget. It is never shortened to fit.
//! * A refusal without advice is answered with backoff, not with an immediate repeat.
//! * A response that may have been processed is repeated only where that is harmless.
//! * The caller can always reach the server's last response. Errors of other layers pass through untouched.
//!
//! # Order with other middlewares
//!
//! The first `.with()` is outermost. Put [`Admission`] outside of whatever must happen anew for each attempt
//! (signatures, spans of an attempt), and leave out other retry layers: two of them multiply their attempts.
//! [`AdmissionClient`] sees to all of that; take it where a layer inside reads or copies the body. See [`who_retries`].
//!
//! # Cancel safety
//!
//! Dropping the future of a call ends it at any point: nothing is sent after the drop, and no task or timer is left
//! behind. There is no background task; everything happens in the callers' futures.
//!
//! # Timeouts
//!
//! The latency budget, 30 s by default, is a deadline for the response *head*. A response that has begun is never cut.
//! Calls whose head takes longer, as that of a language model that does not stream, need a larger budget or
//! [`AttemptTimeout::Unclamped`](policy::AttemptTimeout::Unclamped).
//!
//! # Secrets
//!
//! No event, report or error text holds a path, query, header value, body or credential; of what a server sends only
//! the request id is shown, if it is short and printable.
//!
//! # Features
//!
//! | Feature | Default | What it adds |
//! |---|---|---|
//! | `estimate` | off | `estimate::BodyEstimator`: token estimates read off JSON request bodies |
//! | `metrics` | off | counters and histograms through the `metrics` facade, see [`observe`] |
//!
//! reqwest is used without its default features; TLS and the rest are what your own dependency on it says.
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects, clippy::as_conversions, clippy::print_stdout))]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod body;
pub mod budget;
mod client;
mod clock;
mod credentials;
pub mod decision;
mod error_chain;
#[cfg(feature = "estimate")]
#[cfg_attr(docsrs, doc(cfg(feature = "estimate")))]
pub mod estimate;
pub mod gate;
pub mod jitter;
mod middleware;
pub mod observe;
mod ownership;
pub mod pace;
pub mod policy;
pub mod reading;
mod scope;
pub mod spill;
mod unharmed;
pub mod units;
mod usage;
pub mod walk;
pub mod who_retries;

pub use budget::LatencyBudget;
pub use client::{AdmissionClient, AdmissionClientBuilder, ClientBuildError};
pub use decision::{Decision, Reason, decide};
pub use middleware::{Admission, AdmissionBuilder, BuildError};
pub use observe::CallReport;
pub use ownership::{ConflictKind, RetryConflict, SoleOwnerReport, SoleOwnerVerdict, verify_sole_owner};
pub use policy::AdmissionPolicy;
pub use reading::Reading;
pub use spill::{Credential, Deferred, Deployment, FailOver, SpillOver};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
