//! 93 public incidents of other clients, `tests/data/incidents.jsonl`: one test per kind, through the real middleware.
//!
//! A record names what happened elsewhere and what ought to happen. Where its headers hold an absolute time and it says
//! what time it was (`now`), the answer is given a `Date` of that moment, unless it has one: absolute times count
//! against it, so that the outcome does not depend on the clock of this machine.
#![cfg(test)]

#[path = "support/capture.rs"]
mod capture;
#[path = "support/failures.rs"]
mod failures;
#[path = "support/frames.rs"]
mod frames;
#[path = "incidents/gate.rs"]
mod gate;
#[path = "incidents/invariants.rs"]
mod invariants;
#[path = "incidents/rulings.rs"]
mod rulings;
mod support;

use std::collections::BTreeSet;

use serde::Deserialize;

/// Records that are about a store shared by processes. What they ask of any store is held by `store_contract.rs`, for four
/// gates over one store; a store outside of the process, whose commands can be torn apart, there is not yet.
const NEEDS_A_SHARED_STORE: [(&str, &str); 2] = [
    ("B121", "needs a shared store: the total of four processes; see `a_fleet_keeps_one_limit_together`"),
    ("B123", "needs a shared store: a key that expires whatever happens between two commands"),
];

/// Records whose wording does not fit, and what is held instead.
const READ_DIFFERENTLY: [(&str, &str); 7] = [
    (
        "B011",
        "calls the vendor's documented minute `advised`. The server advised nothing, and nothing is invented: \
         `advised_wait()` is `None`, and the minute is what `reading().backoff_floor()` says",
    ),
    (
        "B034",
        "asks for at least the first backoff step. With full jitter a step is the upper end of a draw; what holds is \
         the backoff's floor, and the very wait of a refusal without any header",
    ),
    (
        "B048",
        "lets `retry-after-ms: 0` win over `retry-after: 5`. Azure sends that pair when the milliseconds are cut off \
         (`azure-foundry-429-ms-zero-trap` in responses.jsonl), so the positive wait counts: later than asked for, \
         never earlier",
    ),
    (
        "B082",
        "lets others follow only on the success of one probe. The gate re-opens paced: one call after another at the rate that \
         the refusals imply. Where a round trip is shorter than the step between two calls, as here, that is the same; \
         where it is longer, about two round trips' worth at that rate is under way, and the first refusal closes the \
         scope again",
    ),
    (
        "B089",
        "also bounds the age of what a shared store says. There is no shared store; what is held is that a refusal seen \
         here holds here at once",
    ),
    (
        "B120",
        "has a body with `total_tokens` alone, which does not say what was prompt and what was output, so it is not read off \
         the body; the caller tells it through `CallReport::settle`",
    ),
    (
        "B142",
        "asks for at most three sends before a reset that it does not state. Three within the second that is then \
         assumed, and three until the reset where one is stated",
    ),
];

/// One record.
#[derive(Debug, Clone, Deserialize)]
struct Incident {
    id: String,
    kind: String,
    status: Option<u16>,
    headers: Vec<(String, String)>,
    body: Option<String>,
    setup: Option<String>,
    steps: Option<Vec<Step>>,
    decision: Ruling,
}

#[derive(Debug, Clone, Deserialize)]
struct Step {
    #[serde(default)]
    t_ms: u64,
    status: u16,
    headers: Vec<(String, String)>,
}

/// What ought to happen.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "action", rename_all = "snake_case")]
enum Ruling {
    Wait { min_ms: u64 },
    Spill { advised_ms: u64 },
    GiveUp { reason: String },
    PassThrough { reason: String },
    OwnBackoff,
    Invariant { check: String },
}

fn incidents() -> Vec<Incident> {
    include_str!("data/incidents.jsonl").lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn incident(id: &str) -> Incident {
    incidents().into_iter().find(|incident| incident.id == id).unwrap()
}

fn needs_a_shared_store(id: &str) -> bool {
    NEEDS_A_SHARED_STORE.iter().any(|(known, _)| *known == id)
}

/// Runs all records of one kind that do not need a shared store; a record that nobody knows how to run fails.
async fn run(kind: &str) {
    capture::prepare();
    let of_kind = incidents().into_iter().filter(|incident| incident.kind == kind);
    let mut count = 0;
    for incident in of_kind.filter(|incident| !needs_a_shared_store(&incident.id)) {
        match &incident.decision {
            Ruling::Invariant { .. } => invariants::hold(&incident).await,
            _ => rulings::hold(&incident).await,
        }
        count += 1;
    }
    assert!(count > 0, "no record of kind {kind}");
}

/// One test per kind, and the list of them.
macro_rules! kinds {
    ($($kind:ident)*) => {
        const KINDS: &[&str] = &[$(stringify!($kind)),*];
        $(
            #[tokio::test(start_paused = true)]
            async fn $kind() {
                run(stringify!($kind)).await;
            }
        )*
    };
}

kinds! {
    body_hint_ignored
    body_not_resendable
    budget_not_enforced
    cancelled_waiter_holds_limiter
    classification
    clock_skew
    cooldown_merge
    cooldown_scope
    cooldown_staleness
    duplicate_side_effects
    fractional_seconds
    header_duplicated
    header_precedence
    http_date_mishandled
    in_band_error_after_200
    jitter_below_advised_wait
    jitter_vs_cap
    limiter_wedged
    lock_held_while_sleeping
    malformed_header_panic
    misleading_terminal_error
    missing_header_default
    oversized_request
    permit_held_during_wait
    permit_leak_stream
    permit_released_early
    proxy_429_body
    quota_exhausted_retried
    quota_false_positive
    remaining_nonzero_429
    remaining_zero_on_200
    reservation_accounting
    reset_header_format
    retry_after_on_503
    retry_loop_shape
    retry_multiplication
    retry_storm
    secret_leak
    shared_cooldown_missing
    sleep_not_cancellable
    sleeps_absurdly_long
    spill_policy
    spill_signal_missing
    unit_confusion
    wakes_too_early
    zero_wait_loop
}

#[test]
fn every_record_is_run_by_the_test_of_its_kind_or_needs_a_shared_store() {
    let incidents = incidents();
    assert_eq!(incidents.len(), 93);
    let ids: BTreeSet<_> = incidents.iter().map(|incident| incident.id.as_str()).collect();
    assert_eq!(ids.len(), 93);
    for incident in &incidents {
        let run = KINDS.contains(&incident.kind.as_str());
        assert!(run || needs_a_shared_store(&incident.id), "{} ({}) is not run", incident.id, incident.kind);
        // Only what is not a decision about one call may be left out.
        let decidable = !matches!(incident.decision, Ruling::Invariant { .. });
        assert!(!decidable || !needs_a_shared_store(&incident.id), "{} needs no store", incident.id);
    }
    for (id, reason) in NEEDS_A_SHARED_STORE {
        assert!(ids.contains(id) && reason.starts_with("needs a shared store"), "{id}: {reason}");
    }
    assert!(READ_DIFFERENTLY.iter().all(|(id, _)| ids.contains(id)));
    // A kind that is listed without a record to run fails in its own test.
}

#[tokio::test(start_paused = true)]
async fn successes_with_whatever_headers_and_body_pass_unchanged() {
    capture::prepare();
    let mut count = 0;
    for incident in incidents().into_iter().filter(|incident| incident.status == Some(200)) {
        rulings::passes_unchanged(&incident).await;
        count += 1;
    }
    assert_eq!(count, 10);
}

/// Kinds that the gate is for and of which there is no record.
#[tokio::test(start_paused = true)]
async fn thundering_herd() {
    gate::a_herd_is_spread().await;
}

#[tokio::test(start_paused = true)]
async fn starvation() {
    gate::nobody_starves().await;
}
