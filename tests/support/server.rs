//! A small HTTP/1.1 server on loopback that counts connections and misbehaves on demand.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part of this")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// What the server does about one request.
pub enum Reply {
    /// Writes this and goes on with the connection.
    Whole(Vec<u8>),
    /// Writes this and closes the connection.
    ThenClose(Vec<u8>),
    /// Writes this and then nothing, for ever.
    ThenHang(Vec<u8>),
    /// Writes the one, waits to be told, writes the other.
    InTwo(Vec<u8>, Arc<Notify>, Vec<u8>),
}

/// One request as it came over the wire.
#[derive(Debug, Clone)]
pub struct Arrived {
    /// The connection that it came on, counted from 1.
    pub connection: usize,
    pub method: Method,
    /// With the query.
    pub path: String,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl Arrived {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}

type Script = dyn Fn(usize, &Arrived) -> Reply + Send + Sync;

/// A server; it closes all of its connections when dropped.
pub struct Server {
    pub url: String,
    connections: Arc<AtomicUsize>,
    arrived: Arc<Mutex<Vec<Arrived>>>,
    task: JoinHandle<()>,
}

impl Server {
    /// Answers by a script that is given the number of the request, from 0.
    pub async fn start(script: impl Fn(usize, &Arrived) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("http://{}/v1/items?key=SECRET", listener.local_addr().unwrap());
        let connections = Arc::<AtomicUsize>::default();
        let arrived = Arc::<Mutex<Vec<Arrived>>>::default();
        let script: Arc<Script> = Arc::new(script);
        let task = tokio::spawn({
            let (connections, arrived) = (Arc::clone(&connections), Arc::clone(&arrived));
            async move {
                // Dropped with the task, and with it all connections.
                let mut tasks = tokio::task::JoinSet::new();
                loop {
                    let (stream, _) = listener.accept().await.unwrap();
                    let number = connections.fetch_add(1, Ordering::SeqCst) + 1;
                    tasks.spawn(serve(stream, number, Arc::clone(&arrived), Arc::clone(&script)));
                }
            }
        });
        Self { url, connections, arrived, task }
    }

    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    pub fn arrived(&self) -> Vec<Arrived> {
        self.arrived.lock().unwrap().clone()
    }

    pub fn count(&self) -> usize {
        self.arrived.lock().unwrap().len()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(
    mut stream: TcpStream,
    connection: usize,
    arrived: Arc<Mutex<Vec<Arrived>>>,
    script: Arc<Script>,
) {
    let mut buffer = Vec::new();
    while let Some(request) = receive(&mut stream, &mut buffer, connection).await {
        let reply = {
            let mut arrived = arrived.lock().unwrap();
            let reply = script(arrived.len(), &request);
            arrived.push(request);
            reply
        };
        match reply {
            Reply::Whole(bytes) => stream.write_all(&bytes).await.unwrap_or_default(),
            Reply::ThenClose(bytes) => {
                let _ = stream.write_all(&bytes).await;
                return;
            }
            Reply::ThenHang(bytes) => {
                let _ = stream.write_all(&bytes).await;
                std::future::pending::<()>().await;
            }
            Reply::InTwo(first, told, second) => {
                let _ = stream.write_all(&first).await;
                told.notified().await;
                let _ = stream.write_all(&second).await;
            }
        }
    }
}

/// Reads one request with its whole body.
async fn receive(stream: &mut TcpStream, buffer: &mut Vec<u8>, connection: usize) -> Option<Arrived> {
    let end = loop {
        if let Some(end) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            break end;
        }
        if stream.read_buf(buffer).await.unwrap_or(0) == 0 {
            return None;
        }
    };
    let mut request = parse(connection, &String::from_utf8_lossy(&buffer[..end])).unwrap();
    buffer.drain(..end + 4);
    let length = request.header("content-length").map(|length| length.parse::<usize>().unwrap());
    let chunked = request.header("transfer-encoding") == Some("chunked");
    loop {
        let ended = match length {
            Some(length) => buffer.len() >= length,
            None => !chunked || buffer.ends_with(b"0\r\n\r\n"),
        };
        if ended {
            request.body = std::mem::take(buffer);
            return Some(request);
        }
        if stream.read_buf(buffer).await.unwrap_or(0) == 0 {
            return None;
        }
    }
}

/// Request line and headers.
fn parse(connection: usize, head: &str) -> Option<Arrived> {
    let mut lines = head.split("\r\n");
    let mut first = lines.next()?.split(' ');
    let (method, path) = (first.next()?.parse().ok()?, first.next()?.to_owned());
    let mut headers = HeaderMap::new();
    for (name, value) in lines.filter_map(|line| line.split_once(": ")) {
        headers.append(HeaderName::try_from(name).ok()?, HeaderValue::from_str(value).ok()?);
    }
    Some(Arrived { connection, method, path, headers, body: Vec::new() })
}

/// A whole response with a length.
pub fn response(status: u16, headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> Vec<u8> {
    let mut response = head(status, headers);
    let body = body.as_ref();
    response.extend_from_slice(format!("content-length: {}\r\n\r\n", body.len()).as_bytes());
    response.extend_from_slice(body);
    response
}

/// The beginning of a chunked response, with one chunk.
pub fn chunked(status: u16, headers: &[(&str, &str)], first: impl AsRef<[u8]>) -> Vec<u8> {
    let mut response = head(status, headers);
    response.extend_from_slice(b"transfer-encoding: chunked\r\n\r\n");
    response.extend_from_slice(&chunk(first));
    response
}

/// One more chunk; an empty one ends the body.
pub fn chunk(bytes: impl AsRef<[u8]>) -> Vec<u8> {
    let bytes = bytes.as_ref();
    [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}

fn head(status: u16, headers: &[(&str, &str)]) -> Vec<u8> {
    let mut head = format!("HTTP/1.1 {status} Something\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.into_bytes()
}
