//! The same facts as numbers, through the `metrics` facade.

use std::time::Duration;

use metrics::{counter, histogram};

use super::DecisionEvent;
use crate::decision::Reason;
use crate::ownership::RetryConflict;

pub(super) fn decision(event: &DecisionEvent<'_>) {
    let reason = event.reason.map_or("", Reason::as_str);
    counter!("reqwest_admission_decisions_total", "decision" => event.decision, "reason" => reason)
        .increment(1);
    if let Some(status) = event.status {
        counter!("reqwest_admission_responses_total", "status" => status.as_u16().to_string()).increment(1);
    }
    if let (Some(raw_wait), Some(_)) = (event.raw_wait, event.source) {
        histogram!("reqwest_admission_advised_wait_seconds").record(raw_wait.as_secs_f64());
    }
}

pub(super) fn waited(waited: Duration) {
    histogram!("reqwest_admission_wait_seconds").record(waited.as_secs_f64());
}

pub(super) fn routed(to: &str, reason: Reason) {
    let to = to.to_owned();
    counter!("reqwest_admission_routed_total", "to" => to, "reason" => reason.as_str()).increment(1);
}

pub(super) fn native_spill_over() {
    counter!("reqwest_admission_native_spill_overs_total").increment(1);
}

pub(super) fn conflict(conflict: &RetryConflict) {
    counter!("reqwest_admission_retry_conflicts_total", "kind" => conflict.kind().as_str()).increment(1);
}
