//! Settings that cannot work are refused however they are written, and the error says field, value and range by itself.
#![cfg(test)]

use std::time::Duration;

use reqwest_admission::gate::{Gate, Priority, ScopeKey};
use reqwest_admission::jitter::UpwardJitter;
use reqwest_admission::pace::Limits;
use reqwest_admission::{Admission, AdmissionClient, AdmissionPolicy, Deployment};

const LIMITS: [&str; 5] = [
    "requests_per_minute",
    "tokens_per_minute",
    "input_tokens_per_minute",
    "output_tokens_per_minute",
    "concurrency",
];

fn limits_of_0() -> [Limits; 5] {
    [
        Limits::new().requests_per_minute(0),
        Limits::new().tokens_per_minute(0),
        Limits::new().input_tokens_per_minute(0),
        Limits::new().output_tokens_per_minute(0),
        Limits::new().concurrency(0),
    ]
}

#[test]
fn limits_and_sizes_of_0_are_refused_however_they_are_built() {
    let gate = Gate::default();
    for (name, limits) in LIMITS.into_iter().zip(limits_of_0()) {
        let expected = format!("{name} is 0, allowed is 1 or more");
        let now = std::time::Instant::now();
        for error in [
            limits.validate().unwrap_err(),
            Gate::builder().limits(limits).build().unwrap_err(),
            gate.set_limits(&ScopeKey::new("https://api.example"), limits, now).unwrap_err(),
        ] {
            assert_eq!(error.to_string(), expected);
        }
        let written = [
            toml::from_str::<Limits>(&format!("{name} = 0")).unwrap_err().to_string(),
            serde_json::from_str::<Limits>(&format!(r#"{{"{name}":0}}"#)).unwrap_err().to_string(),
        ];
        for error in written {
            assert!(error.contains(&expected), "{error}");
        }
    }
    for (gate, name) in
        [(Gate::builder().max_queue(0), "max_queue"), (Gate::builder().max_scopes(0), "max_scopes")]
    {
        assert_eq!(gate.build().unwrap_err().to_string(), format!("{name} is 0, allowed is 1 or more"));
    }
    assert!(Gate::builder().max_queue(1).max_scopes(1).build().is_ok());
}

#[test]
fn limits_are_read_as_they_are_written() {
    let limits = Limits::new().requests_per_minute(500).tokens_per_minute(200_000).concurrency(32);
    assert_eq!(toml::from_str::<Limits>(&toml_of(&limits)).unwrap(), limits);
    assert_eq!(toml::from_str::<Limits>("").unwrap(), Limits::new());
    let error = toml::from_str::<Limits>("requests = 1").unwrap_err().to_string();
    assert!(error.contains("unknown field `requests`"), "{error}");
}

/// Limits that are not set are left out of TOML, which has no null.
fn toml_of(limits: &Limits) -> String {
    let fields = serde_json::to_value(limits).unwrap();
    let set = fields.as_object().unwrap().iter().filter(|(_, value)| !value.is_null());
    set.map(|(name, value)| format!("{name} = {value}\n")).collect()
}

#[test]
fn every_jitter_can_be_written_in_toml() {
    let spread = Duration::from_millis(50);
    for (written, jitter) in [
        (r#"jitter = "proportional""#, UpwardJitter::default()),
        (r#"jitter = "none""#, UpwardJitter::None),
        ("jitter = { proportional = {} }", UpwardJitter::default()),
        (
            "[jitter.proportional]\nshare = 0.25\nat_least = \"50ms\"",
            UpwardJitter::Proportional { share: 0.25, at_least: spread },
        ),
        (r#"jitter = { uniform = { up_to = "50ms" } }"#, UpwardJitter::Uniform { up_to: spread }),
    ] {
        let policy: AdmissionPolicy = toml::from_str(written).unwrap();
        assert_eq!(policy.jitter(), jitter, "{written}");
        let again: AdmissionPolicy = serde_json::from_str(&serde_json::to_string(&policy).unwrap()).unwrap();
        assert_eq!(again, policy);
    }
    for (written, expected) in [
        (r#"jitter = "uniform""#, "jitter.uniform.up_to is missing, allowed is 0s to 1h"),
        (r#"jitter = "sideways""#, "sideways"),
        ("jitter = 0.1", "the name of a jitter"),
        (r#"jitter = { none = {}, proportional = {} }"#, ""),
        ("[jitter.proportional]\nshare = 1.5", "jitter.proportional.share is 1.5, allowed is 0 to 1"),
        ("max_attempts = 0", "max_attempts is 0, allowed is 1 to 100"),
    ] {
        let error = toml::from_str::<AdmissionPolicy>(written).unwrap_err().to_string();
        assert!(error.contains(expected), "{written}: {error}");
    }
}

/// Nobody has to walk the sources.
#[test]
fn every_build_error_says_field_value_and_range_itself() {
    let expected = "max_attempts is 0, allowed is 1 to 100";
    assert_eq!(Admission::builder().max_attempts(0).build().unwrap_err().to_string(), expected);
    let client = AdmissionClient::builder(reqwest::Client::builder());
    let error = client.admission(Admission::builder().max_attempts(0)).build().unwrap_err();
    assert_eq!(error.to_string(), expected);
    let to = |deployment: Deployment| {
        Admission::builder().primary("https://a.example").spill_to(deployment).build()
    };
    for (deployment, expected) in [
        (
            Deployment::new("b", "https://b.example").budget_share(1.5),
            r#"deployment "b": budget_share is out of its range, allowed is above 0 and at most 1; it is 1.5"#,
        ),
        (
            Deployment::new("b", "https://b.example").budget_share(f64::NAN),
            r#"deployment "b": budget_share is out of its range, allowed is above 0 and at most 1; it is NaN"#,
        ),
        (
            Deployment::new("b", "https://b.example").weight(0),
            r#"deployment "b": weight is 0, allowed is 1 to 4294967295"#,
        ),
    ] {
        assert_eq!(to(deployment).unwrap_err().to_string(), expected);
    }
    let reserve = Admission::builder().primary("https://a.example").latency_budget(Duration::from_secs(2));
    let reserve = reserve.spill_to(Deployment::new("b", "https://b.example"));
    assert_eq!(
        reserve.spill_reserve(Duration::from_millis(2500)).build().unwrap_err().to_string(),
        r#"deployment "primary": spill_reserve has to be less than the policy's latency_budget, or no wait ever fits; it is 2s 500ms of 2s"#
    );
    let client = AdmissionClient::builder(reqwest::Client::builder().user_agent("no\nheader"));
    let error = client.build().unwrap_err().to_string();
    assert!(error.starts_with("reqwest cannot build its client: "), "{error}");
}

#[test]
fn every_field_of_a_policy_can_be_written_in_toml() {
    let written = r#"
        latency_budget = "5s"
        max_attempts = 3
        reset_margin = "10ms"
        mint_idempotency_key = true
        attempt_timeout = "unclamped"
        on_spill = "response"
        retry_ownership = "report"
        body_read_timeout = "1s"
        [backoff]
        base = "10ms"
        cap = "1m 30s"
        floor = "5ms"
        [jitter.proportional]
        share = 1
        [retry_budget]
        share = 1
        minimum_per_second = 3
        time_window = "PT20S"
        charge = "all"
    "#;
    let policy: AdmissionPolicy = toml::from_str(written).unwrap();
    assert_eq!(policy.backoff().cap, Duration::from_secs(90));
    assert_eq!(policy.retry_budget().time_window(), Duration::from_secs(20));
    assert_eq!(policy.retry_budget().share(), 1.0);
    assert!(policy.mint_idempotency_key() && policy.max_attempts() == 3);
    let again: AdmissionPolicy = serde_json::from_str(&serde_json::to_string(&policy).unwrap()).unwrap();
    assert_eq!(again, policy);
    for (index, line) in written.lines().enumerate().filter(|(_, line)| line.contains('=')) {
        let broken = written
            .lines()
            .enumerate()
            .map(|(other, text)| if other == index { text.replace('=', "x =") } else { text.to_owned() });
        let broken = broken.collect::<Vec<_>>().join("\n");
        assert!(toml::from_str::<AdmissionPolicy>(&broken).is_err(), "{line}");
    }
}

#[test]
fn what_is_more_urgent_is_greater() {
    assert!(Priority::High > Priority::Normal && Priority::Normal > Priority::Batch);
    assert_eq!([Priority::Batch, Priority::High].into_iter().max(), Some(Priority::High));
    assert_eq!(Priority::default(), Priority::Normal);
}
