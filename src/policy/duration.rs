//! Durations as a person writes them, and errors about them that name the setting.

use std::fmt;
use std::time::Duration;

use serde::de::{self, Deserializer, Visitor};
use serde::ser::Serializer;

/// A module for serde's `with` for each setting, since an error names the setting.
macro_rules! settings {
    ($($module:ident = $setting:literal)+) => {$(
        pub(crate) mod $module {
            use super::{Deserializer, Duration, Read, Serializer, write};

            pub(crate) fn serialize<S: Serializer>(duration: &Duration, to: S) -> Result<S::Ok, S::Error> {
                write(*duration, to)
            }

            pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
                from.deserialize_str(Read($setting))
            }
        }
    )+};
}

settings! {
    latency_budget = "latency_budget"
    reset_margin = "reset_margin"
    body_read_timeout = "body_read_timeout"
    backoff_base = "backoff.base"
    backoff_cap = "backoff.cap"
    backoff_floor = "backoff.floor"
    retry_budget_time_window = "retry_budget.time_window"
    jitter_at_least = "jitter.proportional.at_least"
    jitter_up_to = "jitter.uniform.up_to"
}

fn write<S: Serializer>(duration: Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&super::written(duration))
}

/// Reads the duration of this setting.
struct Read(&'static str);

/// More than this of a value says nothing more about it.
const SHOWN: usize = 40;

impl Visitor<'_> for Read {
    type Value = Duration;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a duration for {}, written as \"30s\", \"1m 30s\" or \"48h\"", self.0)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Duration, E> {
        let friendly = jiff::fmt::friendly::SpanParser::new().parse_unsigned_duration(text);
        let read = friendly.or_else(|_| jiff::fmt::temporal::SpanParser::new().parse_unsigned_duration(text));
        read.map_err(|_| {
            let shown: String = text.chars().take(SHOWN).collect();
            let sign = if text.contains('-') { ", not a negative one" } else { "" };
            E::custom(format_args!(
                "{} is {shown:?}, allowed is a duration such as \"30s\", \"1m 30s\" or \"48h\"{sign}",
                self.0
            ))
        })
    }
}
