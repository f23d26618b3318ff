//! 93 public incidents of other clients, `tests/data/incidents.jsonl`: one test per kind, through the real middleware.
//!
//! A record names what happened elsewhere and what ought to happen. Where its headers hold an absolute time and it says
//! what time it was (`now`), the answer is given a `Date` of that moment, unless it has one: absolute times count
//! against it, so that the outcome does not depend on the clock of this machine.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    unreachable_pub,
    reason = "a test may fail"
)]

#[path = "support/capture.rs"]
mod capture;
#[path = "support/failures.rs"]
mod failures;
#[path = "incidents/invariants.rs"]
mod invariants;
#[path = "incidents/rulings.rs"]
mod rulings;
mod support;

use std::collections::BTreeSet;

use serde::Deserialize;

/// Records that need the gate: shared cool-downs, permits, queues, reservations, learning from successes. There is
/// no gate yet, so these are not covered.
const NEEDS_THE_GATE: [(&str, &str); 30] = [
    ("B023", "needs the gate: acquiring tokens after the capacity was halved"),
    ("B025", "needs the gate: permits are free again after a drop"),
    ("B081", "needs the gate: shared cool-down"),
    ("B082", "needs the gate: shared cool-down, paced re-opening"),
    ("B084", "needs the gate: shared cool-down"),
    ("B085", "needs the gate: merge of cool-downs"),
    ("B086", "needs the gate: merge of cool-downs"),
    ("B087", "needs the gate: scope of a cool-down"),
    ("B088", "needs the gate: scope of a cool-down"),
    ("B089", "needs the gate: a refusal seen here holds at once"),
    ("B093", "needs the gate: the probe of a re-opening is given back"),
    ("B103", "needs the gate: permits held to the end of a body"),
    ("B104", "needs the gate: permits held to the end of a body"),
    ("B105", "needs the gate: queue"),
    ("B106", "needs the gate: queue"),
    ("B107", "needs the gate: refill"),
    ("B113", "needs the gate: permits are free during a wait"),
    ("B115", "needs the gate: requests larger than a bucket"),
    ("B117", "needs the gate: reservations"),
    ("B118", "needs the gate: reservations"),
    ("B120", "needs the gate: settling"),
    ("B121", "needs the gate: a store shared by processes"),
    ("B123", "needs the gate: a store shared by processes"),
    ("B138", "needs the gate: the call after a success that says that nothing remains"),
    ("B139", "needs the gate: the hook for refusals inside of a stream"),
    ("B140", "needs the gate: credit at the end of a body"),
    ("B141", "needs the gate: the call after a success that says that nothing remains"),
    ("B142", "needs the gate: learning from what remains"),
    ("B144", "needs the gate: the call after a success that says that nothing remains"),
    ("B145", "needs the gate: the call after a success that says that nothing remains"),
];

/// Records whose wording does not fit, and what is held instead.
const READ_DIFFERENTLY: [(&str, &str); 3] = [
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

fn needs_the_gate(id: &str) -> bool {
    NEEDS_THE_GATE.iter().any(|(known, _)| *known == id)
}

/// Runs all records of one kind that do not need the gate; a record that nobody knows how to run fails.
async fn run(kind: &str) {
    capture::prepare();
    let of_kind = incidents().into_iter().filter(|incident| incident.kind == kind);
    let mut count = 0;
    for incident in of_kind.filter(|incident| !needs_the_gate(&incident.id)) {
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
    classification
    clock_skew
    duplicate_side_effects
    fractional_seconds
    header_duplicated
    header_precedence
    http_date_mishandled
    jitter_below_advised_wait
    jitter_vs_cap
    limiter_wedged
    lock_held_while_sleeping
    malformed_header_panic
    misleading_terminal_error
    missing_header_default
    proxy_429_body
    quota_exhausted_retried
    quota_false_positive
    remaining_nonzero_429
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
fn every_record_is_run_by_the_test_of_its_kind_or_needs_the_gate() {
    let incidents = incidents();
    assert_eq!(incidents.len(), 93);
    let ids: BTreeSet<_> = incidents.iter().map(|incident| incident.id.as_str()).collect();
    assert_eq!(ids.len(), 93);
    for incident in &incidents {
        let run = KINDS.contains(&incident.kind.as_str());
        assert!(run || needs_the_gate(&incident.id), "{} ({}) is not run", incident.id, incident.kind);
        // Only what is not a decision about one call may be left for the gate.
        let decidable = !matches!(incident.decision, Ruling::Invariant { .. });
        assert!(!decidable || !needs_the_gate(&incident.id), "{} needs no gate", incident.id);
    }
    for (id, reason) in NEEDS_THE_GATE {
        assert!(ids.contains(id) && reason.starts_with("needs the gate"), "{id}: {reason}");
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
