//! Why a response is read as it is: what each field and member that speaks of capacity came to.

use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderValue, StatusCode};

use super::body::Body;
use super::hint::HintSource;
use super::names::{may_be_limit, name_of};
use super::profile::{Profile, Rules};
use super::structured::{self, Policies};
use super::value::Clock;
use super::waits;
use super::windows::Windows;
use super::{MAX_FIELD, Reading};

/// What a field or member came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotedAs {
    /// It states the wait that counts.
    Decides(Duration),
    /// It states this wait, and another field outranks it, or no wait is asked for.
    Outranked(Duration),
    /// It was read, and states no wait by itself: a limit, what remains of it, a policy.
    Read,
    /// Its name counts, and its value is in no known grammar.
    NotUnderstood,
}

/// What every field and member of a response that speaks of capacity came to, in the order of the headers, then of the
/// body. Arguments as for [`Reading::with_profile`]; for people, not for every response.
#[must_use]
pub fn why(
    profile: &Profile,
    status: StatusCode,
    headers: &HeaderMap,
    body: Option<&[u8]>,
    received_at: SystemTime,
) -> Vec<(HintSource, NotedAs)> {
    let reading = Reading::with_profile(profile, status, headers, body, received_at);
    let rules = profile.rules();
    let clock = Clock::new(headers, received_at, rules.utc_offset);
    let as_wait = |source: &HintSource, wait| match reading.hint() {
        Some(hint) if hint.source() == source && (hint.wait() == wait || is_header(source)) => {
            NotedAs::Decides(hint.wait())
        }
        _ => NotedAs::Outranked(wait),
    };
    let mut noted = Vec::new();
    for (name, value) in headers {
        let mut alone = HeaderMap::new();
        alone.append(name.clone(), value.clone());
        let source = HintSource::Header(name.clone());
        let outcome = if waits::is_wait(name.as_str(), rules) {
            let explicit = waits::explicit(&alone, &clock, rules);
            explicit.map_or(NotedAs::NotUnderstood, |explicit| as_wait(&source, explicit.advice.wait))
        } else if may_be_limit(name.as_str()) {
            match of_window(&alone, value, rules, &clock) {
                Some(Some(wait)) => as_wait(&source, wait),
                Some(None) => NotedAs::Read,
                None if name_of(name.as_str()).is_some() || name.as_str().contains("ratelimit-policy") => {
                    NotedAs::NotUnderstood
                }
                None => continue,
            }
        } else {
            continue;
        };
        noted.push((source, outcome));
    }
    if profile.inspects_body(status, headers) {
        let heard = body.and_then(|body| Body::read(rules, body, &clock, true).heard);
        noted.extend(heard.unwrap_or_default().into_iter().map(|heard| {
            let source = HintSource::Body(heard.path.into());
            let outcome = as_wait(&source, heard.advice.wait);
            (source, outcome)
        }));
    }
    noted
}

const fn is_header(source: &HintSource) -> bool {
    matches!(source, HintSource::Header(_))
}

/// What one header states of a window: nothing that can be read, something, or a wait.
fn of_window(
    alone: &HeaderMap,
    value: &HeaderValue,
    rules: &Rules,
    clock: &Clock<'_>,
) -> Option<Option<Duration>> {
    let (name, _) = alone.iter().next()?;
    let (mut windows, mut policies) = (Windows::default(), Policies::default());
    let read = value.len() <= MAX_FIELD
        && (structured::note(name, value, clock, &mut windows, &mut policies)
            && (!windows.is_empty() || !policies.is_empty())
            || windows.is_empty() && windows.note(name, value, clock));
    if !read {
        return None;
    }
    windows.pair(clock);
    Some(windows.longest_reset(rules, clock))
}
