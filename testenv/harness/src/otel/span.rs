use std::collections::BTreeMap;
use std::time::Duration;

use crate::error::Result;
use crate::wait;

/// A span as it was received.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Span {
    /// `service.name` of its sender.
    pub service: String,
    /// Its name.
    pub name: String,
    /// The trace's id, hexadecimal.
    pub trace: String,
    /// Its own id.
    pub id: String,
    /// The id of the span that it is below; empty for the first of a trace.
    pub parent: String,
    /// `SpanKind` of OTLP: 1 internal, 2 server, 3 client.
    pub kind: u64,
    /// Nanoseconds since 1970.
    pub start: u64,
    /// Likewise.
    pub end: u64,
    /// Attributes as texts.
    pub attributes: BTreeMap<String, String>,
}

impl Span {
    /// An attribute; empty if it has none of the name.
    pub fn attribute(&self, name: &str) -> &str {
        self.attributes.get(name).map_or("", String::as_str)
    }

    /// The time between its start and its end.
    pub fn duration(&self) -> Duration {
        Duration::from_nanos(self.end.saturating_sub(self.start))
    }

    fn brief(&self) -> String {
        format!("{} {:?} kind {} {} {}<-{}", self.service, self.name, self.kind, self.trace, self.id, self.parent)
    }
}

/// A receiver of spans.
pub trait Spans {
    /// Every span so far.
    ///
    /// # Errors
    /// The step at which reading them failed.
    fn spans(&self) -> Result<Vec<Span>>;

    /// Waits for a span.
    ///
    /// # Errors
    /// [`crate::Error::Deadline`] naming `what`, with the spans that there are.
    fn wait_span(&self, what: &str, deadline: Duration, wanted: impl Fn(&Span) -> bool) -> Result<Span> {
        wait::until_ok(what, deadline, || {
            let spans = self.spans().map_err(|error| error.to_string())?;
            let told = format!("{:#?}", spans.iter().map(Span::brief).collect::<Vec<_>>());
            spans.into_iter().find(|span| wanted(span)).ok_or(told)
        })
    }
}
