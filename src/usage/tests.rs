//! Answers of each service, cut anywhere; any bytes.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream; charset=utf-8";
const LINES: &str = "application/x-ndjson";

fn scanner(content_type: &str) -> Option<UsageScanner> {
    UsageScanner::for_content_type(Some(&HeaderValue::from_str(content_type).unwrap()))
}

fn usage(content_type: &str, body: &str) -> Option<TokenUsage> {
    let mut scanner = scanner(content_type).unwrap();
    scanner.feed(body.as_bytes());
    scanner.finish()
}

fn taken(input: u64, output: u64) -> Option<TokenUsage> {
    Some(TokenUsage::new(input, output))
}

/// Content type, body, usage.
fn samples() -> Vec<(&'static str, String, Option<TokenUsage>)> {
    vec![
        (JSON, chat().to_string(), taken(200, 30)),
        (JSON, format!("{:#}", chat()), taken(200, 30)),
        (EVENTS, OPENAI_CHAT.into(), taken(19, 10)),
        (EVENTS, OPENAI_RESPONSES.into(), taken(8, 87)),
        (EVENTS, ANTHROPIC.into(), taken(125, 15)),
        (EVENTS, ANTHROPIC.replace('\n', "\r\n").replace("data: ", "data:"), taken(125, 15)),
        (EVENTS, ANTHROPIC.replace('\n', "\r"), taken(125, 15)),
        (EVENTS, GEMINI.into(), taken(20, 70)),
        (EVENTS, GROQ.into(), taken(18, 4)),
        (LINES, GEMINI.replace("data: ", ""), taken(20, 70)),
        (JSON, format!("[{}]", GEMINI.replace("data: ", "").trim().replace("\n\n", ",")), taken(20, 70)),
    ]
}

fn chat() -> Value {
    json!({
        "choices": [{"message": {"content": "\"usage\":{\"prompt_tokens\":1}\\", "usage": {"prompt_tokens": 2}}}],
        "usage": {
            "prompt_tokens": 1200, "completion_tokens": 30, "total_tokens": 1230,
            "prompt_tokens_details": {"cached_tokens": 1000, "audio_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": 20, "cached_tokens": 7},
        },
    })
}

const OPENAI_CHAT: &str = r#"data: {"choices":[{"delta":{"content":"Hi"}}],"usage":null}

data: {"choices":[],"usage":{"prompt_tokens":19,"completion_tokens":10,"prompt_tokens_details":null}}

data: [DONE]

"#;

const OPENAI_RESPONSES: &str = r#"event: response.created
data: {"type":"response.created","response":{"id":"resp","output":[],"usage":null}}

event: response.completed
data: {"type":"response.completed","response":{"output":[{"usage":{"input_tokens":1}}],"usage":{"input_tokens":36,"input_tokens_details":{"cached_tokens":28},"output_tokens":87,"total_tokens":123},"metadata":{"usage":"none"}}}

"#;

const ANTHROPIC: &str = r#"event: message_start
data: {"type":"message_start","message":{"role":"assistant","content":[],"usage":{"input_tokens":25,"cache_creation_input_tokens":100,"cache_creation":{"ephemeral_5m_input_tokens":100},"cache_read_input_tokens":4000,"output_tokens":1}}}

: a comment

event: ping
data: {"type": "ping"}

event: content_block_delta
data: {"type":"content_block_delta","delta":{"type":"text_delta","text":"data: {\"usage\":{\"output_tokens\":9}}"}}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":15}}

event: message_stop
data: {"type":"message_stop"}
"#;

const GEMINI: &str = r#"data: {"candidates":[{"content":{"parts":[{"text":"a"}]}}],"usageMetadata":{"promptTokenCount":50,"candidatesTokenCount":2}}

data: {"candidates":[{"content":{"parts":[{"text":"b"}]}}],"usageMetadata":{"promptTokenCount":50,"candidatesTokenCount":40,"thoughtsTokenCount":30,"cachedContentTokenCount":30,"promptTokensDetails":[{"modality":"TEXT","tokenCount":50}]}}

"#;

const GROQ: &str = r#"data: {"choices":[],"x_groq":{"id":"req","usage":{"queue_time":0.04,"prompt_tokens":18,"prompt_time":1e-3,"completion_tokens":4}}}
"#;

#[test]
fn each_service_states_its_usage() {
    for (content_type, body, expected) in samples() {
        assert_eq!(usage(content_type, &body), expected, "{content_type}: {body}");
    }
}

#[test]
fn bodies_of_other_kinds_are_not_read() {
    assert!(UsageScanner::for_content_type(None).is_none());
    for other in
        ["", "text/html", "text/plain", "application/octet-stream", "application/jsonp", "audio/mpeg"]
    {
        assert!(scanner(other).is_none(), "{other}");
    }
    for read in ["application/problem+json", "Application/JSON;charset=utf-8", "TEXT/event-stream"] {
        assert!(scanner(read).is_some(), "{read}");
    }
}

#[test]
fn usage_is_found_however_long_the_body_is() {
    let long = "\\\"{[".repeat(100_000);
    let body = |usage: &str| {
        format!(r#"{{"output":["{long}",[1.5,-2]],"usage":{usage},"user":"{long}","n":[{{}}]}}"#)
    };
    assert_eq!(usage(JSON, &body(r#"{"prompt_tokens":7,"total_tokens":7}"#)), taken(7, 0));
    let event = body(r#"{"input_tokens":7,"output_tokens":1}"#);
    assert_eq!(usage(EVENTS, &format!("data: {{\"response\":{event}}}\n\n")), taken(7, 1));
}

#[test]
fn what_is_no_count_does_not_count() {
    for wrong in
        ["-1", "1.5", "1e3", "null", "\"12\"", "true", "[3]", "{\"a\":3}", "100000001", &"9".repeat(99)]
    {
        let body = format!(r#"{{"usage":{{"input_tokens":{wrong},"output_tokens":5}}}}"#);
        assert_eq!(usage(JSON, &body), None, "{wrong}");
        let merged = format!("{{\"usage\":{{\"input_tokens\":3}}}}\n{body}\n");
        assert_eq!(usage(LINES, &merged), taken(3, 5), "{wrong}");
    }
}

#[test]
fn an_incomplete_statement_does_not_hold() {
    for cut in [r#"{"usage":{"input_tokens":3,"output_tokens":5"#, r#"{"usage":{"input_tokens":3"#, "{", ""] {
        assert_eq!(usage(JSON, cut), None, "{cut}");
    }
    // A broken line does not spoil the next.
    let lines = "{\"usage\":{\"input_tokens\":9,\"x\":\"\n{\"usage\":{\"input_tokens\":3}}";
    assert_eq!(usage(LINES, lines), taken(3, 0));
}

#[test]
fn a_prompt_count_includes_what_was_written_to_the_cache() {
    let body = r#"{"usage":{"prompt_tokens":30,"cache_creation_input_tokens":20,"prompt_tokens_details":{"cached_tokens":5},"completion_tokens":1}}"#;
    assert_eq!(usage(JSON, body), taken(25, 1));
}

fn feed_in_pieces(content_type: &str, body: &[u8], cuts: &[prop::sample::Index]) -> Option<TokenUsage> {
    let mut scanner = scanner(content_type).unwrap();
    let mut ends: Vec<_> = cuts.iter().map(|cut| cut.index(body.len() + 1)).collect();
    ends.sort_unstable();
    let mut start = 0;
    for end in ends {
        scanner.feed(&body[start..end]);
        start = end;
    }
    scanner.feed(&body[start..]);
    scanner.finish()
}

/// Any JSON text.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        (0_u64..1_000_000).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
        any_key().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 16, 4, |inner| {
        prop_oneof![prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from), object_of(inner)]
    })
}

/// An answer that is likely to hold a usage, in the right place or a wrong one.
fn any_answer() -> impl Strategy<Value = Value> {
    let count = prop_oneof![4 => (0_u64..1_000_000).prop_map(Value::from), 1 => any_json()];
    let usage = object_of(prop_oneof![4 => count.clone(), 1 => object_of(count)]).boxed();
    let envelope = object_of(prop_oneof![usage.clone(), any_json()]).boxed();
    object_of(prop_oneof![2 => usage, 2 => envelope, 1 => any_json()])
}

fn object_of(member: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
    prop::collection::btree_map(any_key(), member, 0..8)
        .prop_map(|members| Value::Object(members.into_iter().collect()))
}

fn any_key() -> impl Strategy<Value = String> {
    let known = prop::sample::select(vec![
        "usage",
        "usageMetadata",
        "response",
        "message",
        "prompt_tokens",
        "input_tokens",
        "prompt_tokens_details",
        "cached_tokens",
        "completion_tokens",
    ]);
    prop_oneof![6 => known.prop_map(str::to_owned), 1 => ".{0,8}"]
}

/// The same counts by a parser that reads the whole text.
fn parsed(text: &str) -> Option<TokenUsage> {
    fn object(counts: &mut Counts, object: &serde_json::Map<String, Value>) {
        for (name, value) in object {
            let details = matches!(name.as_str(), "prompt_tokens_details" | "input_tokens_details");
            match (count_named(name.as_bytes()), value.as_u64(), value.as_object()) {
                (Some(count), Some(tokens), _) => counts.set(count, tokens),
                (_, _, Some(members)) if details => {
                    for (name, value) in members {
                        if let (Some(count), Some(tokens)) = (count_named(name.as_bytes()), value.as_u64()) {
                            counts.set(count, tokens);
                        }
                    }
                }
                _ => {}
            }
        }
    }
    fn answer(counts: &mut Counts, members: &serde_json::Map<String, Value>, outer: bool) {
        for (name, value) in members {
            match (name.as_str(), value.as_object()) {
                ("usage" | "usageMetadata", Some(members)) => object(counts, members),
                ("response" | "message" | "x_groq", Some(members)) if outer => answer(counts, members, false),
                _ => {}
            }
        }
    }
    let mut counts = Counts::default();
    answer(&mut counts, serde_json::from_str::<Value>(text).unwrap().as_object()?, true);
    counts.usage()
}

proptest! {
    #[test]
    fn pieces_make_no_difference(
        sample in any::<prop::sample::Index>(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..40),
    ) {
        let samples = samples();
        let (content_type, body, expected) = sample.get(&samples);
        prop_assert_eq!(feed_in_pieces(content_type, body.as_bytes(), &cuts), *expected);
    }

    #[test]
    fn any_answer_reads_as_a_parser_reads_it(
        value in any_answer(),
        is_pretty in any::<bool>(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..10),
    ) {
        let text = if is_pretty { format!("{value:#}") } else { value.to_string() };
        prop_assert_eq!(feed_in_pieces(JSON, text.as_bytes(), &cuts), parsed(&text));
    }

    #[test]
    fn any_bytes_are_harmless(
        kind in prop_oneof![Just(JSON), Just(EVENTS), Just(LINES)],
        body in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..2000),
            r#"([\[\]{}:,"\\ \r\n0-9.-]|data:|"usage":|"prompt_tokens":|"response":){0,200}"#
                .prop_map(String::into_bytes),
        ],
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..10),
    ) {
        prop_assert_eq!(feed_in_pieces(kind, &body, &cuts), feed_in_pieces(kind, &body, &[]));
    }
}
