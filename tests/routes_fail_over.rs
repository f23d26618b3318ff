//! Deployments that fail or are slow: fail-over, the circuit, the time that is kept for the next. Paused clock, fake origins.
#![cfg(test)]

#[path = "support/failures.rs"]
mod failures;
mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use reqwest_admission::gate::Gate;
use reqwest_admission::policy::RetryBudgetPolicy;
use reqwest_admission::{
    Admission, AdmissionBuilder, AdmissionPolicy, CallReport, Deployment, FailOver, LatencyBudget, Reason,
    SpillOver,
};
use reqwest_middleware::{ClientWithMiddleware, Error, RequestBuilder};
use support::{Answer, Origin, ms};
use tokio::time::Instant;

const URL: &str = "https://primary.example/v1/chat";

fn refused(milliseconds: u64) -> Answer {
    Answer::status(429).header("retry-after-ms", &milliseconds.to_string())
}

fn no_connection() -> Answer {
    Answer::error(failures::no_connection().into())
}

/// An origin that answers as `primary` says for the primary, and as `standby` says for all others.
fn origin(
    mut primary: impl FnMut() -> Answer + Send + 'static,
    mut standby: impl FnMut() -> Answer + Send + 'static,
) -> Origin {
    Origin::new(move |_, request| match request.url().host_str() {
        Some("primary.example") => primary(),
        _ => standby(),
    })
}

fn routed(origin: &Origin) -> AdmissionBuilder {
    let standby = Deployment::new("standby", "https://standby.example").api_key("k").client(origin.client());
    Admission::builder().primary("https://primary.example").spill_to(standby).draws(|| 0.0)
}

fn client(origin: &Origin, fail_over: FailOver) -> ClientWithMiddleware {
    origin.behind(routed(origin).fail_over(fail_over).build().unwrap())
}

fn budget(milliseconds: u64) -> LatencyBudget {
    LatencyBudget::new(ms(milliseconds))
}

fn count(origin: &Origin, host: &str) -> usize {
    origin.seen().iter().filter(|seen| seen.url.host_str().unwrap().starts_with(host)).count()
}

fn host(outcome: &Result<reqwest::Response, Error>) -> &str {
    outcome.as_ref().unwrap().url().host_str().unwrap()
}

fn first_reason(outcome: &Result<reqwest::Response, Error>) -> Option<Reason> {
    let report = outcome.as_ref().unwrap().extensions().get::<CallReport>().unwrap();
    report.legs().first().and_then(|leg| leg.reason())
}

/// A call in a form, by name.
fn call(client: &ClientWithMiddleware, form: &str) -> RequestBuilder {
    match form {
        "get" => client.get(URL),
        "post" => client.post(URL).body("x"),
        _ => client.post(URL).body("x").header("idempotency-key", "k"),
    }
}

type Answers = fn() -> Answer;

/// How the primary fails: as an answer, why a call leaves it, and whether nothing was sent.
fn failures() -> [(Answers, Reason, bool); 6] {
    [
        (no_connection, Reason::Unreachable, true),
        (|| Answer::error(failures::lost_connection().into()), Reason::ServerFailed, false),
        (|| Answer::error(failures::timed_out().into()), Reason::NoResponse, false),
        (|| Answer::status(500), Reason::ServerFailed, false),
        (|| Answer::status(502), Reason::ServerFailed, false),
        (|| Answer::ok().after(ms(60_000)), Reason::NoResponse, false),
    ]
}

#[tokio::test(start_paused = true)]
async fn a_failure_goes_to_the_next_deployment_where_the_policy_and_law_5_let_it() {
    for (fail, reason, unsent) in failures() {
        for fail_over in [FailOver::Never, FailOver::Unsent, FailOver::Safe] {
            for form in ["get", "post", "post with a key"] {
                let origin = origin(fail, Answer::ok);
                let client = client(&origin, fail_over);
                let outcome = call(&client, form).with_extension(budget(2000)).send().await;
                let goes = match fail_over {
                    FailOver::Never => false,
                    FailOver::Unsent => unsent,
                    _ => unsent || form != "post",
                };
                assert_eq!(count(&origin, "standby"), usize::from(goes), "{reason} {fail_over:?} {form}");
                if goes {
                    assert_eq!(host(&outcome), "standby.example");
                    assert_eq!(first_reason(&outcome), Some(reason), "{fail_over:?} {form}");
                    assert_eq!(count(&origin, "primary"), 1);
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_503_without_advice_goes_at_once_only_where_failures_do() {
    for (fail_over, sent) in [(FailOver::Unsent, 6), (FailOver::Safe, 1)] {
        let origin = origin(|| Answer::status(503), Answer::ok);
        let outcome = client(&origin, fail_over).get(URL).send().await;
        // Else once all attempts are used, as before.
        assert_eq!((host(&outcome), count(&origin, "primary")), ("standby.example", sent));
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_is_refused_costs_no_wait_and_a_stream_of_a_body_stays() {
    let origin = origin(no_connection, Answer::ok);
    let start = Instant::now();
    let outcome = client(&origin, FailOver::default()).post(URL).body("x").send().await;
    assert_eq!((host(&outcome), start.elapsed()), ("standby.example", ms(0)));
    let stream = reqwest::Body::wrap(http_body_util::Full::new(bytes::Bytes::from_static(b"once")));
    let outcome = client(&origin, FailOver::default()).post(URL).body(stream).send().await;
    assert!(matches!(outcome, Err(Error::Reqwest(error)) if error.is_connect()));
}

#[tokio::test(start_paused = true)]
async fn the_circuit_opens_so_that_not_every_call_pays_and_closes_when_the_primary_is_back() {
    let back = Arc::new(AtomicBool::new(false));
    let is_back = Arc::clone(&back);
    let hangs =
        move || if is_back.load(Ordering::SeqCst) { Answer::ok() } else { Answer::ok().after(ms(60_000)) };
    for gated in [true, false] {
        back.store(false, Ordering::SeqCst);
        let origin = origin(hangs.clone(), Answer::ok);
        let admission = routed(&origin).fail_over(FailOver::Safe);
        let admission = if gated { admission } else { admission.without_gate() };
        let client = origin.behind(admission.build().unwrap());
        let (start, mut paid) = (Instant::now(), 0);
        for _ in 0..300 {
            let began = Instant::now();
            let outcome = client.get(URL).with_extension(budget(2000)).send().await;
            assert_eq!(host(&outcome), "standby.example");
            paid += usize::from(began.elapsed() > ms(0));
            tokio::time::sleep(ms(100)).await;
        }
        // Three to open it, and one each after 1, 2, 4, 8 and 16 seconds.
        assert!((3..=8).contains(&paid), "{paid} in {:?}", start.elapsed());
        assert_eq!(count(&origin, "primary"), paid);

        back.store(true, Ordering::SeqCst);
        tokio::time::sleep(ms(31_000)).await;
        for _ in 0..3 {
            let outcome = client.get(URL).with_extension(budget(2000)).send().await;
            assert_eq!(host(&outcome), "primary.example");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn one_call_that_fails_is_no_reason_to_stay_away() {
    let mut n = 0;
    let every_third = move || {
        n += 1;
        if n % 3 == 0 { Answer::status(500) } else { Answer::ok() }
    };
    let origin = origin(every_third, Answer::ok);
    let client = client(&origin, FailOver::Safe);
    for _ in 0..30 {
        client.get(URL).send().await.unwrap();
    }
    assert_eq!((count(&origin, "primary"), count(&origin, "standby")), (30, 10));
}

#[tokio::test(start_paused = true)]
async fn where_all_deployments_fail_the_caller_gets_what_there_is() {
    // Nothing was sent anywhere: the request comes back.
    let unreachable = origin(no_connection, no_connection);
    let outcome = client(&unreachable, FailOver::Safe).post(URL).body("x").send().await;
    let spill = SpillOver::of(&outcome).unwrap();
    assert_eq!((spill.reason(), spill.legs().len()), (Reason::Unreachable, 2));
    assert!(!spill.possibly_processed() && spill.take_request().is_some());

    // The primary may have processed it: the request is not handed back as unsent.
    let unclear = origin(|| Answer::error(failures::lost_connection().into()), no_connection);
    let outcome = client(&unclear, FailOver::Safe).get(URL).send().await;
    let spill = SpillOver::of(&outcome).unwrap();
    assert!(spill.possibly_processed() && spill.take_request().is_none());
    assert!(spill.clone().into_deferred().unwrap().possibly_processed());

    // A failure of the last deployment is handed on as it is, after what the policy repeats.
    let failing = origin(|| Answer::status(502), || Answer::status(500));
    let response =
        client(&failing, FailOver::Safe).get(URL).with_extension(budget(2000)).send().await.unwrap();
    assert_eq!((response.status().as_u16(), response.url().host_str()), (500, Some("standby.example")));
    assert_eq!(count(&failing, "primary"), 1);
}

#[tokio::test(start_paused = true)]
async fn the_earliest_moment_of_any_deployment_is_told_and_the_ticket_has_the_same() {
    let hour = || refused(3_600_000);
    let spent = || {
        let body = r#"{"error":{"code":"insufficient_quota","type":"insufficient_quota"}}"#;
        Answer::status(429).header("content-type", "application/json").body(body)
    };
    let cases: [(Answers, Answers, Option<u64>); 6] = [
        (|| refused(30_000), hour, Some(30)),
        (hour, || refused(30_000), Some(30)),
        (|| refused(30_000), spent, Some(30)),
        (spent, || refused(30_000), Some(30)),
        (spent, spent, None),
        (|| refused(30_000), no_connection, Some(30)),
    ];
    for (index, (primary, standby, expected)) in cases.into_iter().enumerate() {
        let origin = origin(primary, standby);
        let client = origin.behind(routed(&origin).build().unwrap());
        // After the refusals, then turned away by the gates.
        for round in 0..2 {
            let outcome = client.post(URL).body("x").with_extension(budget(2000)).send().await;
            let spill = SpillOver::of(&outcome).unwrap();
            let expected = expected.map(Duration::from_secs);
            let near = |wait: Option<Duration>| match (wait, expected) {
                (Some(wait), Some(expected)) => wait.abs_diff(expected) < ms(4000),
                (wait, expected) => wait.is_none() && expected.is_none(),
            };
            assert!(near(spill.advised_wait()), "{index} {round} {:?}", spill.advised_wait());
            let until = |at: SystemTime| at.duration_since(SystemTime::now()).unwrap();
            assert!(near(spill.retry_at().map(until)), "{index} {round} {:?}", spill.retry_at());
            let told = spill.retry_at();
            let ticket = spill.clone().into_deferred().unwrap();
            let difference = |one: SystemTime, other: SystemTime| {
                one.duration_since(other).unwrap_or_else(|early| early.duration())
            };
            assert_eq!(ticket.retry_at().is_some(), told.is_some());
            if let (Some(ticket), Some(told)) = (ticket.retry_at(), told) {
                assert!(difference(ticket, told) < ms(1));
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_kept_for_the_next_deployment_follows_what_it_usually_takes() {
    // Never seen before, or seen: either way it gets the time that it takes.
    for seen_before in [false, true] {
        for advice in [100, 300, 500, 900, 1100, 1500, 1900] {
            let warm = Arc::new(AtomicBool::new(seen_before));
            let is_warm = Arc::clone(&warm);
            let origin = origin(
                move || if is_warm.swap(false, Ordering::SeqCst) { refused(60_000) } else { refused(advice) },
                || Answer::ok().after(ms(800)),
            );
            // Without a gate, whose cool-down would send the call on at once.
            let client = origin.behind(routed(&origin).without_gate().build().unwrap());
            if seen_before {
                assert!(client.get(URL).with_extension(budget(2000)).send().await.is_ok());
            }
            let start = Instant::now();
            let outcome = client.get(URL).with_extension(budget(2000)).send().await;
            assert_eq!(host(&outcome), "standby.example", "{advice}");
            assert!(start.elapsed() <= ms(2000));
        }
    }
    // A fast one leaves the primary nine tenths.
    let mut first = true;
    let origin = origin(
        move || if std::mem::take(&mut first) { refused(60_000) } else { Answer::ok() },
        || Answer::ok().after(ms(10)),
    );
    let client = origin.behind(routed(&origin).without_gate().build().unwrap());
    assert_eq!(host(&client.get(URL).with_extension(budget(2000)).send().await), "standby.example");
    for (advice, expected) in [(1800, "primary.example"), (1801, "standby.example")] {
        let mut once = Some(advice);
        let origin = Origin::new(move |n, request| match (request.url().host_str(), n) {
            (Some("primary.example"), 0) => refused(60_000),
            (Some("primary.example"), _) => once.take().map_or_else(Answer::ok, refused),
            _ => Answer::ok().after(ms(10)),
        });
        let client = origin.behind(routed(&origin).without_gate().build().unwrap());
        client.get(URL).with_extension(budget(2000)).send().await.unwrap();
        tokio::time::sleep(ms(60_000)).await;
        let outcome = client.get(URL).with_extension(budget(2000)).send().await;
        assert_eq!(host(&outcome), expected, "{advice}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_no_other_deployment_can_take_has_all_of_the_budget_at_the_primary() {
    for gated in [false, true] {
        let mut once = true;
        let origin =
            origin(move || if std::mem::take(&mut once) { refused(1900) } else { Answer::ok() }, Answer::ok);
        let only_json =
            Deployment::openai_compatible("json", "https://json.example/v1", "m").client(origin.client());
        let admission =
            Admission::builder().primary("https://primary.example").spill_to(only_json).draws(|| 0.0);
        let admission = if gated { admission.gate(Gate::default()) } else { admission.without_gate() };
        let client = origin.behind(admission.build().unwrap());
        let outcome = client.get("https://primary.example/other").with_extension(budget(2000)).send().await;
        assert_eq!(host(&outcome), "primary.example");
        assert_eq!(count(&origin, "primary"), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn any_5xx_fails_over_and_may_have_been_processed() {
    for status in [408, 500, 501, 502, 504, 507, 520, 522, 524, 530, 599] {
        let origin_ok = origin(move || Answer::status(status), Answer::ok);
        let outcome = client(&origin_ok, FailOver::Safe).get(URL).send().await;
        assert_eq!((host(&outcome), count(&origin_ok, "primary")), ("standby.example", 1), "{status}");
        let unreachable = origin(move || Answer::status(status), no_connection);
        let outcome = client(&unreachable, FailOver::Safe).get(URL).send().await;
        let spill = SpillOver::of(&outcome).unwrap();
        assert!(spill.possibly_processed() && spill.take_request().is_none(), "{status}");
    }
    for status in [400, 401, 403, 404, 409, 422] {
        let origin = origin(move || Answer::status(status), Answer::ok);
        let client = client(&origin, FailOver::Safe);
        for _ in 0..5 {
            assert_eq!(client.get(URL).send().await.unwrap().status(), status);
        }
        assert_eq!((count(&origin, "primary"), count(&origin, "standby")), (5, 0), "{status}");
    }
}

/// What is kept for a deployment that never answers within the budget is lost to the primary.
#[tokio::test(start_paused = true)]
async fn a_deployment_that_takes_longer_than_the_budget_takes_no_wait_from_the_primary() {
    let mut refusals = vec![100, 60_000];
    let origin =
        origin(move || refusals.pop().map_or_else(Answer::ok, refused), || Answer::ok().after(ms(100_000)));
    let client = origin.behind(routed(&origin).without_gate().build().unwrap());
    assert!(client.get(URL).with_extension(budget(2000)).send().await.is_err());
    tokio::time::sleep(ms(61_000)).await;
    let start = Instant::now();
    let outcome = client.get(URL).with_extension(budget(2000)).send().await;
    assert_eq!((host(&outcome), start.elapsed()), ("primary.example", ms(100)));
}

/// Sends of a layer outside come on top of ours, they do not multiply them, over several deployments either.
#[tokio::test(start_paused = true)]
async fn reruns_by_a_layer_outside_send_once_to_each_deployment() {
    let origin = origin(|| Answer::status(500), || Answer::status(502));
    let client = client(&origin, FailOver::Safe);
    let mut extensions = http::Extensions::new();
    let mut sent = 0;
    for run in 0..4 {
        let request = client.get(URL).build().unwrap();
        let response = client.execute_with_extensions(request, &mut extensions).await.unwrap();
        assert_eq!(response.status(), 502);
        let sends = origin.count() - sent;
        sent = origin.count();
        assert!(sends <= if run == 0 { 7 } else { 2 }, "{sends} in run {run}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_resend_that_goes_elsewhere_or_nowhere_is_not_charged_to_the_retry_budget() {
    for routed_on in [true, false] {
        let mut answers = [Answer::status(503), refused(60_000)].into_iter();
        let origin = Origin::new(move |_, request| match request.url().host_str() {
            Some("primary.example") => answers.next().unwrap(),
            Some("third.example") => Answer::status(503),
            _ => Answer::ok(),
        });
        // One re-send a second.
        let budget = RetryBudgetPolicy::new(0.0, 1, Duration::from_secs(1)).unwrap();
        let policy = AdmissionPolicy::builder().retry_budget(budget).build().unwrap();
        let builder = if routed_on { routed(&origin) } else { Admission::builder().draws(|| 0.0) };
        let client = origin.behind(builder.policy(policy).build().unwrap());
        let resent = tokio::spawn(client.get(URL).send());
        tokio::time::sleep(ms(50)).await;
        // The scope is closed while the first call waits to be sent again.
        let refused = client.get(URL).send().await;
        assert_eq!(refused.is_ok(), routed_on);
        assert_eq!(resent.await.unwrap().is_ok(), routed_on);
        assert_eq!(count(&origin, "primary"), 2);
        // So the one re-send is still there.
        let failed = client.get("https://third.example/").send().await;
        assert_eq!(count(&origin, "third"), 2, "{failed:?}");
    }
}
