//! async-openai on top of an admission layer, against a fake OpenAI server on loopback.
//!
//! `cargo run --example async_openai` makes the same call by async-openai alone, which has a retry layer of its own,
//! and through [`AdmissionClient`], and prints how many requests reached the server. It exits with a failure if the
//! numbers are not as the text says.

use std::fmt::Display;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use async_openai::Client;
use async_openai::config::OpenAIConfig;
use async_openai::error::OpenAIError;
use async_openai::middleware::HttpRequestFactory;
use async_openai::middleware::retry::OpenAIRetryLayer;
use async_openai::types::chat::{ChatCompletionRequestUserMessageArgs, CreateChatCompletionRequestArgs};
use reqwest_admission::{AdmissionClient, SpillOver};
use reqwest_middleware::ClientWithMiddleware;
use serde_json::json;
use tower::{BoxError, ServiceBuilder, service_fn};
use wiremock::matchers::any;
use wiremock::{Mock, MockServer, Request, Respond, ResponseTemplate};

/// How long the server has no capacity after its first request.
const SHORT: Duration = Duration::from_millis(400);
const LONG: Duration = Duration::from_secs(3600);

#[tokio::main]
async fn main() -> Result<ExitCode, BoxError> {
    say("server            client                          requests  time     outcome");
    let mut as_told = true;

    let busy = FakeOpenAi::start(SHORT).await;
    let alone = show(&busy, "busy for 400 ms", "async-openai alone", &busy.client()).await?;
    let busy = FakeOpenAi::start(SHORT).await;
    let ours = show(&busy, "busy for 400 ms", "async-openai on admission", &busy.with(admission()?)).await?;
    // Backoff guesses; the advice is known. One refusal, one wait, one success.
    as_told &= alone > ours && ours == 2;

    let closed = FakeOpenAi::start(LONG).await;
    let alone = show(&closed, "busy for 1 h", "async-openai alone", &closed.client()).await?;
    let closed = FakeOpenAi::start(LONG).await;
    let ours = show(&closed, "busy for 1 h", "async-openai on admission", &closed.with(admission()?)).await?;
    let closed = FakeOpenAi::start(LONG).await;
    let both =
        show(&closed, "busy for 1 h", "with its retry layer around us", &closed.with_both(admission()?))
            .await?;
    // An hour does not fit into the budget, so the call is given up at once, and no layer sends it again.
    as_told &= alone == 4 && ours == 1 && both == 1;

    say(
        "\nThe admission layer is the only one that retries: `with_http_service` takes the place of async-openai's own",
    );
    say("retry layer, and a spill-over is an error that such a layer does not retry.");
    Ok(if as_told { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn admission() -> Result<ClientWithMiddleware, BoxError> {
    Ok(AdmissionClient::builder(no_proxy()).build()?)
}

/// The server is on this machine, whatever the environment says about proxies.
fn no_proxy() -> reqwest::ClientBuilder {
    reqwest::Client::builder().no_proxy()
}

/// Makes one call, prints what came of it, and returns how many requests that took.
async fn show(
    server: &FakeOpenAi,
    state: &str,
    name: &str,
    client: &Client<OpenAIConfig>,
) -> Result<usize, BoxError> {
    let message = ChatCompletionRequestUserMessageArgs::default().content("Hello?").build()?;
    let request =
        CreateChatCompletionRequestArgs::default().model("gpt-5").messages([message.into()]).build()?;
    let start = Instant::now();
    let outcome = client.chat().create(request).await;
    let took = start.elapsed();
    let outcome = match outcome {
        Ok(answer) => {
            answer.choices.first().and_then(|choice| choice.message.content.clone()).unwrap_or_default()
        }
        Err(error) => spill_over(&error).map_or_else(|| error.to_string(), ToString::to_string),
    };
    let requests = server.requests().await;
    say(format_args!("{state:<16}  {name:<30}  {requests:>8}  {:>4} ms  {outcome}", took.as_millis()));
    Ok(requests)
}

/// The spill-over in an error of async-openai, if it is one.
fn spill_over(error: &OpenAIError) -> Option<&SpillOver> {
    let OpenAIError::Boxed(error) = error else { return None };
    match error.downcast_ref()? {
        reqwest_middleware::Error::Middleware(error) => error.downcast_ref(),
        reqwest_middleware::Error::Reqwest(_) => None,
    }
}

/// A server that says when it will have capacity again, as Azure OpenAI does: in milliseconds.
struct FakeOpenAi(MockServer);

impl FakeOpenAi {
    async fn start(busy: Duration) -> Self {
        let server = MockServer::start().await;
        Mock::given(any()).respond_with(Capacity { busy, first: OnceLock::new() }).mount(&server).await;
        Self(server)
    }

    async fn requests(&self) -> usize {
        self.0.received_requests().await.map_or(0, |requests| requests.len())
    }

    /// async-openai as it comes.
    fn client(&self) -> Client<OpenAIConfig> {
        let config = OpenAIConfig::new().with_api_base(format!("{}/v1", self.0.uri())).with_api_key("none");
        Client::build(no_proxy().build().unwrap_or_default(), config)
    }

    /// async-openai that sends through `client`, which takes the place of its retry layer.
    fn with(&self, client: ClientWithMiddleware) -> Client<OpenAIConfig> {
        self.client().with_http_service(service_fn(move |request: HttpRequestFactory| {
            let client = client.clone();
            async move { Ok::<_, BoxError>(client.execute(request.build().await?).await?) }
        }))
    }

    /// The same with the retry layer put back, for a demonstration. There is no need for it.
    fn with_both(&self, client: ClientWithMiddleware) -> Client<OpenAIConfig> {
        let service = service_fn(move |request: HttpRequestFactory| {
            let client = client.clone();
            async move {
                let sent = client.execute(request.build().await?).await;
                sent.map_err(|error| OpenAIError::Boxed(error.into()))
            }
        });
        let service = ServiceBuilder::new().layer(OpenAIRetryLayer::default()).service(service);
        self.client().with_http_service(service)
    }
}

struct Capacity {
    busy: Duration,
    first: OnceLock<Instant>,
}

impl Respond for Capacity {
    fn respond(&self, _: &Request) -> ResponseTemplate {
        let left = self.busy.saturating_sub(self.first.get_or_init(Instant::now).elapsed());
        if left.is_zero() {
            return ResponseTemplate::new(200).set_body_json(json!({
                "id": "chatcmpl-1", "object": "chat.completion", "created": 0, "model": "gpt-5",
                "choices": [{
                    "index": 0, "finish_reason": "stop", "logprobs": null,
                    "message": { "role": "assistant", "content": "Hello.", "refusal": null },
                }],
            }));
        }
        // Rounded up, so that a call at the advised moment is served.
        ResponseTemplate::new(429)
            .insert_header("retry-after-ms", (left.as_millis() + 1).to_string())
            .set_body_json(json!({ "error": {
                "message": "The deployment is busy.", "type": "requests", "param": null, "code": "rate_limit_exceeded",
            }}))
    }
}

fn say(line: impl Display) {
    // A closed pipe wants no more lines.
    let _ = writeln!(io::stdout(), "{line}");
}
