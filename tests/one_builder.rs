//! One builder: a client's builder takes every setting itself, and no setting is lost in silence.
#![cfg(test)]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use reqwest_admission::gate::{Gate, Priority, ScopeKey};
use reqwest_admission::observe::DecisionEvent;
use reqwest_admission::pace::Limits;
use reqwest_admission::reading::{Profile, TimeUnit};
use reqwest_admission::spill::{Choice, DeploymentState, RouteCall, RouteProblem};
use reqwest_admission::{
    Admission, AdmissionBuilder, AdmissionClient, AdmissionClientBuilder, AdmissionPolicy, BuildError,
    ClientBuildError, Deployment, FailOver, SpillOver,
};
use support::{Answer, Origin, ms};

const URL: &str = "https://api.example/v1/items";

fn client() -> AdmissionClientBuilder {
    AdmissionClient::builder(reqwest::Client::builder())
}

fn profile(name: &str) -> Profile {
    Profile::builder(name).host(format!("{name}.example")).build().unwrap()
}

/// Calls the given methods on a builder of a layer and on a builder of a client; both must refuse, with this text.
macro_rules! refused {
    ($text:literal, $($call:tt)+) => {{
        let layer = Admission::builder()$($call)+.build().unwrap_err();
        assert_eq!(layer.to_string(), $text);
        assert!(matches!(layer, BuildError::SetTwice { .. }), "{layer:?}");
        let whole = client()$($call)+.build().unwrap_err();
        assert_eq!(whole.to_string(), $text);
        assert!(matches!(whole, ClientBuildError::Admission(BuildError::SetTwice { .. })), "{whole:?}");
    }};
}

#[test]
fn a_setting_that_is_made_twice_is_an_error_that_names_it() {
    let policy = AdmissionPolicy::default;
    let route = |_: &RouteCall<'_>, _: &DeploymentState<'_>, _: &[DeploymentState<'_>]| Choice::Default;
    let scope = |_: &reqwest::Request| ScopeKey::new("one");
    let observer = |_: &DecisionEvent<'_>| {};
    refused!("policy is set twice: keep one of the two calls", .policy(policy()).policy(policy()));
    refused!("latency_budget is set twice: keep one of the two calls", .latency_budget(ms(1)).latency_budget(ms(1)));
    refused!("max_attempts is set twice: keep one of the two calls", .max_attempts(1).max_attempts(2));
    refused!("profile is set twice: keep one of the two calls", .profile(profile("a")).profile(profile("b")));
    refused!("seed is set twice: keep one of the two calls", .seed(1).seed(1));
    refused!("draws is set twice: keep one of the two calls", .draws(|| 0.0).draws(|| 0.0));
    refused!("observer is set twice: keep one of the two calls", .observer(observer).observer(observer));
    refused!("gate is set twice: keep one of the two calls", .gate(Gate::default()).gate(Gate::default()));
    refused!("scope_by is set twice: keep one of the two calls", .scope_by(scope).scope_by(scope));
    refused!("settle_from_usage is set twice: keep one of the two calls", .settle_from_usage(true).settle_from_usage(true));
    refused!("primary is set twice: keep one of the two calls", .primary(URL).primary(URL));
    refused!("router is set twice: keep one of the two calls", .router(route).router(route));
    refused!(
        "spill_after_failed_waits is set twice: keep one of the two calls",
        .spill_after_failed_waits(1).spill_after_failed_waits(1)
    );
    refused!("spill_reserve is set twice: keep one of the two calls", .spill_reserve(ms(1)).spill_reserve(ms(1)));
    refused!("fail_over is set twice: keep one of the two calls", .fail_over(FailOver::Safe).fail_over(FailOver::Safe));
}

#[cfg(feature = "estimate")]
#[test]
fn an_estimator_that_is_set_twice_is_an_error() {
    use reqwest_admission::estimate::BodyEstimator;
    refused!(
        "estimator is set twice: keep one of the two calls",
        .estimator(BodyEstimator::default()).estimator(BodyEstimator::default())
    );
}

#[test]
fn two_methods_that_set_the_same_thing_are_an_error_in_both_orders() {
    let policy = AdmissionPolicy::default;
    refused!("policy and latency_budget set the same thing: keep one of the two calls", .policy(policy()).latency_budget(ms(1)));
    refused!("policy and latency_budget set the same thing: keep one of the two calls", .latency_budget(ms(1)).policy(policy()));
    refused!("policy and max_attempts set the same thing: keep one of the two calls", .max_attempts(1).policy(policy()));
    refused!("profile and profiles set the same thing: keep one of the two calls", .profiles([profile("a")]).profile(profile("b")));
    refused!("gate and without_gate set the same thing: keep one of the two calls", .without_gate().gate(Gate::default()));
    refused!("seed and draws set the same thing: keep one of the two calls", .seed(1).draws(|| 0.0));
}

#[test]
fn what_a_layer_s_builder_and_the_client_s_builder_both_set_is_an_error() {
    let admission = || Admission::builder().max_attempts(2);
    let error = client().max_attempts(3).admission(admission()).build().unwrap_err();
    assert_eq!(error.to_string(), "max_attempts is set twice: keep one of the two calls");
    let error = client().admission(admission()).policy(AdmissionPolicy::default()).build().unwrap_err();
    assert_eq!(error.to_string(), "policy and max_attempts set the same thing: keep one of the two calls");
    let error = client().admission(admission()).admission(admission()).build().unwrap_err();
    assert_eq!(error.to_string(), "max_attempts is set twice: keep one of the two calls");
}

#[test]
fn a_setting_of_routes_without_a_deployment_is_an_error() {
    let settings: [fn(AdmissionBuilder) -> AdmissionBuilder; 4] = [
        |builder| builder.primary(URL),
        |builder| builder.spill_reserve(ms(1)),
        |builder| builder.spill_after_failed_waits(1),
        |builder| builder.fail_over(FailOver::Safe),
    ];
    for set in settings {
        let error = set(Admission::builder()).build().unwrap_err();
        let BuildError::Route(error) = &error else { panic!("{error}") };
        assert_eq!(error.problem(), RouteProblem::NoDeployment);
        assert!(error.to_string().contains("add one with spill_to"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_s_own_builder_sets_gate_scopes_observer_profile_and_routes() {
    let standby = Origin::always(Answer::ok);
    let primary = Origin::new(|n, _| match n {
        0 => Answer::status(429).header("x-backoff", "70000"),
        _ => Answer::ok(),
    });
    let gate = Gate::builder().limits(Limits::new().concurrency(7)).build().unwrap();
    let decisions = Arc::new(AtomicU32::new(0));
    let heard = Arc::clone(&decisions);
    let profile =
        Profile::builder("gateway").host("api.example").wait_header("x-backoff", TimeUnit::Milliseconds);
    let client = client()
        .policy(AdmissionPolicy::builder().latency_budget(ms(5000)).build().unwrap())
        .gate(gate.clone())
        .scope_by(|_| ScopeKey::new("mine"))
        .profiles([profile.build().unwrap()])
        .observer(move |_: &DecisionEvent<'_>| {
            heard.fetch_add(1, Ordering::Relaxed);
        })
        .seed(7)
        .primary("https://api.example")
        .spill_to(Deployment::new("standby", "https://standby.example").client(standby.client()))
        .spill_reserve(ms(1000))
        .with(primary.clone())
        .build()
        .unwrap();
    assert_eq!(client.get(URL).send().await.unwrap().status(), 200);
    // The profile read the advice, the budget did not have the time, the route took the call, the observer heard of it.
    assert_eq!((primary.count(), standby.count(), decisions.load(Ordering::Relaxed)), (1, 1, 2));
    let snapshot = gate.snapshot(Instant::now());
    let mine = snapshot.scopes.iter().find(|scope| scope.endpoint == "mine").unwrap();
    assert!(mine.closed_for_seconds > 60.0 && mine.concurrency_limit == Some(7), "{mine:?}");
}

#[tokio::test(start_paused = true)]
async fn the_settings_of_a_layer_s_builder_go_over_to_the_client() {
    let origin = Origin::always(|| Answer::status(429).header("retry-after-ms", "10"));
    let admission = Admission::builder().max_attempts(2);
    let client = client().admission(admission).without_gate().with(origin.clone()).build().unwrap();
    let outcome = client.get(URL).with_extension(Priority::High).send().await;
    assert_eq!((SpillOver::of(&outcome).unwrap().attempts(), origin.count()), (2, 2));
}

/// As two tests do to which wiremock gives the same port, one after the other.
#[tokio::test(start_paused = true)]
async fn two_clients_for_tests_share_no_cool_down_and_wait_exactly_as_advised() {
    let refused = |wait: &str| Answer::status(429).header("retry-after-ms", wait);
    let first = Origin::always(move || refused("3600000"));
    let client = AdmissionClient::for_tests().with(first.clone()).build().unwrap();
    assert!(SpillOver::of(&client.get(URL).send().await).is_some());

    let second = Origin::in_order([refused("1000")]);
    let client = AdmissionClient::for_tests().with(second.clone()).build().unwrap();
    let start = tokio::time::Instant::now();
    assert_eq!(client.get(URL).send().await.unwrap().status(), 200);
    assert_eq!(second.times(start), [ms(0), ms(1000)]);
}
