//! Real errors of reqwest's, made on the real clock outside of the test's runtime, so that a paused one is not moved.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part of this")]

use std::future::Future;
use std::time::Duration;

use tokio::io::AsyncReadExt as _;

/// Runs `future` to its end on a runtime and a thread of its own.
fn apart<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> T {
    std::thread::spawn(|| {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
    })
    .join()
    .unwrap()
}

/// No connection came about.
pub fn no_connection() -> reqwest::Error {
    // Nothing can listen on port 0.
    let error = apart(async { client().get("http://127.0.0.1:0/?key=SECRET").send().await.unwrap_err() });
    assert!(error.is_connect(), "{error:?}");
    error
}

/// The server took the request and closed the connection without an answer.
pub fn lost_connection() -> reqwest::Error {
    let error = apart(async {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("http://{}/?key=SECRET", listener.local_addr().unwrap());
        let server = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.read(&mut [0; 1024]).await.unwrap();
        };
        tokio::join!(server, client().get(url).send()).1.unwrap_err()
    });
    assert!(error.is_request() && !error.is_connect() && !error.is_timeout(), "{error:?}");
    error
}

/// The server took the request and did not answer in time.
pub fn timed_out() -> reqwest::Error {
    let error = apart(async {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("http://{}/?key=SECRET", listener.local_addr().unwrap());
        client().get(url).timeout(Duration::from_millis(30)).send().await.unwrap_err()
    });
    assert!(error.is_timeout() && !error.is_connect(), "{error:?}");
    error
}

/// A request that cannot be made at all.
pub fn bad_request() -> reqwest::Error {
    let error = client().get("http://SECRET@:80/").build().unwrap_err();
    assert!(error.is_builder(), "{error:?}");
    error
}

fn client() -> reqwest::Client {
    reqwest::Client::builder().no_proxy().build().unwrap()
}
