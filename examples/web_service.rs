//! A web service on top of a rate-limited API.
//!
//! It answers 503 with `Retry-After` if the API has no capacity in time, and parks jobs that can wait. Its settings are in
//! `web_service.toml`; its tests, against wiremock, are in `tests/web_service.rs`.
//!
//! ```sh
//! cargo run --example web_service -- https://api.example
//! ```

use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use reqwest_admission::gate::{Gate, Priority};
use reqwest_admission::pace::Limits;
use reqwest_admission::{
    AdmissionClient, AdmissionClientBuilder, AdmissionPolicy, AdmissionRequestExt as _, Deferred, SpillOver,
};
use reqwest_middleware::ClientWithMiddleware;
use serde::Deserialize;

/// What `web_service.toml` holds. Every value is checked while it is read.
#[derive(Deserialize)]
pub(crate) struct Settings {
    policy: AdmissionPolicy,
    limits: Limits,
    priority_of_jobs: Priority,
}

/// What the handlers share. The jobs would be in a queue that outlives the process.
#[derive(Clone)]
pub(crate) struct Service {
    client: ClientWithMiddleware,
    api: Arc<str>,
    priority_of_jobs: Priority,
    pub(crate) jobs: Arc<Mutex<Vec<Deferred>>>,
}

impl Service {
    /// A service on top of `api`. Tests give it `AdmissionClient::for_tests()`.
    pub(crate) fn new(
        builder: AdmissionClientBuilder,
        settings: Settings,
        api: &str,
    ) -> Result<Self, Box<dyn Error>> {
        let gate = Gate::builder().limits(settings.limits).build()?;
        let client = builder.policy(settings.policy).gate(gate).build()?;
        let priority_of_jobs = settings.priority_of_jobs;
        Ok(Self { client, api: api.trim_end_matches('/').into(), priority_of_jobs, jobs: Arc::default() })
    }

    pub(crate) fn router(self) -> Router {
        Router::new().route("/items/{id}", get(item)).route("/reports", post(report)).with_state(self)
    }
}

/// Somebody waits for this one, so the call has two seconds.
async fn item(State(service): State<Service>, Path(id): Path<u32>) -> Result<String, Failure> {
    let call = service.client.get(format!("{}/v1/items/{id}", service.api));
    let outcome = call.priority(Priority::High).latency_budget(Duration::from_secs(2)).send().await;
    Ok(outcome?.error_for_status().map_err(reqwest_middleware::Error::Reqwest)?.text().await?)
}

/// Nobody waits for this one: a call that is not served now becomes a ticket, and is served later.
async fn report(State(service): State<Service>, text: String) -> Result<StatusCode, Failure> {
    let call = service.client.post(format!("{}/v1/reports", service.api)).body(text);
    let outcome = call.priority(service.priority_of_jobs).send().await;
    if let Some(ticket) = SpillOver::of(&outcome).and_then(|spill| spill.clone().into_deferred().ok()) {
        service.jobs.lock().unwrap_or_else(PoisonError::into_inner).push(ticket);
        return Ok(StatusCode::ACCEPTED);
    }
    Ok(outcome?.status())
}

/// Any error of a call, as an answer to our own caller.
pub(crate) struct Failure(reqwest_middleware::Error);

impl<E: Into<reqwest_middleware::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let Some(spill) = SpillOver::find(&self.0) else { return StatusCode::BAD_GATEWAY.into_response() };
        // Rounded up, so that a caller who comes back then is served.
        let seconds = spill.advised_wait().unwrap_or_default().as_secs() + 1;
        let body = Json(serde_json::json!({ "error": spill.reason().as_str() }));
        (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, seconds.to_string())], body).into_response()
    }
}

#[tokio::main]
pub(crate) async fn main() -> Result<(), Box<dyn Error>> {
    let api = std::env::args().nth(1).ok_or("name the API to use: web_service https://api.example")?;
    let settings = toml::from_str(include_str!("web_service.toml"))?;
    let service = Service::new(AdmissionClient::builder(reqwest::Client::builder()), settings, &api)?;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
    println!("listening on http://{}", listener.local_addr()?);
    Ok(axum::serve(listener, service.router()).await?)
}
