//! Spill-over: a call that the primary will not take in time goes to another deployment, comes back as a signal, or is
//! parked for later.
//!
//! # Routes
//!
//! [`AdmissionBuilder::spill_to`](crate::AdmissionBuilder::spill_to) names the [`Deployment`]s that may take such a call,
//! [`AdmissionBuilder::primary`](crate::AdmissionBuilder::primary) the URLs whose calls are routed. Unless a [`Router`] says
//! otherwise,
//!
//! * a wait that fits into the latency budget, less a reserve for the spill-over, is honoured on the primary;
//! * a call whose expected wait does not fit leaves: before it is sent if the gate knows, else after the refusal. So does
//!   a call that waited twice and was refused again;
//! * a call that could not be sent, since the primary refuses connections or does not resolve, leaves at once, and
//!   further failures as [`FailOver`] says;
//! * once calls have left after a refusal, the first that the primary's gate admits is the one probe; until it is answered,
//!   others go to a deployment that takes them at once. Its success brings all back.
//!
//! One deadline holds over all legs. Each deployment is tried at most once per call, is held to its own scope at the gate, and
//! has its own attempts. After a refusal before processing (429, 503 with advice, 529), or before it was sent, any call may go
//! on; after a failure only one that is harmless to repeat; with a body that cannot be copied only one that was never sent. If
//! the answer comes from another deployment, it is an ordinary response; its [`CallReport`](crate::CallReport::legs) says
//! which deployments it went to, why, and what each cost. If the last deployment refuses as well, the [`SpillOver`] has
//! [all legs](SpillOver::legs).
//!
//! # What reaches another deployment
//!
//! The boundary is around the client. A deployment on another origin (scheme, host, port) than the primary is never reached
//! through the primary's client or the layers inside of the admission layer, so nothing that those add can reach it:
//! default headers, cookies, tokens, signatures. It has the client of [`Deployment::client`], or a plain one.
//!
//! | Of the call | To another origin | To the primary's origin |
//! |---|---|---|
//! | method, path (unless the deployment has its own), body | yes | yes |
//! | headers that say what a request is: `Accept*`, `Content-*`, `User-Agent`, `Idempotency-Key`, `traceparent`, `tracestate`, `Range`, `If-*`, `Prefer`, `Cache-Control`, `OpenAI-Beta`, `Anthropic-Version`, `Anthropic-Beta` | yes | yes |
//! | the same, marked [sensitive](http::HeaderValue::set_sensitive) | no | no |
//! | headers named with [`forward_header`](Deployment::forward_header) | yes | yes |
//! | credentials, cookies, account headers such as `OpenAI-Organization` | no | no |
//! | all other headers, `Baggage` and `Referer` among them | no | yes |
//! | user information of the URL | no | no |
//! | query parameters named like a credential | no, unless [`forward_query`](Deployment::forward_query) | the same |
//! | other query parameters | yes | yes |
//! | [`RequestBuilder::timeout`](reqwest::RequestBuilder::timeout), HTTP version | yes | yes |
//! | extensions of the request and of the call | no; layers of the target's client see the `CallReport` alone | yes |
//! | default headers and cookies of the primary's client, what its layers add | no | yes |
//!
//! A name is that of a credential by its words, however they are spelled or put together: `token`, `key`, `auth`, `session`,
//! `signature`, `pass`, `code` and others; `page_token`, `max_tokens`, `sort_key` and the like are known not to be. A JSON
//! web token is one under any name, and so is a header's value of the form `Bearer ...`. Take off others with [`remove_header`](Deployment::remove_header) and [`remove_query`](Deployment::remove_query).
//!
//! **Path and body are not searched.** They are what the call asks for; a secret in them goes along. A deployment with a
//! path of its own and [`map_body`](Deployment::map_body) change that.
//!
//! The deployment's own [`Credential`] is added last. The plain client follows redirects within the deployment's origin only,
//! so that the credential goes nowhere else; a redirect to another origin is the answer. A client of yours does what it is
//! built to do. Attempts are sealed there, so a 307 or 308 of a request with a body is not followed.
//!
//! A deployment on the primary's origin, such as another path or account, is reached through the primary's stack, which may
//! add the primary's credential again; give it a client of its own if it has another one.
//!
//! # When the service's own spill-over is better
//!
//! Azure OpenAI can [spill over by itself](https://learn.microsoft.com/azure/ai-foundry/openai/how-to/spillover-traffic-management)
//! from a provisioned deployment to a standard one of the same resource. It costs no extra round trip, needs no second
//! credential and never waits; use it if every refused call should leave at once and both are in one resource. Routes
//! of your own are for short waits that are worth honouring, for other regions, resources, accounts or vendors, for shares
//! and priorities, and for one budget over all of it. Both may be in use: what the service spilled is reported
//! ([`CallReport::native_spill_over`](crate::CallReport::native_spill_over)) and counted, and the limits that it then states are
//! not taken for the primary's.
//!
//! # Parking
//!
//! [`SpillOver::into_deferred`] makes a [`Deferred`] ticket that a job queue can carry.
//!
//! # Cancel safety
//!
//! Dropping a call's future ends it on whichever leg it is. A probe that is dropped leaves the primary to the next call.

mod circuit;
mod credential;
mod deferred;
mod error;
mod leg;
mod rewrite;
mod route;
mod router;
mod routes;
mod signal;
mod target;
mod ticket;
mod transport;
mod written;

pub use circuit::FailOver;
pub use credential::{Credential, InvalidCredential};
pub use deferred::{Deferred, InvalidTicket, NotDeferrable};
pub use error::{RouteError, RouteProblem};
pub use leg::LegReport;
pub use route::Deployment;
pub use router::{CallAttributes, Choice, DeploymentState, RouteCall, Router, Stage};
pub(crate) use signal::Facts;
pub use signal::SpillOver;

pub(crate) use circuit::{Circuits, Entrance, Trial};
pub(crate) use leg::Quiet;
pub(crate) use router::usual_target;
pub(crate) use routes::{RouteSettings, Routes};
pub(crate) use target::Target;

/// What the deployment is called that the caller asked.
pub(crate) const PRIMARY: &str = "primary";
