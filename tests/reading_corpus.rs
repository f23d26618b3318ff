//! The recorded and constructed responses of `tests/data/responses.jsonl`, and those of `tests/data/more_responses.jsonl`
//! from further vendors' documentation and clients' reports: wait, source, exhausted units, retryable.
#![cfg(test)]

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use reqwest_admission::Reading;
use reqwest_admission::reading::{Hint, Profile};
use serde::Deserialize;

/// Cases of the tables that we hold to be wrong, with the reason.
const DISPUTED: [(&str, &str); 3] = [
    (
        "spotify-429-79892",
        "expects `requests`, but nothing in the response names a unit: it differs from spotify-429-3600, which expects \
         none, only in the number of seconds",
    ),
    (
        "github-403-secondary-remaining-14",
        "expects the reset of a window that has 14 left; by the rule N3 of the second round a secondary limit never waits \
         for the reset of a window that is not spent, but at least 60 s",
    ),
    ("github-403-secondary-reset-60s", "the same, with 29 left"),
];

#[derive(Deserialize)]
struct Case {
    id: String,
    provider: String,
    status: u16,
    headers: Vec<(String, String)>,
    body: Option<String>,
    now: String,
    /// Not compared if it is null.
    exhausted: Option<BTreeSet<String>>,
    expected_wait_ms: Option<u128>,
    expected_source: Option<String>,
    retryable: bool,
    /// Whether the response is a refusal, where its status does not say.
    throttled: Option<bool>,
    /// Whether null stands for "not compared" in `expected_source`.
    #[serde(skip)]
    sources_open: bool,
    /// Where the response, or the wording of its body, was seen.
    source: String,
}

impl Case {
    fn read(&self, profile: &Profile) -> Reading {
        let mut headers = HeaderMap::new();
        for (name, value) in &self.headers {
            // What an HTTP parser leaves of a field line: the value without the white space around it.
            let value = value.trim_matches([' ', '\t']).as_bytes();
            headers.append(HeaderName::try_from(name).unwrap(), HeaderValue::from_bytes(value).unwrap());
        }
        let now = self.now.parse::<jiff::Timestamp>().unwrap().as_millisecond();
        let now = SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(now.try_into().unwrap())).unwrap();
        let status = StatusCode::from_u16(self.status).unwrap();
        let body = self.body.as_deref().map(str::as_bytes);
        Reading::with_profile(profile, status, &headers, body, now)
    }

    /// What differs from what is expected.
    fn differences(&self, profile: &Profile) -> Vec<String> {
        let reading = self.read(profile);
        // The table says what a call may wait for: nothing after a terminal refusal, and no number of milliseconds where the
        // advice is longer than any budget.
        let waitable = |hint: &&Hint| reading.terminal().is_none() && hint.wait() < Hint::LONGEST_WAIT;
        let hint = reading.hint().filter(waitable);
        let wait = hint.map(|hint| hint.wait().as_millis());
        let source = hint.map(|hint| hint.source().to_string());
        let exhausted: BTreeSet<_> = reading.exhausted().iter().map(|unit| unit.to_string()).collect();
        let mut differences = Vec::new();
        if wait != self.expected_wait_ms {
            differences.push(format!("wait {wait:?} instead of {:?}", self.expected_wait_ms));
        }
        // A table that leaves the source of a wait open does not compare it.
        if source != self.expected_source && !(self.sources_open && self.expected_source.is_none()) {
            differences.push(format!("source {source:?} instead of {:?}", self.expected_source));
        }
        if self.exhausted.as_ref().is_some_and(|expected| exhausted != *expected) {
            differences.push(format!("exhausted {exhausted:?} instead of {:?}", self.exhausted));
        }
        if reading.terminal().is_none() != self.retryable {
            differences.push(format!(
                "terminal {:?}, retryable should be {}",
                reading.terminal(),
                self.retryable
            ));
        }
        if self.throttled.is_some_and(|throttled| throttled != reading.is_throttled()) {
            differences.push(format!("throttled {}", reading.is_throttled()));
        }
        differences
    }
}

fn cases(lines: &str) -> Vec<Case> {
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn all_read_as_expected(cases: &[Case]) {
    let mut failures = Vec::new();
    for case in cases {
        let differences = case.differences(Profile::named(&case.provider));
        let disputed = DISPUTED.iter().find(|(id, _)| *id == case.id);
        match (differences.is_empty(), disputed) {
            (true, Some((id, _))) => failures.push(format!("{id}: disputed, but as expected")),
            (false, None) => failures.push(format!("{}: {}", case.id, differences.join("; "))),
            _ => {}
        }
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn every_response_is_read_as_expected() {
    let cases = cases(include_str!("data/responses.jsonl"));
    assert_eq!(cases.len(), 227);
    all_read_as_expected(&cases);
}

#[test]
fn responses_of_further_vendors_are_read_as_expected() {
    let cases = cases(include_str!("data/more_responses.jsonl"));
    let ids: BTreeSet<_> = cases.iter().map(|case| case.id.as_str()).collect();
    assert_eq!(ids.len(), cases.len(), "each id once");
    for case in &cases {
        assert!(!case.source.is_empty(), "{} has no source", case.id);
        let tells = matches!(case.status, 200..400 | 402 | 413 | 429 | 503 | 529);
        assert!(tells || case.throttled.is_some(), "{} does not say whether it is a refusal", case.id);
    }
    all_read_as_expected(&cases);
}

/// The second table leaves open what is null in the first.
fn open_cases(lines: &str) -> Vec<Case> {
    cases(lines).into_iter().map(|case| Case { sources_open: true, ..case }).collect()
}

#[test]
fn the_second_round_is_read_as_expected() {
    let cases = open_cases(include_str!("data/responses-2.jsonl"));
    assert_eq!(cases.len(), 36);
    all_read_as_expected(&cases);
}

/// Services that nobody had tried when the rules were made; what each should read as was written down first. A null source
/// or set of units is left open.
#[test]
fn services_never_heard_of_are_read_as_expected() {
    let cases = open_cases(include_str!("data/unheard_responses.jsonl"));
    assert!(cases.iter().all(|case| !case.source.is_empty()));
    all_read_as_expected(&cases);
}

/// Profiles of services that no built-in row should know, each in at most ten lines.
const OF_THEIR_USERS: [&str; 4] = [
    r#"
name = "toggl"
hosts = ["api.track.toggl.com"]
refusal_statuses = [402]
"#,
    r#"
name = "opensubtitles"
hosts = ["api.opensubtitles.com"]
refusal_statuses = [406]
units_by_phrase = [["quota", "quota"]]
"#,
    r#"
name = "stackexchange"
hosts = ["api.stackexchange.com"]
refusal_statuses = [400]
"#,
    r#"
name = "exchange"
hosts = ["outlook.example.com"]
refusal_statuses = [500]
wait_members = [["BackOffMilliseconds", "milliseconds"]]
"#,
];

#[test]
fn what_a_users_profile_says_is_enough_for_services_unknown_to_us() {
    for case in open_cases(include_str!("data/profiles.jsonl")) {
        let file = OF_THEIR_USERS.iter().find(|file| file.contains(&format!("name = {:?}", case.provider)));
        let file = file.unwrap_or_else(|| panic!("no profile for {}", case.provider));
        assert!(file.trim().lines().count() <= 10);
        let profile: Profile = toml::from_str(file).unwrap();
        assert_eq!(case.differences(&profile), Vec::<String>::new(), "{}", case.id);
    }
}
