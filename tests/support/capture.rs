//! Keeps everything that the crate tells tracing, values included.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part of this")]

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, LazyLock, Mutex};

use serde_json::Value;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Dispatch, Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;

/// An event or a span with all the values that it was ever given.
#[derive(Debug, Clone, PartialEq)]
pub struct Told {
    pub is_span: bool,
    /// The message of an event, the name of a span.
    pub name: String,
    pub level: Level,
    pub target: String,
    pub fields: BTreeMap<&'static str, Value>,
    /// The name of the span that it happened in.
    pub parent: Option<&'static str>,
    pub closed: bool,
}

impl Told {
    pub fn get(&self, field: &str) -> Option<&Value> {
        self.fields.get(field)
    }
}

/// Keeps tracing from deciding that nobody listens to an event, which it does for all threads at once where the first
/// thread to come past it has no subscriber. Call it at the start of each test of a file that captures.
pub fn prepare() {
    static LISTENERS: LazyLock<[Dispatch; 2]> =
        LazyLock::new(|| [(); 2].map(|()| Dispatch::new(tracing_subscriber::registry())));
    LazyLock::force(&LISTENERS);
}

/// What was told so far, in order.
#[derive(Debug, Clone, Default)]
pub struct Capture(Arc<Mutex<Vec<Told>>>);

impl Capture {
    /// Captures all of what this thread tells, at every level, until the guard is dropped.
    pub fn start() -> (Self, tracing::subscriber::DefaultGuard) {
        prepare();
        let capture = Self::default();
        let subscriber = tracing_subscriber::registry().with(capture.clone());
        (capture, tracing::subscriber::set_default(subscriber))
    }

    pub fn all(&self) -> Vec<Told> {
        self.0.lock().unwrap().clone()
    }

    pub fn events(&self, name: &str) -> Vec<Told> {
        self.all().into_iter().filter(|told| !told.is_span && told.name == name).collect()
    }

    pub fn spans(&self) -> Vec<Told> {
        self.all().into_iter().filter(|told| told.is_span).collect()
    }

    pub fn text(&self) -> String {
        format!("{:#?}", self.all())
    }

    fn push(&self, told: Told) -> usize {
        let mut all = self.0.lock().unwrap();
        all.push(told);
        all.len() - 1
    }

    fn change(&self, index: usize, change: impl FnOnce(&mut Told)) {
        change(&mut self.0.lock().unwrap()[index]);
    }
}

/// Where a span stands in the capture.
struct Index(usize);

struct Values<'a>(&'a mut BTreeMap<&'static str, Value>);

impl Visit for Values<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name(), format!("{value:?}").into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.0.insert(field.name(), value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.0.insert(field.name(), value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.0.insert(field.name(), value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.0.insert(field.name(), value.into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.into());
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> tracing_subscriber::Layer<S> for Capture {
    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = BTreeMap::new();
        event.record(&mut Values(&mut fields));
        let name = fields.remove("message").and_then(|text| text.as_str().map(str::to_owned));
        self.push(Told {
            is_span: false,
            name: name.unwrap_or_default(),
            level: *event.metadata().level(),
            target: event.metadata().target().to_owned(),
            fields,
            parent: context.event_span(event).map(|span| span.name()),
            closed: true,
        });
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = BTreeMap::new();
        attributes.record(&mut Values(&mut fields));
        let span = context.span(id).unwrap();
        let index = self.push(Told {
            is_span: true,
            name: attributes.metadata().name().to_owned(),
            level: *attributes.metadata().level(),
            target: attributes.metadata().target().to_owned(),
            fields,
            parent: span.parent().map(|parent| parent.name()),
            closed: false,
        });
        span.extensions_mut().insert(Index(index));
    }

    fn on_record(&self, id: &Id, values: &tracing::span::Record<'_>, context: Context<'_, S>) {
        if let Some(Index(index)) = context.span(id).unwrap().extensions().get::<Index>() {
            self.change(*index, |told| values.record(&mut Values(&mut told.fields)));
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        if let Some(Index(index)) = context.span(&id).unwrap().extensions().get::<Index>() {
            self.change(*index, |told| told.closed = true);
        }
    }
}
