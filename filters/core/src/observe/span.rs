//! The span of a request that Envoy traces.

use std::time::Duration;

use portcullis_filter_config::SpanSettings;
use portcullis_filter_config::names::span::{
    API_GROUP, API_VERSION, Attribute, CLUSTER, DECISION, GRPC_CONTENT_TYPE, GRPC_PATH, GRPC_TIMEOUT,
    IMPERSONATED_USER, NAME, NAMESPACE, OF_ENVOY, PATH, POLICY, REASON, RESOURCE, REVIEW_WAIT, SCHEMA, SERVER_GROUP,
    SUBRESOURCE, USER, USER_AGENT, VERB,
};

use super::Outcome;
use super::cluster_counts::PolicyLabels;
use super::cluster_metrics::ClusterMetrics;
use super::request_attributes::{MAX_VALUE_CHARS, line};
use super::verb::ReportedVerb;
use crate::header_scan::HeaderScan;
use crate::request_info::RequestInfo;

/// The most characters of a path.
const MAX_PATH_CHARS: usize = 1_024;

/// The place in `x-request-id` of the digit by which Envoy marks the requests that it traces, and the digit of those that it
/// does not.
const REASON_DIGIT: (usize, u8) = (14, b'4');

/// The findings about a request for its span: a name out of closed sets, and attributes. Values are texts of one line and of
/// bounded length, because clients choose them. None is a credential, and of a path only the part before the query is here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpanRecord {
    settings: SpanSettings,
    /// Whether Envoy certainly samples the request, and does not only perhaps.
    is_certain: bool,
    name: String,
    attributes: Vec<(Attribute, String)>,
}

/// Whether Envoy samples a request, or may do so. Of one with a trace context the context decides, of others the digit in
/// `x-request-id`, which Envoy writes itself. Only a saving: Envoy drops what is written into a span that it does not sample.
fn is_sampled(request_id: Option<&[u8]>, traceparent: Option<&[u8]>) -> bool {
    let (place, not_traced) = REASON_DIGIT;
    if let Some(parent) = traceparent {
        return parent
            .last()
            .is_some_and(|flags| matches!(flags, b'1' | b'3' | b'5' | b'7' | b'9' | b'b' | b'd' | b'f'));
    }
    request_id.and_then(|id| id.get(place)).is_some_and(|digit| *digit != not_traced)
}

impl SpanRecord {
    /// A record of a request with these headers; `None` if Envoy does not sample it.
    pub(crate) fn begin<'h>(
        settings: SpanSettings,
        headers: impl Iterator<Item = (&'h [u8], &'h [u8])>,
    ) -> Option<Box<Self>> {
        let [mut request_id, mut traceparent, mut agent, mut content_type, mut timeout, mut path] = [None; 6];
        for (name, value) in headers {
            let seen = match name {
                b"x-request-id" => &mut request_id,
                b"traceparent" => &mut traceparent,
                b"user-agent" => &mut agent,
                b"content-type" => &mut content_type,
                b"grpc-timeout" => &mut timeout,
                b":path" => &mut path,
                _ => continue,
            };
            seen.get_or_insert(value);
        }
        if !is_sampled(request_id, traceparent) {
            return None;
        }
        let is_certain = !settings.trusted_parents || traceparent.is_some();
        let mut span = Box::new(SpanRecord { settings, is_certain, ..SpanRecord::default() });
        let mut cut = |attribute, value: Option<&[u8]>| {
            if let Some(long) = value.filter(|value| value.len() > MAX_VALUE_CHARS) {
                span.say(attribute, long);
            }
        };
        cut(USER_AGENT, agent);
        if content_type.is_some_and(|kind| kind.starts_with(b"application/grpc")) {
            cut(GRPC_CONTENT_TYPE, content_type);
            cut(GRPC_TIMEOUT, timeout);
            let path = line(without_query(path.unwrap_or_default()), MAX_PATH_CHARS);
            span.attributes.push((GRPC_PATH, path));
        }
        Some(span)
    }

    /// Whether reviews go on with the trace as a sampled one.
    pub(crate) fn is_certain(&self) -> bool {
        self.is_certain
    }

    /// Whether the span contains names of users.
    pub(super) fn tells_users(&self) -> bool {
        self.settings.users
    }

    pub(super) fn message(&mut self, series: &ClusterMetrics, scan: &HeaderScan<'_>) {
        self.attributes.push((PATH, line(without_query(scan.path), MAX_PATH_CHARS)));
        self.say(CLUSTER, series.counts.cluster.as_bytes());
    }

    pub(super) fn request(&mut self, series: &ClusterMetrics, verb: u8, resource: u16, info: &RequestInfo<'_>) {
        let (resource, subresource) = series.counts.resources.labels(resource);
        let name = [ReportedVerb::of_code(verb).label(), resource, subresource];
        self.name = name.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ");
        self.say(VERB, &info.verb);
        if info.is_resource {
            self.say(API_GROUP, info.api_group);
            self.say(API_VERSION, info.api_version);
            self.say(RESOURCE, info.resource);
            self.say(SUBRESOURCE, info.subresource);
            self.say(NAMESPACE, info.namespace);
            self.say(NAME, &info.name);
        }
    }

    pub(super) fn dispatch(&mut self, policy: &PolicyLabels) {
        self.say(POLICY, policy.number.as_bytes());
        self.say(SCHEMA, policy.schema.as_bytes());
        self.say(SERVER_GROUP, policy.group.as_bytes());
    }

    pub(super) fn users(&mut self, user: Option<&str>, impersonated: Option<&str>) {
        self.say(USER, user.unwrap_or_default().as_bytes());
        self.say(IMPERSONATED_USER, impersonated.unwrap_or_default().as_bytes());
    }

    /// Adds how the request was decided, and how long it waited for reviews if it did.
    pub(crate) fn decided(&mut self, outcome: Outcome, waited: Duration) {
        self.attributes.extend(decision(outcome).map(|(attribute, value)| (attribute, value.to_owned())));
        if !waited.is_zero() {
            self.attributes.push((REVIEW_WAIT, waited.as_millis().to_string()));
        }
    }

    /// The name of the span; empty if nothing is known of the request.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Attributes with their values.
    pub(crate) fn attributes(&self) -> impl Iterator<Item = (Attribute, &str)> {
        self.attributes.iter().map(|(attribute, value)| (*attribute, value.as_str()))
    }

    /// Attributes that Envoy would write otherwise.
    pub(crate) fn of_envoy(&self) -> impl Iterator<Item = (Attribute, &str)> {
        self.attributes().filter(|(attribute, _)| OF_ENVOY.contains(attribute))
    }

    fn say(&mut self, attribute: Attribute, value: &[u8]) {
        if !value.is_empty() {
            self.attributes.push((attribute, line(value, MAX_VALUE_CHARS)));
        }
    }
}

fn without_query(path: &[u8]) -> &[u8] {
    path.split(|byte| *byte == b'?').next().unwrap_or_default()
}

/// The attributes of an outcome.
pub(crate) const fn decision(outcome: Outcome) -> [(Attribute, &'static str); 2] {
    [(DECISION, outcome.decision()), (REASON, outcome.reason())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sampling_is_certain_unless_a_sampler_may_decide() {
        let parent = format!("00-{}-{}-01", "a".repeat(32), "b".repeat(16));
        let id = (&b"x-request-id"[..], &b"3f1b0c9a-77a2-90aa-8a52-000000000000"[..]);
        let begun = |trusted_parents, headers: &[(&'static [u8], &[u8])]| {
            let settings = SpanSettings { trusted_parents, ..SpanSettings::default() };
            SpanRecord::begin(settings, headers.iter().copied()).map(|span| span.is_certain())
        };
        assert_eq!(begun(false, &[id]), Some(true));
        assert_eq!(begun(true, &[id]), Some(false));
        assert_eq!(begun(true, &[id, (b"traceparent", parent.as_bytes())]), Some(true));
    }

    #[test]
    fn request_is_sampled_as_envoy_marks_it_or_its_parent_says() {
        let id = |digit: &str| format!("3f1b0c9a-77a2-{digit}0aa-8a52-000000000000");
        let parent = |flags: &str| format!("00-{}-{}-{flags}", "a".repeat(32), "b".repeat(16));
        for (digit, sampled) in [("4", false), ("9", true), ("a", true), ("b", true)] {
            assert_eq!(is_sampled(Some(id(digit).as_bytes()), None), sampled, "{digit}");
            for (flags, by_parent) in [("00", false), ("01", true), ("02", false), ("03", true), ("0f", true)] {
                let traceparent = parent(flags);
                assert_eq!(is_sampled(Some(id(digit).as_bytes()), Some(traceparent.as_bytes())), by_parent, "{flags}");
            }
        }
        for odd in [None, Some(&b""[..]), Some(b"short")] {
            assert!(!is_sampled(odd, None) && !is_sampled(odd, Some(b"")), "{odd:?}");
        }
    }
}
