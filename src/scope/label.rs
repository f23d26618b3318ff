//! Which model or deployment a request names, where limits are counted by it.

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

/// The deployment or model of a request whose path names none [as most do](named_in_path).
pub(super) fn label_beside<'a>(request: &'a Request, profile: &'a Profile) -> Option<Cow<'a, str>> {
    let path = request.url().path();
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
    let path = path.as_bytes();
    if !has_plural(path) {
        return None;
    }
    let (mut deployment, mut model) = (None, None);
    let (mut earlier, mut before) = (b"".as_slice(), b"".as_slice());
    for segment in path.split(|byte| *byte == b'/').skip(1) {
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

/// Whether a part of a path ends in an `s`, as those do that stand before a name. Every request comes by here, and most have
/// none, which is seen in a quarter of the time that it takes to look at the parts: in blocks, of which the last overlaps the
/// one before it, and which are compared at once, unless the function is merged into others that look at single bytes.
#[inline(never)]
fn has_plural(path: &[u8]) -> bool {
    let (Some((_, bytes)), Some((_, nexts))) = (path.split_last(), path.split_first()) else { return false };
    let pair = |byte: &u8, next: &u8| (*byte == b's') & (*next == b'/');
    let blocks = |bytes: &[u8; 16], nexts: &[u8; 16]| {
        bytes.iter().zip(nexts).fold(false, |found, (byte, next)| found | pair(byte, next))
    };
    match (bytes.last_chunk(), nexts.last_chunk()) {
        (Some(last), Some(next)) => {
            blocks(last, next)
                || bytes.as_chunks().0.iter().zip(nexts.as_chunks().0).any(|(b, n)| blocks(b, n))
        }
        _ => bytes.iter().zip(nexts).any(|(byte, next)| pair(byte, next)),
    }
}

/// How the bodies of most requests begin.
const START: &[u8] = br#"{"model":""#;

/// Whether a model has no characters that JSON writes in more than one way.
pub(super) fn is_plain(model: &str) -> bool {
    !model.contains(['"', '\\'])
}

/// Whether a body begins with a model that is [plain](is_plain).
pub(super) fn names_plainly(body: &[u8], model: &str) -> bool {
    let rest = body.strip_prefix(START).and_then(|rest| rest.strip_prefix(model.as_bytes()));
    rest.is_some_and(|rest| rest.first() == Some(&b'"'))
}

/// The text of the field `model` of a JSON object. Nothing after it is read: the prompt may be long.
pub(super) fn model_of(body: &[u8]) -> Option<Cow<'_, str>> {
    // Where it comes first and is plain, no parser is needed.
    if let Some(rest) = body.strip_prefix(START)
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

/// A string that borrows from the body where it can.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_ends_in_an_s_is_found_wherever_it_stands() {
        for length in 0..50 {
            let plain = vec![b'x'; length];
            assert!(!has_plural(&plain));
            for at in 1..length {
                let mut path = plain.clone();
                path[at] = b'/';
                assert!(!has_plural(&path), "{length} {at}");
                path[at - 1] = b's';
                assert!(has_plural(&path), "{length} {at}");
            }
        }
    }
}
