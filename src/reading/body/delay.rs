//! The waits that members of a body state.

use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;

use super::super::names::Kind;
use super::super::reset::Buckets;
use super::super::retry_after::Waits;
use super::super::types::{Hint, HintKind};
use super::super::value::{Advice, BareUnit, Decimal, Stated, decimal, json_decimal};
use super::{MAX_ELEMENTS, Path, Walk};
use crate::units::{QuotaUnit, QuotaUnits};

/// How a body states a wait, the most trustworthy way first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    /// [`google.rpc.RetryInfo`](https://cloud.google.com/apis/design/errors#error_details).
    RetryInfo,
    QuotaResetDelay,
    QuotaResetInstant,
    RetryAfterMillis,
    RetryAfter,
    EmbeddedHeader,
    ResetMillis,
    Reset,
    Sentence,
}

/// The wait that a body states.
#[derive(Debug)]
pub(in crate::reading) struct BodyAdvice {
    pub(in crate::reading) advice: Advice,
    pub(in crate::reading) kind: HintKind,
    pub(in crate::reading) path: String,
    rank: Rank,
}

/// A number of any notation that JSON has, or one in a string, as protobuf prints its long ones. It is read from its own
/// text, which keeps what a float would lose.
fn decimal_of(value: &Value) -> Option<Decimal> {
    match value {
        Value::Number(number) => json_decimal(number.to_string().as_bytes()),
        Value::String(text) => decimal(text.as_bytes()),
        _ => None,
    }
}

impl Walk<'_> {
    /// A member that states a wait in itself.
    pub(super) fn wait_member(&mut self, name: &str, value: &Value, path: &Path) -> bool {
        let (rank, unit, kind) = match name {
            "retrydelay" => (Rank::RetryInfo, BareUnit::Seconds, HintKind::RetryAfter),
            "quotaresetdelay" => (Rank::QuotaResetDelay, BareUnit::Seconds, HintKind::WindowReset),
            "quotaresettimestamp" => (Rank::QuotaResetInstant, BareUnit::Seconds, HintKind::WindowReset),
            "retryafterms" | "retryaftermillis" | "retryaftermilliseconds" | "retryinms" => {
                (Rank::RetryAfterMillis, BareUnit::Milliseconds, HintKind::RetryAfter)
            }
            "retryafter" | "retryafterseconds" | "retryaftersecs" | "retryaftersec" | "retryin"
            | "retryinseconds" | "backoffseconds" => {
                (Rank::RetryAfter, BareUnit::Seconds, HintKind::RetryAfter)
            }
            "resetms" | "resetsinms" | "resetatms" => {
                (Rank::ResetMillis, BareUnit::Milliseconds, HintKind::WindowReset)
            }
            "resetsinseconds" | "resetinseconds" | "resetafter" | "resetsat" | "resetat" | "resettime"
            | "ratelimitresetat" | "ratelimitresettime" => {
                (Rank::Reset, BareUnit::Seconds, HintKind::WindowReset)
            }
            _ => return false,
        };
        // A reset beyond every bound is a mistake, a wait that long is none.
        let is_plausible = |advice: &Advice| kind == HintKind::RetryAfter || advice.wait < Hint::LONGEST_WAIT;
        if let Some(advice) = self.advice(value, unit).filter(is_plausible) {
            self.offer(rank, kind, advice, path);
        }
        true
    }

    /// A member of an object such as Vercel's `limit`: `{"remaining":0,"reset":..,"resetMs":..,"total":50}`.
    pub(super) fn limit_member(&mut self, name: &str, value: &Value, path: &Path) -> bool {
        match name {
            "remaining" => {
                if value.as_f64().is_some_and(|remaining| remaining <= 0.0) {
                    self.found.units = self.found.units.with(QuotaUnit::Requests);
                }
            }
            "reset" => {
                if let Some(advice) = self.advice(value, BareUnit::Seconds)
                    && advice.wait < Hint::LONGEST_WAIT
                {
                    self.offer(Rank::Reset, HintKind::WindowReset, advice, path);
                }
            }
            _ => return false,
        }
        true
    }

    fn advice(&self, value: &Value, unit: BareUnit) -> Option<Advice> {
        let number = |number| self.clock.advice(Stated::number(number, unit));
        match value {
            Value::Number(_) => decimal_of(value).and_then(number),
            Value::String(text) => self.clock.read(text.as_bytes(), unit),
            // A protobuf duration that was not printed by the JSON mapping; it states both of its parts or leaves one
            // out, which null means as well.
            Value::Object(duration) => {
                let part = |key: &str| duration.get(key).filter(|part| !part.is_null()).map(decimal_of);
                let total = match (part("seconds"), part("nanos")) {
                    // Less than a second more or less: what can be read is still the least to wait.
                    (Some(seconds), nanos) => {
                        let seconds = seconds?;
                        nanos.flatten().and_then(|nanos| seconds.plus_billionths(nanos)).unwrap_or(seconds)
                    }
                    (None, nanos) => Decimal::ZERO.plus_billionths(nanos??)?,
                };
                self.clock.advice(Stated::number(total, BareUnit::Seconds))
            }
            _ => None,
        }
    }

    pub(super) fn offer(&mut self, rank: Rank, kind: HintKind, advice: Advice, path: &Path) {
        let better = self.found.advice.as_ref().is_none_or(|known| {
            // Zero milliseconds beside positive seconds are a truncation, as with the headers.
            let truncated = known.rank == Rank::RetryAfterMillis
                && known.advice.wait.is_zero()
                && rank == Rank::RetryAfter;
            let truncates =
                rank == Rank::RetryAfterMillis && advice.wait.is_zero() && known.rank == Rank::RetryAfter;
            // GitHub Models repeats its message as `details`.
            let proper = |path: &str| path.ends_with("message");
            let order = (advice.wait, proper(&path.text)) > (known.advice.wait, proper(&known.path));
            !truncates && (truncated || rank < known.rank || (rank == known.rank && order))
        });
        if better {
            self.found.advice = Some(BodyAdvice { advice, kind, path: path.text.clone(), rank });
        }
    }

    /// Rate-limit headers inside of the body, as OpenRouter sends those of the upstream.
    pub(super) fn headers(&mut self, value: &Value, path: &Path) {
        let Value::Object(map) = value else { return };
        let mut headers = HeaderMap::new();
        for (name, value) in map.iter().take(MAX_ELEMENTS) {
            let value = match value {
                Value::String(text) => HeaderValue::from_str(text).ok(),
                Value::Number(number) => HeaderValue::from_str(&number.to_string()).ok(),
                _ => None,
            };
            if let (Ok(name), Some(value)) = (HeaderName::try_from(name.as_str()), value) {
                headers.append(name, value);
            }
        }
        let mut buckets = Buckets::default();
        for (name, value) in &headers {
            match Kind::of(name.as_str().as_bytes()) {
                Kind::Frequent(field) => buckets.note_frequent(field, name, value, self.clock),
                Kind::Structured | Kind::Silent | Kind::Limit => {
                    buckets.note_unusual(None, name, value, self.clock);
                }
                Kind::Mark | Kind::Other => {}
            }
        }
        let waits = Waits::of(&headers, self.clock);
        let summary = buckets.summary(self.profile, self.clock, &[]);
        self.found.units = summary.spent.iter().fold(self.found.units, QuotaUnits::with);
        if let Some((advice, name)) = waits.choose() {
            self.offer(Rank::EmbeddedHeader, HintKind::RetryAfter, advice, &path.key(name.as_str()));
        } else if let Some(reset) = summary.advice {
            self.offer(
                Rank::EmbeddedHeader,
                HintKind::WindowReset,
                reset.advice,
                &path.key(reset.source.as_str()),
            );
        }
    }
}
