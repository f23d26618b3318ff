//! The strategies side by side, each as a client process.

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, OnceLock};

use reqwest_admission::gate::Gate;
use reqwest_admission::pace::TokenEstimate;
use reqwest_admission::policy::AttemptTimeout;
use reqwest_admission::{Admission, AdmissionPolicy, CallReport, LatencyBudget};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Middleware, RequestBuilder};
use reqwest_retry::RetryTransientMiddleware;
use reqwest_retry::policies::ExponentialBackoff;
use tokio::time::Instant;

use crate::aws::Adaptive;
use crate::model::{Call, Oracle, Scenario, Way, World, play};
use crate::origin::Origin;
use crate::peers::{CoolDown, Repeat, Rule};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strategy {
    Oracle,
    Admission,
    ReqwestRetry,
    Fixed,
    HeaderExact,
    HeaderJittered,
    OpenAi,
    Aws,
    /// Ours without its gate: each call keeps to its own advice alone.
    NoGate,
    /// The cool-down of a scope and nothing else.
    CoolDown,
}

/// What a client process is made with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    pub(crate) seed: u64,
    pub(crate) process: usize,
    pub(crate) start: Instant,
    /// Attempts of a call, if not as many as by default.
    pub(crate) attempts: Option<u32>,
    /// Whether the client is told that other processes share its limits.
    pub(crate) is_told_of_fleet: bool,
}

impl Setting {
    pub(crate) const fn new(seed: u64, process: usize, start: Instant) -> Self {
        Self { seed, process, start, attempts: None, is_told_of_fleet: false }
    }
}

impl Strategy {
    /// Those of the model of a provisioned deployment.
    pub(crate) const ALL: [Self; 8] = [
        Self::Oracle,
        Self::Admission,
        Self::ReqwestRetry,
        Self::Fixed,
        Self::HeaderExact,
        Self::HeaderJittered,
        Self::OpenAi,
        Self::Aws,
    ];

    /// Those of the zoo.
    pub(crate) const ZOO: [Self; 4] = [Self::Admission, Self::ReqwestRetry, Self::NoGate, Self::CoolDown];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Oracle => "oracle",
            Self::Admission => "admission",
            Self::ReqwestRetry => "reqwest-retry",
            Self::Fixed => "fixed-1s",
            Self::HeaderExact => "header-exact",
            Self::HeaderJittered => "header-plus-25",
            Self::OpenAi => "openai-sdk",
            Self::Aws => "aws-adaptive",
            Self::NoGate => "no-gate",
            Self::CoolDown => "cool-down",
        }
    }

    /// Whether this is one of the others.
    pub(crate) const fn is_peer(self) -> bool {
        !matches!(self, Self::Oracle | Self::Admission)
    }

    /// Whether its figures differ from run to run, though the seed is the same: it draws from the system's randomness,
    /// and takes no other.
    pub(crate) const fn varies(self) -> bool {
        matches!(self, Self::ReqwestRetry)
    }

    /// The name as it stands in a table.
    pub(crate) fn label(self) -> String {
        format!("{}{}", self.name(), if self.varies() { " (varies)" } else { "" })
    }

    /// Plays a scenario, all of whose processes follow this strategy.
    pub(crate) fn play(self, scenario: Scenario) -> Arc<World> {
        if self == Self::Oracle {
            return play(scenario, |_, _| Oracle);
        }
        play(scenario, |world, process| {
            let origin = Origin(Arc::clone(world));
            let is_told_of_fleet = scenario.processes > 1;
            let setting = Setting { is_told_of_fleet, ..Setting::new(scenario.seed, process, world.start) };
            Process { client: self.client(&setting, origin) }
        })
    }

    /// The client of one process.
    pub(crate) fn client(self, setting: &Setting, origin: impl Middleware) -> ClientWithMiddleware {
        let Setting { seed, process, start, .. } = *setting;
        // No request ever reaches it.
        static CLIENT: OnceLock<reqwest::Client> = OnceLock::new();
        let stack = ClientBuilder::new(CLIENT.get_or_init(reqwest::Client::new).clone());
        let repeat = |rule| Repeat::new(rule, seed, process);
        let stack = match self {
            // A lone caller with perfect knowledge sends exactly at the advised moment; of many, see `play`.
            Self::Oracle => stack.with(repeat(Rule::Header { jitter: 0.0 })),
            Self::Admission => stack.with(admission(setting, true)),
            Self::NoGate => stack.with(admission(setting, false)),
            Self::CoolDown => stack.with(CoolDown::new(seed, process)),
            Self::ReqwestRetry => {
                let policy = ExponentialBackoff::builder().build_with_max_retries(3);
                stack.with(RetryTransientMiddleware::new_with_policy(policy))
            }
            Self::Fixed => stack.with(repeat(Rule::Fixed)),
            Self::HeaderExact => stack.with(repeat(Rule::Header { jitter: 0.0 })),
            Self::HeaderJittered => stack.with(repeat(Rule::Header { jitter: 0.25 })),
            Self::OpenAi => stack.with(repeat(Rule::OpenAi)),
            Self::Aws => stack.with(Adaptive::new(seed, process, start)),
        };
        stack.with(origin).build()
    }
}

/// The middleware as it is shipped. The model's budget bounds sends, not their answers, so attempts are not cut off.
#[expect(clippy::expect_used, reason = "valid settings")]
fn admission(setting: &Setting, has_gate: bool) -> Admission {
    let seed = setting.seed * 1000 + setting.process as u64;
    let policy = AdmissionPolicy::builder().attempt_timeout(AttemptTimeout::Unclamped);
    let policy = match setting.attempts {
        Some(attempts) => policy.max_attempts(attempts),
        None => policy,
    };
    let admission =
        Admission::builder().policy(policy.build().expect("a policy")).settle_from_usage(true).seed(seed);
    let admission = if has_gate { admission.gate(gate(setting, seed)) } else { admission.without_gate() };
    admission.build().expect("a middleware")
}

#[expect(clippy::expect_used, reason = "valid settings")]
fn gate(setting: &Setting, seed: u64) -> Gate {
    let gate = Gate::builder().seed(seed);
    gate.shared_limit(setting.is_told_of_fleet).build().expect("a gate")
}

#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) client: ClientWithMiddleware,
}

impl Way for Process {
    async fn call(&self, world: &World, call: Call) -> bool {
        let report = CallReport::default();
        let request = self.client.post("http://model.test/v1/responses").with_extension(report.clone());
        let is_answered = made(request, call).await;
        world.was_refused(report.attempts().saturating_sub(u32::from(is_answered)));
        is_answered
    }
}

/// Makes a call with all that its caller brings along; false where it is not answered to the end of the body.
pub(crate) async fn made(request: RequestBuilder, call: Call) -> bool {
    let request = request
        .body("{}")
        .with_extension(call)
        .with_extension(LatencyBudget::new(call.deadline - call.start))
        .with_extension(TokenEstimate::new(call.estimate as u64, 0));
    match request.send().await {
        Ok(response) if response.status().is_success() => response.bytes().await.is_ok(),
        _ => false,
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Strategy {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let every = || Self::ALL.into_iter().chain([Self::NoGate, Self::CoolDown]);
        every().find(|strategy| strategy.name() == name).ok_or_else(|| {
            let names: Vec<_> = every().map(Self::name).collect();
            format!("no strategy is called {name}; there are {}", names.join(", "))
        })
    }
}
