//! An HTTP/1 server on loopback that answers at once, on a thread and a runtime of its own.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::HeaderMap;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

use crate::Result;
use crate::stack;

const ANSWER: &[u8] =
    br#"{"id":"chatcmpl-1","choices":[{"message":{"role":"assistant","content":"hello"}}]}"#;

/// Answers with or without rate-limit headers, by the path of the request.
pub(crate) struct Server {
    address: SocketAddr,
    served: Arc<AtomicUsize>,
}

impl Server {
    /// Serves for as long as the process lives.
    pub(crate) fn start() -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))?;
        let address = listener.local_addr()?;
        let served = Arc::<AtomicUsize>::default();
        let count = Arc::clone(&served);
        std::thread::spawn(move || runtime.block_on(serve(listener, count)));
        Ok(Self { address, served })
    }

    pub(crate) fn url(&self, with_limits: bool) -> String {
        let path = if with_limits { "limits" } else { "plain" };
        format!("http://{}/{path}", self.address)
    }

    /// How many requests there were so far.
    pub(crate) fn served(&self) -> usize {
        self.served.load(Ordering::Relaxed)
    }
}

async fn serve(listener: TcpListener, served: Arc<AtomicUsize>) {
    let limits = stack::headers(&stack::SUCCESS);
    let is_limit = |name: &str| name.starts_with("x-ratelimit");
    let plain = limits.iter().filter(|(name, _)| !is_limit(name.as_str()));
    let plain: HeaderMap = plain.map(|(name, value)| (name.clone(), value.clone())).collect();
    let headers = Arc::new([plain, limits]);
    while let Ok((stream, _)) = listener.accept().await {
        // Without it an answer may wait for the acknowledgement of the one before.
        let _ = stream.set_nodelay(true);
        let (headers, served) = (Arc::clone(&headers), Arc::clone(&served));
        let service = service_fn(move |request: http::Request<Incoming>| {
            let (headers, served) = (Arc::clone(&headers), Arc::clone(&served));
            async move {
                let [plain, limits] = &*headers;
                let chosen = if request.uri().path() == "/limits" { limits } else { plain };
                let _ = request.into_body().collect().await;
                served.fetch_add(1, Ordering::Relaxed);
                let mut response = http::Response::new(Full::new(Bytes::from_static(ANSWER)));
                *response.headers_mut() = chosen.clone();
                Ok::<_, Infallible>(response)
            }
        });
        tokio::spawn(
            hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service),
        );
    }
}
