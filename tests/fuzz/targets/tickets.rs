//! Tickets: calls that are put off, written and read by serde.

use std::time::SystemTime;

use reqwest::Body;
use reqwest_admission::{Admission, Credential, Deferred, SpillOver};

use super::SECRET;
use super::message::{Message, add_secrets};
use super::stack::{REFUSING, Server, run};

/// Words: the name of a header that is marked as sensitive, method, URL. The body is also read as a ticket by itself.
pub(crate) fn tickets(input: &[u8]) {
    let Some(message) = Message::read(input) else { return };
    if let Ok(ticket) = serde_json::from_slice::<Deferred>(message.body) {
        hold(&ticket);
    }
    let Some(mut request) = message.request() else { return };
    if request.url_mut().set_host(Some(REFUSING)).is_err() {
        return;
    }
    add_secrets(&mut request, message.word(0), 1);
    let (method, path) = (request.method().clone(), request.url().path().to_owned());
    let client = Server::default().behind(Admission::default());
    let outcome = run(client.execute(request));
    let spill = SpillOver::of(&outcome).cloned().unwrap_or_else(|| panic!("{outcome:?}"));
    // All headers that may go along.
    let ticket = spill.into_deferred_with(|_| true).unwrap_or_else(|error| panic!("{error}"));
    hold(&ticket);
    let written = serde_json::to_string(&ticket).unwrap_or_default();
    assert!(!written.contains(SECRET), "{written}");
    let request = ticket
        .into_request(&Credential::bearer("the worker's own"))
        .unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((request.method(), request.url().path()), (&method, path.as_str()));
    assert_eq!(request.body().and_then(Body::as_bytes).unwrap_or_default(), message.body);
}

/// Whatever it says, a ticket comes through serde as it was, shows nothing of the caller's, and makes a request or none.
fn hold(ticket: &Deferred) {
    let written = serde_json::to_string(ticket).unwrap_or_else(|error| panic!("{error}"));
    let again: Deferred = serde_json::from_str(&written).unwrap_or_else(|error| panic!("{error}: {written}"));
    assert!(again == *ticket, "{written}");
    let _ = (ticket.wait(SystemTime::UNIX_EPOCH), ticket.retry_at());
    let _ = ticket.clone().without_query("a");
    if let Ok(request) = ticket.clone().into_request(&Credential::none()) {
        let url = request.url();
        assert!(
            matches!(url.scheme(), "http" | "https") && url.username().is_empty() && url.password().is_none()
        );
    }
}
