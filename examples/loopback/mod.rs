//! An HTTP/1 server on loopback for examples.
//!
//! Plain threads and sockets, so that its stopwatch does not run on the client's runtime.
#![allow(dead_code, reason = "each example uses its part of this")]

use std::io::{self, BufRead, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// One request, as far as an example looks at it.
#[derive(Debug)]
pub(crate) struct Request {
    /// When its first line was read.
    pub(crate) arrived: Instant,
    /// Names in lower case, and values.
    headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Request {
    /// The value of a header, by its name in lower case; empty if there is none.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }
}

/// Listens on a free port for as long as the process lives, and writes what `answer` makes of each request.
pub(crate) fn listen(answer: impl Fn(&Request) -> String + Send + Sync + 'static) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    let answer = Arc::new(answer);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let answer = Arc::clone(&answer);
            // A connection that breaks, as when its client is killed, concerns its client alone.
            thread::spawn(move || serve(stream, &*answer).ok());
        }
    });
    Ok(address)
}

/// Serves one connection until the client closes it.
fn serve(mut stream: TcpStream, answer: impl Fn(&Request) -> String) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut requests = BufReader::new(stream.try_clone()?);
    while let Some(request) = read_request(&mut requests)? {
        stream.write_all(answer(&request).as_bytes())?;
    }
    Ok(())
}

fn read_request(requests: &mut impl BufRead) -> io::Result<Option<Request>> {
    let mut line = String::new();
    if requests.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut request = Request { arrived: Instant::now(), headers: Vec::new(), body: String::new() };
    loop {
        line.clear();
        requests.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        request.headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let length = request.header("content-length").parse().unwrap_or(0);
    requests.take(length).read_to_string(&mut request.body)?;
    Ok(Some(request))
}

/// A whole response in JSON; `header` is empty or a line with its end.
pub(crate) fn response(status: &str, header: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n{header}\r\n{body}"
    )
}

/// A refusal as a provisioned deployment gives it, that advises to wait for `left`.
pub(crate) fn refusal(left: Duration) -> String {
    let advice = format!("retry-after-ms: {}\r\n", left.as_micros().div_ceil(1000));
    let body = r#"{"error":{"code":"429","message":"The deployment is at capacity."}}"#;
    response("429 Too Many Requests", &advice, body)
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
