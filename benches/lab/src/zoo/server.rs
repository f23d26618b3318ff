//! A server: its limits, how it speaks, and callers that it always refuses.

use std::collections::VecDeque;

use super::dialect::{Advice, Headers, Untruth, Voice};
use super::limit::{Limit, Standing, State};
use crate::model::Random;

/// The epoch of a run's start; somewhere within a second, as real ones are.
pub(crate) const EPOCH: f64 = 1_796_083_200.25;
/// How old a lagging statement is, in seconds.
const LAG: f64 = 2.0;
/// One that lags remembers no more than so many standings.
const MOST_REMEMBERED: usize = 4096;

/// One limit and when it holds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Rule {
    pub(crate) from: f64,
    pub(crate) to: f64,
    pub(crate) limit: Limit,
    /// How its refusals advise, where that is not as the server's.
    pub(crate) advice: Option<Advice>,
    /// Whether this is the limit before, changed: what was taken of that is taken of this.
    pub(crate) is_the_one_before: bool,
}

impl Rule {
    pub(crate) const fn always(limit: Limit) -> Self {
        Self { from: 0.0, to: f64::INFINITY, limit, advice: None, is_the_one_before: false }
    }

    pub(crate) const fn advising(self, advice: Advice) -> Self {
        Self { advice: Some(advice), ..self }
    }

    pub(crate) const fn between(from: f64, to: f64, limit: Limit) -> Self {
        Self { from, to, ..Self::always(limit) }
    }

    /// The limit before, changed.
    pub(crate) const fn then(self) -> Self {
        Self { is_the_one_before: true, ..self }
    }

    fn holds(&self, at: f64) -> bool {
        (self.from..self.to).contains(&at)
    }
}

/// Callers that are refused whatever they do: a model that their account may not use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Banned {
    /// So many of the first callers.
    pub(crate) callers: usize,
    /// Seconds.
    pub(crate) advice: Option<u32>,
}

/// What makes a server.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Spec {
    pub(crate) rules: Vec<Rule>,
    pub(crate) voice: Voice,
    pub(crate) banned: Option<Banned>,
}

impl Spec {
    pub(crate) fn new(limit: Limit, voice: Voice) -> Self {
        Self { rules: vec![Rule::always(limit)], voice, banned: None }
    }
}

#[derive(Debug)]
pub(crate) struct Server {
    spec: Spec,
    /// Which state belongs to each rule.
    slots: Vec<usize>,
    states: Vec<State>,
    random: Random,
    epoch: f64,
    pub(super) in_flight: u32,
    /// What there was to state lately, for one that lags.
    stated: VecDeque<(f64, Standing)>,
}

/// What becomes of one call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Headers,
    pub(crate) body: String,
    /// Seconds by which the answer is delayed.
    pub(crate) delay: f64,
    /// Seconds that the refusal advised, as exactly as its limit knows.
    pub(crate) advised: Option<f64>,
}

impl Answer {
    pub(crate) const fn is_success(&self) -> bool {
        self.status == 200
    }
}

impl Server {
    pub(crate) fn new(spec: Spec, seed: u64, epoch: f64) -> Self {
        let states = vec![State::default(); spec.rules.len()];
        let mut slots = Vec::new();
        for (number, rule) in spec.rules.iter().enumerate() {
            let before = slots.last().copied().filter(|_| rule.is_the_one_before);
            slots.push(before.unwrap_or(number));
        }
        Self {
            spec,
            slots,
            states,
            random: Random::new(seed, 777),
            epoch,
            in_flight: 0,
            stated: VecDeque::new(),
        }
    }

    /// A call of a caller's arrives. Every limit is asked before one is charged.
    pub(crate) fn arrive(&mut self, at: f64, caller: usize, cost: f64) -> Answer {
        if let Some(banned) = self.spec.banned.filter(|banned| caller < banned.callers) {
            let advice = banned.advice.map_or(Advice::Nothing, Advice::Seconds);
            let voice = Voice { advice, ..self.spec.voice };
            let wait = f64::from(banned.advice.unwrap_or(0));
            return self.refusal(at, voice, None, wait);
        }
        let mut refused = None;
        for (number, rule) in self.spec.rules.iter().enumerate().filter(|(_, rule)| rule.holds(at)) {
            let state = &mut self.states[self.slots[number]];
            let wait = rule.limit.refuses(state, at, cost, self.in_flight, &mut self.random);
            refused = refused.or(wait.map(|wait| (number, wait)));
        }
        if let Some((number, wait)) = refused {
            let voice = match self.spec.rules[number].advice {
                Some(advice) => Voice { advice, ..self.spec.voice },
                None => self.spec.voice,
            };
            let standing = self.standing(at, Some(number));
            return self.refusal(at, voice, standing, wait);
        }
        let mut delay = 0.0_f64;
        for (rule, slot) in self.spec.rules.iter().zip(&self.slots).filter(|(rule, _)| rule.holds(at)) {
            delay = delay.max(rule.limit.charge(&mut self.states[*slot], at, cost));
        }
        self.in_flight += 1;
        let standing = self.standing(at, None);
        let headers = self.spec.voice.headers(self.epoch + at, standing, None);
        Answer { status: 200, headers, body: String::new(), delay, advised: None }
    }

    fn refusal(&self, at: f64, voice: Voice, standing: Option<Standing>, wait: f64) -> Answer {
        let headers = voice.headers(self.epoch + at, standing, Some(wait));
        let body = voice.refusal(self.epoch + at, wait, standing);
        let advised = headers.iter().find_map(|(name, value)| match *name {
            "retry-after" => value.parse().ok(),
            "retry-after-ms" => value.parse().ok().map(|millis: f64| millis / 1000.0),
            _ => None,
        });
        Answer { status: voice.status, headers, body, delay: 0.0, advised }
    }

    /// An admitted call has been answered, or its caller has gone.
    pub(crate) fn leave(&mut self, at: f64) {
        self.in_flight -= 1;
        for (rule, slot) in self.spec.rules.iter().zip(&self.slots) {
            rule.limit.leave(&mut self.states[*slot], at);
        }
    }

    /// What is stated: of the limit that refuses, or of the first that has something to state.
    fn standing(&mut self, at: f64, refusing: Option<usize>) -> Option<Standing> {
        let of = |number: usize| {
            let rule = self.spec.rules.get(number).filter(|rule| rule.holds(at))?;
            rule.limit.standing(self.states.get(*self.slots.get(number)?)?, at, self.in_flight)
        };
        let standing = refusing.and_then(of).or_else(|| (0..self.states.len()).find_map(of))?;
        match self.spec.voice.untruth {
            Some(Untruth::Lagging) => {
                self.stated.push_back((at, standing));
                while self.stated.len() > MOST_REMEMBERED
                    || self.stated.get(1).is_some_and(|(then, _)| *then <= at - LAG)
                {
                    self.stated.pop_front();
                }
                self.stated.front().map(|(_, old)| *old)
            }
            Some(untruth) => Some(untruth.bend(standing)),
            None => Some(standing),
        }
    }
}
