//! Code of the user's that panics harms no call: it goes on as if that code were not there. Paused clock, fake origins.
#![cfg(test)]

mod support;

use reqwest_admission::gate::{Gate, ScopeKey};
use reqwest_admission::observe::DecisionEvent;
use reqwest_admission::spill::{DeploymentState, RouteCall};
use reqwest_admission::{Admission, AdmissionBuilder, Deployment, LatencyBudget, SpillOver};
use support::{Answer, Origin, ms};
use tokio::time::Instant;

const URL: &str = "https://primary.example/v1/items";

/// Each kind of code of the user's that a call runs into, panicking.
fn panicking(origin: &Origin) -> Vec<(&'static str, AdmissionBuilder)> {
    let builder = || Admission::builder().gate(Gate::default());
    vec![
        ("scope_by", builder().scope_by(|_| -> ScopeKey { panic!("on purpose") })),
        (
            "router",
            builder()
                .primary("https://primary.example")
                .spill_to(
                    Deployment::new("standby", "https://standby.example")
                        .api_key("theirs")
                        .client(origin.client()),
                )
                .router(|_: &RouteCall<'_>, _: &DeploymentState<'_>, _: &[DeploymentState<'_>]| {
                    panic!("on purpose")
                }),
        ),
        ("observer", builder().observer(|_: &DecisionEvent<'_>| panic!("on purpose"))),
        #[cfg(feature = "estimate")]
        ("estimator", {
            let counter = |_: &str| -> u64 { panic!("on purpose") };
            builder().estimator(reqwest_admission::estimate::BodyEstimator::default().counter(counter))
        }),
    ]
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_the_users_code_harms_no_call_and_leaves_the_gate_usable() {
    let origin = || Origin::in_order([Answer::ok(), Answer::status(429).header("retry-after", "1")]);
    for which in 0..panicking(&origin()).len() {
        let origin = origin();
        let (line, admission) = panicking(&origin).swap_remove(which);
        let client = origin.behind(admission.build().unwrap());
        let body = r#"{"messages":[{"role":"user","content":"a prompt"}]}"#;
        let start = Instant::now();
        for _ in 0..3 {
            let response = client.post(URL).body(body).send().await.unwrap();
            assert_eq!(response.status(), 200, "{line}");
            assert_eq!(response.url().host_str(), Some("primary.example"), "{line}");
        }
        assert!(start.elapsed() >= ms(1000) && start.elapsed() < ms(3000), "{line}: {:?}", start.elapsed());
        assert_eq!(origin.count(), 4, "{line}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_router_panics_goes_as_without_a_router() {
    let origin = Origin::in_order([Answer::status(429).header("retry-after", "60")]);
    let (_, admission) = panicking(&origin).into_iter().find(|(line, _)| *line == "router").unwrap();
    let client = origin.behind(admission.build().unwrap());
    let outcome = client.get(URL).with_extension(LatencyBudget::new(ms(2000))).send().await;
    assert_eq!(outcome.unwrap().url().host_str(), Some("standby.example"));
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_scope_cannot_be_named_has_the_usual_one() {
    let origin = Origin::in_order([Answer::status(429).header("retry-after", "60")]);
    let (_, admission) = panicking(&origin).into_iter().find(|(line, _)| *line == "scope_by").unwrap();
    let client = origin.behind(admission.build().unwrap());
    let call = |key: &str| client.get(URL).header("api-key", key.to_owned()).send();
    assert!(SpillOver::of(&call("one").await).is_some());
    assert!(SpillOver::of(&call("one").await).is_some());
    assert_eq!(call("two").await.unwrap().status(), 200);
    assert_eq!(origin.count(), 2);
}
