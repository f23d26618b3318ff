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
        never_sent: true,
        settings: None,
    };
    let spill = SpillOver::new(facts, None);
    for text in [format!("{spill}"), format!("{spill:?}"), format!("{spill:#?}")] {
        assert!(!text.contains("secret"), "{text}");
    }
    assert_eq!(spill.to_string(), "spilled over after 3 attempts: all attempts are used (status 429)");
}

/// A signal that a caller cloned out of its error and put into one of their own.
#[test]
fn a_bare_signal_is_found_however_it_is_wrapped() {
    use std::error::Error;
    use std::io;

    type AnyError = Box<dyn Error + Send + Sync>;

    #[derive(Debug, thiserror::Error)]
    #[error(transparent)]
    struct Transparent(AnyError);

    #[derive(Debug, thiserror::Error)]
    #[error("shared")]
    struct Shared(#[source] Arc<dyn Error + Send + Sync>);

    let facts = Facts {
        reason: Reason::Unreachable,
        attempts: 1,
        waited: Duration::ZERO,
        last: None,
        is_about_last: false,
        expected: None,
        possibly_processed: false,
        legs: Vec::new(),
        never_sent: true,
        settings: None,
    };
    let signal = SpillOver::new(facts, None);
    let cases: [AnyError; 9] = [
        Box::new(signal.clone()),
        Box::new(Transparent(Box::new(signal.clone()))),
        Box::new(Transparent(Box::new(Transparent(Box::new(signal.clone()))))),
        Box::new(Transparent(Box::new(io::Error::other(signal.clone())))),
        Box::new(Transparent(Box::new(Shared(Arc::new(signal.clone()))))),
        Box::new(Shared(Arc::new(Transparent(Box::new(signal.clone()))))),
        Box::new(Shared(Arc::new(io::Error::other(signal.clone())))),
        Box::new(Box::new(Transparent(Box::new(signal.clone())))),
        Box::new(reqwest_middleware::Error::middleware(Transparent(Box::new(signal.clone())))),
    ];
    for error in cases {
        let found = SpillOver::find(&*error).unwrap_or_else(|| panic!("{error:?}"));
        // What was found may be wrapped again.
        let again = Transparent(Box::new(found.clone()));
        assert_eq!(SpillOver::find(&again).unwrap().reason(), Reason::Unreachable);
    }
}
