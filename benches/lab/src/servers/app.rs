//! The application behind the servers that only limit: it answers after the milliseconds that its path names.

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::runtime::Runtime;

/// Runs until it is dropped.
pub(super) struct App {
    pub(super) port: u16,
    runtime: Option<Runtime>,
}

impl App {
    /// Listens on a free port, on a thread of its own.
    ///
    /// # Errors
    ///
    /// If there is no free port.
    pub(super) fn start() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let port = listener.local_addr()?.port();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        runtime.spawn(listen(listener));
        Ok(Self { port, runtime: Some(runtime) })
    }
}

impl Drop for App {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn listen(listener: TcpListener) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        tokio::spawn(async move {
            let protocol = auto::Builder::new(TokioExecutor::new());
            // A connection that breaks concerns its client alone.
            protocol.serve_connection(TokioIo::new(stream), service_fn(answer)).await.ok();
        });
    }
}

async fn answer(request: Request<Incoming>) -> Result<Response<String>, Infallible> {
    let millis = request.uri().path().trim_start_matches('/').parse().unwrap_or(0);
    if millis > 0 {
        tokio::time::sleep(Duration::from_millis(millis)).await;
    }
    Ok(Response::new("ok\n".to_owned()))
}
