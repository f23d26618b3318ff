//! Which scope a request belongs to.

use std::time::{Duration, Instant};

use reqwest_admission::Admission;
use reqwest_admission::gate::Gate;

use super::SECRET;
use super::message::{Message, add_secrets};
use super::stack::{Server, run};

/// Words: the name of a header that is marked as sensitive, method, URL.
pub(crate) fn scope_keys(input: &[u8]) {
    let Some(message) = Message::read(input) else { return };
    let gate = Gate::default();
    let Ok(admission) = Admission::builder().gate(gate.clone()).build() else { return };
    let client = Server::default().behind(admission);
    let start = Instant::now();
    // The first caller twice: the same scope. The second caller differs in nothing but its credentials.
    for (which, scopes) in [(1, 1), (1, 1), (2, 2)] {
        let Some(mut request) = message.request() else { return };
        add_secrets(&mut request, message.word(0), which);
        let host = request.url().origin().ascii_serialization();
        let _ = run(client.execute(request));
        assert_eq!(gate.scopes(), scopes, "scopes after caller {which}");
        let snapshot = gate.snapshot(Instant::now());
        let text = format!("{snapshot:?}");
        assert!(!text.contains(SECRET), "{text}");
        for scope in &snapshot.scopes {
            assert_eq!(scope.endpoint, host);
            let label = scope.label.as_deref().unwrap_or_default();
            assert!(label.len() <= 256, "a label of {} bytes", label.len());
        }
    }
    assert!(start.elapsed() < Duration::from_secs(5), "{:?} for {} bytes", start.elapsed(), input.len());
}
