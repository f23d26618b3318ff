//! Every model of a real server against what that server was recorded to answer: in the same state the same status, and
//! the same fields about limits with the same values.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::zoo::dialect::{Advice, Dialect, Voice};
use crate::zoo::limit::{Limit, Start};
use crate::zoo::server::{Answer, Server, Spec};

/// Real servers, asked over loopback on 1 December 2026: a success and a refusal of each.
const RECORDED: &str = include_str!("../zoo/recorded.jsonl");
/// 01:30 of that day. The recorded dates have no fractions of a second, so those of the moments below are such as fit.
const EPOCH: f64 = 1_796_088_600.0;

/// How a recording came about.
struct Recording {
    server: &'static str,
    config: &'static str,
    spec: Spec,
    /// When the first call came, and the one that was refused, in seconds from [`EPOCH`].
    moments: (f64, f64),
    /// Calls that were admitted before the refusal.
    before: u32,
}

impl Recording {
    fn server(&self) -> Server {
        Server::new(self.spec.clone(), 1, EPOCH)
    }

    fn refusal(&self) -> Answer {
        let mut server = self.server();
        let is_held = matches!(self.spec.rules[0].limit, Limit::InFlight { .. });
        for _ in 0..self.before {
            assert!(server.arrive(self.moments.0, 0, 1.0).is_success(), "{} {}", self.server, self.config);
            if !is_held {
                server.leave(self.moments.0);
            }
        }
        server.arrive(self.moments.1, 0, 1.0)
    }
}

fn window(most: f64, seconds: f64) -> Limit {
    Limit::Window { most, seconds, start: Start::FirstCall }
}

const fn sliding(most: usize, seconds: f64) -> Limit {
    Limit::Sliding { most, seconds, counts_refused: false }
}

const fn bucket(rate: f64, burst: f64) -> Limit {
    Limit::Bucket { rate, burst, delays: false }
}

fn recordings() -> Vec<Recording> {
    let mut all = Vec::new();
    let mut add = |server, config, limit, voice, moments, before| {
        all.push(Recording { server, config, spec: Spec::new(limit, voice), moments, before });
    };
    let voice = Voice::new;
    let always = |dialect, advice| Voice { always_advises: true, ..voice(dialect, advice) };
    let silent = |advice| voice(Dialect::Silent, advice);
    let express = "express-rate-limit";
    add(
        express,
        "legacy5",
        window(100.0, 5.0),
        voice(Dialect::ExpressLegacy, Advice::Up),
        (123.9, 123.95),
        100,
    );
    add(
        express,
        "legacy60",
        window(300.0, 60.0),
        voice(Dialect::ExpressLegacy, Advice::Up),
        (1119.9, 1122.3),
        300,
    );
    add(express, "d6_5", window(100.0, 5.0), voice(Dialect::Draft6, Advice::Up), (124.3, 124.6), 100);
    add(express, "d6_60", window(300.0, 60.0), voice(Dialect::Draft6, Advice::Up), (1122.8, 1125.2), 300);
    add(express, "d7_5", window(100.0, 5.0), voice(Dialect::Draft7, Advice::Up), (124.7, 125.2), 100);
    add(express, "d8_5", window(100.0, 5.0), voice(Dialect::Draft8, Advice::Up), (125.6, 126.1), 100);
    add(express, "d8_60", window(300.0, 60.0), voice(Dialect::Draft8, Advice::Up), (126.8, 128.2), 300);
    add(express, "none5", window(100.0, 5.0), silent(Advice::Nothing), (128.3, 128.6), 100);
    let flexible = |as_date| voice(Dialect::Flexible { as_date }, Advice::Fraction);
    let (name, as_date) =
        ("rate-limiter-flexible", "rlf1 express, X-RateLimit-Reset as JS Date (older README form)");
    add(name, as_date, window(20.0, 1.0), flexible(true), (128.9, 129.026), 20);
    add(name, "rlf1-epoch", window(20.0, 1.0), flexible(false), (657.4, 657.525), 20);
    let slow = always(Dialect::SlowApi, Advice::ToStatedReset);
    add("slowapi", "s5-moving", sliding(100, 5.0), slow, (153.772_887, 154.2), 100);
    add("slowapi", "multi", sliding(30, 1.0), slow, (154.594_494_8, 154.9), 30);
    let flask = always(Dialect::Flask, Advice::ToStatedReset);
    add("flask-limiter", "f5-moving", sliding(100, 5.0), flask, (154.5, 155.3), 100);
    add("flask-limiter", "f60-moving", sliding(300, 60.0), flask, (155.4, 157.5), 300);
    add("drf", "j5", sliding(100, 5.0), voice(Dialect::Drf, Advice::Up), (157.9, 158.2), 100);
    add("drf", "j60", sliding(300, 60.0), voice(Dialect::Drf, Advice::Up), (158.3, 160.5), 300);
    let undated = Voice { dates: false, ..silent(Advice::Nothing) };
    for (config, counts_refused) in [("http_req_rate", true), ("gpc0", false)] {
        let limit = Limit::Counter { most: 100.0, seconds: 5.0, counts_refused };
        add("haproxy", config, limit, undated, (160.0, 160.5), 100);
    }
    add("nginx", "limit_req-noburst", bucket(20.0, 1.0), silent(Advice::Nothing), (162.1, 162.12), 1);
    add(
        "nginx",
        "limit_conn 5 (429)",
        Limit::InFlight { most: 5 },
        silent(Advice::Nothing),
        (1126.0, 1126.1),
        5,
    );
    let fastify = voice(Dialect::Fastify, Advice::Up);
    add("fastify", "f1", window(20.0, 1.0), fastify, (657.6, 657.9), 20);
    add("fastify", "f5", window(100.0, 5.0), fastify, (658.1, 658.5), 100);
    let koa = voice(Dialect::Koa, Advice::ToStatedReset);
    add("koa-ratelimit", "k5", window(100.0, 5.0), koa, (658.676_899, 659.3), 100);
    let governor = voice(Dialect::Governor, Advice::Down);
    add("tower_governor", "20/s-burst20", bucket(20.0, 20.0), governor, (681.1, 681.12), 20);
    add("tower_governor", "1/s-burst5", bucket(1.0, 5.0), governor, (681.5, 681.55), 5);
    add("fastapi-limiter-0.1.6-redis", "r5", window(100.0, 5.0), silent(Advice::Up), (798.5, 799.1), 100);
    add("fastapi-limiter-0.1.6-redis", "r1", window(20.0, 1.0), silent(Advice::Up), (799.3, 799.6), 20);
    let varnish = always(Dialect::Silent, Advice::Seconds(5));
    add("varnish-vsthrottle", "100-5s", bucket(20.0, 100.0), varnish, (800.99, 801.0), 100);
    litellm(&mut all);
    all
}

fn litellm(all: &mut Vec<Recording>) {
    let key = |counted| Voice::new(Dialect::LiteLlm(counted), Advice::Seconds(60));
    let deployment = Voice::new(Dialect::LiteLlmDeployment, Advice::Nothing);
    let tokens = Limit::Tokens { most: 6000.0, seconds: 60.0, reserve: 1025.0, tokens: 30.0 };
    for (config, limit, voice, moments, before) in [
        ("deployment rpm=120, enable_pre_call_checks", window(120.0, 60.0), deployment, (243.2, 247.1), 120),
        (
            "sk-rpm1 custom_auth (rpm_limit=240 / tpm_limit=6000)",
            window(240.0, 60.0),
            key("requests"),
            (293.3, 297.2),
            240,
        ),
        ("sk-tpm1 custom_auth (rpm_limit=240 / tpm_limit=6000)", tokens, key("tokens"), (297.4, 300.3), 166),
        // The second is that of `reset_at`; its `date` is a second older, for uvicorn writes that once a second.
        (
            "custom_auth max_parallel_requests=3",
            Limit::InFlight { most: 3 },
            key("max_parallel_requests"),
            (832.5, 833.1),
            3,
        ),
    ] {
        all.push(Recording {
            server: "litellm-proxy",
            config,
            spec: Spec::new(limit, voice),
            moments,
            before,
        });
    }
}

/// Fields that say something of limits or time, in lower case; a partition key is a matter of the client's address.
fn fields<'a>(headers: impl Iterator<Item = (&'a str, &'a str)>) -> BTreeMap<String, String> {
    let about_limits = |name: &str| {
        ["rate", "retry-after", "reset_at"].iter().any(|part| name.contains(part)) || name == "date"
    };
    headers
        .map(|(name, value)| (name.to_lowercase(), value.split("; pk=").next().unwrap_or(value).to_owned()))
        .filter(|(name, _)| about_limits(name))
        .collect()
}

fn check(recording: &Recording, recorded: &Value, answer: &Answer) {
    let of = format!("{} {} {}", recording.server, recording.config, recorded["kind"]);
    assert_eq!(recorded["status"].as_u64(), Some(answer.status.into()), "{of}");
    let pairs = recorded["headers"].as_array().expect("pairs");
    let theirs = fields(
        pairs.iter().map(|pair| (pair[0].as_str().expect("a name"), pair[1].as_str().expect("a value"))),
    );
    let ours = fields(answer.headers.iter().map(|(name, value)| (*name, value.as_str())));
    assert_eq!(ours.keys().collect::<Vec<_>>(), theirs.keys().collect::<Vec<_>>(), "{of}");
    let is_late = recording.config.starts_with("custom_auth max_parallel");
    for (name, value) in &theirs {
        // Microseconds are the last of a double's digits.
        let near = |one: &str, other: &str| {
            one.contains('.')
                && one
                    .parse()
                    .ok()
                    .zip(other.parse().ok())
                    .is_some_and(|(one, other): (f64, f64)| (one - other).abs() < 2e-6)
        };
        let is_same = ours[name] == *value || near(&ours[name], value) || (is_late && name == "date");
        assert!(is_same, "{of}: {name} is {}, recorded {value}", ours[name]);
    }
    // Texts that name a time or a rest are read by clients.
    let says = recorded["body"].as_str().expect("a text");
    if ["seconds.", "Wait for", "resets at"].iter().any(|part| says.contains(part)) {
        let key = says.split_once("api_key: ").and_then(|(_, rest)| rest.split_once('.')).map(|(key, _)| key);
        assert_eq!(answer.body, key.map_or(says.to_owned(), |key| says.replace(key, "0")), "{of}");
    }
}

#[test]
fn every_model_answers_as_its_server_was_recorded_to() {
    let recordings = recordings();
    let mut compared = 0;
    for line in RECORDED.lines() {
        let recorded: Value = serde_json::from_str(line).expect("JSON");
        let is_its = |it: &&Recording| recorded["server"] == it.server && recorded["config"] == it.config;
        let recording = recordings.iter().find(is_its).unwrap_or_else(|| panic!("no model of {line}"));
        let answer = if recorded["kind"] == "success" {
            let mut server = recording.server();
            if recording.config.starts_with("custom_auth max_parallel") {
                let _other = server.arrive(recording.moments.0, 1, 1.0);
            }
            server.arrive(recording.moments.0, 0, 1.0)
        } else {
            recording.refusal()
        };
        check(recording, &recorded, &answer);
        compared += 1;
    }
    assert_eq!(compared, RECORDED.lines().count());
    assert!(
        recordings.iter().all(|it| RECORDED.contains(&format!("\"{}\"", it.config))),
        "a model of nothing recorded"
    );
}
