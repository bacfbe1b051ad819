use std::sync::Arc;

use portcullis_filter_config::SpanSettings;

use super::access_log::AccessLogEntry;
use super::cluster_metrics::ClusterMetrics;
use super::counters::CounterKey;
use super::request_attributes::RequestAttributes;
use super::resource::coarse;
use super::responses::Response;
use super::shadow::ShadowOutcome;
use super::span::SpanRecord;
use super::talkers::{Amounts, Requester};
use super::verb::{ReportedVerb, Scope};
use crate::header_scan::HeaderScan;
use crate::identity::{ANONYMOUS, UserInfo};
use crate::request::Client;
use crate::request_info::{RequestInfo, RequestTarget};
use crate::review::Review;
use crate::upstream_user::UpstreamUser;

/// The findings about a request while it is decided. Costs next to nothing if the request is not logged.
#[derive(Debug, Default)]
pub struct RequestRecord {
    /// Its resource is [`RequestRecord::resource`] once the client is authenticated, and only its coarse form before.
    pub(crate) key: CounterKey,
    resource: u16,
    /// Whether the client presented a credential that the upstream judges.
    is_judged_upstream: bool,
    policy: Option<usize>,
    /// The outer `None`: not known; the inner one: anonymous.
    client: Option<Option<Arc<UpstreamUser>>>,
    effective: Option<Arc<UpstreamUser>>,
    /// The line of the access log, if there is to be one.
    pub entry: Option<AccessLogEntry>,
    /// Its id, if Envoy gave it none and one was needed.
    pub(crate) id: Option<String>,
    /// The attributes that the host exports before the request goes on or is refused.
    pub attributes: Option<Box<RequestAttributes>>,
    /// The outcome of the cluster's shadow, if there is one.
    pub(crate) shadow: Option<ShadowOutcome>,
    /// A review of its token for which it does not wait, to be sent.
    pub(crate) revocation_check: Option<Box<Review>>,
    /// The attributes of its span, if it is traced.
    pub(crate) span: Option<Box<SpanRecord>>,
}

impl RequestRecord {
    /// Begins to record for the span of the request, if Envoy samples it.
    #[cold]
    pub(crate) fn begin_span<'h>(
        &mut self,
        settings: SpanSettings,
        headers: impl Iterator<Item = (&'h [u8], &'h [u8])>,
    ) {
        self.span = SpanRecord::begin(settings, headers);
    }

    fn tells_users(&self, series: &ClusterMetrics) -> bool {
        series.tells_users || self.span.as_ref().is_some_and(|span| span.tells_users())
    }

    pub(crate) fn request(&mut self, series: &ClusterMetrics, info: &RequestInfo<'_>, scan: &HeaderScan<'_>) {
        self.key.verb = ReportedVerb::of(info, scan.is_apply).code();
        self.key.scope = Scope::of(info).code();
        self.resource = series.counts.resources.code(info);
        self.key.resource = coarse(self.resource);
    }

    /// Records the client.
    pub(crate) fn client(&mut self, series: &ClusterMetrics, client: &Client) {
        match client {
            Client::Anonymous => {}
            Client::Opaque { is_token } => self.is_judged_upstream = *is_token,
            Client::Certificate(_) | Client::Bearer(..) | Client::Impersonated(_) => {
                (self.key.is_known, self.key.resource) = (true, self.resource);
            }
        }
        if self.tells_users(series) && !matches!(client, Client::Opaque { .. }) {
            self.client = Some(client.user().cloned());
        }
    }

    /// As whom the request acts.
    pub(crate) fn effective(&mut self, series: &ClusterMetrics, user: Option<&Arc<UpstreamUser>>) {
        if self.tells_users(series) {
            self.effective = user.cloned();
        }
    }

    /// Whether the client is authenticated: by the gateway, or by a server that has judged its credential and let it in.
    pub(crate) fn is_known(&self, response: &Response<'_>) -> bool {
        self.is_authenticated() || response.server.is_some() && self.is_let_in(response.code)
    }

    /// Whether the gateway has authenticated the client.
    pub(crate) fn is_authenticated(&self) -> bool {
        self.key.is_known
    }

    /// Whether this answer of a server says that it has let the client in by a credential that it judges.
    pub(crate) fn is_let_in(&self, code: u16) -> bool {
        self.is_judged_upstream && (100..400).contains(&code)
    }

    /// The labels that the answer counts under.
    pub(super) fn answer_key(&self, response: &Response<'_>) -> CounterKey {
        if !self.key.is_known && self.is_known(response) {
            return CounterKey { resource: self.resource, is_known: true, ..self.key };
        }
        self.key
    }

    pub(crate) fn policy(&mut self, policy: usize) {
        self.key.policy = u32::try_from(policy.saturating_add(1)).unwrap_or(0);
        self.policy = Some(policy);
    }

    /// The authenticated client, if the cluster's metrics ask for users.
    pub(crate) fn requester(&self) -> Requester<'_> {
        self.client.as_ref().map(Option::as_ref)
    }

    /// One more request of its client's, or none of one that is counted already.
    pub(crate) fn amounts(&self, is_new: bool, bytes: u64, is_refused: bool) -> Amounts {
        let is_list = matches!(ReportedVerb::of_code(self.key.verb), ReportedVerb::List | ReportedVerb::Watch);
        let count = |is_one: bool| u64::from(is_new && is_one);
        Amounts { requests: count(true), lists: count(is_list), bytes, refusals: count(is_refused) }
    }

    /// By whom policies are chosen.
    fn acting(&self) -> Option<&str> {
        match (&self.effective, &self.client) {
            (Some(user), _) | (None, Some(Some(user))) => Some(&user.user().name),
            (None, Some(None)) => Some(ANONYMOUS),
            (None, None) => None,
        }
    }

    /// Writes the entry, as far as the request is known: here, because the request's own texts do not live longer.
    pub(crate) fn add_request(&mut self, series: &ClusterMetrics, info: &RequestInfo<'_>, scan: &HeaderScan<'_>) {
        if let Some(export) = &series.export {
            let user = self.acting().filter(|_| export.user);
            self.attributes = Some(Box::new(RequestAttributes::of(info, scan, user, export)));
        }
        if self.span.is_some() {
            self.add_to_span(series, info);
        }
        if !series.is_logged(self.policy) {
            return;
        }
        let mut entry = AccessLogEntry::of_cluster(&series.counts.cluster);
        self.describe(series, info, &mut entry);
        self.entry = Some(entry);
    }

    fn describe(&self, series: &ClusterMetrics, info: &RequestInfo<'_>, entry: &mut AccessLogEntry) {
        entry.request(info);
        match &self.client {
            Some(Some(client)) => entry.user(client.user()),
            Some(None) => entry.user(&UserInfo::anonymous()),
            None => {}
        }
        if let Some(effective) = self.impersonated() {
            entry.impersonated(effective.user());
        }
        if let Some(policy) = self.policy.and_then(|policy| series.counts.policies.get(policy)) {
            entry.dispatch(&policy.number, &policy.schema, &policy.group);
        }
        if let Some(shadow) = &self.shadow {
            entry.shadow(shadow.key);
        }
    }

    /// The number of the policy that decided, from 0.
    pub(crate) fn decided_by(&self) -> Option<usize> {
        self.policy
    }

    /// Gives back the place that the request has in the shadow's limits.
    pub(crate) fn end_shadow(&mut self) {
        if let Some(shadow) = &mut self.shadow {
            shadow.permit = None;
        }
    }

    /// The entry of a request that its policy does not log, once it has ended.
    #[cold]
    pub(crate) fn late_entry(&self, series: &ClusterMetrics, scan: &HeaderScan<'_>) -> AccessLogEntry {
        let mut entry = AccessLogEntry::of_cluster(&series.counts.cluster);
        let target = RequestTarget::parse(scan.path);
        if let Some(info) = target.as_ref().ok().and_then(|target| target.resolve(scan.method).ok()) {
            self.describe(series, &info, &mut entry);
        }
        entry.message(scan);
        entry
    }

    #[cold]
    fn add_to_span(&mut self, series: &ClusterMetrics, info: &RequestInfo<'_>) {
        let Some(mut span) = self.span.take() else { return };
        span.request(series, self.key.verb, self.resource, info);
        if let Some(policy) = self.policy.and_then(|policy| series.counts.policies.get(policy)) {
            span.dispatch(policy);
        }
        if span.tells_users() {
            let user = match &self.client {
                Some(Some(client)) => Some(client.user().name.as_str()),
                Some(None) => Some(ANONYMOUS),
                None => None,
            };
            span.users(user, self.impersonated().map(|effective| effective.user().name.as_str()));
        }
        self.span = Some(span);
    }

    /// The user as whom the request acts, if that is not the client.
    fn impersonated(&self) -> Option<&UpstreamUser> {
        let is_client =
            |user: &Arc<UpstreamUser>| matches!(&self.client, Some(Some(client)) if Arc::ptr_eq(client, user));
        self.effective.as_ref().filter(|effective| !is_client(effective)).map(Arc::as_ref)
    }

    /// Whether the access log has the request by what its policy, or its cluster, asks for.
    pub(crate) fn is_logged(&self, series: &ClusterMetrics) -> bool {
        series.is_logged(self.policy)
    }

    /// Adds the parts of the message itself.
    pub(crate) fn add_message(&mut self, series: &ClusterMetrics, scan: &HeaderScan<'_>) {
        if let Some(span) = &mut self.span {
            span.message(series, scan);
        }
        if self.entry.is_none() && series.is_logged(self.policy) {
            self.entry = Some(AccessLogEntry::of_cluster(&series.counts.cluster));
        }
        if let Some(entry) = &mut self.entry {
            entry.message(scan);
        }
    }
}
