//! Spill-over: a call that the primary will not take in time goes to another deployment, comes back as a signal, or is
//! parked for later.
//!
//! # Routes
//!
//! [`AdmissionBuilder::spill_to`](crate::AdmissionBuilder::spill_to) names the [`Deployment`]s that may take such a call.
//! Unless a [`Router`] says otherwise,
//!
//! * a wait that fits into the latency budget, less a reserve for the spill-over, is honoured on the primary;
//! * a call whose expected wait does not fit leaves: before it is sent where the gate knows, else after the refusal. So does
//!   one whose honoured waits were in vain twice in a row;
//! * once calls have left after a refusal, the first that the primary's gate lets go is the one probe; until it is answered,
//!   others go where they are taken at once. Its success brings all back.
//!
//! One deadline holds over all legs. Each deployment is tried at most once per call, is held to its own scope at the gate, and
//! has its own attempts. A call goes on only where law and evidence say that nothing was done about it: after a refusal before
//! processing (429, 503 with advice, 529), or before it was sent; with a body that cannot be copied only the latter. Where
//! the answer comes from another deployment, it is an ordinary response; its [`CallReport`](crate::CallReport::legs) says
//! from where to where, why, and what each leg cost. Where the last deployment says no as well, the [`SpillOver`] has
//! [all legs](SpillOver::legs).
//!
//! # When the service's own spill-over is better
//!
//! Azure OpenAI can [spill over by itself](https://learn.microsoft.com/azure/ai-foundry/openai/how-to/spillover-traffic-management)
//! from a provisioned deployment to a standard one of the same resource. It costs no extra round trip, needs no second
//! credential and never waits; take it where every refusal had best leave at once and both are in one resource. Routes
//! of one's own are for short waits that are worth honouring, for other regions, resources, accounts or vendors, for shares
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

mod away;
mod credential;
mod deferred;
mod error;
mod leg;
mod rewrite;
mod route;
mod router;
mod routes;
mod signal;

pub use credential::{Credential, InvalidCredential};
pub use deferred::{Deferred, InvalidTicket, NotDeferrable};
pub use error::{RouteError, RouteProblem};
pub use leg::LegReport;
pub use route::Deployment;
pub use router::{CallAttributes, Choice, DeploymentState, RouteCall, Router, Stage};
pub(crate) use signal::Facts;
pub use signal::SpillOver;

pub(crate) use away::{Probe, Standing};
pub(crate) use leg::Quiet;
pub(crate) use route::Target;
pub(crate) use router::usual_target;
pub(crate) use routes::{RouteSettings, Routes};

/// What the deployment is called that the caller asked.
pub(crate) const PRIMARY: &str = "primary";
