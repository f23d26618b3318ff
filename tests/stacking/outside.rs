//! A retry layer outside of the admission layer: what it gets, and what is seen through it.

use std::error::Error as _;

use super::*;

/// What the server says when it fails.
const SAID: &str = "what the server has to say about it";

fn retried(policy: AdmissionPolicy) -> ClientWithMiddleware {
    let admission = Admission::builder().policy(policy).build().unwrap();
    stack().with(reqwest_retry()).with(admission).build()
}

/// What has not been refused by us passes, with its body; our repeats and those of the other layer add up.
#[tokio::test]
async fn an_ordinary_failure_comes_through_a_retry_layer_outside_with_its_body() {
    let theirs = 3;
    for policy in [policy(), on_response(), policy().to_builder().max_attempts(1).build().unwrap()] {
        let ours = usize::try_from(policy.max_attempts()).unwrap();
        for status in [500, 502, 504, 408] {
            for (call, sends) in [(Call::Get("/"), ours + theirs), (Call::Post("/"), 1 + theirs)] {
                let server = Server::always(Reply::status(status).body(SAID)).await;
                let report = CallReport::new();
                let sent = call.of(&retried(policy.clone()), &server).with_extension(report.clone()).send();
                let response = sent.await.unwrap();
                assert_eq!(response.status().as_u16(), status);
                assert_eq!(response.text().await.unwrap(), SAID);
                assert_eq!((server.count(), report.conflicts()), (sends, Vec::new()), "{status} {call:?}");
            }
        }
    }
}

/// The check says that refused calls have one owner, and that the layer outside repeats failures.
#[tokio::test]
async fn the_check_tells_of_a_layer_outside_that_repeats_failures() {
    let failing = |client| async move {
        let found = verify_sole_owner(&client).await.unwrap();
        (found.arrivals(), found.failure_arrivals(), found.verdict().clone())
    };
    assert_eq!(failing(retried(policy())).await, (1, Some(4), SoleOwnerVerdict::SoleOwner));
    assert_eq!(failing(bare_around(plain(), policy())).await, (1, Some(1), SoleOwnerVerdict::SoleOwner));
    assert_eq!(failing(owned().build().unwrap()).await, (1, Some(1), SoleOwnerVerdict::SoleOwner));
}

#[tokio::test]
async fn a_signal_is_seen_through_a_retry_layer_outside_before_and_after_its_repeats() {
    for failures in 0..3 {
        let server = Server::new(move |number, _| {
            Some(if number < failures { Reply::status(500) } else { Reply::refusal(EXCEEDS) })
        })
        .await;
        let client = stack().with(reqwest_retry()).with(reqwest_retry()).with(admission()).build();
        let outcome = client.post(server.url("/")).body("job").send().await;
        assert_eq!(SpillOver::of(&outcome).map(SpillOver::reason), Some(Reason::BudgetExceeded));
        let error = outcome.unwrap_err();
        assert_eq!(
            SpillOver::find(&error).and_then(SpillOver::status),
            Some(http::StatusCode::TOO_MANY_REQUESTS)
        );
        assert_eq!(server.count(), failures + 1);
        assert!(error.source().is_some());
    }
}

#[tokio::test]
async fn a_signal_is_seen_through_the_error_of_an_sdk() {
    use async_openai::error::OpenAIError;
    use async_openai::types::chat::{CreateChatCompletionRequest, CreateChatCompletionRequestArgs};
    let server = Server::always(openai_refusal(EXCEEDS)).await;
    let openai = openai(&server).with_http_service(openai_service(retried(policy())));
    let request: CreateChatCompletionRequest =
        CreateChatCompletionRequestArgs::default().model("m").messages([]).build().unwrap();
    let error: OpenAIError = openai.chat().create(request).await.unwrap_err();
    assert_eq!(SpillOver::find(&error).map(SpillOver::reason), Some(Reason::BudgetExceeded), "{error:?}");
}

/// An inner layer's own failure, whatever its words, is not taken for a wish to copy the request.
#[tokio::test]
async fn the_error_of_a_layer_inside_is_not_judged_by_its_words() {
    struct Fails(std::sync::atomic::AtomicBool);

    #[async_trait::async_trait]
    impl reqwest_middleware::Middleware for Fails {
        async fn handle(
            &self,
            request: reqwest::Request,
            extensions: &mut Extensions,
            next: reqwest_middleware::Next<'_>,
        ) -> Result<Response, Error> {
            if self.0.swap(true, Ordering::Relaxed) {
                return Err(Error::middleware(std::io::Error::other(
                    "the token is not cloneable: try_clone",
                )));
            }
            next.run(request, extensions).await
        }
    }

    let server = Server::always(Reply::status(200)).await;
    for fails_at_once in [true, false] {
        let client = stack().with(admission()).with(Fails(fails_at_once.into())).build();
        if !fails_at_once {
            assert!(client.get(server.url("/")).send().await.is_ok());
        }
        let report = CallReport::new();
        let outcome = client.get(server.url("/")).with_extension(report.clone()).send().await;
        assert!(RetryConflict::of(&outcome).is_none(), "{outcome:?}");
        assert_eq!(report.conflicts(), []);
        assert!(outcome.unwrap_err().to_string().contains("the token"));
    }
}
