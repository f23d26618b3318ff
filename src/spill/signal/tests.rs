use http::HeaderValue;

use super::*;

#[test]
fn neither_text_shows_headers_or_body() {
    let headers: HeaderMap =
        [(http::header::SET_COOKIE, HeaderValue::from_static("secret-cookie"))].into_iter().collect();
    let reading = Reading::from_parts(
        StatusCode::TOO_MANY_REQUESTS,
        &headers,
        Some(b"secret-body"),
        SystemTime::UNIX_EPOCH,
    );
    let last = LastResponse::new(reading, headers, bytes::Bytes::from_static(b"secret-body"));
    let facts = Facts {
        reason: Reason::AttemptsExhausted,
        attempts: 3,
        waited: Duration::ZERO,
        last: Some(last),
        is_about_last: true,
        expected: None,
        possibly_processed: false,
        legs: Vec::new(),
        copy: None,
    };
    let spill = SpillOver::new(facts, None);
    for text in [format!("{spill}"), format!("{spill:?}"), format!("{spill:#?}")] {
        assert!(!text.contains("secret"), "{text}");
    }
    assert_eq!(spill.to_string(), "spilled over after 3 attempt(s): all attempts are used (status 429)");
}
