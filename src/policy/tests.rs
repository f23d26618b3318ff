use super::range::{HOUR, MINUTE};
use super::*;

const MS: Duration = Duration::from_millis(1);

#[test]
fn durations_are_written_as_a_person_writes_them() {
    let text = serde_json::to_string(&AdmissionPolicy::default()).unwrap();
    for part in
        [r#""latency_budget":"30s""#, r#""base":"500ms""#, r#""reset_margin":"250ms""#, r#""at_least":"4ms""#]
    {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert_eq!(serde_json::from_str::<AdmissionPolicy>(&text).unwrap(), AdmissionPolicy::default());
    let partial = r#"{"jitter":{"proportional":{"share":0.1}},"backoff":{"base":"500ms"}}"#;
    for text in ["{}", partial, r#"{"jitter":"proportional"}"#, r#"{"jitter":{"proportional":{}}}"#] {
        assert_eq!(serde_json::from_str::<AdmissionPolicy>(text).unwrap(), AdmissionPolicy::default());
    }
}

#[test]
fn other_ways_to_write_a_duration_are_understood() {
    for (text, expected) in [
        ("43ms", 43 * MS),
        ("1m 30s", 90_000 * MS),
        ("PT1.5S", 1500 * MS),
        ("2 hours", 7_200_000 * MS),
        ("0s", Duration::ZERO),
    ] {
        let policy: AdmissionPolicy =
            serde_json::from_str(&format!(r#"{{"latency_budget":"{text}"}}"#)).unwrap();
        assert_eq!(policy.latency_budget().duration(), expected, "{text}");
    }
}

#[test]
fn every_bad_value_names_its_field_its_value_and_the_range() {
    let builder = AdmissionPolicy::builder;
    let backoff = |base, cap, floor| {
        builder().backoff(Backoff::default().base(base * MS).cap(cap * MS).floor(floor * MS))
    };
    let jitter = |jitter| builder().jitter(jitter);
    let share = |share| UpwardJitter::Proportional { share, at_least: MS };
    for (builder, expected) in [
        (builder().latency_budget(Duration::MAX), "latency_budget is "),
        (builder().max_attempts(0), "max_attempts is 0, allowed is 1 to 100"),
        (builder().max_attempts(101), "max_attempts is 101, allowed is 1 to 100"),
        (backoff(0, 20_000, 100), "backoff.base is 0s, allowed is 1ms to 1h"),
        (backoff(500, 499, 100), "backoff.cap is 499ms, allowed is 500ms to 24h"),
        (backoff(500, 20_000, 0), "backoff.floor is 0s, allowed is 1ms to 20s"),
        (jitter(share(1.5)), "jitter.proportional.share is 1.5, allowed is 0 to 1"),
        (jitter(share(f64::NAN)), "jitter.proportional.share is NaN, allowed is 0 to 1"),
        (
            jitter(UpwardJitter::Uniform { up_to: 2 * HOUR }),
            "jitter.uniform.up_to is 2h, allowed is 0s to 1h",
        ),
        (builder().reset_margin(HOUR), "reset_margin is 1h, allowed is 0s to 1m"),
        (builder().body_read_timeout(Duration::ZERO), "body_read_timeout is 0s, allowed is 1ms to 1m"),
    ] {
        let error = builder.build().unwrap_err();
        assert!(error.to_string().starts_with(expected), "{error} / {expected}");
    }
    for (json, expected) in [
        (r#"{"max_attempts":0}"#, "max_attempts is 0, allowed is 1 to 100"),
        (r#"{"latency_budget":"400 days"}"#, "day"),
        (r#"{"latency_budget":"9600h"}"#, "latency_budget is 9600h, allowed is 0s to 8784h"),
        (r#"{"latency_budget":"-1s"}"#, "negative"),
        (r#"{"latency_budget":"soon"}"#, ""),
        (r#"{"retry_budget":{"share":-1}}"#, "retry_budget.share is -1, allowed is 0 to 10"),
        (r#"{"retry_budget":{"minimum_per_second":2000000}}"#, "retry_budget.minimum_per_second is 2000000"),
        (r#"{"retry_budget":{"time_window":"0s"}}"#, "retry_budget.time_window is 0s, allowed is 1s to 1m"),
        (r#"{"retries":3}"#, "unknown field `retries`"),
        (r#"{"backoff":{"bass":"1s"}}"#, "unknown field `bass`"),
        (r#"{"on_spill":"panic"}"#, "unknown variant"),
        (r#"{"jitter":"sideways"}"#, "unknown variant `sideways`"),
        (r#"{"jitter":{"sideways":{}}}"#, "unknown variant `sideways`"),
        (r#"{"jitter":"uniform"}"#, "jitter.uniform.up_to is missing"),
        (r#"{"jitter":{"uniform":{}}}"#, "missing field `up_to`"),
        (r#"{"jitter":{"proportional":{"chair":1}}}"#, "unknown field `chair`"),
        (r#"{"jitter":{"proportional":{"share":2}}}"#, "jitter.proportional.share is 2, allowed is 0 to 1"),
        (r#"{"jitter":7}"#, "the name of a jitter"),
    ] {
        let error = serde_json::from_str::<AdmissionPolicy>(json).unwrap_err().to_string();
        assert!(error.contains(expected), "{json}: {error}");
    }
    for error in [
        RetryBudgetPolicy::new(f64::INFINITY, 1, MINUTE).unwrap_err(),
        RetryBudgetPolicy::new(0.1, 1, HOUR).unwrap_err(),
    ] {
        assert!(error.field().starts_with("retry_budget."), "{error}");
    }
}
