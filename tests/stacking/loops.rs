//! Loops around the client: what they send where the advice fits, and that they do not hammer where it does not.

use super::*;

async fn refusing() -> Server {
    Server::always(openai_refusal(EXCEEDS)).await
}

fn clients() -> [ClientWithMiddleware; 2] {
    [bare_around(plain(), policy()), owned().build().unwrap()]
}

#[tokio::test]
async fn law_4_a_hand_written_loop_does_not_hammer() {
    for client in clients() {
        let server = refusing().await;
        for _ in 0..20 {
            let outcome = client.get(server.url("/")).send().await;
            assert!(SpillOver::of(&outcome).is_some(), "{outcome:?}");
        }
        assert_eq!(server.count(), 1);
    }
}

#[tokio::test]
async fn law_4_a_backon_loop_does_not_hammer() {
    for client in clients() {
        let server = refusing().await;
        let backoff = backon::ConstantBuilder::new().with_delay(Duration::from_millis(1)).with_max_times(20);
        let outcome = (|| client.get(server.url("/")).send()).retry(backoff).await;
        assert!(SpillOver::of(&outcome).is_some(), "{outcome:?}");
        assert_eq!(server.count(), 1);
    }
}

#[derive(Clone)]
struct Twenty(usize);

impl<Q: Clone, R, E> tower::retry::Policy<Q, R, E> for Twenty {
    type Future = std::future::Ready<()>;

    fn retry(&mut self, _: &mut Q, outcome: &mut Result<R, E>) -> Option<Self::Future> {
        self.0 = self.0.checked_sub(1)?;
        outcome.is_err().then(|| std::future::ready(()))
    }

    fn clone_request(&mut self, request: &Q) -> Option<Q> {
        Some(request.clone())
    }
}

#[tokio::test]
async fn law_4_a_tower_retry_does_not_hammer() {
    use tower::ServiceExt as _;
    for client in clients() {
        let server = refusing().await;
        let service = tower::service_fn(move |url: String| client.get(url).send());
        let service = tower::ServiceBuilder::new().retry(Twenty(20)).service(service);
        let outcome = service.oneshot(server.url("/")).await;
        assert!(SpillOver::of(&outcome).is_some(), "{outcome:?}");
        assert_eq!(server.count(), 1);
    }
}

/// Under `OnSpill::Response` the layer sees a 429 and retries it.
#[tokio::test]
async fn law_4_the_retry_layer_of_async_openai_around_marked_responses_does_not_hammer() {
    // Without whole seconds, which that layer would wait for.
    let server = Server::always(Reply::refusal(EXCEEDS).body(OPENAI_REFUSAL)).await;
    let client = AdmissionClient::builder(plain()).policy(on_response()).build().unwrap();
    let service = tower::ServiceBuilder::new()
        .layer(async_openai::middleware::retry::OpenAIRetryLayer::default())
        .map_err(async_openai::error::OpenAIError::Boxed)
        .service(openai_service(client));
    let _ = chat(&openai(&server).with_http_service(service)).await;
    assert_eq!(server.count(), 1);
}

/// Retry layers and loops of 20 repeats, as the page has them: the requests where the advice fits, and where it does not.
#[tokio::test]
async fn what_loops_send_is_what_the_page_says() {
    println!("\nLoops around the client\n| loop | fits | exceeds |\n|---|---|---|");
    let section =
        PAGE.split("//! # ").find(|section| section.starts_with("Loops around the client")).unwrap();
    let mut missing = Vec::new();
    for way in Loop::ALL {
        let mut sends = [0; 2];
        for (sends, advice) in sends.iter_mut().zip([FITS, EXCEEDS]) {
            // Without whole seconds, which async-openai's retry layer would wait for.
            let server = Server::always(Reply::refusal(advice).body(OPENAI_REFUSAL)).await;
            way.run(&server).await;
            *sends = server.count();
        }
        let line = format!("| {} | {} | {} |", way.name(), sends[0], sends[1]);
        println!("{line}");
        if !section.contains(&format!("//! {line}")) {
            missing.push(line);
        }
    }
    assert!(missing.is_empty(), "not on the page:\n{}", missing.join("\n"));
}

#[derive(Clone, Copy)]
enum Loop {
    OpenAi,
    OpenAiRetries,
    OpenAiRetriesResponses,
    ByHand,
    Backon,
    Tower,
}

impl Loop {
    const ALL: [Self; 6] = [
        Self::OpenAi,
        Self::OpenAiRetries,
        Self::OpenAiRetriesResponses,
        Self::ByHand,
        Self::Backon,
        Self::Tower,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::OpenAi => "async-openai by `with_http_service`",
            Self::OpenAiRetries => "async-openai with its retry layer around us",
            Self::OpenAiRetriesResponses => "the same, `OnSpill::Response`",
            Self::ByHand => "a hand-written loop of 20 calls",
            Self::Backon => "`backon`, 20 retries",
            Self::Tower => "tower's `Retry`, 20 retries",
        }
    }

    async fn run(self, server: &Server) {
        let client = owned().build().unwrap();
        match self {
            Self::OpenAi => {
                chat(&openai(server).with_http_service(openai_service(client))).await;
            }
            Self::OpenAiRetries => {
                chat(&openai(server).with_http_service(retrying(client))).await;
            }
            Self::OpenAiRetriesResponses => {
                let client = AdmissionClient::builder(plain()).policy(on_response()).build().unwrap();
                chat(&openai(server).with_http_service(retrying(client))).await;
            }
            Self::ByHand => {
                for _ in 0..20 {
                    let _ = client.get(server.url("/")).send().await;
                }
            }
            Self::Backon => {
                let backoff =
                    backon::ConstantBuilder::new().with_delay(Duration::from_millis(1)).with_max_times(20);
                let _ = (|| client.get(server.url("/")).send()).retry(backoff).await;
            }
            Self::Tower => {
                use tower::ServiceExt as _;
                let service = tower::service_fn(move |url: String| client.get(url).send());
                let service = tower::ServiceBuilder::new().retry(Twenty(20)).service(service);
                let _ = service.oneshot(server.url("/")).await;
            }
        }
    }
}

/// async-openai's retry layer around us.
fn retrying(
    client: ClientWithMiddleware,
) -> impl tower::Service<
    async_openai::middleware::HttpRequestFactory,
    Response = Response,
    Error = async_openai::error::OpenAIError,
    Future: Send,
> + Clone
+ Send
+ Sync {
    tower::ServiceBuilder::new()
        .layer(async_openai::middleware::retry::OpenAIRetryLayer::default())
        .map_err(async_openai::error::OpenAIError::Boxed)
        .service(openai_service(client))
}
