//! The exchange's part in the trace of a request.

use super::{Edit, Exchange, HeaderLines, Host};
use crate::observe::{MAX_VALUE_CHARS, Outcome, SpanRecord, decision};
use crate::review::Review;

impl<T: Clone> Exchange<T> {
    /// Writes the findings about a request into its span. Envoy finishes the span before [`Exchange::complete`].
    #[cold]
    pub(super) fn describe_span(&self, record: &mut SpanRecord, outcome: Outcome, host: &mut impl Host<Stream = T>) {
        record.decided(outcome, self.timeline.waited);
        host.describe_span(record.name(), record.attributes());
    }

    /// Writes in place of Envoy's own attributes those that a client may not choose whole, for the case that it leaves before its
    /// request is decided.
    #[cold]
    pub(super) fn describe_undecided(&self, host: &mut impl Host<Stream = T>) {
        let begun = self.tracing.and_then(|settings| SpanRecord::begin(settings, host.request_headers()?.lines()));
        if let Some(record) = begun {
            describe_waiting(&record, host);
        }
    }

    /// Writes that a request failed within the filter, perhaps before anything was known of it.
    pub(super) fn describe_failure(&self, outcome: Outcome, host: &mut impl Host<Stream = T>) {
        let begun = self.tracing.and_then(|settings| SpanRecord::begin(settings, host.request_headers()?.lines()));
        if let Some(mut record) = begun {
            self.describe_span(&mut record, outcome, host);
        }
    }

    /// Writes what became of a traced request after its decision.
    #[cold]
    pub(super) fn amend_span(&self, outcome: Outcome, host: &mut impl Host<Stream = T>) {
        host.describe_span("", decision(outcome).into_iter());
    }
}

/// Cuts what Envoy writes whole into the span of a refused request, and no server accepts that long: when the span ends, Envoy reads the
/// request's headers once more.
pub(super) fn shorten(host: &mut impl Host) {
    for name in [":authority", ":method"] {
        let long = host.request_header(name).filter(|value| value.len() > MAX_VALUE_CHARS);
        let cut = long.as_ref().and_then(|value| value.get(..MAX_VALUE_CHARS)).map(<[u8]>::to_vec);
        if let Some(cut) = cut {
            // One that cannot be cut is refused all the same.
            let _ = host.edit(Edit::Set(name.as_bytes(), &cut));
        }
    }
}

/// Writes in place of Envoy's own attributes those that a client may not choose whole: it may leave while it waits. The method is one
/// that is known by then, the name one that the cluster has.
#[cold]
pub(super) fn describe_waiting(record: &SpanRecord, host: &mut impl Host) {
    host.describe_span("", record.of_envoy());
}

/// Begins a span about waiting for reviews. If the request is certainly sampled, they carry it to the upstream: a trace that Envoy does
/// not sample must not have the upstream trace each review.
pub(super) fn begin_wait(reviews: &mut [Review], is_sampled: bool, host: &mut impl Host) {
    let is_of_token = reviews.first().is_some_and(Review::is_of_token);
    let name = if is_of_token { "TokenReview" } else { "SubjectAccessReview" };
    let Some((trace, span)) = host.begin_wait(name, reviews.len()).filter(|_| is_sampled) else { return };
    let traceparent = format!("00-{trace}-{span}-01");
    reviews.iter_mut().for_each(|review| review.join_trace(&traceparent));
}

#[cfg(test)]
mod tests;
