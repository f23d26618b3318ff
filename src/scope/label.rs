//! Which model or deployment a request names, if limits are counted by it.

use std::borrow::Cow;
use std::fmt;

use reqwest::Request;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer as _};

use crate::reading::{CountedBy, Profile};

/// The longest name that becomes a label, in bytes; labels are kept and shown.
pub(super) const LONGEST_LABEL: usize = 128;

/// How much of a request body a model name is looked for in, in bytes.
pub(super) const LONGEST_SEARCH: usize = 1024 * 1024;

/// The deployment or model of a request: named in its path, or as its profile says.
pub(super) fn label_of<'a>(request: &'a Request, profile: &'a Profile) -> Option<Cow<'a, str>> {
    let path = request.url().path();
    if let Some(named) = named_in_path(path) {
        return Some(Cow::Borrowed(named));
    }
    match profile.counted_by() {
        CountedBy::Account => None,
        CountedBy::Model => {
            let body = request.body()?.as_bytes()?;
            model_of(body.get(..LONGEST_SEARCH).unwrap_or(body)).filter(|model| may_be_label(model))
        }
        CountedBy::Segment { before, after } => named_by(before, after, path),
        CountedBy::Routes(routes) => {
            let route = routes.iter().find(|(start, _)| path.starts_with(start.as_str()));
            route.map(|(_, name)| Cow::Borrowed(name.as_str()))
        }
    }
}

fn named_by<'a>(before: &str, after: &[String], path: &'a str) -> Option<Cow<'a, str>> {
    let rest = path.strip_prefix('/')?.strip_prefix(before)?.strip_prefix('/')?;
    let (name, fits) = match rest.split_once('/') {
        Some((name, behind)) => (name, after.iter().any(|known| known == behind)),
        None => (rest, after.is_empty()),
    };
    if !fits || !may_be_label(name) {
        return None;
    }
    // Some clients encode the colon that the names of Bedrock's models have.
    let encoded = name.contains('%');
    Some(if encoded { name.replace("%3A", ":").replace("%3a", ":").into() } else { name.into() })
}

const fn may_be_label(name: &str) -> bool {
    !name.is_empty() && name.len() <= LONGEST_LABEL
}

/// `/openai/deployments/{name}/...` (Azure OpenAI) and `/models/{name}:{method}` (Gemini, Vertex).
pub(super) fn named_in_path(path: &str) -> Option<&str> {
    let (mut deployment, mut model) = (None, None);
    let (mut earlier, mut before) = (b"".as_slice(), b"".as_slice());
    for segment in path.as_bytes().split(|byte| *byte == b'/').skip(1) {
        match before {
            // Other services deploy as well, and limit by account.
            b"deployments" if earlier == b"openai" => deployment = deployment.or(Some(segment)),
            b"models" => model = model.or(Some(segment)),
            _ => {}
        }
        (earlier, before) = (before, segment);
    }
    let until_method = |model: &'_ [u8]| model.iter().position(|byte| *byte == b':');
    let model = || model.and_then(|model| model.get(..until_method(model)?));
    std::str::from_utf8(deployment.or_else(model)?).ok().filter(|name| may_be_label(name))
}

/// The text of the field `model` of a JSON object. Nothing after it is read: the prompt may be long.
pub(super) fn model_of(body: &[u8]) -> Option<Cow<'_, str>> {
    // If it comes first and is plain, no parser is needed.
    if let Some(rest) = body.strip_prefix(br#"{"model":""#)
        && let Some(end) = rest.iter().position(|byte| matches!(byte, b'"' | b'\\'))
        && let Some((model, [b'"', ..])) = rest.split_at_checked(end)
    {
        return std::str::from_utf8(model).ok().map(Cow::Borrowed);
    }
    let mut found = None;
    // Stopping at the field is an error to the parser, as is a body of any other form.
    let _ = serde_json::Deserializer::from_slice(body).deserialize_map(Model { found: &mut found });
    found
}

struct Model<'a, 'de> {
    found: &'a mut Option<Cow<'de, str>>,
}

impl<'de> Visitor<'de> for Model<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(Text(name)) = map.next_key()? {
            if name == "model" {
                *self.found = map.next_value::<Option<Text<'de>>>()?.map(|Text(model)| model);
                return Ok(());
            }
            map.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }
}

/// A string that borrows from the body if it can.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);
