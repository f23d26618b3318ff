//! What would come of a response: the waits by attempt, whether other methods may be sent again, and what the gate does.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Extensions, HeaderMap, Method, StatusCode};
use reqwest::{Request, Response, ResponseBuilderExt as _};
use reqwest_admission::decision::{Call, Decision, Outcome, decide};
use reqwest_admission::gate::Gate;
use reqwest_admission::jitter::Draw;
use reqwest_admission::reading::Profile;
use reqwest_admission::{Admission, AdmissionPolicy, LatencyBudget, Reading};
use reqwest_middleware::{ClientBuilder, Middleware, Next};
use tokio::time::Instant;

use super::{Options, whole_millis};

/// The waits before each further attempt, from the lowest random draw to the highest. Each is that of a whole budget: what
/// earlier waits have used up shortens the highest.
pub(crate) fn waits(reading: &Reading, options: &Options) -> Option<String> {
    let most = AdmissionPolicy::default().max_attempts();
    let ranges = (options.attempt..most).map(|attempt| range(reading, options, attempt));
    let ranges = ranges.collect::<Option<Vec<_>>>().filter(|ranges| !ranges.is_empty())?;
    if ranges.windows(2).all(|pair| pair.first() == pair.last()) {
        return Some(format!("{} before each further attempt", ranges.first()?));
    }
    let before = |(attempt, range)| format!("{range} before attempt {attempt}");
    let next = options.attempt.saturating_add(1);
    Some((next..).zip(ranges).map(before).collect::<Vec<_>>().join(", "))
}

/// The wait after `attempt`, from the lowest random draw to the highest.
pub(crate) fn range(reading: &Reading, options: &Options, attempt: u32) -> Option<String> {
    let (least, longest) =
        (planned(reading, options, attempt, 0.0)?, planned(reading, options, attempt, 1.0)?);
    Some(format!("{least} to {longest} ms"))
}

/// The wait after one attempt, in milliseconds, if there is one.
fn planned(reading: &Reading, options: &Options, attempt: u32, draw: f64) -> Option<u64> {
    let (decision, at) = options.decide(reading, attempt, true, Draw::new(draw));
    match decision {
        Decision::Wait { until, .. } => Some(whole_millis(until.saturating_duration_since(at))),
        Decision::Admit | Decision::SpillOver(_) => None,
    }
}

/// Which requests may be sent again after the response (the fifth law: replay safety), with attempts and time enough.
pub(crate) fn replay(reading: &Reading) -> &'static str {
    let now = Instant::now().into_std();
    let call = Call::new(LatencyBudget::new(Duration::MAX).deadline(now));
    let decide =
        |call| decide(&AdmissionPolicy::default(), Outcome::Response(reading), &call, now, Draw::ZERO);
    match (decide(call.idempotent(true)), decide(call.idempotent(false))) {
        _ if reading.terminal().is_some() => "none: no repeat helps",
        (Decision::Admit, _) => "none: the response is not about capacity",
        (_, Decision::Admit) => {
            "only GET, HEAD, PUT, DELETE, OPTIONS, TRACE or a request with an Idempotency-Key: it may have been processed. \
             Others get the response as it is"
        }
        _ => "any method, if the body can be copied: the request was refused before it was processed",
    }
}

/// What the gate does about the other calls of the scope. Nothing is worked out here: a call is answered with the response
/// by a stand-in for the server, on a clock that jumps, and another call of the same scope follows at once.
pub(crate) fn gate(
    status: StatusCode,
    headers: &HeaderMap,
    body: &[u8],
    profile: &Profile,
    options: &Options,
) -> std::io::Result<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
    let server = StandIn {
        first: Arc::new(Mutex::new(Some((status, headers.clone(), body.to_vec())))),
        later: Arc::default(),
    };
    let gate = Gate::default();
    let admission = Admission::builder().gate(gate.clone()).profile(profile).draws(|| 0.0).build();
    let admission = admission.map_err(std::io::Error::other)?;
    let client = ClientBuilder::new(reqwest::Client::new()).with(admission).with(server.clone()).build();
    let call = |budget| {
        let request = client.request(Method::GET, "http://scope.example/");
        request.with_extension(LatencyBudget::new(budget)).send()
    };
    runtime.block_on(async {
        // Refused, and given up at once, so that the other call is alone.
        let refused = Instant::now();
        let _ = call(Duration::ZERO).await;
        let closed = gate
            .snapshot(std::time::Instant::now())
            .scopes
            .iter()
            .any(|scope| scope.closed_for_seconds > 0.0);
        let _ = call(options.budget).await;
        let sent =
            server.later.lock().unwrap_or_else(std::sync::PoisonError::into_inner).map(|at| at - refused);
        Ok(match sent {
            None => "closes the scope for longer than the budget: other calls spill over at once, unsent"
                .to_owned(),
            Some(Duration::ZERO) if !closed => "leaves the scope open: other calls go on".to_owned(),
            Some(after) => format!(
                "{} the scope: the next call is sent after {} ms, further ones follow one by one",
                if closed { "closes" } else { "limits" },
                whole_millis(after)
            ),
        })
    })
}

type Answer = (StatusCode, HeaderMap, Vec<u8>);

/// Answers the first request with the response, all others with 200.
#[derive(Clone)]
struct StandIn {
    first: Arc<Mutex<Option<Answer>>>,
    /// When the second request came.
    later: Arc<Mutex<Option<Instant>>>,
}

#[async_trait::async_trait]
impl Middleware for StandIn {
    async fn handle(
        &self,
        request: Request,
        _: &mut Extensions,
        _: Next<'_>,
    ) -> reqwest_middleware::Result<Response> {
        let answer = self.first.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        if answer.is_none() {
            self.later
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner)
                .get_or_insert_with(Instant::now);
        }
        let (status, headers, body) = answer.unwrap_or((StatusCode::OK, HeaderMap::new(), Vec::new()));
        let mut response = http::Response::new(body);
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        let (mut parts, body) = response.into_parts();
        parts.extensions = http::Response::builder()
            .url(request.url().clone())
            .body(())
            .map_err(|error| reqwest_middleware::Error::middleware(std::io::Error::other(error)))?
            .into_parts()
            .0
            .extensions;
        Ok(http::Response::from_parts(parts, body).into())
    }
}
