//! Which deployment takes a call: the default choice, the way back, routers, native spill-over. Paused clock, fake origins.
#![cfg(test)]

mod support;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use reqwest_admission::gate::Priority;
use reqwest_admission::pace::TokenEstimate;
use reqwest_admission::spill::{CallAttributes, Choice, DeploymentState, RouteCall, Stage};
use reqwest_admission::{
    Admission, AdmissionBuilder, CallReport, Deployment, LatencyBudget, Reason, SpillOver,
};
use reqwest_middleware::ClientWithMiddleware;
use support::{Answer, Origin, ms};
use tokio::time::Instant;

const URL: &str = "https://primary.example/v1/chat";

fn refused(milliseconds: u64) -> Answer {
    Answer::status(429).header("retry-after-ms", &milliseconds.to_string())
}

fn target(origin: &Origin, name: &str) -> Deployment {
    Deployment::new(name, &format!("https://{name}.example")).api_key("key").client(origin.client())
}

fn to_primary() -> AdmissionBuilder {
    Admission::builder().primary("https://primary.example")
}

fn budget(milliseconds: u64) -> LatencyBudget {
    LatencyBudget::new(ms(milliseconds))
}

/// Where a call with a budget of two seconds was answered.
async fn answered_by(client: &ClientWithMiddleware) -> String {
    let response = client.get(URL).with_extension(budget(2000)).send().await.unwrap();
    response.url().host_str().unwrap().replace(".example", "")
}

fn count(origin: &Origin, host: &str) -> usize {
    origin.seen().iter().filter(|seen| seen.url.host_str().unwrap().starts_with(host)).count()
}

#[tokio::test(start_paused = true)]
async fn one_probe_finds_out_when_the_primary_is_back_and_then_all_go_back() {
    let start = Instant::now();
    // Closed for ten seconds; its first answer afterwards takes a while.
    let origin = Origin::new(move |_, request| {
        if request.url().host_str() != Some("primary.example") {
            return Answer::ok().after(ms(10));
        }
        let left = ms(10_000).saturating_sub(start.elapsed());
        match left.is_zero() {
            false => refused(u64::try_from(left.as_micros().div_ceil(1000)).unwrap()),
            true => Answer::ok().after(ms(300)),
        }
    });
    // An answer takes 300 ms, so more than that is kept free for it.
    let admission = to_primary().spill_to(target(&origin, "standby")).spill_reserve(ms(500)).draws(|| 0.0);
    let client = origin.behind(admission.build().unwrap());
    let mut calls = Vec::new();
    for n in 0..150_u64 {
        tokio::time::sleep_until(start + ms(100 * n)).await;
        let client = client.clone();
        calls.push(tokio::spawn(async move {
            let at = start.elapsed();
            let response = client.get(URL).with_extension(budget(2000)).send().await.unwrap();
            (
                at,
                response.url().host_str().unwrap().to_owned(),
                response.extensions().get::<CallReport>().cloned(),
            )
        }));
    }
    let mut switches = 0;
    let mut before = "standby.example".to_owned();
    let mut awaiting = 0;
    for call in calls {
        let (at, host, report) = call.await.unwrap();
        let legs = report.unwrap().legs();
        awaiting += usize::from(legs.first().is_some_and(|leg| leg.reason() == Some(Reason::AwaitingProbe)));
        if at < ms(8000) {
            assert_eq!(host, "standby.example", "{at:?}");
        }
        if at > ms(10_500) {
            assert_eq!(host, "primary.example", "{at:?}");
        }
        switches += usize::from(host != before);
        before = host;
    }
    // To the probe, from it, and back for good.
    assert_eq!(switches, 3);
    assert!(awaiting > 10, "{awaiting}");
    let times: Vec<_> = origin
        .seen()
        .iter()
        .filter(|seen| seen.url.host_str() == Some("primary.example"))
        .map(|seen| seen.at - start)
        .collect();
    assert!(times[1] >= ms(10_000) && times[2] >= times[1] + ms(300), "{:?}", &times[..4]);
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_is_dropped_or_refused_leaves_it_to_the_next_call() {
    let origin = Origin::new(|n, request| match (request.url().host_str(), n) {
        (Some("primary.example"), 0) => refused(3000),
        (Some("primary.example"), 2) => Answer::ok().after(ms(60_000)),
        (Some("primary.example"), 3) => refused(30_000),
        _ => Answer::ok(),
    });
    let client =
        origin.behind(to_primary().spill_to(target(&origin, "standby")).draws(|| 0.0).build().unwrap());
    assert_eq!(answered_by(&client).await, "standby");
    tokio::time::sleep(ms(4000)).await;
    let probe = tokio::spawn(client.get(URL).send());
    tokio::time::sleep(ms(1)).await;
    probe.abort();
    assert!(probe.await.unwrap_err().is_cancelled());
    // The next probe is refused and goes on; then the gate says no without asking.
    assert_eq!(answered_by(&client).await, "standby");
    assert_eq!(answered_by(&client).await, "standby");
    assert_eq!(count(&origin, "primary"), 3);
    // Long after the end of the cool-down, so that the gate's pace is no matter.
    tokio::time::sleep(ms(120_000)).await;
    assert_eq!(answered_by(&client).await, "primary");
    assert_eq!(answered_by(&client).await, "primary");
}

#[tokio::test(start_paused = true)]
async fn deployments_are_asked_in_order_or_by_weight() {
    let closed = |request: &reqwest::Request| request.url().host_str() == Some("primary.example");
    let shares = |weights: Option<(u32, u32)>| async move {
        let origin =
            Origin::new(move |_, request| if closed(request) { refused(600_000) } else { Answer::ok() });
        let (a, b) = (target(&origin, "a"), target(&origin, "b"));
        let (a, b) = match weights {
            Some(weights) => (a.weight(weights.0), b.weight(weights.1)),
            None => (a, b),
        };
        let admission = to_primary().spill_to(a).spill_to(b).seed(7).build().unwrap();
        let client = origin.behind(admission);
        for _ in 0..400 {
            answered_by(&client).await;
        }
        (count(&origin, "a"), count(&origin, "b"))
    };
    assert_eq!(shares(None).await, (400, 0));
    let (a, b) = shares(Some((3, 1))).await;
    assert!(a + b == 400 && (270..330).contains(&a), "{a} {b}");
}

#[tokio::test(start_paused = true)]
async fn a_closed_target_is_passed_over() {
    let origin = Origin::new(|_, request| match request.url().host_str() {
        Some("c.example") => Answer::ok(),
        _ => refused(60_000),
    });
    let admission = to_primary()
        .spill_to(target(&origin, "a"))
        .spill_to(target(&origin, "c"))
        .draws(|| 0.0)
        .build()
        .unwrap();
    let client = origin.behind(admission);
    for _ in 0..5 {
        assert_eq!(answered_by(&client).await, "c");
    }
    assert_eq!((count(&origin, "primary"), count(&origin, "a"), count(&origin, "c")), (1, 1, 5));
}

#[tokio::test(start_paused = true)]
async fn a_router_sees_the_call_and_the_targets_and_decides_before_and_after_sending() {
    type Asked = (Stage, Option<Reason>, Option<Duration>, u32);
    let asked = Arc::<Mutex<Vec<Asked>>>::default();
    let heard = Arc::clone(&asked);
    let router =
        move |call: &RouteCall<'_>, primary: &DeploymentState<'_>, targets: &[DeploymentState<'_>]| {
            heard.lock().unwrap().push((call.stage, call.reason, call.wait, call.failed_waits));
            assert_eq!((primary.name, call.priority), ("primary", Priority::High));
            assert_eq!(call.estimate, Some(TokenEstimate::new(10, 5)));
            assert!(call.budget_left <= ms(2000) && call.budget_left > ms(1800));
            let of_region = targets.iter().position(|target| call.region == Some(target.name));
            match (call.tenant, call.stage, of_region) {
                (Some("vip"), Stage::BeforeSend, Some(index)) => Choice::SpillTo(index),
                (Some("impatient"), Stage::WaitFits, _) => Choice::SpillTo(1),
                (Some("loyal"), Stage::Spill, _) => Choice::GiveUp,
                _ => Choice::Default,
            }
        };
    let origin = Origin::new(|_, request| match request.headers().get("x-advice") {
        Some(advice) if request.url().host_str() == Some("primary.example") => {
            Answer::status(429).header("retry-after-ms", advice.to_str().unwrap())
        }
        _ => Answer::ok(),
    });
    let admission = to_primary()
        .spill_to(target(&origin, "eu"))
        .spill_to(target(&origin, "us"))
        .router(router)
        .draws(|| 0.0)
        .build()
        .unwrap();
    let client = origin.behind(admission);
    let call = |tenant: &str, region: &str, advice: &str| {
        client
            .get(URL)
            .header("api-key", tenant.to_owned())
            .header("x-advice", advice.to_owned())
            .with_extension(CallAttributes::new().tenant(tenant).region(region))
            .with_extension(budget(2000))
            .with_extension(Priority::High)
            .with_extension(TokenEstimate::new(10, 5))
            .send()
    };
    let host = |response: &reqwest::Response| response.url().host_str().unwrap().to_owned();

    let response = call("vip", "us", "60000").await.unwrap();
    assert_eq!((host(&response), count(&origin, "primary")), ("us.example".to_owned(), 0));
    let legs = response.extensions().get::<CallReport>().unwrap().legs();
    assert_eq!((legs[0].attempts(), legs[0].reason()), (0, Some(Reason::RouterChoice)));

    assert_eq!(host(&call("impatient", "us", "20").await.unwrap()), "us.example");
    assert_eq!(host(&call("usual", "us", "60000").await.unwrap()), "eu.example");
    let outcome = call("loyal", "us", "60000").await;
    assert_eq!(SpillOver::of(&outcome).unwrap().reason(), Reason::BudgetExceeded);

    let (over, minute) = (Some(Reason::BudgetExceeded), Some(ms(60_000)));
    let before = (Stage::BeforeSend, None, None, 0);
    let expected = [
        before,
        before,
        (Stage::WaitFits, None, Some(ms(20)), 0),
        before,
        (Stage::Spill, over, minute, 0),
        before,
        (Stage::Spill, over, minute, 0),
    ];
    assert_eq!(*asked.lock().unwrap(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_router_sees_what_is_closed_and_how_often_it_refused() {
    let seen = Arc::<Mutex<Vec<(Option<Duration>, Duration, f64)>>>::default();
    let heard = Arc::clone(&seen);
    let router = move |_: &RouteCall<'_>, primary: &DeploymentState<'_>, _: &[DeploymentState<'_>]| {
        let state = (primary.closed_for, primary.expected_wait, primary.recent_refusals);
        heard.lock().unwrap().push(state);
        Choice::Default
    };
    let origin = Origin::in_order([Answer::ok(), refused(60_000)]);
    let admission = to_primary().spill_to(target(&origin, "a")).router(router).draws(|| 0.0).build().unwrap();
    let client = origin.behind(admission);
    for _ in 0..3 {
        answered_by(&client).await;
    }
    let seen = seen.lock().unwrap();
    assert_eq!(seen[0], (None, ms(0), 0.0));
    assert_eq!(seen[2], (Some(ms(60_000)), seen[2].1, 0.5));
    assert!(seen[3].1 >= ms(60_000), "{:?}", seen[3]);
}

#[tokio::test(start_paused = true)]
async fn a_native_spill_over_is_reported_and_counted_and_its_limits_are_not_learned() {
    let spilled = || {
        Answer::ok()
            .header("x-ms-is-spilled-over", "true")
            .header("x-ms-spillover-from-deployment", "ptu")
            .header("x-ratelimit-limit-requests", "10")
            .header("x-ratelimit-remaining-requests", "0")
            .header("x-ratelimit-reset-requests", "60s")
    };
    let failed = || refused(60_000).header("x-ms-spillover-error", "standard deployment is throttled");
    let origin = Origin::in_order([spilled(), failed()]);
    let admission = Admission::default();
    let client = origin.behind(admission.clone());
    let response = client.get(URL).send().await.unwrap();
    let report = response.extensions().get::<CallReport>().unwrap();
    assert_eq!(report.native_spill_over().unwrap().from_deployment.as_deref(), Some("ptu"));
    assert!(report.legs().is_empty());
    assert_eq!(admission.native_spill_overs(), 1);

    let outcome = client.get(URL).with_extension(budget(2000)).send().await;
    let spill = SpillOver::of(&outcome).unwrap();
    let error = spill.native_spill_over().unwrap().error.as_deref();
    // Sent at once: that nothing is left is said of another deployment.
    assert_eq!((spill.attempts(), spill.waited()), (1, ms(0)));
    assert_eq!((spill.reason(), error), (Reason::BudgetExceeded, Some("standard deployment is throttled")));
    // The server's own words are for the caller, not for logs.
    assert!(spill.to_string().ends_with("the service's own spill-over failed"), "{spill}");
    assert!(!format!("{spill:?} {report:?}").contains("throttled"));
    assert_eq!(admission.native_spill_overs(), 1);
}

/// A request whose body is a stream has no copy: what goes on to the next, or back to the caller, is the request itself.
#[tokio::test(start_paused = true)]
async fn a_function_of_the_users_that_panics_leaves_the_request_as_it_was() {
    let stream = || reqwest::Body::wrap(http_body_util::Full::new(bytes::Bytes::from_static(b"once")));
    for another in [false, true] {
        let origin = Origin::always(Answer::ok);
        let gate = reqwest_admission::gate::Gate::default();
        let now = Instant::now().into_std();
        gate.close(&reqwest_admission::gate::ScopeKey::new("https://primary.example"), ms(60_000), now);
        let panics = reqwest_admission::Credential::from_fn(|headers, url| {
            headers.clear();
            url.set_path("/gone");
            panic!("no token")
        });
        let bad = Deployment::new("bad", "https://bad.example").credential(panics).client(origin.client());
        let mut admission = to_primary().gate(gate).spill_to(bad);
        if another {
            admission = admission.spill_to(target(&origin, "good"));
        }
        let client = origin.behind(admission.build().unwrap());
        let call =
            client.post("https://primary.example/v1?a=b").header("content-type", "text/x").body(stream());
        let outcome = call.header("x-mine", "1").with_extension(budget(2000)).send().await;
        if another {
            outcome.unwrap();
            let seen = origin.seen().pop().unwrap();
            assert_eq!((seen.url.host_str(), seen.url.path()), (Some("good.example"), "/v1"));
            assert_eq!(seen.headers["content-type"], "text/x");
        } else {
            let request = SpillOver::of(&outcome).unwrap().take_request().unwrap();
            assert_eq!(request.url().as_str(), "https://primary.example/v1?a=b");
            assert_eq!(request.headers()["x-mine"], "1");
            assert!(request.body().is_some());
        }
    }
}
