//! Bodies of each shape; bodies of none; any bytes.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn estimate(body: &Value) -> Option<TokenEstimate> {
    // A token a byte shows what was counted.
    let counter = |text: &str| u64::try_from(text.len()).unwrap();
    BodyEstimator::default().counter(counter).estimate(body.to_string().as_bytes())
}

fn tokens(prompt: u64, output: u64) -> Option<TokenEstimate> {
    Some(TokenEstimate::new(prompt, output))
}

#[test]
fn each_shape_is_read() {
    let chat = json!({
        "model": "gpt", "user": "not a prompt", "max_completion_tokens": 50, "n": 3,
        "messages": [
            {"role": "system", "content": "12345"},
            {"role": "user", "content": [{"type": "text", "text": "1234567"}]},
            {"role": "assistant", "content": null, "tool_calls": [
                {"id": "call", "type": "function", "function": {"name": "abc", "arguments": "{\"a\":1}"}},
            ]},
            {"role": "tool", "tool_call_id": "call", "content": "12"},
        ],
        "tools": [{"a": "b"}],
    });
    assert_eq!(estimate(&chat), tokens(5 + 7 + 3 + 7 + 2 + 11, 150));
    let responses = json!({"input": "12345", "instructions": "123", "max_output_tokens": 20});
    assert_eq!(estimate(&responses), tokens(8, 20));
    let items = json!({"input": [{"role": "user", "content": [{"type": "input_text", "text": "1234"}]}]});
    assert_eq!(estimate(&items), tokens(4, 1024));
    let completions = json!({"prompt": ["123", "45"], "max_tokens": 9, "best_of": 2});
    assert_eq!(estimate(&completions), tokens(5, 18));
    let token_ids = json!({"input": [[1, 2, 3], [4]]});
    assert_eq!(estimate(&token_ids), tokens(4, 1024));
    let anthropic = json!({
        "system": [{"type": "text", "text": "1234", "cache_control": {"type": "ephemeral"}}],
        "messages": [{"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "id", "content": [{"type": "text", "text": "123"}]},
        ]}],
        "max_tokens": 7,
    });
    assert_eq!(estimate(&anthropic), tokens(7, 7));
    let gemini = json!({
        "systemInstruction": {"parts": [{"text": "12"}]},
        "contents": [{"role": "user", "parts": [{"text": "123"}, {"text": "4"}]}],
        "generationConfig": {"maxOutputTokens": 30, "candidateCount": 2, "temperature": 1},
    });
    assert_eq!(estimate(&gemini), tokens(6, 60));
}

#[test]
fn attachments_count_a_flat_number() {
    let data = "A".repeat(100_000);
    let url = format!("data:image/png;base64,{data}");
    for part in [
        json!({"type": "image_url", "image_url": {"url": url, "detail": "high"}}),
        json!({"type": "image_url", "image_url": {"url": "https://example/a.png"}}),
        json!({"type": "input_image", "image_url": url}),
        json!({"type": "input_audio", "input_audio": {"data": data, "format": "wav"}}),
        json!({"type": "input_file", "filename": "a.pdf", "file_data": url}),
        json!({"type": "file", "file": {"file_id": "file-1"}}),
        json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}),
        json!({"type": "image", "source": {"type": "url", "url": "https://example/a.png"}}),
        json!({"type": "image_generation_call", "id": "ig", "result": data}),
        json!({"inlineData": {"mimeType": "image/png", "data": data}}),
        json!({"fileData": {"mimeType": "video/mp4", "fileUri": "gs://bucket/a"}}),
        json!(url),
    ] {
        for name in ["content", "parts"] {
            let body = json!({"messages": [{"role": "user", name: [{"text": "123"}, part]}]});
            assert_eq!(
                estimate(&body),
                tokens(3 + ATTACHMENT_TOKENS, 1024),
                "{name}: {:.90}",
                part.to_string()
            );
        }
    }
    let text =
        json!({"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "1234"}});
    assert_eq!(estimate(&json!({"messages": [{"content": [text]}]})), tokens(4, 1024));
    assert_eq!(estimate(&json!({"input": "data: 1, 2"})), tokens(10, 1024));
}

#[test]
fn bodies_of_no_known_shape_have_no_estimate() {
    for body in [
        "",
        "{",
        "[]",
        "\"input\"",
        "{}",
        "a=b",
        r#"{"max_tokens":5}"#,
        r#"{"messages":"text"}"#,
        r#"{"input":null}"#,
        r#"{"input":{"a":1}}"#,
        r#"{"prompt":3}"#,
        r#"{"messages":[]} x"#,
    ] {
        assert_eq!(BodyEstimator::default().estimate(body.as_bytes()), None, "{body}");
    }
    let deep = format!(r#"{{"input":{}{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(BodyEstimator::default().estimate(deep.as_bytes()), None);
    let body = br#"{"input":"1234"}"#;
    assert!(BodyEstimator::default().largest_body(body.len()).estimate(body).is_some());
    assert!(BodyEstimator::default().largest_body(body.len() - 1).estimate(body).is_none());
}

#[test]
fn output_has_a_default_and_a_bound() {
    let output = |stated: Value| {
        let mut body = json!({"input": ""});
        body.as_object_mut().unwrap().append(stated.clone().as_object_mut().unwrap());
        estimate(&body).unwrap().tokens()
    };
    assert_eq!(output(json!({})), 1024);
    assert_eq!(output(json!({"max_tokens": 0})), 0);
    assert_eq!(output(json!({"max_tokens": "many"})), 1024);
    assert_eq!(output(json!({"max_tokens": -1, "n": 0})), 1024);
    assert_eq!(output(json!({"n": 2})), 2048);
    assert_eq!(output(json!({"max_tokens": 1, "n": u64::MAX})), MOST_ANSWERS);
    assert_eq!(output(json!({"max_tokens": u64::MAX, "n": u64::MAX})), LARGEST_OUTPUT);
    let embeddings = BodyEstimator::default().default_max_output(0).estimate(br#"{"input":"1234"}"#);
    assert_eq!(embeddings, tokens(1, 0));
}

#[test]
fn counters_round_up_and_saturate() {
    assert_eq!(["", "a", "abcd", "abcde"].map(four_bytes_each), [0, 1, 1, 2]);
    let whole = BodyEstimator::default().counter(|text: &str| u64::try_from(text.len()).unwrap());
    assert_eq!(whole.estimate(br#"{"input":["abc","d"]}"#), tokens(4, 1024));
    let endless = BodyEstimator::default().counter(|_: &str| u64::MAX);
    assert_eq!(endless.estimate(br#"{"input":["a","b"]}"#), tokens(u64::MAX, 1024));
}

#[test]
fn the_estimator_shows_its_settings_and_can_be_shared() {
    fn shared<T: Send + Sync + Clone + 'static>(_: &T) {}
    let estimator = BodyEstimator::default();
    shared(&estimator);
    assert_eq!(
        format!("{estimator:?}"),
        "BodyEstimator { default_max_output: 1024, largest_body: 1048576, .. }"
    );
}

proptest! {
    #[test]
    fn any_bytes_are_harmless(body in prop::collection::vec(any::<u8>(), 0..500)) {
        let _ = BodyEstimator::default().estimate(&body);
    }

    #[test]
    fn an_estimate_is_never_more_than_the_body_and_the_output(
        body in r#"\{"(input|messages|prompt|tools)":(\[|"|\[\{"(content|data|text|a)":)[ -~]{0,60}("|\]|"\]|"\}\])\}"#,
    ) {
        if let Some(estimate) = BodyEstimator::default().estimate(body.as_bytes()) {
            let attachments = u64::try_from(body.matches(['"', '{']).count()).unwrap() * ATTACHMENT_TOKENS;
            prop_assert!(estimate.tokens() <= u64::try_from(body.len()).unwrap() + attachments + LARGEST_OUTPUT);
        }
    }

    #[test]
    fn text_counts_by_its_length(texts in prop::collection::vec("[^d][^\\p{C}]{0,40}", 1..10)) {
        let expected = texts.iter().map(|text| u64::try_from(text.len()).unwrap()).sum::<u64>();
        let messages: Vec<_> = texts.iter().map(|text| json!({"role": "user", "content": text})).collect();
        prop_assert_eq!(estimate(&json!({"messages": messages})), tokens(expected, 1024));
    }
}
