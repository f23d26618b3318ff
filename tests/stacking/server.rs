//! A small HTTP/1 server on loopback that counts what reaches it.

use std::sync::{Arc, Mutex};

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinSet;

/// One request as the server saw it.
#[derive(Debug, Clone)]
pub(crate) struct Hit {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

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

type Script = dyn Fn(usize, &Hit) -> Option<Reply> + Send + Sync;

/// The server; it ends when dropped.
pub(crate) struct Server {
    url: String,
    hits: Arc<Mutex<Vec<Hit>>>,
    ignored: Arc<Notify>,
    _connections: JoinSet<()>,
}

impl Server {
    /// Answers by a script that is given the number of the request, from 0; never answers where it says `None`.
    pub(crate) async fn new(script: impl Fn(usize, &Hit) -> Option<Reply> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let hits: Arc<Mutex<Vec<Hit>>> = Arc::default();
        let script: Arc<Script> = Arc::new(script);
        let mut accepting = JoinSet::new();
        let seen = Arc::clone(&hits);
        let ignored: Arc<Notify> = Arc::default();
        let ignoring = Arc::clone(&ignored);
        accepting.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(
                    stream,
                    Arc::clone(&script),
                    Arc::clone(&seen),
                    Arc::clone(&ignoring),
                ));
            }
        });
        Self { url, hits, ignored, _connections: accepting }
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
        format!("{}{path}", self.url)
    }

    pub(crate) fn hits(&self) -> Vec<Hit> {
        self.hits.lock().unwrap().clone()
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

async fn serve(mut stream: TcpStream, script: Arc<Script>, hits: Arc<Mutex<Vec<Hit>>>, ignored: Arc<Notify>) {
    let mut buffer = Vec::new();
    while let Some(hit) = read_request(&mut stream, &mut buffer).await {
        let number = {
            let mut hits = hits.lock().unwrap();
            hits.push(hit.clone());
            hits.len() - 1
        };
        match script(number, &hit) {
            Some(reply) => {
                if stream.write_all(reply.wire().as_bytes()).await.is_err() {
                    return;
                }
            }
            None => {
                ignored.notify_one();
                std::future::pending().await
            }
        }
    }
}

async fn read_request(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<Hit> {
    let end = read_until(stream, buffer, b"\r\n\r\n", 0).await?;
    let head = String::from_utf8(buffer[..end].to_vec()).ok()?;
    let mut lines = head.split("\r\n");
    let mut first = lines.next()?.split(' ');
    let method = first.next()?.parse().ok()?;
    let path = first.next()?.to_owned();
    let mut headers = HeaderMap::new();
    for (name, value) in lines.filter_map(|line| line.split_once(": ")) {
        headers.append(HeaderName::try_from(name).ok()?, HeaderValue::from_str(value).ok()?);
    }
    let (body, rest) = if headers.contains_key("transfer-encoding") {
        let stop = read_until(stream, buffer, b"0\r\n\r\n", end + 4).await?;
        (end + 4..stop, stop + 5)
    } else {
        let length =
            headers.get("content-length").map_or(0, |length| length.to_str().unwrap().parse().unwrap());
        let stop = end + 4 + length;
        while buffer.len() < stop {
            if stream.read_buf(buffer).await.ok()? == 0 {
                return None;
            }
        }
        (end + 4..stop, stop)
    };
    let body = buffer[body].to_vec();
    buffer.drain(..rest);
    Some(Hit { method, path, headers, body })
}

/// Reads until `mark` has come, and says where it begins.
async fn read_until(stream: &mut TcpStream, buffer: &mut Vec<u8>, mark: &[u8], from: usize) -> Option<usize> {
    loop {
        let found = buffer.get(from..)?.windows(mark.len()).position(|window| window == mark);
        if let Some(found) = found {
            return Some(from + found);
        }
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    }
}
