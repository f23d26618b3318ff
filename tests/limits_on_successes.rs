//! What a success states ("0 left, reset in 5 s") holds calls of its own route back, and of no other. Paused clock, fake
//! origins.
#![cfg(test)]

mod support;

use std::time::Duration;

use reqwest_admission::gate::{Gate, Reserve, ScopeKey};
use reqwest_admission::pace::Limits;
use reqwest_admission::{Admission, LatencyBudget, Reason, SpillOver};
use reqwest_middleware::ClientWithMiddleware;
use support::{Answer, Origin, ms};
use tokio::time::Instant;

type Fields = [(&'static str, &'static str); 3];

/// "0 left" as Discord, X and Okta write it, and the host that writes it; the last is a server that nobody knows.
const SPENT: [(&str, u64, Fields); 4] = [
    (
        "https://discord.com",
        5,
        [("x-ratelimit-limit", "5"), ("x-ratelimit-remaining", "0"), ("x-ratelimit-reset-after", "5.000")],
    ),
    (
        "https://api.x.com",
        900,
        [("x-rate-limit-limit", "15"), ("x-rate-limit-remaining", "0"), ("x-rate-limit-reset", "1767226500")],
    ),
    (
        "https://acme.okta.com",
        60,
        [
            ("x-rate-limit-limit", "600"),
            ("x-rate-limit-remaining", "0"),
            ("x-rate-limit-reset", "1767225660"),
        ],
    ),
    (
        "https://api.example",
        60,
        [("x-ratelimit-limit", "100"), ("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "60")],
    ),
];

/// 2026-01-01, which the epochs above are counted from.
const DATE: &str = "Thu, 01 Jan 2026 00:00:00 GMT";

/// `/spent` states that nothing is left, all else states nothing.
fn spent_at(headers: Fields, more: &'static str) -> Origin {
    Origin::new(move |_, request| {
        let path = request.url().path();
        if path != "/spent" && path != more {
            return Answer::ok();
        }
        let answer = Answer::ok().header("date", DATE);
        headers.iter().fold(answer, |answer, (name, value)| answer.header(name, value))
    })
}

async fn sent(client: &ClientWithMiddleware, url: &str, seconds: u64) -> Result<Duration, SpillOver> {
    let start = Instant::now();
    let budget = LatencyBudget::new(Duration::from_secs(seconds));
    let outcome = client.get(url).with_extension(budget).send().await;
    match SpillOver::of(&outcome) {
        Some(spill) => Err(spill.clone()),
        None => {
            outcome.unwrap();
            Ok(start.elapsed())
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_success_makes_no_call_of_another_route_wait_or_fail() {
    for (host, _, headers) in SPENT {
        let origin = spent_at(headers, "");
        let client = origin.behind(Admission::default());
        sent(&client, &format!("{host}/spent"), 30).await.unwrap();
        for path in ["/other", "/another", "/spent/below", "/other"] {
            let waited = sent(&client, &format!("{host}{path}"), 1).await;
            assert_eq!(waited.unwrap(), ms(0), "{host}{path}");
        }
        // Another method is another route.
        client.post(format!("{host}/spent")).send().await.unwrap();
        assert_eq!(origin.count(), 6, "{host}");
    }
}

#[tokio::test(start_paused = true)]
async fn routes_in_flight_at_once_hold_none_but_their_own_calls_back() {
    for (host, reset, headers) in SPENT {
        let origin = spent_at(headers, "/as_well");
        let client = origin.behind(Admission::default());
        let url = |path: &str| format!("{host}{path}");
        let (spent, as_well) = (url("/spent"), url("/as_well"));
        let (one, two) = tokio::join!(sent(&client, &spent, 30), sent(&client, &as_well, 30));
        assert!(one.is_ok() && two.is_ok(), "{host}");
        assert_eq!(sent(&client, &url("/other"), 1).await.unwrap(), ms(0), "{host}");
        // Which of the two came first keeps the account's scope; the other learns from its next success on.
        for path in ["/spent", "/as_well"] {
            let _ = sent(&client, &url(path), 1).await;
            let held = sent(&client, &url(path), 1).await.unwrap_err();
            assert!(held.advised_wait().unwrap() <= Duration::from_secs(reset), "{host}{path}");
        }
        assert_eq!(sent(&client, &url("/other"), 1).await.unwrap(), ms(0), "{host}");
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_left_turns_a_call_of_the_route_away_for_no_longer_than_until_the_stated_reset() {
    for (host, reset, headers) in SPENT {
        let client = spent_at(headers, "").behind(Admission::default());
        let url = format!("{host}/spent");
        sent(&client, &url, 30).await.unwrap();
        if let Err(spill) = sent(&client, &url, 1).await {
            assert_eq!(spill.reason(), Reason::BudgetExceeded, "{host}");
            assert!(spill.advised_wait().unwrap() <= Duration::from_secs(reset), "{host}: {spill:?}");
        }
        let waited = sent(&client, &url, reset + 1).await;
        let waited = waited.unwrap_or_else(|spill| panic!("{host}: {spill}, {:?}", spill.advised_wait()));
        assert!(waited <= Duration::from_secs(reset + 1), "{host}: {waited:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_of_one_route_still_holds_the_others_back() {
    for (host, _, headers) in SPENT {
        let origin = Origin::new(move |n, _| {
            let answer = match n {
                0 => headers.iter().fold(Answer::ok(), |answer, (name, value)| answer.header(name, value)),
                2 => return Answer::status(429).header("retry-after", "20"),
                _ => return Answer::ok(),
            };
            answer.header("date", DATE)
        });
        let client = origin.behind(Admission::default());
        sent(&client, &format!("{host}/spent"), 30).await.unwrap();
        // This route has a scope of its own by now, and is refused at its second call.
        sent(&client, &format!("{host}/other"), 1).await.unwrap();
        let refused = sent(&client, &format!("{host}/other"), 1).await.unwrap_err();
        assert_eq!(refused.reason(), Reason::BudgetExceeded);
        for path in ["/other", "/another", "/spent"] {
            let turned_away = sent(&client, &format!("{host}{path}"), 1).await.unwrap_err();
            assert_eq!(turned_away.attempts(), 0, "{host}{path}");
        }
        assert_eq!(origin.count(), 3, "{host}");
        let start = Instant::now();
        sent(&client, &format!("{host}/another"), 30).await.unwrap();
        assert!(start.elapsed() >= Duration::from_secs(20), "{host}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_scope_or_a_limit_that_the_user_names_counts_the_routes_together() {
    let (_, _, headers) = SPENT[3];
    let key = ScopeKey::new("https://api.example");
    let named = key.clone();
    let by_scope = Admission::builder().scope_by(move |_| named.clone());
    let limited = Gate::builder().limits(Limits::new().requests_per_minute(10_000)).build().unwrap();
    for builder in [by_scope, Admission::builder().gate(limited)] {
        let origin = spent_at(headers, "");
        let client = origin.behind(builder.build().unwrap());
        sent(&client, "https://api.example/spent", 30).await.unwrap();
        assert_eq!(sent(&client, "https://api.example/other", 1).await.unwrap_err().attempts(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn clients_that_share_a_gate_share_what_is_known_of_its_routes() {
    let (host, _, headers) = SPENT[3];
    let gate = Gate::builder().build().unwrap();
    let origin = spent_at(headers, "");
    let clients = [(); 2].map(|()| {
        let admission = Admission::builder().gate(gate.clone()).build().unwrap();
        origin.behind(admission)
    });
    sent(&clients[0], &format!("{host}/spent"), 30).await.unwrap();
    assert_eq!(sent(&clients[1], &format!("{host}/other"), 1).await.unwrap(), ms(0));
    assert!(sent(&clients[1], &format!("{host}/spent"), 1).await.is_err());
    let account = ScopeKey::new(host);
    let now = Instant::now().into_std();
    assert!(matches!(
        gate.reserve(&account, Default::default(), Default::default(), Some(now), now),
        Reserve::Refused(_)
    ));
}

#[tokio::test(start_paused = true)]
async fn any_number_of_routes_is_told_apart_in_bounded_memory() {
    let (host, _, headers) = SPENT[3];
    let gate = Gate::builder().build().unwrap();
    let origin = Origin::new(move |_, _| {
        headers.iter().fold(Answer::ok(), |answer, (name, value)| answer.header(name, value))
    });
    let client = origin.behind(Admission::builder().gate(gate.clone()).build().unwrap());
    for n in 0..1_000 {
        assert_eq!(sent(&client, &format!("{host}/{n}"), 1).await.unwrap(), ms(0), "{n}");
    }
    assert!(gate.scopes() < 200, "{}", gate.scopes());
}
