//! Replies in the words of the stacks, from the server on loopback, which counts what reaches it.

#[path = "../support/server.rs"]
mod wire;

use std::sync::Arc;

use tokio::sync::Notify;

pub(crate) use wire::Arrived as Hit;

/// What the server answers.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: String,
}

impl Reply {
    pub(crate) fn status(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: String::new() }
    }

    /// A 429 that advises a wait.
    pub(crate) fn refusal(milliseconds: u64) -> Self {
        Self::status(429).header("retry-after-ms", milliseconds.to_string())
    }

    pub(crate) fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    pub(crate) fn body(mut self, body: impl Into<String>) -> Self {
        self.body = body.into();
        self
    }

    fn wire(&self) -> String {
        let headers: String =
            self.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let Self { status, body, .. } = self;
        // A 304 has no body and no length of one.
        let length =
            if *status == 304 { String::new() } else { format!("content-length: {}\r\n", body.len()) };
        format!("HTTP/1.1 {status} Status\r\n{headers}{length}\r\n{body}")
    }
}

/// The server; it ends when dropped.
pub(crate) struct Server {
    server: wire::Server,
    ignored: Arc<Notify>,
}

impl Server {
    /// Answers by a script that is given the number of the request, from 0; never answers where it says `None`.
    pub(crate) async fn new(script: impl Fn(usize, &Hit) -> Option<Reply> + Send + Sync + 'static) -> Self {
        let ignored: Arc<Notify> = Arc::default();
        let ignoring = Arc::clone(&ignored);
        let server = wire::Server::start(move |number, hit| match script(number, hit) {
            Some(reply) => wire::Reply::Whole(reply.wire().into_bytes()),
            None => {
                ignoring.notify_one();
                wire::Reply::ThenHang(Vec::new())
            }
        });
        Self { server: server.await, ignored }
    }

    /// Gives the same answer for ever; `/302` and `/307` redirect to it.
    pub(crate) async fn always(reply: Reply) -> Self {
        Self::new(move |_, hit| {
            Some(match hit.path.as_str() {
                "/302" => Reply::status(302).header("location", "/target"),
                "/307" => Reply::status(307).header("location", "/target"),
                _ => reply.clone(),
            })
        })
        .await
    }

    pub(crate) fn url(&self, path: &str) -> String {
        let (origin, _) = self.server.url.split_once("/v1/").unwrap();
        format!("{origin}{path}")
    }

    pub(crate) fn hits(&self) -> Vec<Hit> {
        self.server.arrived()
    }

    /// Is told at each request that will not be answered.
    pub(crate) fn ignored(&self) -> Arc<Notify> {
        Arc::clone(&self.ignored)
    }

    /// How many requests came that were not redirected.
    pub(crate) fn count(&self) -> usize {
        self.hits().iter().filter(|hit| !hit.path.starts_with("/30")).count()
    }
}
