//! The exchange's part in the trace of a request.

use portcullis_filter_config::names::TRACEPARENT;

use super::{Exchange, Host};
use crate::gateway::Gateway;
use crate::observe::{Outcome, SpanRecord, Traced, decision, is_sampled};

impl<T: Clone> Exchange<T> {
    /// The settings for the span of a request that is traced.
    pub(super) fn traced<H: Host<Stream = T>>(gateway: &Gateway, host: &H) -> Traced {
        let header = |name: &str| host.request_header(name);
        let is_sampled = || is_sampled(header("x-request-id").as_deref(), header(TRACEPARENT).as_deref());
        gateway.tracing().filter(|_| is_sampled())
    }

    /// Ends the span of a wait for reviews.
    pub(super) fn end_wait(&self, host: &mut impl Host<Stream = T>) {
        if self.traced.is_some() {
            host.end_wait();
        }
    }

    /// Writes the findings about a request into its span. Envoy finishes the span before [`Exchange::complete`].
    pub(super) fn describe_span(
        &self,
        record: Option<Box<SpanRecord>>,
        outcome: Outcome,
        host: &mut impl Host<Stream = T>,
    ) {
        if self.traced.is_none() {
            return;
        }
        let mut record = record.unwrap_or_default();
        record.decided(outcome, self.timeline.waited);
        if !record.name().is_empty() {
            host.name_span(record.name());
        }
        for (attribute, value) in record.attributes() {
            host.describe_span(attribute, value);
        }
    }

    /// Writes what became of a request after its decision.
    pub(super) fn amend_span(&self, outcome: Outcome, host: &mut impl Host<Stream = T>) {
        if self.traced.is_some() {
            decision(outcome).into_iter().for_each(|(attribute, value)| host.describe_span(attribute, value));
        }
    }
}

#[cfg(test)]
mod tests;
