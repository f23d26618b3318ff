//! Explains a response: pipe in what `curl -si` printed, read what the crate makes of it.
//!
//! ```text
//! curl -si https://api.example.com/v1/chat | cargo run --example explain -- --profile openai
//! cargo run --example explain -- --jsonl < tests/data/responses.jsonl
//! ```
//!
//! `cargo install reqwest-admission --features explain` gives it as the program `reqwest-admission-explain`.
//!
//! Options: `--budget-ms N` (default 30000) and `--attempt N` (default 1) of the call to decide about, `--profile NAME`
//! of the vendor, `--profile-file FILE` of a profile of your own in TOML or JSON, `--jsonl` for one case per line (`id, provider, status, headers, body, now`) and one JSON object per
//! line out. Of a response as curl printed it, the waits before all further attempts are shown as well, which requests may
//! be sent again, and what the gate does about other calls of the scope. It exits with 1 if an input could not be read, and with 2 if an option is wrong.

use std::fmt::Write as _;
use std::io::{BufRead as _, IsTerminal as _, Read as _, Write as _};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use reqwest_admission::decision::{Call, Decision, Outcome, decide};
use reqwest_admission::jitter::Draw;
use reqwest_admission::reading::{Hint, HintSource, NotedAs, Profile, Terminal, why};
use reqwest_admission::{AdmissionPolicy, LatencyBudget, Reading};
use serde::{Deserialize, Serialize};

#[path = "explain/forecast.rs"]
mod forecast;

const USAGE: &str = "usage: explain [--jsonl] [--profile NAME | --profile-file FILE] [--budget-ms N] [--attempt N] < input\n\
     `explain --help` says more";

const HELP: &str = "\
Explains a response: how it is read, and what would be done about it.

  curl -si https://api.example/v1/items | explain

Input is what `curl -i` printed. Options:
  --budget-ms N        what is left of the call's latency budget (default: 30000)
  --attempt N          how often the call has been sent (default: 1)
  --profile NAME       read it as the vendor of this name answers, for example openai (default: standard)
  --profile-file FILE  read it by a profile of your own, in TOML, or in JSON if the name ends in .json
  --jsonl              one case per line in (id, provider, status, headers, body, now), one answer per line out
  --help               this text

It prints the advice and where it was read; the wait that is planned, or its range; which requests may be sent again;
what the gate does about other calls; and for each field that speaks of capacity whether it decides, was outranked, or
was not understood. It exits with 1 if the input cannot be read, and with 2 if an option is wrong.
";

struct Options {
    jsonl: bool,
    profile: String,
    /// One of the user's own, which counts instead.
    own_profile: Option<Profile>,
    budget: Duration,
    attempt: u32,
}

impl Options {
    fn from_args(mut args: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self {
            jsonl: false,
            profile: "standard".to_owned(),
            own_profile: None,
            budget: Duration::from_secs(30),
            attempt: 1,
        };
        while let Some(arg) = args.next() {
            let (name, joined) = match arg.split_once('=') {
                Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
                None => (arg, None),
            };
            let mut value = || joined.clone().or_else(|| args.next()).ok_or(format!("{name} wants a value"));
            match name.as_str() {
                "--jsonl" if joined.is_none() => options.jsonl = true,
                "--profile" => options.profile = value()?,
                "--profile-file" => options.own_profile = Some(profile_in(&value()?)?),
                "--budget-ms" => {
                    let millis = value()?.parse().map_err(|error| format!("--budget-ms: {error}"))?;
                    options.budget = Duration::from_millis(millis);
                }
                "--attempt" => {
                    options.attempt = value()?.parse().map_err(|error| format!("--attempt: {error}"))?;
                    if options.attempt == 0 {
                        return Err("--attempt: attempts count from 1".to_owned());
                    }
                }
                _ => return Err(format!("unknown option {name}")),
            }
        }
        Ok(options)
    }

    /// What the crate would do about the response after `attempt`, and the moment that it would count from.
    fn decide(&self, reading: &Reading, attempt: u32, idempotent: bool, draw: Draw) -> (Decision, Instant) {
        let now = Instant::now();
        let call = Call::new(LatencyBudget::new(self.budget).deadline(now)).attempts(attempt);
        let call = call.idempotent(idempotent);
        (decide(&AdmissionPolicy::default(), Outcome::Response(reading), &call, now, draw), now)
    }
}

/// Reads a profile from a file, JSON if its name ends so, else TOML.
fn profile_in(file: &str) -> Result<Profile, String> {
    let text = std::fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
    let profile = if file.ends_with(".json") {
        serde_json::from_str(&text).map_err(|error| error.to_string())
    } else {
        toml::from_str(&text).map_err(|error| error.to_string())
    };
    profile.map_err(|problem| format!("{file}: {problem}"))
}

pub(crate) fn main() -> ExitCode {
    if std::env::args().skip(1).any(|arg| arg == "--help" || arg == "-h") {
        // A reader that has seen enough is no failure.
        let _ = std::io::stdout().lock().write_all(HELP.as_bytes());
        return ExitCode::SUCCESS;
    }
    let options = match Options::from_args(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(problem) => {
            eprintln!("{problem}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let done = if options.jsonl { explain_cases(&options) } else { explain_printed(&options) };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        // A reader that has seen enough, such as `head`, is no failure.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

// ── one case per line ──────────────────────────────────────────────────────────────────────

#[derive(Deserialize)]
struct Case {
    id: serde_json::Value,
    #[serde(default)]
    provider: Option<String>,
    status: u16,
    #[serde(default)]
    headers: Vec<(String, String)>,
    #[serde(default)]
    body: Option<String>,
    now: jiff::Timestamp,
}

#[derive(Serialize)]
struct Explained<'a> {
    id: &'a serde_json::Value,
    wait_ms: Option<u64>,
    source: Option<String>,
    exhausted: Vec<&'static str>,
    retryable: bool,
    decision: &'static str,
}

fn explain_cases(options: &Options) -> std::io::Result<bool> {
    let (mut input, mut output) = (std::io::stdin().lock(), std::io::stdout().lock());
    let mut all_read = true;
    let mut line = Vec::new();
    for number in 1_u64.. {
        line.clear();
        if input.read_until(b'\n', &mut line)? == 0 {
            break;
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        match explain_case(&line, options) {
            Ok(explained) => writeln!(output, "{explained}")?,
            Err(problem) => {
                all_read = false;
                eprintln!("line {number}: {problem}");
            }
        }
    }
    output.flush()?;
    Ok(all_read)
}

fn explain_case(line: &[u8], options: &Options) -> Result<String, String> {
    let case: Case = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    let mut headers = HeaderMap::new();
    for (name, value) in &case.headers {
        // What no HTTP parser lets through is as if absent.
        if let Err(problem) = append(&mut headers, name, value.as_bytes()) {
            eprintln!("{}: skipped {problem}", case.id);
        }
    }
    let status = StatusCode::from_u16(case.status).map_err(|error| error.to_string())?;
    let received_at = system_time(case.now).ok_or("now: out of range")?;
    let built_in = || Profile::named(case.provider.as_deref().unwrap_or("standard"));
    let profile = options.own_profile.as_ref().unwrap_or_else(built_in);
    let body = case.body.as_deref().map(str::as_bytes);
    let reading = Reading::with_profile(profile, status, &headers, body, received_at);
    let hint = waited_for(&reading);
    let explained = Explained {
        id: &case.id,
        wait_ms: hint.map(|hint| whole_millis(hint.wait())),
        source: hint.map(|hint| hint.source().to_string()),
        exhausted: reading.exhausted().iter().map(|unit| unit.as_str()).collect(),
        retryable: reading.terminal().is_none(),
        decision: match options.decide(&reading, options.attempt, true, Draw::ZERO).0 {
            Decision::Admit => "admit",
            Decision::Wait { .. } => "wait",
            Decision::SpillOver(_) => "spill",
        },
    };
    serde_json::to_string(&explained).map_err(|error| error.to_string())
}

/// The advice that a call may wait for: none after a terminal refusal, and none that is longer than any budget.
fn waited_for(reading: &Reading) -> Option<&Hint> {
    reading.hint().filter(|hint| reading.terminal().is_none() && hint.wait() < Hint::LONGEST_WAIT)
}

fn system_time(at: jiff::Timestamp) -> Option<SystemTime> {
    let nanos = at.as_nanosecond();
    let distance = Duration::new(
        u64::try_from(nanos.unsigned_abs().checked_div(1_000_000_000)?).ok()?,
        u32::try_from(nanos.unsigned_abs().checked_rem(1_000_000_000)?).ok()?,
    );
    if nanos < 0 {
        SystemTime::UNIX_EPOCH.checked_sub(distance)
    } else {
        SystemTime::UNIX_EPOCH.checked_add(distance)
    }
}

/// Adds a field line the way an HTTP parser would: without the white space around its value.
fn append(headers: &mut HeaderMap, name: &str, value: &[u8]) -> Result<(), String> {
    let field =
        HeaderName::try_from(name.trim_ascii()).map_err(|error| format!("header {name:?}: {error}"))?;
    let value =
        HeaderValue::from_bytes(value.trim_ascii()).map_err(|error| format!("header {name:?}: {error}"))?;
    headers.try_append(field, value).map_err(|error| error.to_string())?;
    Ok(())
}

fn whole_millis(wait: Duration) -> u64 {
    u64::try_from(wait.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

// ── what curl printed ──────────────────────────────────────────────────────────────────────

struct Printed<'a> {
    status: StatusCode,
    headers: HeaderMap,
    body: &'a [u8],
}

impl<'a> Printed<'a> {
    /// The last response of the input: interim ones, redirects and a proxy's `CONNECT` come before it.
    fn last(input: &'a [u8]) -> Result<Self, String> {
        let mut last = Self::first(input)?;
        while last.status.is_informational() || last.body.starts_with(b"HTTP/") {
            match Self::first(last.body) {
                Ok(next) => last = next,
                Err(_) => break,
            }
        }
        Ok(last)
    }

    fn first(input: &'a [u8]) -> Result<Self, String> {
        let (line, mut rest) = next_line(input).ok_or("the input is empty")?;
        let line = String::from_utf8_lossy(line);
        let status = line
            .strip_prefix("HTTP/")
            .and_then(|line| line.split_ascii_whitespace().nth(1))
            .and_then(|status| status.parse::<StatusCode>().ok())
            .ok_or("the input does not begin with a status line; did curl run with -i?")?;
        let mut headers = HeaderMap::new();
        while let Some((line, after)) = next_line(rest) {
            rest = after;
            if line.is_empty() {
                break;
            }
            // A folded line goes on with the field before it (RFC 9112 §5.2).
            let mut unfolded = line.to_vec();
            while let Some((more, after)) =
                next_line(rest).filter(|(more, _)| more.starts_with(b" ") || more.starts_with(b"\t"))
            {
                unfolded.push(b' ');
                unfolded.extend_from_slice(more.trim_ascii());
                rest = after;
            }
            let line = unfolded.as_slice();
            let Some(colon) = line.iter().position(|byte| *byte == b':') else {
                eprintln!("skipped a line without a colon");
                continue;
            };
            let (name, value) = line.split_at(colon);
            let value = value.strip_prefix(b":").unwrap_or(value);
            if let Err(problem) = append(&mut headers, &String::from_utf8_lossy(name), value) {
                eprintln!("skipped {problem}");
            }
        }
        Ok(Self { status, headers, body: rest })
    }
}

/// The first line without its end, CRLF or LF, and the rest.
fn next_line(input: &[u8]) -> Option<(&[u8], &[u8])> {
    if input.is_empty() {
        return None;
    }
    let end = input.iter().position(|byte| *byte == b'\n').unwrap_or(input.len());
    let (line, rest) = input.split_at(end);
    Some((line.strip_suffix(b"\r").unwrap_or(line), rest.strip_prefix(b"\n").unwrap_or(rest)))
}

fn explain_printed(options: &Options) -> std::io::Result<bool> {
    let mut input = Vec::new();
    std::io::stdin().lock().read_to_end(&mut input)?;
    let printed = match Printed::last(&input) {
        Ok(printed) => printed,
        Err(problem) => {
            eprintln!("{problem}");
            return Ok(false);
        }
    };
    let profile = options.own_profile.as_ref().unwrap_or_else(|| Profile::named(&options.profile));
    if options.own_profile.is_none() && profile.name() != options.profile {
        eprintln!("no profile is called {:?}, reading with the standard one", options.profile);
    }
    let text = explain(&printed, profile, options)?;
    let stdout = std::io::stdout();
    let colours = stdout.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    stdout.lock().write_all(if colours { coloured(&text) } else { text }.as_bytes())?;
    Ok(true)
}

/// The same text for a terminal: labels dim, and the decision in the colour of its kind.
fn coloured(text: &str) -> String {
    let line = |line: &str| {
        let (label, value) = line.split_at(line.len().min(LABEL));
        let colour = match (label.trim_end(), value) {
            ("decision", value) if value.starts_with("admit") => "1;32",
            ("decision", value) if value.starts_with("wait") => "1;33",
            ("decision", _) => "1;31",
            ("why", value) if value.ends_with("decides") => "1",
            _ => "0",
        };
        format!("\x1b[2m{label}\x1b[0m\x1b[{colour}m{value}\x1b[0m\n")
    };
    text.lines().map(line).collect()
}

/// The width of the labels.
const LABEL: usize = 12;

fn explain(printed: &Printed<'_>, profile: &Profile, options: &Options) -> std::io::Result<String> {
    let Printed { status, headers, body } = printed;
    let reading = Reading::with_profile(profile, *status, headers, Some(body), SystemTime::now());
    let mut text = describe(&reading, profile, options);
    text.push_str(&reasons(profile, printed));
    let gate = forecast::gate(*status, headers, body, profile, options)?;
    // Writing to a string does not fail.
    let _ = writeln!(text, "{:<12}{gate}", "gate");
    Ok(text)
}

/// Why: what became of each field and member that speaks of capacity.
fn reasons(profile: &Profile, printed: &Printed<'_>) -> String {
    let Printed { status, headers, body } = printed;
    let noted = why(profile, *status, headers, Some(body), SystemTime::now());
    let decides = noted.iter().find(|(_, outcome)| matches!(outcome, NotedAs::Decides(_)));
    let mut text = String::new();
    for (source, outcome) in &noted {
        let value = match source {
            HintSource::Header(name) => {
                headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()))
            }
            _ => None,
        };
        let value = value.map(|value| format!(" ({value})")).unwrap_or_default();
        let became = match (outcome, decides) {
            (NotedAs::Decides(_), _) => "decides".to_owned(),
            (NotedAs::Outranked(wait), Some((by, _))) => {
                format!("{} ms, outranked by {by}", whole_millis(*wait))
            }
            (NotedAs::Outranked(wait), None) => format!("{} ms, not asked for", whole_millis(*wait)),
            (NotedAs::Read, _) => "read, and states no wait".to_owned(),
            _ => "not understood".to_owned(),
        };
        // Writing to a string does not fail.
        let _ = writeln!(text, "{:<12}{source}{value}: {became}", "why");
    }
    text
}

fn describe(reading: &Reading, profile: &Profile, options: &Options) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: String| {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{name:<12}{value}");
    };
    line("status", format!("{} (profile {})", reading.status(), profile.name()));
    match reading.hint() {
        Some(hint) => {
            let at = hint.at().and_then(|at| jiff::Timestamp::try_from(at).ok());
            let at = at.map(|at| format!(", that is until {at} by the server's clock")).unwrap_or_default();
            line("wait", format!("{} ms{at}", whole_millis(hint.wait())));
            line("source", format!("{} ({:?})", hint.source(), hint.kind()));
        }
        None if reading.is_throttled() => line("wait", "none advised".to_owned()),
        None => line("wait", "none: the request was not refused for lack of capacity".to_owned()),
    }
    if let Some(floor) = reading.backoff_floor() {
        line("floor", format!("{} ms, by the vendor's documentation", whole_millis(floor)));
    }
    let exhausted: Vec<_> = reading.exhausted().iter().map(|unit| unit.as_str()).collect();
    line("exhausted", if exhausted.is_empty() { "not stated".to_owned() } else { exhausted.join(", ") });
    let terminal = match reading.terminal() {
        None => "no",
        Some(Terminal::QuotaExhausted) => "yes: credit, spend cap or a long-lived quota is used up",
        Some(Terminal::ServerDirective) => "yes: the server says not to repeat the request",
        Some(Terminal::RequestTooLarge) => "yes: the request is larger than the limit",
        Some(other) => &format!("yes: {other:?}"),
    };
    line("terminal", terminal.to_owned());
    for limit in reading.limits() {
        let count = |count: Option<u64>| count.map_or("?".to_owned(), |count| count.to_string());
        let mut value = format!("{}: {} of {} left", limit.unit, count(limit.remaining), count(limit.limit));
        if let Some(window) = limit.window {
            let _ = write!(value, ", window {} s", window.as_secs());
        }
        if let Some(reset) = limit.reset {
            let _ = write!(value, ", reset in {} ms", whole_millis(reset));
        }
        line("limit", value);
    }
    if let Some(id) = reading.request_id() {
        line("request id", id.to_owned());
    }
    if let Some(marks) = reading.native_spill_over() {
        let from = marks.from_deployment.as_deref().unwrap_or("?");
        let error = marks.error.as_deref().map(|error| format!(", failed: {error}")).unwrap_or_default();
        line("spilled", format!("by the service itself, from {from}{error}"));
    }
    let decision = match options.decide(reading, options.attempt, true, Draw::ZERO).0 {
        Decision::Admit => "admit: the response goes to the caller as it is".to_owned(),
        Decision::Wait { hint: None, .. } => format!(
            "wait {}, then attempt {}: a backoff, drawn at random",
            forecast::range(reading, options, options.attempt).unwrap_or_default(),
            options.attempt.saturating_add(1),
        ),
        Decision::Wait { wait, .. } => format!(
            "wait {} ms, then attempt {}: it fits into {} ms",
            whole_millis(wait),
            options.attempt.saturating_add(1),
            options.budget.as_millis(),
        ),
        Decision::SpillOver(reason) => format!("spill over at once: {reason}"),
    };
    line("decision", decision);
    if let Some(waits) = forecast::waits(reading, options) {
        line(if reading.hint().is_some() { "waits" } else { "backoff" }, waits);
    }
    line("replay", forecast::replay(reading).to_owned());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explained(response: &str, args: &[&str]) -> String {
        let options = Options::from_args(args.iter().map(|arg| (*arg).to_owned())).unwrap();
        let printed = Printed::last(response.as_bytes()).unwrap();
        explain(&printed, Profile::named("standard"), &options).unwrap()
    }

    fn line<'t>(text: &'t str, name: &str) -> &'t str {
        let found = text.lines().find_map(|line| line.strip_prefix(&format!("{name:<12}")));
        found.unwrap_or_else(|| panic!("no {name} in {text}"))
    }

    #[test]
    fn the_help_names_every_option_and_colours_change_no_word() {
        for option in ["--jsonl", "--profile", "--profile-file", "--budget-ms", "--attempt"] {
            assert!(HELP.contains(option) && USAGE.contains(option), "{option}");
        }
        let text = "status      429\ndecision    wait 2000 ms\nwhy         retry-after (2): decides\n";
        let coloured = coloured(text);
        assert!(coloured.contains("\x1b[1;33mwait 2000 ms\x1b[0m"), "{coloured}");
        let plain: String = coloured
            .split('\x1b')
            .map(|part| part.split_once('m').filter(|_| part.starts_with('[')).map_or(part, |(_, rest)| rest))
            .collect();
        assert_eq!(plain, text);
    }

    #[test]
    fn a_bare_refusal_shows_the_range_of_its_backoff_by_attempt() {
        let text = explained("HTTP/1.1 429 x\r\n\r\n", &[]);
        assert_eq!(line(&text, "decision"), "wait 100 to 500 ms, then attempt 2: a backoff, drawn at random");
        let backoff = line(&text, "backoff");
        for part in [
            "100 to 500 ms before attempt 2",
            "100 to 1000 ms before attempt 3",
            "100 to 8000 ms before attempt 6",
        ] {
            assert!(backoff.contains(part), "{backoff}");
        }
        assert!(!backoff.contains("attempt 7"), "{backoff}");
        let later = explained("HTTP/1.1 429 x\r\n\r\n", &["--attempt", "4"]);
        assert!(line(&later, "backoff").starts_with("100 to 4000 ms before attempt 5, "), "{later}");
        assert!(line(&text, "replay").starts_with("any method"), "{text}");
        assert!(line(&text, "gate").starts_with("limits the scope: the next call is sent after "), "{text}");
    }

    #[test]
    fn why_a_response_is_read_as_it_is() {
        let text = explained(
            "HTTP/1.1 429 x\r\nretry-after: 5\r\nx-ratelimit-remaining: 0\r\nx-ratelimit-reset: 30\r\n\
             retry-after-ms: soon\r\n\r\n{\"message\":\"try again in 7s\"}",
            &[],
        );
        let lines: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("why         ")).collect();
        assert_eq!(
            lines,
            [
                "retry-after (5): decides",
                "x-ratelimit-remaining (0): read, and states no wait",
                "x-ratelimit-reset (30): 30000 ms, outranked by retry-after",
                "retry-after-ms (soon): not understood",
                "body:message: 7000 ms, outranked by retry-after",
            ]
        );
    }

    #[test]
    fn a_profile_of_ones_own_is_read_from_a_file() {
        let path = std::env::temp_dir().join(format!("explain-profile-{}.toml", std::process::id()));
        std::fs::write(&path, "name = \"my-gateway\"\nwait_headers = [[\"x-backoff\", \"milliseconds\"]]\n")
            .unwrap();
        let args = ["--profile-file".to_owned(), path.to_str().unwrap().to_owned()];
        let options = Options::from_args(args.into_iter()).unwrap();
        let printed = Printed::last(b"HTTP/1.1 429 x\r\nx-backoff: 1500\r\n\r\n").unwrap();
        let text = explain(&printed, options.own_profile.as_ref().unwrap(), &options).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(line(&text, "wait"), "1500 ms");
        assert_eq!(line(&text, "why"), "x-backoff (1500): decides");
        let missing = Options::from_args(["--profile-file=/nowhere.toml".to_owned()].into_iter());
        assert!(missing.err().is_some_and(|problem| problem.contains("/nowhere.toml")));
    }

    #[test]
    fn what_replay_safety_and_the_gate_do_follows_the_response() {
        for (response, replay, gate) in [
            ("500 x\r\n\r\n", "only GET", "leaves the scope open"),
            ("503 x\r\n\r\n", "only GET", "leaves the scope open"),
            (
                "503 x\r\nretry-after: 3\r\n\r\n",
                "any method",
                "closes the scope: the next call is sent after 3",
            ),
            ("429 x\r\nretry-after: 3600\r\n\r\n", "any method", "closes the scope for longer"),
            ("402 x\r\n\r\n", "none: no repeat helps", ""),
            ("404 x\r\n\r\n", "none: the response is not about capacity", "leaves the scope open"),
        ] {
            let text = explained(&format!("HTTP/1.1 {response}"), &[]);
            assert!(line(&text, "replay").starts_with(replay), "{text}");
            assert!(line(&text, "gate").starts_with(gate), "{text}");
            // Whether it is safe does not depend on how many attempts there were, or on the time that is left.
            for args in [["--attempt", "6"], ["--budget-ms", "0"]] {
                let text = explained(&format!("HTTP/1.1 {response}"), &args);
                assert!(line(&text, "replay").starts_with(replay), "{text}");
            }
        }
    }
}
