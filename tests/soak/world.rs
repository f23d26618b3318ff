//! The world of one seed: scopes with their servers, restarts, and what everybody shares.

use std::sync::{Mutex, PoisonError};

use reqwest_admission::gate::ScopeKey;
use tokio::sync::Notify;

use super::dice::Dice;
use super::failures::Failures;
use super::log::{Log, Ms};
use super::server::{HOUR, Limit, MINUTE, SECOND, Server};
use super::style::{Field, Style};

/// What the laws may hold a scope to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rule {
    /// Its server admits nothing within an advised time, so no call may be sent in it.
    AdvisesAll,
    /// Its server's advice may be meant for the refused call alone.
    AdvisesOne,
    /// Its gate has this concurrency limit, and its server refuses nothing.
    Limited(usize),
    /// Nothing ever holds its calls back.
    Free,
}

/// Calls that share limits.
pub(crate) struct Scope {
    pub(crate) url: String,
    pub(crate) credential: String,
    /// What the gate is told, where the scope has a configured limit.
    pub(crate) key: Option<ScopeKey>,
    pub(crate) rule: Rule,
    pub(crate) server: Mutex<Server>,
    /// Told whenever the server is done with an attempt.
    pub(crate) done: Notify,
    restarts: Vec<Ms>,
}

pub(crate) struct World {
    pub(crate) seed: u64,
    pub(crate) scopes: Vec<Scope>,
    pub(crate) log: Log,
    pub(crate) failures: Failures,
    /// Whether bodies of refusals come late or never.
    pub(crate) stalls_refusals: bool,
    calls: Mutex<Vec<(usize, f64)>>,
}

/// A new favourite of the callers after so much time.
const RUSH: Ms = 3 * MINUTE;

impl World {
    /// A world to live in for `length`.
    pub(crate) fn new(seed: u64, length: Ms, stalls_refusals: bool) -> Self {
        let mut builder = Builder { seed, length, dice: Dice::new(seed, 1), scopes: Vec::new() };
        builder.build();
        Self {
            seed,
            scopes: builder.scopes,
            log: Log::new(),
            failures: Failures::start(),
            stalls_refusals,
            calls: Mutex::default(),
        }
    }

    /// The number of a new call.
    pub(crate) fn begin(&self, scope: usize, cost: f64) -> usize {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        calls.push((scope, cost));
        calls.len() - 1
    }

    pub(crate) fn call(&self, call: usize) -> (usize, f64) {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)[call]
    }

    /// The scope that everybody wants at this time; each has its turn within an hour.
    pub(crate) fn favourite(&self) -> usize {
        (self.seed + self.log.now() / RUSH) as usize % self.scopes.len()
    }

    pub(crate) fn next_restart(&self, scope: usize, now: Ms) -> Ms {
        let restarts = &self.scopes[scope].restarts;
        restarts.get(restarts.partition_point(|at| *at <= now)).copied().unwrap_or(Ms::MAX)
    }

    pub(crate) fn rules(&self) -> Vec<Rule> {
        self.scopes.iter().map(|scope| scope.rule).collect()
    }
}

struct Builder {
    seed: u64,
    length: Ms,
    dice: Dice,
    scopes: Vec<Scope>,
}

/// The longest advice of those that close at random.
const LONGEST: [Ms; 4] = [2 * SECOND, MINUTE, 30 * MINUTE, 6 * HOUR];
const BY_DELAY: [Field; 3] = [Field::RetryAfterMs, Field::RetryAfter, Field::RetryAfterDate];
const ALL: [Field; 5] =
    [Field::RetryAfterMs, Field::RetryAfter, Field::RetryAfterDate, Field::Reset, Field::Structured];

impl Builder {
    fn build(&mut self) {
        // Two accounts at one host, one account at several, and a deployment of its own.
        self.add("one.example", "one", "v1/chat", Self::bucket);
        self.add("one.example", "two", "v1/chat", Self::window);
        self.add("two.example", "one", "v1/chat", Self::closings);
        self.add("two.example", "one", "openai/deployments/large/chat", Self::bucket);
        self.add("two.example", "two", "v1/chat", Self::window);
        self.add("three.example", "one", "v1/chat", Self::closings);
        self.add("three.example", "two", "v1/chat", Self::closings);
        self.add("four.example", "one", "v1/chat", Self::chance);
        self.add("four.example", "two", "v1/chat", Self::chance);
        self.add("five.example", "one", "v1/chat", Self::concurrency);
        self.add("five.example", "two", "v1/chat", Self::overload);
        for (credential, most) in [("one", 1), ("two", 2 + self.dice.index(4))] {
            self.add("six.example", credential, "v1/chat", |_| Limit::None);
            let limited = self.scopes.last_mut().unwrap();
            limited.rule = Rule::Limited(most);
            limited.key = Some(ScopeKey::new("limited").label(credential));
        }
        // Each is the neighbour of scopes that are closed often: by host, by credential, by both but for the deployment.
        for (host, credential, path) in [
            ("one.example", "free", "v1/chat"),
            ("free.example", "one", "v1/chat"),
            ("two.example", "one", "openai/deployments/small/chat"),
            ("four.example", "free", "v1/chat"),
        ] {
            self.add(host, credential, path, |_| Limit::None);
            let free = self.scopes.last_mut().unwrap();
            free.rule = Rule::Free;
            free.restarts.clear();
            free.server.get_mut().unwrap().faults = 0.0;
        }
    }

    fn add(&mut self, host: &str, credential: &str, path: &str, limit: fn(&mut Dice) -> Limit) {
        let limit = limit(&mut self.dice);
        let fields: &[Field] = if matches!(limit, Limit::Window { .. }) { &ALL } else { &BY_DELAY };
        let style = Style::random(&mut self.dice, fields);
        let faults = self.dice.between(0.0, 0.05);
        let dice = Dice::new(self.seed, 1_000 + self.scopes.len() as u64);
        let server = Server::new(limit, style, faults, dice);
        let rule = if server.advises_all() { Rule::AdvisesAll } else { Rule::AdvisesOne };
        let restarts = self.restarts();
        self.scopes.push(Scope {
            url: format!("https://{host}/{path}"),
            credential: format!("Bearer {credential}"),
            key: None,
            rule,
            server: Mutex::new(server),
            done: Notify::new(),
            restarts,
        });
    }

    /// Moments at which a server loses all its connections.
    fn restarts(&mut self) -> Vec<Ms> {
        let mut restarts = Vec::new();
        let mut at = self.dice.exponential(HOUR);
        while at < self.length {
            restarts.push(at);
            at += 1 + self.dice.exponential(HOUR);
        }
        restarts
    }

    fn bucket(dice: &mut Dice) -> Limit {
        let rate = dice.between(0.1, 1.0);
        Limit::Bucket { rate, depth: rate * dice.between(1.0, 60.0), level: 0.0, at: 0 }
    }

    fn window(dice: &mut Dice) -> Limit {
        let period = dice.one_of(&[5 * SECOND, 30 * SECOND, MINUTE, 10 * MINUTE, HOUR]);
        let most = 2 + (period as f64 / 1e3 * dice.between(0.1, 0.8)) as u64;
        Limit::Window { period, most, begun: 0, used: 0 }
    }

    fn closings(dice: &mut Dice) -> Limit {
        Limit::Closings { share: dice.between(0.02, 0.2), longest: dice.one_of(&LONGEST) }
    }

    fn chance(dice: &mut Dice) -> Limit {
        Limit::Chance { share: dice.between(0.02, 0.3), longest: dice.one_of(&LONGEST) }
    }

    fn concurrency(dice: &mut Dice) -> Limit {
        Limit::Concurrency { most: 1 + dice.index(4) }
    }

    fn overload(dice: &mut Dice) -> Limit {
        Limit::Overload { share: dice.between(0.002, 0.02), until: 0 }
    }
}
