//! What is asked for on the command line.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use crate::strategy::Strategy;

pub(crate) const USAGE: &str = "lab [--quick | --full] [--strategy NAME]... [--scenario NAME]... [--seed N] [--journal FILE] \
                     [--json] [--check] [--results] | --noise | --report | --plots FOLDER | \
                     --sockets [--seconds N] [--seed N] [--json] [--check] | \
                     --zoo [--quick | --hold-out] [--cells PART] [--scenario PART]... [--strategy NAME]... [--seed N] \
                     [--json | --report] [--check] | --sweep NAME | --without NAME... | --scale | \
                     --servers [--seconds N] [--strategy NAME]... | --help";

/// How long a run on real sockets may measure, in seconds.
const SECONDS: RangeInclusive<f64> = 1.0..=3600.0;
/// Leaves room for the seeds that are made of it.
const LAST_SEED: u64 = u32::MAX as u64;

#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "one for each flag")]
pub(crate) struct Args {
    pub(crate) help: bool,
    pub(crate) quick: bool,
    /// Whether the quick form was asked for in so many words, which only the zoo is not by default.
    pub(crate) is_quick_asked: bool,
    pub(crate) json: bool,
    pub(crate) check: bool,
    pub(crate) results: bool,
    pub(crate) noise: bool,
    pub(crate) report: bool,
    pub(crate) sockets: bool,
    /// Real servers that limit.
    pub(crate) servers: bool,
    pub(crate) zoo: bool,
    /// The cells of the zoo that are kept aside, and no others.
    pub(crate) hold_out: bool,
    /// The constant of the pace whose factors are tried.
    pub(crate) sweep: Option<String>,
    /// The rules of the pace that are left out, one at a time.
    pub(crate) without: Vec<String>,
    /// What many callers and scopes cost.
    pub(crate) scale: bool,
    /// A part of the titles or families of the cells that are played alone.
    pub(crate) cells: Option<String>,
    /// How long a run on real sockets measures.
    pub(crate) seconds: Option<f64>,
    pub(crate) plots: Option<PathBuf>,
    pub(crate) journal: Option<PathBuf>,
    pub(crate) seed: u64,
    strategies: Vec<Strategy>,
    scenarios: Vec<String>,
}

impl Args {
    pub(crate) fn read(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut args = Self {
            help: false,
            quick: true,
            is_quick_asked: false,
            json: false,
            check: false,
            results: false,
            noise: false,
            report: false,
            sockets: false,
            servers: false,
            zoo: false,
            hold_out: false,
            cells: None,
            sweep: None,
            without: Vec::new(),
            scale: false,
            seconds: None,
            plots: None,
            journal: None,
            seed: 1,
            strategies: Vec::new(),
            scenarios: Vec::new(),
        };
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} needs a value\n{USAGE}"));
            match word.as_str() {
                "--help" | "-h" => return Ok(Self { help: true, ..args }),
                "--quick" => (args.quick, args.is_quick_asked) = (true, true),
                "--full" => args.quick = false,
                "--json" => args.json = true,
                "--check" => args.check = true,
                "--results" => args.results = true,
                "--noise" => args.noise = true,
                "--report" => args.report = true,
                "--sockets" => args.sockets = true,
                "--servers" => args.servers = true,
                "--zoo" => args.zoo = true,
                "--hold-out" => (args.zoo, args.hold_out) = (true, true),
                "--sweep" => (args.zoo, args.sweep) = (true, Some(value()?)),
                "--without" => {
                    args.zoo = true;
                    args.without.push(value()?);
                }
                "--scale" => (args.zoo, args.scale) = (true, true),
                "--cells" => args.cells = Some(value()?),
                "--seconds" => {
                    let text = value()?;
                    let seconds: Option<f64> = text.parse().ok().filter(|seconds| SECONDS.contains(seconds));
                    let wrong =
                        || format!("--seconds is from {} to {}, not {text}", SECONDS.start(), SECONDS.end());
                    args.seconds = Some(seconds.ok_or_else(wrong)?);
                }
                "--plots" => args.plots = Some(value()?.into()),
                "--journal" => args.journal = Some(value()?.into()),
                "--seed" => {
                    let text = value()?;
                    let seed: Option<u64> = text.parse().ok().filter(|seed| *seed <= LAST_SEED);
                    args.seed = seed.ok_or_else(|| format!("--seed is from 0 to {LAST_SEED}, not {text}"))?;
                }
                "--strategy" => args.strategies.push(value()?.parse()?),
                "--scenario" => args.scenarios.push(crate::cases::known(value()?)?),
                _ => return Err(format!("{word} is not known\n{USAGE}")),
            }
        }
        if args.seconds.is_some() && !args.sockets && !args.servers {
            return Err(format!("--seconds is for --sockets and --servers alone\n{USAGE}"));
        }
        if args.noise {
            (args.quick, args.strategies) = (true, vec![Strategy::Admission]);
        }
        if args.results && args.zoo && (args.is_quick_asked || args.hold_out || args.cells.is_some()) {
            return Err("--results writes the whole zoo".into());
        }
        if args.results && !(args.strategies.is_empty() && args.scenarios.is_empty()) {
            return Err("--results writes all tables, so nothing may be left out".into());
        }
        Ok(args)
    }

    /// Whether the figures of a strategy are to be shown.
    pub(crate) fn wants(&self, strategy: Strategy) -> bool {
        self.strategies.is_empty() || self.strategies.contains(&strategy)
    }

    /// Whether a strategy is to be played. The oracle is wherever something is held against it.
    pub(crate) fn plays(&self, strategy: Strategy) -> bool {
        self.wants(strategy) || (strategy == Strategy::Oracle && self.wants(Strategy::Admission))
    }

    pub(crate) fn wants_scenario(&self, name: &str) -> bool {
        self.scenarios.is_empty() || self.scenarios.iter().any(|wanted| wanted == name)
    }

    /// The seeds to average over. In a quick run only what is held against targets is played more than once.
    pub(crate) fn seeds(&self, strategy: Strategy) -> RangeInclusive<u64> {
        let count = match (self.quick, strategy.is_peer()) {
            _ if self.noise => 8,
            (true, true) => 1,
            (true, false) => 2,
            (false, true) => 2,
            (false, false) => 5,
        };
        self.seed..=self.seed + count - 1
    }
}
