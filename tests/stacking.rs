//! Law 4, one retry owner: stacks of layers, each run for real against a server that always refuses, and what reaches
//! the wire. `cargo test --test stacking -- --nocapture` prints the table of the page "Who retries?".
#![cfg(test)]

#[path = "stacking/layers.rs"]
#[allow(dead_code, reason = "some of these layers are those of other test files")]
mod layers;
#[path = "stacking/outside.rs"]
mod outside;
#[path = "stacking/server.rs"]
mod server;

use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use backon::Retryable as _;
use http::Extensions;
use layers::{
    AlwaysTwice, AuthRefresh, BuildsAnew, Cache, FreshMapTwice, GiveUpAndAgain, Hedge, MustCopy, Signer,
    Wrapper, reqwest_retry, streaming,
};
use reqwest::Response;
use reqwest_admission::policy::{Backoff, OnSpill, RetryOwnership};
use reqwest_admission::{
    Admission, AdmissionClient, AdmissionClientBuilder, AdmissionPolicy, CallReport, ClientBuildError,
    ConflictKind, LatencyBudget, Reason, RetryConflict, SoleOwnerVerdict, SpillOver, verify_sole_owner,
};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Error, RequestBuilder};
use reqwest_tracing::TracingMiddleware;
use server::{Reply, Server};

/// The attempts of our own policy.
const OURS: usize = 3;

/// An advice that fits into the budget, and one that does not.
const FITS: u64 = 5;
const EXCEEDS: u64 = 3_600_000;

/// What a caller gets to see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Signal {
    Status(u16),
    Spill(Reason),
    Conflict(ConflictKind),
    /// An outer layer has wrapped the error, and one of its causes is no longer to be seen; it is in the report.
    WrappedConflict(ConflictKind),
    /// The error of a layer, untouched.
    OfALayer,
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => write!(f, "the {status}"),
            Self::Spill(_) => write!(f, "`SpillOver`"),
            Self::Conflict(kind) => write!(f, "`RetryConflict`: `{kind:?}`"),
            Self::WrappedConflict(kind) => write!(f, "`RetryConflict`: `{kind:?}`, wrapped"),
            Self::OfALayer => write!(f, "the layer's error"),
        }
    }
}

fn signal(outcome: &Result<Response, Error>, report: &CallReport) -> Signal {
    if let Some(conflict) = RetryConflict::of(outcome) {
        return Signal::Conflict(conflict.kind());
    }
    if let Some(spill) = SpillOver::of(outcome) {
        return Signal::Spill(spill.reason());
    }
    match outcome {
        Ok(response) => Signal::Status(response.status().as_u16()),
        Err(Error::Middleware(error)) if error.is::<MustCopy>() => Signal::OfALayer,
        Err(error) => match report.conflicts().last() {
            Some(conflict) => Signal::WrappedConflict(conflict.kind()),
            None => panic!("{error:?}"),
        },
    }
}

/// Three attempts, short backoffs, no jitter.
fn policy() -> AdmissionPolicy {
    AdmissionPolicy::builder()
        .max_attempts(u32::try_from(OURS).unwrap())
        .backoff(
            Backoff::default()
                .base(Duration::from_millis(1))
                .cap(Duration::from_millis(4))
                .floor(Duration::from_millis(1)),
        )
        .jitter(reqwest_admission::jitter::UpwardJitter::None)
        .build()
        .unwrap()
}

fn reporting() -> AdmissionPolicy {
    policy().to_builder().retry_ownership(RetryOwnership::Report).build().unwrap()
}

fn on_response() -> AdmissionPolicy {
    policy().to_builder().on_spill(OnSpill::Response).build().unwrap()
}

fn admission() -> Admission {
    Admission::builder().policy(policy()).build().unwrap()
}

/// No proxy: the server is on this machine, whatever the environment says.
fn plain() -> reqwest::ClientBuilder {
    reqwest::Client::builder().no_proxy()
}

fn stack() -> ClientBuilder {
    ClientBuilder::new(plain().build().unwrap())
}

fn owned() -> AdmissionClientBuilder {
    owned_around(plain())
}

fn owned_around(client: reqwest::ClientBuilder) -> AdmissionClientBuilder {
    AdmissionClient::builder(client).policy(policy())
}

/// A host that is equal to every other.
struct AnyHost;

impl PartialEq<&str> for AnyHost {
    fn eq(&self, _: &&str) -> bool {
        true
    }
}

/// A client with reqwest's own retries of a 429: two of them, for a scope of hosts.
fn built_in<S>(host: S) -> reqwest::ClientBuilder
where
    S: for<'a> PartialEq<&'a str> + Send + Sync + 'static,
{
    let retry = reqwest::retry::for_host(host).no_budget().classify_fn(|attempt| {
        if attempt.status() == Some(http::StatusCode::TOO_MANY_REQUESTS) {
            attempt.retryable()
        } else {
            attempt.success()
        }
    });
    plain().retry(retry)
}

fn bare_around(client: reqwest::ClientBuilder, policy: AdmissionPolicy) -> ClientWithMiddleware {
    let admission = Admission::builder().policy(policy).build().unwrap();
    ClientBuilder::new(client.build().unwrap()).with(admission).build()
}

/// What is sent, and to which path.
#[derive(Debug, Clone, Copy)]
enum Call {
    Get(&'static str),
    Post(&'static str),
    Stream(&'static str),
}

impl Call {
    fn of(self, client: &ClientWithMiddleware, server: &Server) -> RequestBuilder {
        match self {
            Self::Get(path) => client.get(server.url(path)),
            Self::Post(path) => client.post(server.url(path)).body("a body"),
            Self::Stream(path) => client.post(server.url(path)).body(streaming()),
        }
    }
}

/// A stack, with what must reach the wire and what the caller must see where the advice fits and where it does not.
struct Row {
    name: &'static str,
    client: Result<ClientWithMiddleware, ClientBuildError>,
    call: Call,
    fits: (usize, Signal),
    exceeds: (usize, Signal),
}

impl Row {
    async fn run(&self, milliseconds: u64) -> (usize, Signal) {
        let server = Server::always(Reply::refusal(milliseconds)).await;
        let client = match &self.client {
            Ok(client) => client,
            Err(error) => return (server.count(), Signal::Conflict(error.conflict_kind().unwrap())),
        };
        let report = CallReport::new();
        let outcome = self.call.of(client, &server).with_extension(report.clone()).send().await;
        (server.count(), signal(&outcome, &report))
    }
}

/// The page that has the same tables.
const PAGE: &str = include_str!("../src/who_retries.rs");

/// Runs the rows, prints what came of them, and fails where that is not what it must be or not what the page says.
async fn measure(title: &str, rows: Vec<Row>) {
    println!("\n{title}\n| stack | fits | exceeds | the caller sees |\n|---|---|---|---|");
    let mut wrong = Vec::new();
    for row in rows {
        let (fits, exceeds) = (row.run(FITS).await, row.run(EXCEEDS).await);
        let line = format!("| {} | {} | {} | {} |", row.name, fits.0, exceeds.0, exceeds.1);
        println!("{line}");
        if (fits, exceeds) != (row.fits, row.exceeds) {
            wrong.push(format!("{line} {fits:?} {exceeds:?}, not {:?} {:?}", row.fits, row.exceeds));
        }
        let section = PAGE.split("//! ## ").find(|section| section.starts_with(title)).unwrap();
        if !section.contains(&format!("//! {line}")) {
            wrong.push(format!("not on the page: {line}"));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

const EXHAUSTED: Signal = Signal::Spill(Reason::AttemptsExhausted);
const TOO_LONG: Signal = Signal::Spill(Reason::BudgetExceeded);

/// A row where the other layers change nothing: our own attempts, or the only one.
fn unchanged(name: &'static str, client: ClientWithMiddleware, call: Call) -> Row {
    Row { name, client: Ok(client), call, fits: (OURS, EXHAUSTED), exceeds: (1, TOO_LONG) }
}

/// A row with the same result whatever the advice.
fn always(
    name: &'static str,
    client: Result<ClientWithMiddleware, ClientBuildError>,
    call: Call,
    result: (usize, Signal),
) -> Row {
    Row { name, client, call, fits: result, exceeds: result }
}

/// What comes of a layer that has sent `sends` requests of its own in place of one attempt's.
fn replaced(sends: usize) -> (usize, Signal) {
    (sends, Signal::Conflict(ConflictKind::ReplacedRequest))
}

fn by_itself() -> BuildsAnew {
    BuildsAnew { new_extensions: false, client: Some(plain().build().unwrap()) }
}

#[tokio::test]
async fn law_4_a_bare_admission_layer() {
    let get = Call::Get("/");
    let marking = Admission::builder().policy(on_response()).build().unwrap();
    let conflict = |kind| (0, Signal::Conflict(kind));
    let rows = vec![
        unchanged("none", stack().with(admission()).build(), get),
        unchanged("reqwest-retry outside", stack().with(reqwest_retry()).with(admission()).build(), get),
        Row {
            fits: (OURS, Signal::Conflict(ConflictKind::Reentry)),
            exceeds: (1, Signal::Conflict(ConflictKind::Reentry)),
            ..unchanged(
                "reqwest-retry outside, `OnSpill::Response`",
                stack().with(reqwest_retry()).with(marking).build(),
                get,
            )
        },
        always(
            "reqwest-retry inside",
            Ok(stack().with(admission()).with(reqwest_retry()).build()),
            get,
            conflict(ConflictKind::CopiedAttempt),
        ),
        always(
            "reqwest-retry outside and inside",
            Ok(stack().with(reqwest_retry()).with(admission()).with(reqwest_retry()).build()),
            get,
            (0, Signal::WrappedConflict(ConflictKind::CopiedAttempt)),
        ),
        unchanged("reqwest's own retry, for the host", bare_around(built_in("127.0.0.1"), policy()), get),
        unchanged("reqwest's own retry, always", bare_around(built_in(AnyHost), policy()), get),
        unchanged("reqwest's own retry, out of scope", bare_around(built_in("other.example"), policy()), get),
        unchanged("reqwest's own retry, POST", bare_around(built_in(AnyHost), policy()), Call::Post("/")),
        always(
            "two admission layers",
            Ok(stack().with(admission()).with(admission()).build()),
            get,
            conflict(ConflictKind::NestedAdmission),
        ),
        unchanged(
            "auth refresh outside",
            stack().with(AuthRefresh::default()).with(admission()).build(),
            get,
        ),
        unchanged("auth refresh inside", stack().with(admission()).with(AuthRefresh::default()).build(), get),
        unchanged("cache outside", stack().with(Cache).with(admission()).build(), get),
        unchanged("cache inside", stack().with(admission()).with(Cache).build(), get),
        unchanged(
            "tracing outside",
            stack().with(TracingMiddleware::default()).with(admission()).build(),
            get,
        ),
        unchanged(
            "tracing inside",
            stack().with(admission()).with(TracingMiddleware::default()).build(),
            get,
        ),
        Row {
            fits: (1, Signal::Spill(Reason::BodyNotReplayable)),
            ..unchanged("streaming body", stack().with(admission()).build(), Call::Stream("/"))
        },
        unchanged("body", stack().with(admission()).build(), Call::Post("/")),
        unchanged("302", stack().with(admission()).build(), Call::Get("/302")),
        unchanged("302, body", stack().with(admission()).build(), Call::Post("/302")),
        unchanged("307", stack().with(admission()).build(), Call::Get("/307")),
        always(
            "307, body",
            Ok(stack().with(admission()).build()),
            Call::Post("/307"),
            (0, Signal::Status(307)),
        ),
        Row {
            fits: (OURS, Signal::Conflict(ConflictKind::Reentry)),
            exceeds: (1, Signal::Conflict(ConflictKind::Reentry)),
            ..unchanged("sends twice, outside", stack().with(AlwaysTwice).with(admission()).build(), get)
        },
        always(
            "sends twice, inside",
            Ok(stack().with(admission()).with(AlwaysTwice).build()),
            get,
            (0, Signal::OfALayer),
        ),
        always(
            "builds requests anew, inside",
            Ok(stack().with(admission()).with(BuildsAnew::in_the_stack()).build()),
            get,
            replaced(BuildsAnew::SENDS),
        ),
        always(
            "sends by a client of its own, inside",
            Ok(stack().with(admission()).with(by_itself()).build()),
            get,
            replaced(BuildsAnew::SENDS),
        ),
        always(
            "hedge, inside",
            Ok(stack().with(admission()).with(Hedge).build()),
            get,
            (0, Signal::OfALayer),
        ),
    ];
    measure("Around a client that exists", rows).await;
}

#[tokio::test]
async fn law_4_the_owning_client() {
    let get = Call::Get("/");
    let marking = AdmissionClient::builder(plain()).policy(on_response());
    let stopped = (1, Signal::Conflict(ConflictKind::RepeatedAttempt));
    let known = (0, Signal::Conflict(ConflictKind::KnownRetryLayer));
    let rows = vec![
        unchanged("none", owned().build().unwrap(), get),
        unchanged("none, `OnSpill::Response`", marking.build().unwrap(), get),
        always("reqwest-retry", owned().with(reqwest_retry()).build(), get, known),
        always("reqwest-retry in a wrapper", owned().with(Wrapper(reqwest_retry())).build(), get, known),
        always(
            "reqwest-retry by `with_arc`",
            owned().with_arc(Arc::new(reqwest_retry())).build(),
            get,
            stopped,
        ),
        unchanged(
            "reqwest's own retry, for the host",
            owned_around(built_in("127.0.0.1")).build().unwrap(),
            get,
        ),
        unchanged("reqwest's own retry, always", owned_around(built_in(AnyHost)).build().unwrap(), get),
        unchanged(
            "reqwest's own retry, out of scope",
            owned_around(built_in("other.example")).build().unwrap(),
            get,
        ),
        always(
            "two admission layers",
            owned().with(admission()).build(),
            get,
            (0, Signal::Conflict(ConflictKind::NestedAdmission)),
        ),
        always(
            "two admission layers by `with_arc`",
            owned().with_arc(Arc::new(admission())).build(),
            get,
            (0, Signal::Conflict(ConflictKind::NestedAdmission)),
        ),
        unchanged("auth refresh", owned().with(AuthRefresh::default()).build().unwrap(), get),
        unchanged("cache", owned().with(Cache).build().unwrap(), get),
        unchanged("tracing", owned().with(TracingMiddleware::default()).build().unwrap(), get),
        Row {
            fits: (1, Signal::Spill(Reason::BodyNotReplayable)),
            ..unchanged("streaming body", owned().build().unwrap(), Call::Stream("/"))
        },
        unchanged("body", owned().build().unwrap(), Call::Post("/")),
        unchanged("302", owned().build().unwrap(), Call::Get("/302")),
        unchanged("302, body", owned().build().unwrap(), Call::Post("/302")),
        unchanged("307", owned().build().unwrap(), Call::Get("/307")),
        unchanged("307, body", owned().build().unwrap(), Call::Post("/307")),
        always("sends twice", owned().with(AlwaysTwice).build(), get, stopped),
        always("builds requests anew", owned().with(BuildsAnew::in_the_stack()).build(), get, stopped),
        always(
            "builds requests anew, with new extensions",
            owned().with(BuildsAnew { new_extensions: true, client: None }).build(),
            get,
            replaced(BuildsAnew::SENDS),
        ),
        always("sends twice, with new extensions", owned().with(FreshMapTwice).build(), get, replaced(2)),
        always(
            "sends by a client of its own",
            owned().with(by_itself()).build(),
            get,
            replaced(BuildsAnew::SENDS),
        ),
        unchanged("hedge", owned().with(Hedge).build().unwrap(), get),
    ];
    measure("With `AdmissionClient`", rows).await;
}

/// What happens where nothing is enforced, or where a layer can hide: the reason for the two tables above.
#[tokio::test]
async fn what_is_only_reported_or_not_seen_multiplies() {
    let get = Call::Get("/");
    let reported = || Admission::builder().policy(reporting()).build().unwrap();
    let times = |name, client, factor: usize| Row {
        fits: (factor * OURS, EXHAUSTED),
        exceeds: (factor, TOO_LONG),
        ..unchanged(name, client, get)
    };
    let owned_reported = || AdmissionClient::builder(plain()).policy(reporting());
    let rows = vec![
        times("`Report`: reqwest-retry inside", stack().with(reported()).with(reqwest_retry()).build(), 4),
        times("`Report`: reqwest's own retry", bare_around(built_in(AnyHost), reporting()), 3),
        times(
            "`Report`: reqwest's own retry, out of scope",
            bare_around(built_in("other.example"), reporting()),
            2,
        ),
        times(
            "`Report`: `AdmissionClient` with reqwest-retry",
            owned_reported().with(reqwest_retry()).build().unwrap(),
            4,
        ),
        times("hedge outside", stack().with(Hedge).with(admission()).build(), 2),
        times(
            "`Report`: builds requests anew, inside",
            stack().with(reported()).with(BuildsAnew::in_the_stack()).build(),
            BuildsAnew::SENDS,
        ),
        times(
            "`AdmissionClient`: reqwest-retry added to the built client",
            ClientBuilder::from_client(owned().build().unwrap()).with(reqwest_retry()).build(),
            4,
        ),
    ];
    measure("What is not stopped", rows).await;
}

fn boxed(error: Error) -> tower::BoxError {
    Box::new(error)
}

fn openai(server: &Server) -> async_openai::Client<async_openai::config::OpenAIConfig> {
    let config =
        async_openai::config::OpenAIConfig::new().with_api_base(server.url("/v1")).with_api_key("none");
    async_openai::Client::with_config(config)
}

async fn chat(client: &async_openai::Client<async_openai::config::OpenAIConfig>) -> Signal {
    use async_openai::error::OpenAIError;
    use async_openai::types::chat::{
        ChatCompletionRequestUserMessageArgs, CreateChatCompletionRequest, CreateChatCompletionRequestArgs,
    };
    let message = ChatCompletionRequestUserMessageArgs::default().content("hello").build().unwrap();
    let request: CreateChatCompletionRequest =
        CreateChatCompletionRequestArgs::default().model("m").messages([message.into()]).build().unwrap();
    match client.chat().create(request).await.unwrap_err() {
        OpenAIError::Boxed(error) => {
            let outcome = Err(*error.downcast::<Error>().unwrap());
            signal(&outcome, &CallReport::new())
        }
        OpenAIError::ApiError(error) => Signal::Status(error.status_code.as_u16()),
        error => panic!("{error:?}"),
    }
}

/// A refusal as OpenAI sends it.
fn openai_refusal(milliseconds: u64) -> Reply {
    Reply::refusal(milliseconds)
        .header("retry-after", (milliseconds / 1000).to_string())
        .header("content-type", "application/json")
        .body(OPENAI_REFUSAL)
}

const OPENAI_REFUSAL: &str =
    r#"{"error":{"message":"slow down","type":"tokens","param":null,"code":"rate_limit_exceeded"}}"#;

fn openai_service(
    client: ClientWithMiddleware,
) -> impl tower::Service<
    async_openai::middleware::HttpRequestFactory,
    Response = Response,
    Error = tower::BoxError,
    Future: Send,
> + Clone
+ Send
+ Sync {
    tower::service_fn(move |factory: async_openai::middleware::HttpRequestFactory| {
        let client = client.clone();
        async move { client.execute(factory.build().await?).await.map_err(boxed) }
    })
}

#[tokio::test]
async fn law_4_async_openai_around_us_sends_what_we_send() {
    println!("\nasync-openai");
    for client in [stack().with(admission()).build(), owned().build().unwrap()] {
        for (advice, expected) in [(FITS, (OURS, EXHAUSTED)), (EXCEEDS, (1, TOO_LONG))] {
            let server = Server::always(openai_refusal(advice)).await;
            let openai = openai(&server).with_http_service(openai_service(client.clone()));
            let signal = chat(&openai).await;
            let seen = (server.count(), signal);
            println!("| {advice} ms | {} {} |", seen.0, seen.1);
            assert_eq!(seen, expected);
        }
    }
}

#[tokio::test]
async fn law_4_the_retry_layer_of_async_openai_stops_at_our_signal() {
    for (advice, expected) in [(FITS, (OURS, EXHAUSTED)), (EXCEEDS, (1, TOO_LONG))] {
        let server = Server::always(openai_refusal(advice)).await;
        let service = tower::ServiceBuilder::new()
            .layer(async_openai::middleware::retry::OpenAIRetryLayer::default())
            .map_err(async_openai::error::OpenAIError::Boxed)
            .service(openai_service(owned().build().unwrap()));
        let signal = chat(&openai(&server).with_http_service(service)).await;
        assert_eq!((server.count(), signal), expected);
    }
}

#[tokio::test]
async fn the_error_of_a_conflict_names_the_layer_and_says_what_to_do() {
    let error = owned().with(Wrapper(reqwest_retry())).build().unwrap_err();
    let text = error.to_string();
    assert!(text.contains("Wrapper<reqwest_retry::"), "{text}");
    assert!(text.contains("remove it"), "{text}");
    let ClientBuildError::RetryConflict(conflict) = error else { panic!("{error:?}") };
    assert!(conflict.layer().unwrap().contains("RetryTransientMiddleware"));

    let client = stack().with(admission()).with(reqwest_retry()).build();
    let server = Server::always(Reply::status(200)).await;
    let error = client.get(server.url("/")).send().await.unwrap_err();
    assert!(error.to_string().contains("remove it"), "{error}");
    // What the layer said itself is not lost.
    assert!(format!("{error:?}").contains("not cloneable"), "{error:?}");
}

/// A server that wants the token `fresh`, refuses the first call that has it, then serves.
async fn guarded_by_token() -> Server {
    Server::new(|number, hit| {
        Some(match hit.headers.get("authorization") {
            None => Reply::status(401),
            Some(_) if number == 1 => Reply::refusal(FITS),
            Some(_) => Reply::status(200).body("served"),
        })
    })
    .await
}

#[tokio::test]
async fn an_auth_refresh_layer_keeps_working() {
    let inside: Arc<AuthRefresh> = Arc::default();
    let outside: Arc<AuthRefresh> = Arc::default();
    let owned = owned().with_arc(inside.clone()).build().unwrap();
    let bare = stack().with_arc(outside.clone()).with(admission()).build();
    for (client, layer, sends) in [(owned, inside, 4), (bare, outside, 3)] {
        let server = guarded_by_token().await;
        let response = client.post(server.url("/")).body("job").send().await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.text().await.unwrap(), "served");
        assert!(layer.refreshed.load(Ordering::Relaxed) > 0);
        // 401, 429, 200; inside of the admission layer each attempt begins without the token.
        let statuses = server.hits();
        assert_eq!(statuses.len(), sends, "{statuses:?}");
        assert!(statuses.iter().all(|hit| hit.body == b"job"));
    }
}

#[tokio::test]
async fn a_cache_layer_keeps_working() {
    let script = |_: usize, hit: &server::Hit| {
        let conditional = hit.headers.contains_key("if-none-match");
        Some(if conditional { Reply::status(304) } else { Reply::status(200).body("whole") })
    };
    let owned = owned().with(Cache).build().unwrap();
    let bare = stack().with(Cache).with(admission()).build();
    for client in [owned, bare] {
        let server = Server::new(script).await;
        let response = client.get(server.url("/")).send().await.unwrap();
        assert_eq!(response.text().await.unwrap(), "whole");
        assert_eq!(server.count(), 2);
    }
}

#[tokio::test]
async fn a_layer_that_gives_up_on_an_attempt_and_sends_another_is_stopped() {
    // Never answers the first request.
    let hung = || Server::new(|number, _| (number > 0).then(|| Reply::status(200)));

    let server = hung().await;
    let client = owned().with(GiveUpAndAgain(server.ignored())).build().unwrap();
    let outcome = client.get(server.url("/")).send().await;
    assert_eq!(RetryConflict::of(&outcome).unwrap().kind(), ConflictKind::RepeatedAttempt);
    assert_eq!(server.count(), 1);

    // Outside, a dropped call was never refused, so it may be made again: within the attempts of one call.
    let server = hung().await;
    let client = stack().with(GiveUpAndAgain(server.ignored())).with(admission()).build();
    assert_eq!(client.get(server.url("/")).send().await.unwrap().status(), 200);
    assert_eq!(server.count(), 2);
}

/// Makes a call and drops it when the server has it.
async fn drop_half_way(client: &ClientWithMiddleware, server: &Server, extensions: &mut Extensions) {
    let request = client.get(server.url("/")).build().unwrap();
    let ignored = server.ignored();
    tokio::select! {
        outcome = client.execute_with_extensions(request, extensions) => panic!("{outcome:?}"),
        () = ignored.notified() => {}
    }
}

#[tokio::test]
async fn dropped_calls_in_the_same_extensions_never_send_more_than_our_attempts() {
    let server = Server::new(|_, _| None).await;
    let client = bare_around(plain(), policy());
    let mut extensions = Extensions::new();
    for _ in 0..OURS {
        drop_half_way(&client, &server, &mut extensions).await;
    }
    let request = client.get(server.url("/")).build().unwrap();
    let outcome = client.execute_with_extensions(request, &mut extensions).await;
    assert_eq!(RetryConflict::of(&outcome).unwrap().kind(), ConflictKind::Reentry);
    assert_eq!(server.count(), OURS);
}

#[tokio::test]
async fn a_call_dropped_half_way_leaves_its_extensions_usable() {
    for client in [bare_around(plain(), policy()), owned().build().unwrap()] {
        let server = Server::new(|number, _| (number > 0).then(|| Reply::status(200))).await;
        let mut extensions = Extensions::new();
        drop_half_way(&client, &server, &mut extensions).await;
        for _ in 0..10 {
            let request = client.get(server.url("/")).build().unwrap();
            let response = client.execute_with_extensions(request, &mut extensions).await.unwrap();
            assert_eq!(response.status(), 200);
        }
    }
}

#[tokio::test]
async fn extensions_that_a_caller_keeps_serve_many_calls() {
    let server = Server::new(|number, hit| {
        Some(match hit.path.as_str() {
            "/missing" => Reply::status(404),
            "/denied" => Reply::status(401),
            _ if number % 5 == 0 => Reply::refusal(1),
            _ => Reply::status(200),
        })
    })
    .await;
    for client in [bare_around(plain(), policy()), owned().build().unwrap()] {
        let mut extensions = Extensions::new();
        for path in ["/", "/missing", "/denied"].repeat(10) {
            let request = client.get(server.url(path)).build().unwrap();
            let outcome = client.execute_with_extensions(request, &mut extensions).await;
            assert!(outcome.is_ok(), "{path}: {outcome:?}");
        }
    }
}

#[tokio::test]
async fn after_a_refusal_the_same_extensions_are_refused_at_once_and_copies_are_not() {
    let server = Server::always(Reply::refusal(EXCEEDS)).await;
    let client = bare_around(plain(), policy());
    let mut extensions = Extensions::new();
    let send = |extensions: Extensions| {
        let (client, url) = (client.clone(), server.url("/"));
        async move {
            let mut extensions = extensions;
            let request = client.get(url).build().unwrap();
            let outcome = client.execute_with_extensions(request, &mut extensions).await;
            (signal(&outcome, &CallReport::new()), extensions)
        }
    };
    let (first, used) = send(extensions.clone()).await;
    assert_eq!(first, TOO_LONG);
    extensions = used;
    // Copies are calls of their own, also at the same time.
    let copies = (0..4).map(|_| tokio::spawn(send(extensions.clone()))).collect::<Vec<_>>();
    for copy in copies {
        assert_ne!(copy.await.unwrap().0, Signal::Conflict(ConflictKind::NestedAdmission));
    }
    let before = server.count();
    let again = async { send(extensions).await.0 };
    // At once: neither the advice nor the budget is waited for.
    let again = tokio::time::timeout(Duration::from_secs(10), again).await.unwrap();
    assert_eq!(again, Signal::Conflict(ConflictKind::Reentry));
    assert_eq!(server.count(), before);
}

#[tokio::test]
async fn copies_of_one_builder_are_calls_of_their_own() {
    for client in [bare_around(plain(), policy()), owned().build().unwrap()] {
        let server =
            Server::new(|number, _| Some(if number < 8 { Reply::refusal(1) } else { Reply::status(200) }))
                .await;
        let builder = client.get(server.url("/")).with_extension(LatencyBudget::new(Duration::from_secs(60)));
        let calls: Vec<_> = (0..8).map(|_| tokio::spawn(builder.try_clone().unwrap().send())).collect();
        for call in calls {
            assert_eq!(call.await.unwrap().unwrap().status(), 200);
        }
    }
}

#[tokio::test]
async fn what_other_senders_say_is_reported_and_stops_nothing() {
    let seen: Arc<Mutex<Vec<RetryConflict>>> = Arc::default();
    let reply = Reply::status(200).header("x-envoy-attempt-count", "3");
    let server = Server::always(reply).await;
    for client in [bare_around(plain(), policy()), owned().build().unwrap()] {
        let report = CallReport::new();
        let call =
            client.get(server.url("/")).header("x-stainless-retry-count", "1").with_extension(report.clone());
        assert_eq!(call.send().await.unwrap().status(), 200);
        let found: Vec<_> = report.conflicts().iter().map(|found| (found.kind(), found.count())).collect();
        assert_eq!(found, [(ConflictKind::AnnouncedRepeat, Some(2)), (ConflictKind::ProxyRepeat, Some(3))]);
        seen.lock().unwrap().extend(report.conflicts());
    }
    for text in seen.lock().unwrap().iter().map(ToString::to_string) {
        assert!(text.contains("off for this route") || text.contains("to none"), "{text}");
    }
    // First sends, and what is not a number, are no evidence.
    let server = Server::always(Reply::status(200).header("x-envoy-attempt-count", "1")).await;
    for value in ["0", "", "many", "-1", "99999999999999999999"] {
        let report = CallReport::new();
        let call = owned().build().unwrap().get(server.url("/")).header("x-stainless-retry-count", value);
        assert!(call.with_extension(report.clone()).send().await.is_ok());
        assert_eq!(report.conflicts(), []);
    }
}

#[derive(Default, Clone)]
struct Watching(Arc<Mutex<Vec<ConflictKind>>>);

impl reqwest_admission::observe::Observer for Watching {
    fn decided(&self, _: &reqwest_admission::observe::DecisionEvent<'_>) {}

    fn conflicted(&self, conflict: &RetryConflict) {
        self.0.lock().unwrap().push(conflict.kind());
    }
}

#[tokio::test]
async fn a_policy_may_only_report() {
    let server = Server::always(Reply::refusal(EXCEEDS)).await;
    let watching = Watching::default();
    let observed = || Admission::builder().policy(reporting()).observer(watching.clone());
    let drain = || std::mem::take(&mut *watching.0.lock().unwrap());

    let client =
        AdmissionClient::builder(plain()).admission(observed()).with(AlwaysTwice).with(reqwest_retry());
    let client = client.build().unwrap();
    assert_eq!(drain(), [ConflictKind::KnownRetryLayer]);
    let report = CallReport::new();
    let outcome = client.get(server.url("/")).with_extension(report.clone()).send().await;
    assert_eq!(signal(&outcome, &report), TOO_LONG);
    assert_eq!(server.count(), 8);
    assert_eq!(drain(), [ConflictKind::RepeatedAttempt; 7]);
    assert_eq!(report.conflicts().len(), 7);

    let twice = stack().with(AlwaysTwice).with(observed().build().unwrap()).build();
    let nested = stack().with(observed().build().unwrap()).with(observed().build().unwrap()).build();
    for (client, kind) in [(twice, ConflictKind::Reentry), (nested, ConflictKind::NestedAdmission)] {
        let report = CallReport::new();
        let outcome = client.get(server.url("/")).with_extension(report.clone()).send().await;
        assert_eq!(signal(&outcome, &report), TOO_LONG);
        assert_eq!(drain(), [kind]);
        assert_eq!(report.conflicts().len(), 1);
    }

    // And nothing is sealed: a redirect takes its body along.
    let client = stack().with(observed().build().unwrap()).build();
    let _ = client.post(server.url("/307")).body("job").send().await;
    assert_eq!(server.hits().last().unwrap().body, b"job");
}

#[tokio::test]
async fn sealing_does_not_change_what_is_sent() {
    let server = Server::always(Reply::status(200)).await;
    let (sealed, open) = (bare_around(plain(), policy()), bare_around(plain(), reporting()));
    for client in [&sealed, &open] {
        client.get(server.url("/")).send().await.unwrap();
        client.delete(server.url("/")).send().await.unwrap();
        client.post(server.url("/")).send().await.unwrap();
        client.post(server.url("/")).body("a body").send().await.unwrap();
        client.post(server.url("/")).body("").send().await.unwrap();
        client.put(server.url("/")).body(streaming()).send().await.unwrap();
    }
    let hits = server.hits();
    let (sealed, open) = hits.split_at(hits.len() / 2);
    for (sealed, open) in sealed.iter().zip(open) {
        assert_eq!(
            (&sealed.method, &sealed.headers, &sealed.body),
            (&open.method, &open.headers, &open.body)
        );
    }
}

/// The price of sealing, as the page "Who retries?" has it.
#[tokio::test]
async fn what_sealing_costs() {
    let refresh: Arc<AuthRefresh> = Arc::default();
    let server = guarded_by_token().await;
    let client = stack().with(admission()).with_arc(refresh.clone()).build();
    // A layer inside that must copy the request cannot.
    assert_eq!(client.get(server.url("/")).send().await.unwrap().status(), 401);
    assert_eq!(refresh.refreshed.load(Ordering::Relaxed), 0);

    let server = Server::always(Reply::status(200)).await;
    for (policy, signed) in [(policy(), false), (reporting(), true)] {
        let signer: Arc<Signer> = Arc::default();
        let admission = Admission::builder().policy(policy).build().unwrap();
        let client = stack().with(admission).with_arc(signer.clone()).build();
        client.post(server.url("/")).body("job").send().await.unwrap();
        assert_eq!(signer.saw_the_body.load(Ordering::Relaxed), signed);
    }
    let signer: Arc<Signer> = Arc::default();
    let client = owned().with_arc(signer.clone()).build().unwrap();
    client.post(server.url("/")).body("job").send().await.unwrap();
    assert!(signer.saw_the_body.load(Ordering::Relaxed));
}

#[tokio::test]
async fn the_check_at_start_up_counts_and_names_the_likely_layer() {
    use SoleOwnerVerdict::{Conflict, NoAdmissionLayer, ReqwestRetries, RetriesInside, SoleOwner};
    let reported = || Admission::builder().policy(reporting()).build().unwrap();
    let conflict =
        |kind| move |verdict: &SoleOwnerVerdict| matches!(verdict, Conflict(found) if found.kind() == kind);
    type Check = Box<dyn Fn(&SoleOwnerVerdict) -> bool>;
    let is = |expected: SoleOwnerVerdict| -> Check { Box::new(move |verdict| *verdict == expected) };
    // Without backoff, if this machine is not too slow to show it.
    let repeats = || -> Check { Box::new(|verdict| matches!(verdict, ReqwestRetries | RetriesInside)) };
    let slow_retry = || {
        let policy = reqwest_retry::policies::ExponentialBackoff::builder()
            .jitter(reqwest_retry::Jitter::None)
            .retry_bounds(Duration::from_millis(100), Duration::from_millis(100))
            .build_with_max_retries(2);
        reqwest_retry::RetryTransientMiddleware::new_with_policy(policy)
    };
    let stacks: Vec<(&str, ClientWithMiddleware, u32, Check)> = vec![
        ("bare", stack().with(admission()).build(), 1, is(SoleOwner)),
        ("owned", owned().build().unwrap(), 1, is(SoleOwner)),
        (
            "owned, marking",
            AdmissionClient::builder(plain()).policy(on_response()).build().unwrap(),
            1,
            is(SoleOwner),
        ),
        ("owned, reqwest's own", owned_around(built_in(AnyHost)).build().unwrap(), 1, is(SoleOwner)),
        ("owned, tracing", owned().with(TracingMiddleware::default()).build().unwrap(), 1, is(SoleOwner)),
        ("owned, auth", owned().with(AuthRefresh::default()).build().unwrap(), 1, is(SoleOwner)),
        ("bare, cache", stack().with(Cache).with(admission()).build(), 1, is(SoleOwner)),
        ("bare, reqwest's own", bare_around(built_in(AnyHost), policy()), 1, is(SoleOwner)),
        ("reqwest-retry outside", stack().with(reqwest_retry()).with(admission()).build(), 1, is(SoleOwner)),
        (
            "reqwest-retry outside, marking",
            stack()
                .with(reqwest_retry())
                .with(Admission::builder().policy(on_response()).build().unwrap())
                .build(),
            1,
            Box::new(conflict(ConflictKind::Reentry)),
        ),
        (
            "reqwest-retry inside",
            stack().with(admission()).with(reqwest_retry()).build(),
            0,
            Box::new(conflict(ConflictKind::CopiedAttempt)),
        ),
        (
            "owned, reqwest-retry by `with_arc`",
            owned().with_arc(Arc::new(reqwest_retry())).build().unwrap(),
            1,
            Box::new(conflict(ConflictKind::RepeatedAttempt)),
        ),
        (
            "two",
            stack().with(admission()).with(admission()).build(),
            0,
            Box::new(conflict(ConflictKind::NestedAdmission)),
        ),
        (
            "owned, hedge",
            owned().with(Hedge).build().unwrap(),
            1,
            Box::new(conflict(ConflictKind::RepeatedAttempt)),
        ),
        (
            "sends twice outside",
            stack().with(AlwaysTwice).with(admission()).build(),
            1,
            Box::new(conflict(ConflictKind::Reentry)),
        ),
        (
            "hedge outside",
            stack().with(Hedge).with(admission()).build(),
            2,
            is(SoleOwnerVerdict::RetriesOutside),
        ),
        (
            "Report, reqwest-retry inside",
            stack().with(reported()).with(slow_retry()).build(),
            3,
            is(RetriesInside),
        ),
        ("Report, reqwest's own", bare_around(built_in(AnyHost), reporting()), 3, repeats()),
        (
            "Report, reqwest's own, out of scope",
            bare_around(built_in("other.example"), reporting()),
            2,
            repeats(),
        ),
        (
            "owned, Report, reqwest-retry",
            AdmissionClient::builder(plain()).policy(reporting()).with(slow_retry()).build().unwrap(),
            3,
            Box::new(conflict(ConflictKind::RepeatedAttempt)),
        ),
        (
            "added to the built client",
            ClientBuilder::from_client(owned().build().unwrap()).with(slow_retry()).build(),
            3,
            is(RetriesInside),
        ),
        (
            "fresh map",
            owned().with(FreshMapTwice).build().unwrap(),
            2,
            Box::new(conflict(ConflictKind::ReplacedRequest)),
        ),
        (
            "builds anew",
            stack().with(admission()).with(BuildsAnew::in_the_stack()).build(),
            3,
            Box::new(conflict(ConflictKind::ReplacedRequest)),
        ),
        (
            "owned, builds anew",
            owned().with(BuildsAnew::in_the_stack()).build().unwrap(),
            1,
            Box::new(conflict(ConflictKind::RepeatedAttempt)),
        ),
        (
            "owned, sends by a client of its own",
            owned().with(by_itself()).build().unwrap(),
            3,
            Box::new(conflict(ConflictKind::ReplacedRequest)),
        ),
        (
            "Report, builds anew",
            stack().with(reported()).with(BuildsAnew::in_the_stack()).build(),
            3,
            repeats(),
        ),
        ("no admission", stack().build(), 1, is(NoAdmissionLayer)),
        ("no admission, reqwest-retry", stack().with(slow_retry()).build(), 3, is(RetriesInside)),
    ];
    println!("\nverify_sole_owner\n| stack | arrivals | verdict |\n|---|---|---|");
    for (name, client, arrivals, check) in stacks {
        let found =
            tokio::time::timeout(Duration::from_secs(30), verify_sole_owner(&client)).await.unwrap().unwrap();
        println!("| {name} | {} | {:?} |", found.arrivals(), found.verdict());
        assert!(found.arrivals() == arrivals && check(found.verdict()), "{name}: {found:?}");
        assert_eq!(found.is_sole_owner(), *found.verdict() == SoleOwner);
    }
}

#[tokio::test]
async fn the_check_leaves_no_trace_and_ends_where_nothing_arrives() {
    let client = owned().build().unwrap();
    for _ in 0..50 {
        assert!(verify_sole_owner(&client).await.unwrap().is_sole_owner());
    }
    // Fifty refusals on: the client still sends, and still has its share of re-sends.
    let server =
        Server::new(|number, _| Some(if number < 2 { Reply::status(429) } else { Reply::status(200) })).await;
    assert_eq!(client.get(server.url("/")).send().await.unwrap().status(), 200);

    let client = owned_around(plain().https_only(true)).build().unwrap();
    let found =
        tokio::time::timeout(Duration::from_secs(30), verify_sole_owner(&client)).await.unwrap().unwrap();
    assert_eq!((found.arrivals(), found.verdict()), (0, &SoleOwnerVerdict::Inconclusive));
}

/// Loops around the client, each of whose calls has new extensions: only the scope's cool-down can hold them back.
#[path = "stacking/loops.rs"]
mod loops;
