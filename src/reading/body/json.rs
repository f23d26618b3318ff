//! JSON, read one level at a time: a number keeps its own text, which a float would lose, and none is out of range.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::value::RawValue;

use super::super::value::{Count, count, json_number, number};

/// A value whose inner values are still text.
pub(super) enum Json<'a> {
    /// In the order of the keys; of two members of one name the last.
    Object(BTreeMap<String, &'a RawValue>),
    Array(Vec<&'a RawValue>),
    String(Cow<'a, str>),
    Number(&'a str),
    Other,
}

impl<'a> Json<'a> {
    pub(super) fn read(text: &'a str) -> Option<Self> {
        let text = text.trim_ascii();
        match text.as_bytes().first()? {
            b'{' => serde_json::from_str(text).ok().map(Self::Object),
            b'[' => serde_json::from_str(text).ok().map(Self::Array),
            b'"' => serde_json::from_str(text).ok().map(|text: String| Self::String(text.into())),
            b'-' | b'0'..=b'9' => {
                serde_json::from_str::<&RawValue>(text).ok().map(|raw| Self::Number(raw.get()))
            }
            _ => serde_json::from_str::<&RawValue>(text).ok().map(|_| Self::Other),
        }
    }
    /// The text of a string or a number.
    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            Self::Number(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn number(&self) -> Option<Duration> {
        match self {
            Self::String(text) => number(text.as_bytes()),
            Self::Number(text) => json_number(text),
            _ => None,
        }
    }

    pub(super) fn count(&self) -> Option<Count> {
        count(self.text()?.as_bytes())
    }
}
