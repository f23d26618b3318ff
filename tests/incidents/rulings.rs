//! Records whose ruling is a decision about one call.

use std::time::Duration;

use http::Method;
use reqwest::Body;
use reqwest_admission::policy::AttemptTimeout;
use reqwest_admission::reading::Profile;
use reqwest_admission::{Admission, AdmissionBuilder, AdmissionPolicy, LatencyBudget, Reason, SpillOver};
use reqwest_middleware::{ClientWithMiddleware, Error};
use tokio::time::Instant;

use super::failures;
use super::support::{Answer, Origin, ms};
use super::{Incident, Ruling};

/// How long an answer takes, so that "from receipt" differs from "from the send".
const LATENCY: Duration = Duration::from_millis(20);

/// The draws that records are run with: none, some, and all of the jitter.
const DRAWS: [f64; 3] = [0.0, 0.5, 1.0];

/// The hosts of the vendors that records are clearly of.
const HOSTS: [(&str, &str); 7] = [
    ("B011", "api.github.com"),
    ("B039", "discord.com"),
    ("B040", "discord.com"),
    ("B042", "api.openai.com"),
    ("B070", "generativelanguage.googleapis.com"),
    ("B076", "generativelanguage.googleapis.com"),
    ("B077", "generativelanguage.googleapis.com"),
];

/// What a record's `setup` asks for.
#[derive(Debug, Default)]
pub(super) struct Setup {
    budget: Option<Duration>,
    profile: Option<&'static Profile>,
    /// The moment that absolute times are meant against.
    now: Option<std::time::SystemTime>,
    streaming: bool,
    /// The answer comes when the budget is over.
    over_budget: bool,
    connection_lost: bool,
}

impl Setup {
    pub(super) fn of(incident: &Incident) -> Self {
        let mut setup = Self::default();
        let Some(text) = incident.setup.as_deref() else { return setup };
        match text.split_once('=') {
            Some(("budget_ms", number)) => setup.budget = Some(ms(number.parse().unwrap())),
            Some(("now", moment)) => {
                let moment = match moment.parse::<u64>() {
                    Ok(seconds) => seconds,
                    Err(_) => u64::try_from(moment.parse::<jiff::Timestamp>().unwrap().as_second()).unwrap(),
                };
                setup.now = Some(std::time::UNIX_EPOCH + Duration::from_secs(moment));
            }
            Some(("profile", name)) => setup.profile = Some(Profile::named(name)),
            // No request here has a timeout of its own; aborting is up to the invariant.
            Some(("request_timeout", "off") | ("abort_at_ms" | "url has ?key", _)) => {}
            _ => match text {
                // The answer's `Date` is years from this machine's clock, whatever that is.
                "local clock = server + 2 s" => {}
                "elapsed beyond budget" => setup.over_budget = true,
                "streaming request body" => setup.streaming = true,
                "connection reset after the body was sent" => setup.connection_lost = true,
                other => panic!("{}: unknown setup {other}", incident.id),
            },
        }
        setup
    }

    pub(super) fn admission(&self, draw: f64) -> AdmissionBuilder {
        let admission = Admission::builder().draws(move || draw);
        match self.profile {
            Some(profile) => admission.profile(profile),
            None => admission,
        }
    }
}

pub(super) fn url(incident: &Incident) -> String {
    let host = HOSTS.iter().find(|(id, _)| *id == incident.id).map_or("api.example", |(_, host)| host);
    format!("http://{host}/v1/items?key=SECRET")
}

/// The answer of the record.
pub(super) fn answer(incident: &Incident) -> Answer {
    let mut answer = Answer::status(incident.status.unwrap());
    for (name, value) in &incident.headers {
        answer = answer.header(name, value);
    }
    let dated = incident.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("date"));
    if let Some(now) = Setup::of(incident).now.filter(|_| !dated) {
        answer = answer.header("date", &httpdate::fmt_http_date(now));
    }
    answer.body(incident.body.clone().unwrap_or_default())
}

/// The record's answer first, then 200s.
fn once(incident: &Incident, latency: Duration) -> Origin {
    Origin::in_order([answer(incident).after(latency)])
}

/// The record's answer for ever.
pub(super) fn always(incident: &Incident) -> Origin {
    let incident = incident.clone();
    Origin::always(move || answer(&incident).after(LATENCY))
}

/// One call of the record, with the budget that it asks for.
fn call(
    client: &ClientWithMiddleware,
    method: Method,
    incident: &Incident,
) -> reqwest_middleware::RequestBuilder {
    let call = client.request(method, url(incident)).body("sent");
    match Setup::of(incident).budget {
        Some(budget) => call.with_extension(LatencyBudget::new(budget)),
        None => call,
    }
}

pub(super) async fn hold(incident: &Incident) {
    match &incident.decision {
        Ruling::Wait { min_ms } => waits(incident, ms(*min_ms)).await,
        Ruling::Spill { advised_ms } => spills(incident, ms(*advised_ms)).await,
        Ruling::OwnBackoff => backs_off(incident).await,
        Ruling::GiveUp { reason } => match reason.as_str() {
            "quota_exhausted" => gives_up(incident, Reason::QuotaExhausted, 1).await,
            "attempts_exhausted" => gives_up(incident, Reason::AttemptsExhausted, 6).await,
            "budget_exhausted" => ends_with_its_budget(incident).await,
            "unknown_outcome" => is_not_repeated(incident).await,
            other => panic!("{}: unknown reason {other}", incident.id),
        },
        Ruling::PassThrough { reason } => match reason.as_str() {
            "client_error" => passes_unchanged(incident).await,
            "body_not_resendable" => is_sent_once_as_a_stream(incident).await,
            other => panic!("{}: unknown reason {other}", incident.id),
        },
        Ruling::Invariant { .. } => panic!("{} is an invariant", incident.id),
    }
}

/// Exactly one more send, not before the advice, not past what jitter and margin may add, and not past the budget.
async fn waits(incident: &Incident, advised: Duration) {
    let id = &incident.id;
    let policy = AdmissionPolicy::default();
    let advised = if incident.id == "B048" { ms(5000) } else { advised };
    for method in [Method::GET, Method::POST] {
        for draw in DRAWS {
            let setup = Setup::of(incident);
            let budget = setup.budget.unwrap_or(policy.latency_budget().duration());
            // Advice that is as long as the budget leaves no time for the answer.
            let latency = if advised == budget { Duration::ZERO } else { LATENCY };
            let origin = once(incident, latency);
            let client = origin.behind(setup.admission(draw).build().unwrap());
            let start = Instant::now();
            let response = call(&client, method.clone(), incident).send().await.unwrap();
            assert_eq!(response.status(), 200, "{id}");
            let sent = origin.times(start);
            assert_eq!(sent.len(), 2, "{id}");
            let waited = sent[1] - latency;
            let least = advised.max(policy.backoff().floor);
            assert!(waited >= least, "{id}: sent after {waited:?}, advised were {advised:?}");
            let most = least.mul_f64(1.1) + policy.reset_margin() + ms(4);
            assert!(waited <= most, "{id}: sent only after {waited:?}, advised were {advised:?}");
            assert!(sent[1] <= budget, "{id}: sent after {waited:?}, past the budget");
            assert!(origin.seen().iter().all(|seen| seen.method == method), "{id}");
        }
    }
}

/// One send, no sleep, and a signal that says how long the server wants to be left alone.
async fn spills(incident: &Incident, advised: Duration) {
    let id = &incident.id;
    for draw in DRAWS {
        let setup = Setup::of(incident);
        let origin = once(incident, LATENCY);
        let client = origin.behind(setup.admission(draw).build().unwrap());
        let start = Instant::now();
        let outcome = call(&client, Method::POST, incident).send().await;
        assert_eq!(start.elapsed(), LATENCY, "{id} slept");
        assert_eq!(origin.count(), 1, "{id}");
        let spill = SpillOver::of(&outcome).unwrap();
        assert_eq!(spill.reason(), Reason::BudgetExceeded, "{id}");
        assert_eq!((spill.attempts(), spill.waited()), (1, Duration::ZERO), "{id}");
        if id == "B011" {
            assert_eq!((spill.advised_wait(), spill.retry_at()), (None, None), "{id}");
            assert_eq!(spill.reading().unwrap().backoff_floor(), Some(advised), "{id}");
        } else {
            assert_eq!(spill.advised_wait(), Some(advised), "{id}");
            assert!(spill.retry_at().unwrap() >= spill.reading().unwrap().received_at() + advised, "{id}");
        }
        is_the_response_of(spill, incident);
    }
}

/// The signal has the last response's status, headers and body.
fn is_the_response_of(spill: &SpillOver, incident: &Incident) {
    let id = &incident.id;
    assert_eq!(spill.status().unwrap().as_u16(), incident.status.unwrap(), "{id}");
    for (name, value) in &incident.headers {
        let mut values = spill.headers().unwrap().get_all(name.as_str()).iter();
        assert!(values.any(|kept| kept == value.as_str()), "{id}: {name} is lost");
    }
    assert_eq!(spill.body(), incident.body.clone().unwrap_or_default().as_bytes(), "{id}");
}

/// Sent again after backoff: not before the floor, not after the step of that attempt.
async fn backs_off(incident: &Incident) {
    let id = &incident.id;
    let policy = AdmissionPolicy::default();
    for method in [Method::GET, Method::POST] {
        for draw in DRAWS {
            let origin = always(incident);
            let client = origin.behind(Setup::of(incident).admission(draw).build().unwrap());
            let start = Instant::now();
            let outcome = call(&client, method.clone(), incident).send().await;
            let spill = SpillOver::of(&outcome).unwrap();
            let budget = policy.latency_budget().duration();
            assert!(start.elapsed() <= budget, "{id}");
            assert_eq!(spill.advised_wait(), None, "{id}");
            let sent = origin.times(start);
            assert!(sent.len() >= 5, "{id}: {sent:?}");
            let mut step = policy.backoff().base;
            for pair in sent.windows(2) {
                let waited = pair[1] - pair[0] - LATENCY;
                assert!(waited >= policy.backoff().floor, "{id}: {waited:?}");
                assert!(waited <= step.min(policy.backoff().cap), "{id}: {waited:?} of {step:?}");
                step *= 2;
            }
        }
    }
}

/// Given up after so many sends with a typed reason, and the server's last answer in the signal.
async fn gives_up(incident: &Incident, reason: Reason, sends: usize) {
    let id = &incident.id;
    let origin = always(incident);
    let client = origin.behind(Setup::of(incident).admission(0.5).build().unwrap());
    let start = Instant::now();
    let outcome = call(&client, Method::POST, incident).send().await;
    let spill = SpillOver::of(&outcome).unwrap();
    assert_eq!(spill.reason(), reason, "{id}");
    assert_eq!((spill.attempts() as usize, origin.count()), (sends, sends), "{id}");
    assert_eq!(start.elapsed(), spill.waited() + LATENCY * spill.attempts(), "{id}");
    is_the_response_of(spill, incident);
}

/// The budget is over when the answer comes, or before: no repeat, no wait.
async fn ends_with_its_budget(incident: &Incident) {
    let id = &incident.id;
    assert!(Setup::of(incident).over_budget, "{id}");
    let budget = AdmissionPolicy::default().latency_budget().duration();
    for (timeout, late, ends, status) in [
        (AttemptTimeout::Unclamped, ms(1), budget + ms(1), incident.status),
        (AttemptTimeout::Unclamped, ms(0), budget, incident.status),
        (AttemptTimeout::ClampToBudget, ms(1), budget, None),
    ] {
        let record = incident.clone();
        let origin = Origin::always(move || answer(&record).after(budget + late));
        let policy = AdmissionPolicy::builder().attempt_timeout(timeout);
        let admission = Admission::builder().policy(policy.build().unwrap()).build().unwrap();
        let start = Instant::now();
        let outcome = call(&origin.behind(admission), Method::GET, incident).send().await;
        let spill = SpillOver::of(&outcome).unwrap();
        let reason = if status.is_some() { Reason::BudgetExceeded } else { Reason::NoResponse };
        assert_eq!(spill.reason(), reason, "{id}");
        assert_eq!((origin.count(), spill.waited(), start.elapsed()), (1, Duration::ZERO, ends), "{id}");
        assert_eq!(spill.status().map(|status| status.as_u16()), status, "{id}");
    }
}

/// What may have been processed is not sent again as a POST; the caller gets the outcome as it is.
async fn is_not_repeated(incident: &Incident) {
    let id = &incident.id;
    let lost = Setup::of(incident).connection_lost;
    let record = incident.clone();
    let origin = Origin::always(move || match lost {
        true => Answer::error(failures::lost_connection().into()),
        false => answer(&record),
    });
    let client = origin.behind(Admission::default());
    let outcome = call(&client, Method::POST, incident).send().await;
    assert!(SpillOver::of(&outcome).is_none(), "{id}");
    assert_eq!(origin.count(), 1, "{id}");
    match (outcome, lost) {
        (Err(Error::Reqwest(error)), true) => assert!(error.is_request(), "{id}: {error:?}"),
        (Ok(response), false) => assert_eq!(response.status().as_u16(), incident.status.unwrap(), "{id}"),
        (other, _) => panic!("{id}: {other:?}"),
    }
    // With a key that the server honours, and for a method that may be repeated, it is.
    for (method, key) in [(Method::POST, true), (Method::GET, false)] {
        let before = origin.count();
        let mut call = call(&client, method, incident);
        if key {
            call = call.header("idempotency-key", "one");
        }
        let _ = call.send().await;
        assert!(origin.count() > before + 1, "{id}");
    }
}

/// Handed on as it is, after one send.
pub(super) async fn passes_unchanged(incident: &Incident) {
    let id = &incident.id;
    let origin = always(incident);
    let client = origin.behind(Setup::of(incident).admission(0.5).build().unwrap());
    let outcome = call(&client, Method::GET, incident).send().await;
    assert!(SpillOver::of(&outcome).is_none(), "{id}");
    let response = outcome.unwrap();
    assert_eq!((response.status().as_u16(), origin.count()), (incident.status.unwrap(), 1), "{id}");
    assert_eq!(response.url().as_str(), url(incident), "{id}");
    for (name, value) in &incident.headers {
        assert_eq!(response.headers()[name.as_str()], value.as_str(), "{id}");
    }
    assert_eq!(response.text().await.unwrap(), incident.body.clone().unwrap_or_default(), "{id}");
}

/// A body that can be sent once is sent once; what the server said is in the signal.
async fn is_sent_once_as_a_stream(incident: &Incident) {
    let id = &incident.id;
    assert!(Setup::of(incident).streaming, "{id}");
    let origin = once(incident, LATENCY);
    let client = origin.behind(Admission::default());
    let start = Instant::now();
    let call =
        client.post(url(incident)).body(Body::wrap(http_body_util::Full::new(bytes::Bytes::from("sent"))));
    let outcome = call.send().await;
    assert_eq!((origin.count(), start.elapsed()), (1, LATENCY), "{id}");
    let spill = SpillOver::of(&outcome).unwrap();
    assert_eq!(spill.reason(), Reason::BodyNotReplayable, "{id}");
    is_the_response_of(spill, incident);
}
