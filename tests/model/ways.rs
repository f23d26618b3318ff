//! Two ways of calling: by the gate alone, and with perfect knowledge.

use std::time::Duration;

use reqwest_admission::gate::{Gate, Permit, Priority, Refusal, Reserve, ScopeKey};
use reqwest_admission::pace::{Cost, TokenEstimate, TokenUsage};
use reqwest_admission::reading::ServiceLimit;
use reqwest_admission::units::{QuotaUnit, QuotaUnits};
use tokio::time::{Instant, sleep, sleep_until};

use super::{Call, Stated, Way, World};

/// First come, first served, by somebody who knows the server's level.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Oracle;

impl Way for Oracle {
    async fn call(&self, world: &World, call: Call) -> bool {
        let Some(at) = world.plan(&call) else { return false };
        sleep_until(world.start + Duration::from_secs_f64(at)).await;
        let (answer, body) = world.send(&call).await;
        sleep(body).await;
        answer.is_ok()
    }
}

impl Way for Gate {
    async fn call(&self, world: &World, call: Call) -> bool {
        let scope = ScopeKey::new("model");
        let cost = Cost::from(TokenEstimate::new(call.estimate as u64, 0));
        let deadline = Some(call.deadline.into_std());
        let now = || Instant::now().into_std();
        let mut reserve = self.reserve(&scope, cost, Priority::Normal, deadline, now());
        let mut refusals = 0;
        loop {
            let Ok(mut permit) = granted(reserve).await else { return false };
            permit.sent(now());
            match world.send(&call).await {
                (Ok(stated), rest) => {
                    let limits: Vec<ServiceLimit> = stated.map(limit).into_iter().collect();
                    permit.observe(&limits, now());
                    sleep(rest).await;
                    permit.settle(TokenUsage::new(call.size as u64, 0), now());
                    permit.finish();
                    return true;
                }
                (Err(advice), _) => {
                    refusals += 1;
                    world.was_refused(refusals);
                    let planned = advice.unwrap_or_default().mul_f64(1.05);
                    let place = permit.refused(advice, QuotaUnits::EMPTY, planned, now());
                    reserve = self.reserve_again(place, cost, Priority::Normal, deadline, now());
                }
            }
        }
    }
}

fn limit(stated: Stated) -> ServiceLimit {
    let mut limit = ServiceLimit::new(QuotaUnit::Tokens);
    limit.limit = Some(stated.limit);
    limit.remaining = Some(stated.remaining);
    limit.reset = Some(stated.reset);
    limit
}

/// The permit of a reservation, however long it takes.
pub(crate) async fn granted(reserve: Reserve) -> Result<Permit, Refusal> {
    match reserve {
        Reserve::Granted(permit) => Ok(permit),
        Reserve::Queued(ticket) => ticket.await,
        Reserve::Refused(refusal) => Err(refusal),
    }
}
