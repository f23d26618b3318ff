//! Policy, limits, priority, deployments and profiles come from one file, and what is wrong in it is said in plain words.
#![cfg(test)]

use std::time::Duration;

use reqwest_admission::gate::{Gate, Priority};
use reqwest_admission::pace::Limits;
use reqwest_admission::reading::Profile;
use reqwest_admission::{AdmissionClient, AdmissionPolicy, Deployment};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    priority: Priority,
    policy: AdmissionPolicy,
    limits: Limits,
    deployments: Vec<Deployment>,
    profiles: Vec<Profile>,
}

#[test]
fn the_example_file_sets_up_a_whole_client() {
    let settings: Settings = toml::from_str(include_str!("../examples/admission.toml")).unwrap();
    assert_eq!(settings.priority, Priority::Batch);
    assert_eq!(settings.policy.latency_budget().duration(), Duration::from_secs(20));
    let gate = Gate::builder().limits(settings.limits).build().unwrap();
    let client = AdmissionClient::builder(reqwest::Client::builder())
        .policy(settings.policy)
        .gate(gate)
        .profiles(settings.profiles)
        .primary("https://ptu.openai.azure.com");
    let deployments =
        settings.deployments.into_iter().map(|deployment| deployment.bearer("from the environment"));
    deployments.fold(client, |client, deployment| client.spill_to(deployment)).build().unwrap();
}

/// In the words of this crate, and of none that it is built with.
#[test]
fn a_duration_that_is_none_is_an_error_with_setting_value_and_form() {
    for (written, setting) in [
        ("latency_budget = ?", "latency_budget"),
        ("reset_margin = ?", "reset_margin"),
        ("body_read_timeout = ?", "body_read_timeout"),
        ("backoff = { base = ? }", "backoff.base"),
        ("backoff = { cap = ? }", "backoff.cap"),
        ("backoff = { floor = ? }", "backoff.floor"),
        ("retry_budget = { time_window = ? }", "retry_budget.time_window"),
        ("jitter = { proportional = { at_least = ? } }", "jitter.proportional.at_least"),
        ("jitter = { uniform = { up_to = ? } }", "jitter.uniform.up_to"),
    ] {
        for (value, shown) in [
            ("\"soon\"", "is \"soon\", allowed is a duration such as \"30s\""),
            ("\"-1s\"", "is \"-1s\", allowed is a duration such as \"30s\""),
            ("\"2 days\"", "is \"2 days\", allowed is a duration such as \"30s\""),
            ("\"\"", "is \"\", allowed is a duration such as \"30s\""),
        ] {
            let error =
                toml::from_str::<AdmissionPolicy>(&written.replace('?', value)).unwrap_err().to_string();
            assert!(error.contains(&format!("{setting} {shown}")), "{written} {value}: {error}");
            assert!(!error.contains("jiff"), "{error}");
        }
        let error = toml::from_str::<AdmissionPolicy>(&written.replace('?', "30")).unwrap_err().to_string();
        assert!(error.contains(&format!("a duration for {setting}")) && error.contains("30"), "{error}");
    }
    let text = format!("latency_budget = \"{}\"", "x".repeat(10_000));
    assert!(!toml::from_str::<AdmissionPolicy>(&text).unwrap_err().message().contains(&"x".repeat(41)));
}

#[test]
fn both_forms_of_a_duration_are_read() {
    for (written, seconds) in [("90s", 90), ("1m 30s", 90), ("PT1M30S", 90), ("48h", 172_800), ("0s", 0)] {
        let policy: AdmissionPolicy = toml::from_str(&format!("latency_budget = {written:?}")).unwrap();
        assert_eq!(policy.latency_budget().duration(), Duration::from_secs(seconds), "{written}");
    }
}

#[test]
fn a_deployment_that_cannot_be_meant_so_is_an_error_that_says_why() {
    let refused = |more: &str| {
        let written = format!("name = \"a\"\nurl = \"https://a.example\"\n{more}");
        toml::from_str::<Deployment>(&written).err().map(|error| error.to_string()).unwrap_or_default()
    };
    assert_eq!(refused("weight = 3"), "");
    for (more, text) in [
        ("azure_deployment = \"a\"\nopenai_model = \"b\"", "keep one of them"),
        ("profile = \"nobody\"", "profile is \"nobody\", allowed is the name of a built-in profile"),
        ("bearer = \"S3CR3T\"", "unknown field `bearer`"),
        ("policy = { max_attempts = 0 }", "max_attempts is 0, allowed is 1 to 100"),
        ("weight = -1", "-1"),
    ] {
        assert!(refused(more).contains(text), "{more}: {}", refused(more));
    }
    assert!(toml::from_str::<Deployment>("name = \"a\"").unwrap_err().to_string().contains("url"));
}
