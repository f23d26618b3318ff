//! Waits of the middleware, exact to the millisecond, on a paused clock with a fake origin.
#![cfg(test)]

mod support;

use std::time::{Duration, SystemTime};

use reqwest_admission::decision::Decision;
use reqwest_admission::policy::{AttemptTimeout, Backoff, OnSpill, RetryBudgetPolicy};
use reqwest_admission::reading::Profile;
use reqwest_admission::{
    Admission, AdmissionBuilder, AdmissionPolicy, CallReport, LatencyBudget, Reason, SpillOver,
};
use support::{Answer, Origin, ms};
use tokio::time::Instant;

const URL: &str = "http://api.example/v1/items?key=SECRET";

fn refused(milliseconds: u64) -> Answer {
    Answer::status(429).header("retry-after-ms", &milliseconds.to_string())
}

/// No jitter, so that waits are exact.
fn exact() -> AdmissionBuilder {
    Admission::builder().draws(|| 0.0)
}

#[tokio::test(start_paused = true)]
async fn law_1_nothing_is_sent_before_the_advised_moment_and_without_jitter_exactly_at_it() {
    let origin = Origin::in_order([refused(1500).after(ms(20)), refused(40), refused(25_000)]);
    let client = origin.behind(exact().build().unwrap());
    let start = Instant::now();
    let response = client.get(URL).send().await.unwrap();
    assert_eq!(response.status(), 200);
    // Counted from the receipt of each response, not from the send.
    assert_eq!(origin.times(start), [ms(0), ms(1520), ms(1560), ms(26_560)]);
}

#[tokio::test(start_paused = true)]
async fn law_1_jitter_only_adds() {
    for draw in [0.0, 0.3, 0.999, 1.0, f64::NAN] {
        let origin = Origin::in_order([refused(1000)]);
        let client = origin.behind(Admission::builder().draws(move || draw).build().unwrap());
        let start = Instant::now();
        client.get(URL).send().await.unwrap();
        let sent = origin.times(start)[1];
        assert!(sent >= ms(1000) && sent <= ms(1101), "{draw}: {sent:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn law_1_of_fifty_calls_none_is_early() {
    for _ in 0..50 {
        let origin = Origin::in_order([Answer::status(429).header("retry-after", "1")]);
        let client = origin.behind(Admission::default());
        let start = Instant::now();
        client.get(URL).send().await.unwrap();
        assert!(origin.times(start)[1] >= ms(1000));
    }
}

#[tokio::test(start_paused = true)]
async fn law_2_a_wait_over_the_budget_spills_at_once_having_slept_nothing() {
    let origin = Origin::always(|| refused(30_001).body("busy"));
    let client = origin.behind(Admission::default());
    let start = Instant::now();
    let outcome = client.get(URL).send().await;
    assert_eq!(start.elapsed(), Duration::ZERO);
    let spill = SpillOver::of(&outcome).unwrap();
    assert_eq!(spill.reason(), Reason::BudgetExceeded);
    assert_eq!((spill.attempts(), spill.waited()), (1, Duration::ZERO));
    assert_eq!(spill.advised_wait(), Some(ms(30_001)));
    assert_eq!(spill.status().unwrap(), 429);
    assert_eq!(spill.headers().unwrap()["retry-after-ms"], "30001");
    assert_eq!(spill.body(), b"busy");
    let ahead = spill.retry_at().unwrap().duration_since(SystemTime::now()).unwrap();
    assert!(ahead > ms(20_000) && ahead <= ms(30_001));
}

#[tokio::test(start_paused = true)]
async fn law_2_the_budget_is_inclusive_and_covers_sends_and_earlier_waits() {
    for (third, fits) in [(900, true), (901, false)] {
        // 100 ms of sending, 1000 ms of waiting, then what is left of 2000 ms.
        let origin =
            Origin::in_order([refused(500).after(ms(60)), refused(500).after(ms(40)), refused(third)]);
        let client = origin.behind(exact().build().unwrap());
        let start = Instant::now();
        let outcome = client.get(URL).with_extension(LatencyBudget::new(ms(2000))).send().await;
        assert_eq!(outcome.is_ok(), fits, "{third}");
        assert_eq!(origin.count(), if fits { 4 } else { 3 });
        assert_eq!(start.elapsed(), if fits { ms(2000) } else { ms(1100) });
    }
}

/// Kept apart from others that it cannot see, it is still let go while it has the time.
#[tokio::test(start_paused = true)]
async fn law_2_a_lone_call_that_is_refused_again_and_again_uses_its_budget_up() {
    let policy = AdmissionPolicy::builder().max_attempts(100).build().unwrap();
    for budget in (300..6_000).step_by(170) {
        let origin = Origin::always(|| refused(200));
        let client = origin.behind(Admission::builder().policy(policy.clone()).seed(budget).build().unwrap());
        let start = Instant::now();
        let outcome = client.get(URL).with_extension(LatencyBudget::new(ms(budget))).send().await;
        assert_eq!(SpillOver::of(&outcome).unwrap().reason(), Reason::BudgetExceeded);
        assert!(start.elapsed() + ms(200) > ms(budget), "{budget}: spilled after {:?}", start.elapsed());
        let times = origin.times(start);
        assert!(times.windows(2).all(|pair| pair[1] - pair[0] >= ms(200)), "{budget}: {times:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn law_2_a_zero_budget_sends_once_and_never_waits() {
    let slow = Origin::in_order([Answer::ok().after(ms(500))]);
    let response =
        slow.behind(Admission::default()).get(URL).with_extension(LatencyBudget::new(ms(0))).send().await;
    assert_eq!(response.unwrap().status(), 200);
    for status in [429, 503] {
        let origin = Origin::always(move || Answer::status(status));
        let client = origin.behind(Admission::builder().latency_budget(ms(0)).build().unwrap());
        let outcome = client.get(URL).send().await;
        assert_eq!(SpillOver::of(&outcome).unwrap().reason(), Reason::BudgetExceeded);
        assert_eq!(origin.count(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn law_2_an_attempt_without_a_response_head_is_cut_off_at_the_deadline() {
    let origin = Origin::always(|| Answer::ok().after(ms(60_000)));
    let client = origin.behind(Admission::builder().latency_budget(ms(5000)).build().unwrap());
    let start = Instant::now();
    let outcome = client.get(URL).send().await;
    assert_eq!(start.elapsed(), ms(5000));
    let spill = SpillOver::of(&outcome).unwrap();
    assert_eq!((spill.reason(), spill.status()), (Reason::NoResponse, None));
    assert!(spill.possibly_processed());
}

#[tokio::test(start_paused = true)]
async fn law_2_a_caller_may_let_attempts_outlive_the_budget() {
    let origin = Origin::always(|| Answer::ok().after(ms(60_000)));
    let policy = AdmissionPolicy::builder().attempt_timeout(AttemptTimeout::Unclamped).build().unwrap();
    let client = origin.behind(Admission::builder().policy(policy).build().unwrap());
    assert_eq!(client.get(URL).send().await.unwrap().status(), 200);
}

#[tokio::test(start_paused = true)]
async fn law_3_missing_advice_backs_off_exponentially_and_ends_after_its_attempts() {
    let origin = Origin::always(|| Answer::status(429));
    let client = origin.behind(Admission::builder().draws(|| 0.5).build().unwrap());
    let start = Instant::now();
    let outcome = client.get(URL).send().await;
    assert_eq!(origin.times(start), [0, 250, 750, 1750, 3750, 7750].map(ms));
    let spill = SpillOver::of(&outcome).unwrap();
    assert_eq!((spill.reason(), spill.attempts()), (Reason::AttemptsExhausted, 6));
    assert_eq!(spill.waited(), ms(7750));
    assert_eq!(spill.retry_at(), None);
}

#[tokio::test(start_paused = true)]
async fn law_3_advice_of_zero_waits_a_doubling_floor() {
    let origin = Origin::always(|| Answer::status(429).header("retry-after", "0"));
    let policy = AdmissionPolicy::builder()
        .backoff(Backoff::default().base(ms(500)).cap(ms(20_000)).floor(ms(50)))
        .build()
        .unwrap();
    let client = origin.behind(exact().policy(policy).build().unwrap());
    let start = Instant::now();
    let _ = client.get(URL).send().await;
    assert_eq!(origin.times(start), [0, 50, 150, 350, 750, 1550].map(ms));
}

#[tokio::test(start_paused = true)]
async fn every_answer_is_looked_at_again() {
    let answers = [refused(1000), Answer::status(503), Answer::status(500), Answer::ok()];
    let origin = Origin::in_order(answers);
    let response = origin.behind(Admission::default()).get(URL).send().await.unwrap();
    assert_eq!((response.status().as_u16(), origin.count()), (200, 4));
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_is_not_about_capacity_is_handed_on_untouched_in_the_end() {
    let origin = Origin::always(|| Answer::status(500).header("x-kept", "1").body("broken"));
    let response = origin.behind(Admission::default()).get(URL).send().await.unwrap();
    assert_eq!((response.status().as_u16(), origin.count()), (500, 6));
    assert_eq!(response.headers()["x-kept"], "1");
    assert_eq!(response.url().as_str(), URL);
    assert_eq!(response.text().await.unwrap(), "broken");
}

#[tokio::test(start_paused = true)]
async fn law_9_the_refusal_itself_comes_back_marked_where_the_policy_says_so() {
    let body = "long ".repeat(30_000);
    let sent = body.clone();
    let origin = Origin::always(move || refused(99_000).body(sent.clone()));
    let policy = AdmissionPolicy::builder().on_spill(OnSpill::Response).build().unwrap();
    let client = origin.behind(Admission::builder().policy(policy).build().unwrap());
    let outcome = client.get(URL).send().await;
    let spill = SpillOver::of(&outcome).unwrap();
    assert_eq!(spill.advised_wait(), Some(ms(99_000)));
    assert_eq!(spill.body(), &body.as_bytes()[..64 * 1024]);
    let response = outcome.unwrap();
    assert_eq!((response.status().as_u16(), response.url().as_str()), (429, URL));
    assert_eq!(response.content_length(), Some(150_000));
    assert_eq!(response.text().await.unwrap(), body);
}

#[tokio::test(start_paused = true)]
async fn law_9_a_foreign_error_passes_through_untouched() {
    #[derive(Debug, thiserror::Error)]
    #[error("signing failed")]
    struct Signing;
    let origin = Origin::new(|_, _| Answer::error(reqwest_middleware::Error::middleware(Signing)));
    let error = origin.behind(Admission::default()).get(URL).send().await.unwrap_err();
    assert_eq!(origin.count(), 1);
    let reqwest_middleware::Error::Middleware(error) = error else { panic!("{error:?}") };
    assert!(error.downcast_ref::<Signing>().is_some());
}

#[tokio::test(start_paused = true)]
async fn the_report_of_a_call_tells_its_attempts_waits_and_request_ids() {
    let origin = Origin::in_order([refused(100).header("x-request-id", "req_1"), Answer::status(503)]);
    let client = origin.behind(Admission::builder().draws(|| 0.5).build().unwrap());
    let report = CallReport::new();
    let response = client.get(URL).with_extension(report.clone()).send().await.unwrap();
    for report in [&report, response.extensions().get::<CallReport>().unwrap()] {
        assert_eq!(report.attempts(), 3);
        assert_eq!(report.waited(), ms(105 + 500));
        assert_eq!(report.decision(), Some(Decision::Admit));
        assert!(report.spill_over().is_none());
        assert_eq!(report.request_ids(), ["req_1"]);
        let details = report.details();
        assert_eq!(details.len(), 3);
        assert_eq!(details[0].hint().unwrap().source().to_string(), "retry-after-ms");
        assert_eq!(details[0].wait(), Some(ms(105)));
        assert_eq!(
            details.iter().map(|detail| detail.status().unwrap().as_u16()).collect::<Vec<_>>(),
            [429, 503, 200]
        );
    }
}

#[tokio::test(start_paused = true)]
async fn the_report_has_the_signal_even_where_the_error_is_lost() {
    let origin = Origin::always(|| refused(99_000));
    let report = CallReport::new();
    let _ = origin.behind(Admission::default()).get(URL).with_extension(report.clone()).send().await;
    assert_eq!(report.spill_over().unwrap().reason(), Reason::BudgetExceeded);
}

#[tokio::test(start_paused = true)]
async fn a_client_as_a_whole_resends_at_most_its_share_in_an_outage() {
    let origin = Origin::always(|| Answer::status(503));
    let budget = RetryBudgetPolicy::new(0.1, 1, Duration::from_secs(10)).unwrap();
    let policy = AdmissionPolicy::builder().retry_budget(budget).build().unwrap();
    let client = origin.behind(Admission::builder().policy(policy).build().unwrap());
    let calls = (0..1000).map(|_| client.get(URL).send()).map(tokio::spawn);
    let mut spent = 0;
    for call in calls.collect::<Vec<_>>() {
        let outcome = call.await.unwrap();
        spent += usize::from(SpillOver::of(&outcome).unwrap().reason() == Reason::RetryBudgetSpent);
    }
    // Charged when decided: a thousand calls asleep in their backoff have claimed no more than their share.
    assert!(origin.count() <= 1000 + 100 + 20, "{}", origin.count());
    assert!(spent > 800, "{spent}");
}

#[tokio::test(start_paused = true)]
async fn law_2_the_body_of_a_refusal_is_not_read_past_the_deadline() {
    let body = || reqwest::Body::wrap_stream(Never);
    // Without advice in the head, which would decide without the body.
    let origin = Origin::always(move || Answer::status(429).body(body()));
    let client = origin.behind(Admission::builder().latency_budget(ms(300)).build().unwrap());
    let start = Instant::now();
    let outcome = client.get(URL).send().await;
    assert_eq!(SpillOver::of(&outcome).unwrap().status().unwrap(), 429);
    assert_eq!(start.elapsed(), ms(300));
}

/// A stream of which nothing ever comes.
struct Never;

impl futures_core::Stream for Never {
    type Item = Result<&'static str, std::convert::Infallible>;

    fn poll_next(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        std::task::Poll::Pending
    }
}

#[tokio::test(start_paused = true)]
async fn law_9_a_call_that_is_cut_off_keeps_the_last_response() {
    let refused = Answer::status(429).header("retry-after", "1").body("why");
    let origin = Origin::in_order([refused, Answer::ok().after(ms(60_000))]);
    let client = origin.behind(Admission::builder().latency_budget(ms(5000)).build().unwrap());
    let outcome = client.get(URL).send().await;
    let spill = SpillOver::of(&outcome).unwrap();
    assert_eq!((spill.reason(), spill.attempts()), (Reason::NoResponse, 2));
    assert_eq!((spill.status().unwrap().as_u16(), spill.body()), (429, &b"why"[..]));
    assert!(spill.possibly_processed());
}

#[tokio::test(start_paused = true)]
async fn a_spill_over_remembers_that_an_earlier_attempt_may_have_been_processed() {
    for (status, possibly) in [(502, true), (504, true), (429, false), (529, false)] {
        let long = Answer::status(429).header("retry-after", "60");
        let origin = Origin::in_order([Answer::status(status), long]);
        let client = origin.behind(Admission::default());
        let outcome = client.post(URL).header("idempotency-key", "one").send().await;
        let spill = SpillOver::of(&outcome).unwrap();
        assert_eq!((spill.attempts(), spill.possibly_processed()), (2, possibly), "{status}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_inside_of_a_200_is_waited_out_where_a_profile_says_so() {
    let throttled = r#"{"errors":[{"extensions":{"code":"THROTTLED"}}],"extensions":{"cost":{"requestedQueryCost":752,
        "throttleStatus":{"maximumAvailable":1000,"currentlyAvailable":2,"restoreRate":50}}}}"#;
    let json =
        |body: &str| Answer::status(200).header("content-type", "application/json").body(body.to_owned());
    let shop = Profile::builder("my-shop").host("api.example").refusal_code_in_success("THROTTLED");
    let shop = shop.build().unwrap();
    let other = Profile::builder("other").host("other.example").refusal_code_in_success("THROTTLED");
    let other = other.build().unwrap();

    let origin = Origin::in_order([json(throttled), json(r#"{"data":5}"#)]);
    let client = origin.behind(exact().profiles([other.clone(), shop]).build().unwrap());
    let start = Instant::now();
    let response = client.post(URL).body("{}").send().await.unwrap();
    assert_eq!(response.text().await.unwrap(), r#"{"data":5}"#, "the success comes whole");
    assert_eq!(origin.times(start), [ms(0), ms(15_000)]);

    let origin = Origin::in_order([json(throttled)]);
    let client = origin.behind(exact().profiles([other]).build().unwrap());
    let response = client.post(URL).body("{}").send().await.unwrap();
    assert_eq!(response.text().await.unwrap(), throttled, "nobody says so of this host");
}

#[tokio::test(start_paused = true)]
async fn law_6_a_terminal_refusal_that_names_a_moment_keeps_it_and_nothing_waits_for_it() {
    let spent = r#"{"error":{"code":"insufficient_quota"}}"#;
    let large = r#"{"error":{"message":"Request too large for gpt on tokens per min (TPM): Limit 30000, Requested 61337.","type":"tokens","code":"rate_limit_exceeded"}}"#;
    let answers: [(Answer, Reason); 3] = [
        (Answer::status(429).body(spent), Reason::QuotaExhausted),
        (Answer::status(429).header("x-should-retry", "false"), Reason::ServerDirective),
        (Answer::status(429).body(large), Reason::RequestTooLarge),
    ];
    for (answer, reason) in answers {
        let origin = Origin::in_order([answer.header("retry-after", "7")]);
        let client = origin.behind(exact().profile(Profile::named("openai")).build().unwrap());
        let start = Instant::now();
        let outcome = client.post(URL).send().await;
        let spill = SpillOver::of(&outcome).unwrap();
        assert_eq!((spill.reason(), start.elapsed(), spill.advised_wait()), (reason, ms(0), Some(ms(7000))));
        let ahead = spill.retry_at().unwrap().duration_since(SystemTime::now()).unwrap();
        assert!(ahead > ms(6000) && ahead <= ms(7000), "{ahead:?}");
    }
}
