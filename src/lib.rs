//! Rate limits for reqwest: a 429 becomes a decision.
//!
//! A call waits as long as the server asks if it has that long; otherwise it says so at once, or goes to another deployment.
//!
//! ```no_run
//! use std::time::Duration;
//! use reqwest_admission::{AdmissionClient, AdmissionRequestExt as _, SpillOver};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = AdmissionClient::builder(reqwest::Client::builder()).build()?;
//!
//! let call = client.get("https://api.example/v1/items");
//! let outcome = call.latency_budget(Duration::from_secs(5)).send().await;
//! match SpillOver::of(&outcome) {
//!     Some(spill) => println!("{spill}; try again at {:?}", spill.retry_at()),
//!     None => println!("{}", outcome?.text().await?),
//! }
//! # Ok(()) }
//! ```
//!
//! The client reads what a response says about capacity and makes one of three decisions ([`Decision`]): it hands the response
//! on, waits for as long as the server asks and sends again, or gives the call up with a [`SpillOver`], because the wait is
//! longer than the call's [`LatencyBudget`] or would not help. What one call learns holds for all others of the same limit.
//!
//! # Where to start
//!
//! | You want | Read |
//! |---|---|
//! | a client | [`AdmissionClient`], and for single calls [`AdmissionRequestExt`] |
//! | to know what happens on a refusal | [`guide::refusals`] |
//! | other budgets, attempts, backoff | [`guide::policy`] |
//! | limits, priorities, the state of a scope | [`guide::gate`] |
//! | other deployments, tickets for a job queue | [`guide::routes`] |
//! | logs, metrics, reports | [`guide::observing`] |
//! | tests with wiremock | [`guide::testing`] |
//! | to replace reqwest-retry, backon or a loop | [`guide::migrating`] |
//! | language models, async-openai | [`guide::language_models`] |
//! | a server that says things in its own way | [`guide::own_gateway`] |
//! | to keep other retry layers out | [`guide::ownership`], [`who_retries`] |
//! | the layer alone, in a stack of your own | [`Admission`] |
//!
//! [`walk`] follows one 429 through the code, file by file, and names the tests of each law.
//!
//! # What holds
//!
//! * Nothing is sent before the moment the server named, counted from the receipt of its response, by any call of the
//!   scope. Jitter only adds.
//! * A wait is tested as a whole against what is left of the budget. It is never shortened to fit.
//! * A refusal without advice is answered with backoff, not with an immediate repeat.
//! * A response that may have been processed is repeated only if that is harmless.
//! * The caller can always reach the server's last response. Errors of other layers pass through untouched.
//!
//! # Cancel safety
//!
//! Dropping the future of a call ends it at any point: nothing is sent after the drop, and its place in the queue, its permit
//! and its reservation are given back. There is no background task and no timer is left behind.
//!
//! # Timeouts
//!
//! The latency budget, 30 s by default, is a deadline for the response *head*. A response that has begun is never cut.
//! Calls whose head takes longer, for example those of a language model that does not stream, need a larger budget or
//! [`AttemptTimeout::Unclamped`](policy::AttemptTimeout::Unclamped).
//!
//! # Secrets
//!
//! No event, report or error text holds a path, query, header value, body or credential. Of what a server sends only
//! the request id is shown, if it is short and printable.
//!
//! # Without reqwest
//!
//! [`reading`], [`decision`], [`budget`] and [`jitter`] are pure: time and chance are arguments, so other stacks can use them
//! without any client, and tests need no clock.
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
#[cfg(any(doc, doctest))]
pub mod guide;
pub mod jitter;
mod middleware;
pub mod observe;
mod ownership;
pub mod pace;
pub mod policy;
pub mod reading;
mod request;
mod scope;
pub mod spill;
mod unharmed;
pub mod units;
mod usage;
pub mod walk;
pub mod who_retries;

pub use budget::LatencyBudget;
pub use client::{AdmissionClient, AdmissionClientBuilder, ClientBuildError, ClientStack};
pub use decision::{Decision, Reason, decide};
pub use middleware::{Admission, AdmissionBuilder, BuildError};
pub use observe::CallReport;
pub use ownership::{ConflictKind, RetryConflict, SoleOwnerReport, SoleOwnerVerdict, verify_sole_owner};
pub use policy::AdmissionPolicy;
pub use reading::Reading;
pub use request::AdmissionRequestExt;
pub use spill::{Credential, Deferred, Deployment, FailOver, SpillOver};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
