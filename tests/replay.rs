//! Law 5, replay safety, as a table: method × outcome × key × minting, through the middleware.
#![cfg(test)]

#[path = "support/failures.rs"]
mod failures;
mod support;

use std::time::Duration;

use http::Method;
use reqwest::Body;
use reqwest_admission::{Admission, AdmissionPolicy, Reason, SpillOver};
use reqwest_middleware::Error;
use support::{Answer, Origin};

const URL: &str = "http://api.example/v1/items";
const ATTEMPTS: u32 = 3;

/// What the origin does, for ever.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Does {
    Answers(u16),
    /// With a wait that fits.
    Advises(u16),
    NeverConnects,
    LosesTheConnection,
    TakesTooLong,
    CannotBeAsked,
    FailsInAnotherLayer,
}

/// Which calls are repeated.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Repeats {
    /// Refused, or never arrived, before anything was processed.
    Always,
    /// The outcome is unclear.
    WhereHarmless,
    Never,
}

/// Law 5, line by line.
const TABLE: [(Does, Repeats); 31] = [
    (Does::Answers(429), Repeats::Always),
    (Does::Advises(429), Repeats::Always),
    (Does::Answers(529), Repeats::Always),
    (Does::Advises(529), Repeats::Always),
    (Does::Advises(503), Repeats::Always),
    (Does::NeverConnects, Repeats::Always),
    (Does::Answers(503), Repeats::WhereHarmless),
    (Does::Answers(500), Repeats::WhereHarmless),
    (Does::Advises(500), Repeats::WhereHarmless),
    (Does::Answers(502), Repeats::WhereHarmless),
    (Does::Answers(504), Repeats::WhereHarmless),
    (Does::Answers(408), Repeats::WhereHarmless),
    (Does::LosesTheConnection, Repeats::WhereHarmless),
    (Does::TakesTooLong, Repeats::WhereHarmless),
    (Does::Answers(200), Repeats::Never),
    (Does::Advises(200), Repeats::Never),
    (Does::Answers(204), Repeats::Never),
    (Does::Answers(301), Repeats::Never),
    (Does::Answers(400), Repeats::Never),
    (Does::Answers(401), Repeats::Never),
    (Does::Answers(403), Repeats::Never),
    (Does::Answers(404), Repeats::Never),
    (Does::Answers(409), Repeats::Never),
    (Does::Answers(413), Repeats::Never),
    (Does::Answers(422), Repeats::Never),
    (Does::Answers(501), Repeats::Never),
    (Does::Answers(505), Repeats::Never),
    (Does::Answers(511), Repeats::Never),
    (Does::Advises(400), Repeats::Never),
    (Does::CannotBeAsked, Repeats::Never),
    (Does::FailsInAnotherLayer, Repeats::Never),
];

/// Methods of RFC 9110 §9.2.2, and others.
const METHODS: [(Method, bool); 8] = [
    (Method::GET, true),
    (Method::HEAD, true),
    (Method::PUT, true),
    (Method::DELETE, true),
    (Method::OPTIONS, true),
    (Method::TRACE, true),
    (Method::POST, false),
    (Method::PATCH, false),
];

#[derive(Debug, thiserror::Error)]
#[error("a layer's own business")]
struct Foreign;

impl Does {
    fn answer(self) -> Answer {
        match self {
            Self::Answers(status) => Answer::status(status),
            Self::Advises(status) => Answer::status(status).header("retry-after-ms", "50"),
            Self::NeverConnects => Answer::error(failures::no_connection().into()),
            Self::LosesTheConnection => Answer::error(failures::lost_connection().into()),
            Self::TakesTooLong => Answer::error(failures::timed_out().into()),
            Self::CannotBeAsked => Answer::error(failures::bad_request().into()),
            Self::FailsInAnotherLayer => Answer::error(Error::middleware(Foreign)),
        }
    }

    /// Whether the end of all attempts is a signal; other failures come to the caller as they are.
    const fn is_refusal(self) -> bool {
        matches!(self, Self::Answers(429 | 503 | 529) | Self::Advises(429 | 503 | 529))
    }
}

fn admission(mint: bool) -> Admission {
    let policy =
        AdmissionPolicy::builder().max_attempts(ATTEMPTS).mint_idempotency_key(mint).build().unwrap();
    Admission::builder().policy(policy).build().unwrap()
}

/// One call of the table.
async fn run(does: Does, repeats: Repeats, method: &Method, idempotent: bool, key: bool, mint: bool) {
    let line = format!("{does:?}, {method}, key {key}, minting {mint}");
    let origin = Origin::always(move || does.answer());
    let mut call = origin.behind(admission(mint)).request(method.clone(), URL).body("bytes");
    if key {
        call = call.header("idempotency-key", "mine");
    }
    let outcome = call.send().await;

    let harmless = idempotent || key || mint;
    let repeated = match repeats {
        Repeats::Always => true,
        Repeats::WhereHarmless => harmless,
        Repeats::Never => false,
    };
    let seen = origin.seen();
    assert_eq!(seen.len(), if repeated { ATTEMPTS as usize } else { 1 }, "{line}");

    let keys: Vec<_> = seen.iter().map(|seen| seen.headers.get("idempotency-key").cloned()).collect();
    match (key, mint && !idempotent) {
        (true, _) => assert!(keys.iter().all(|key| key.as_ref().unwrap() == "mine"), "{line}"),
        (false, true) => assert!(keys.iter().all(|key| key.is_some() && *key == keys[0]), "{line}"),
        (false, false) => assert!(keys.iter().all(Option::is_none), "{line}: a key nobody asked for"),
    }

    if repeated && does.is_refusal() {
        assert_eq!(SpillOver::of(&outcome).unwrap().reason(), Reason::AttemptsExhausted, "{line}");
        return;
    }
    assert!(SpillOver::of(&outcome).is_none(), "{line}");
    match (does, outcome) {
        (Does::Answers(status) | Does::Advises(status), Ok(response)) => {
            assert_eq!(response.status(), status)
        }
        (Does::NeverConnects, Err(Error::Reqwest(error))) => assert!(error.is_connect(), "{line}"),
        (Does::LosesTheConnection, Err(Error::Reqwest(error))) => assert!(error.is_request(), "{line}"),
        (Does::TakesTooLong, Err(Error::Reqwest(error))) => assert!(error.is_timeout(), "{line}"),
        (Does::CannotBeAsked, Err(Error::Reqwest(error))) => assert!(error.is_builder(), "{line}"),
        (Does::FailsInAnotherLayer, Err(Error::Middleware(error))) => {
            assert!(error.downcast_ref::<Foreign>().is_some(), "{line}");
        }
        (_, other) => panic!("{line}: {other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn law_5_what_may_have_been_processed_is_repeated_only_where_that_is_harmless() {
    for (does, repeats) in TABLE {
        for (method, idempotent) in &METHODS {
            for (key, mint) in [(false, false), (true, false), (false, true), (true, true)] {
                run(does, repeats, method, *idempotent, key, mint).await;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn law_5_a_first_attempt_needs_no_body_that_can_be_sent_twice() {
    for (does, repeats) in TABLE {
        for method in [Method::PUT, Method::POST] {
            let origin = Origin::always(move || does.answer());
            let body = Body::wrap(http_body_util::Full::new(bytes::Bytes::from("bytes")));
            let call = origin.behind(admission(true)).request(method, URL).body(body);
            let outcome = call.send().await;
            assert_eq!(origin.count(), 1, "{does:?}");
            let reason = SpillOver::of(&outcome).map(SpillOver::reason);
            let refused = repeats != Repeats::Never && does.is_refusal();
            assert_eq!(reason, refused.then_some(Reason::BodyNotReplayable), "{does:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn law_5_all_attempts_have_the_same_headers_and_body() {
    let origin = Origin::always(|| Answer::status(429));
    let admission = Admission::default();
    // An unsealed request's body can be looked at; the wire test compares what a sealed one becomes.
    let policy = AdmissionPolicy::builder()
        .retry_ownership(reqwest_admission::policy::RetryOwnership::Report)
        .mint_idempotency_key(true)
        .build()
        .unwrap();
    for admission in [admission, Admission::builder().policy(policy).build().unwrap()] {
        let client = origin.behind(admission);
        let before = origin.count();
        let call =
            client.post(URL).header("x-own", "1").timeout(Duration::from_secs(9)).body(vec![7; 100_000]);
        let _ = call.send().await;
        let seen = origin.seen().split_off(before);
        assert_eq!(seen.len(), 6);
        assert_eq!(seen[0].headers["x-own"], "1");
        assert!(seen.iter().all(|other| other.headers == seen[0].headers && other.body == seen[0].body));
    }
    assert_eq!(origin.seen().last().unwrap().body.as_deref(), Some(&[7; 100_000][..]));
}

#[tokio::test(start_paused = true)]
async fn a_minted_key_is_a_uuid_of_version_4() {
    let origin = Origin::always(Answer::ok);
    origin.behind(admission(true)).post(URL).send().await.unwrap();
    let key = origin.seen()[0].headers["idempotency-key"].to_str().unwrap().to_owned();
    let parts: Vec<_> = key.split('-').map(str::len).collect();
    assert_eq!(parts, [8, 4, 4, 4, 12]);
    assert_eq!(&key[14..15], "4");
    assert!(
        key.chars().all(|letter| letter == '-' || letter.is_ascii_digit() || matches!(letter, 'a'..='f'))
    );
}
