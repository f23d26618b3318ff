//! What is asked for on the command line.

use std::ops::RangeInclusive;

use crate::strategy::Strategy;

const USAGE: &str = "lab [--quick | --full] [--strategy NAME]... [--scenario NAME]... [--seed N] [--json] [--check] [--report] [--sockets [--seconds N]]";

#[derive(Clone, Debug)]
pub(crate) struct Args {
    pub(crate) quick: bool,
    pub(crate) json: bool,
    pub(crate) check: bool,
    pub(crate) report: bool,
    pub(crate) sockets: bool,
    /// How long a run on real sockets measures.
    pub(crate) seconds: Option<f64>,
    pub(crate) seed: u64,
    strategies: Vec<Strategy>,
    scenarios: Vec<String>,
}

impl Args {
    pub(crate) fn read(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut args = Self {
            quick: true,
            json: false,
            check: false,
            report: false,
            sockets: false,
            seconds: None,
            seed: 1,
            strategies: Vec::new(),
            scenarios: Vec::new(),
        };
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} needs a value\n{USAGE}"));
            match word.as_str() {
                "--quick" => args.quick = true,
                "--full" => args.quick = false,
                "--json" => args.json = true,
                "--check" => args.check = true,
                "--report" => args.report = true,
                "--sockets" => args.sockets = true,
                "--seconds" => {
                    let text = value()?;
                    let seconds: Option<f64> = text.parse().ok().filter(|seconds| *seconds >= 1.0);
                    args.seconds = Some(seconds.ok_or_else(|| format!("{text} are no seconds"))?);
                }
                "--seed" => {
                    let text = value()?;
                    args.seed = text.parse().map_err(|_| format!("{text} is no seed"))?;
                }
                "--strategy" => args.strategies.push(value()?.parse()?),
                "--scenario" => args.scenarios.push(value()?),
                _ => return Err(format!("{word} is not known\n{USAGE}")),
            }
        }
        Ok(args)
    }

    /// Whether a strategy is asked for.
    pub(crate) fn wants(&self, strategy: Strategy) -> bool {
        self.strategies.is_empty() || self.strategies.contains(&strategy)
    }

    pub(crate) fn wants_scenario(&self, name: &str) -> bool {
        self.scenarios.is_empty() || self.scenarios.iter().any(|wanted| wanted == name)
    }

    /// The seeds to average over. In a quick run only what is held against targets is played more than once.
    pub(crate) fn seeds(&self, strategy: Strategy) -> RangeInclusive<u64> {
        let count = match (self.quick, strategy.is_peer()) {
            (true, true) => 1,
            (true, false) => 2,
            (false, true) => 2,
            (false, false) => 5,
        };
        self.seed..=self.seed + count - 1
    }
}
