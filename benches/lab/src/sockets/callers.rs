//! The callers of one client process: the same stacks as in virtual time, over real connections.

use std::sync::Arc;

use async_trait::async_trait;
use http::Extensions;
use reqwest::{Request, Response};
use reqwest_admission::gate::Gate;
use reqwest_admission::{Admission, AdmissionClient};
use reqwest_middleware::{ClientWithMiddleware, Error, Middleware, Next, Result};

use super::server::{CALL, Server};
use crate::model::{Call, Way, World};
use crate::strategy::{Setting, Strategy, made};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http1,
    Http2,
}

impl Protocol {
    pub(crate) const ALL: [Self; 2] = [Self::Http1, Self::Http2];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Http1 => "HTTP/1",
            Self::Http2 => "HTTP/2",
        }
    }

    fn client(self) -> reqwest::ClientBuilder {
        let client = reqwest::Client::builder().no_proxy();
        match self {
            Self::Http1 => client.http1_only(),
            Self::Http2 => client.http2_prior_knowledge(),
        }
    }
}

/// A client process and the server that it calls.
#[derive(Debug)]
pub(crate) struct Callers {
    client: ClientWithMiddleware,
    server: Arc<Server>,
}

impl Callers {
    /// Ours is built as users are told to, with the default policy and with `gate`.
    pub(crate) fn new(
        strategy: Strategy,
        protocol: Protocol,
        world: &World,
        gate: &Gate,
        server: &Arc<Server>,
    ) -> std::result::Result<Self, Box<dyn std::error::Error>> {
        let client = if strategy == Strategy::Admission {
            let admission = Admission::builder().gate(gate.clone()).settle_from_usage(true);
            AdmissionClient::builder(protocol.client()).admission(admission).build()?
        } else {
            let setting = Setting::new(world.scenario.seed, 0, world.start);
            strategy.client(&setting, Wire(protocol.client().build()?))
        };
        Ok(Self { client, server: Arc::clone(server) })
    }
}

impl Way for Callers {
    async fn call(&self, _: &World, call: Call) -> bool {
        let number = self.server.expect(call);
        let is_answered = made(self.client.post(self.server.url()).header(CALL, number), call).await;
        self.server.ended();
        is_answered
    }
}

/// The end of the others' stacks: sends.
struct Wire(reqwest::Client);

#[async_trait]
impl Middleware for Wire {
    async fn handle(&self, request: Request, _: &mut Extensions, _: Next<'_>) -> Result<Response> {
        self.0.execute(request).await.map_err(Error::Reqwest)
    }
}
