//! Routes: their fields, their servers and the listeners that they attach to.

mod backends;
mod parent;
mod rules;
mod shared_hosts;

use std::collections::BTreeMap;

use portcullis_gateway_api::{HttpRoute, ObjectMeta, ParentReference, TlsRoute};

use crate::condition::{Note, Rejection};
use crate::grants::Grants;
use crate::host::HostPattern;
use crate::host_index::HostIndex;
use crate::input::{GatewayObjects, Inventory};
use crate::name::{CreationOrder, ObjectName, RouteKind};
use crate::upstream::JudgedUpstreams;

use backends::Referable;
pub use backends::{ServedBackend, WeightedBackend};
pub(crate) use parent::{Attachment, ParentAttachment, ParentGateways, means};
pub(crate) use shared_hosts::{SharedCount, SharedHosts};

/// A route and what its own fields say, whatever it attaches to.
pub(crate) struct JudgedRoute<'a> {
    pub(crate) kind: RouteKind,
    pub(crate) name: ObjectName,
    pub(crate) metadata: &'a ObjectMeta,
    pub(crate) parents: &'a [ParentReference],
    /// Its host names; `None` are those of the listener.
    pub(crate) hosts: Option<HostIndex<HostPattern>>,
    /// The servers that can be used.
    pub(crate) backends: Vec<WeightedBackend>,
    /// The weight of the others: their share of connections or requests is refused.
    pub(crate) refused_weight: u32,
    /// Why it is not accepted by any Gateway.
    pub(crate) refusal: Option<Rejection>,
    /// Why Gateways have no room for it, by their indices. Its names there stay its own.
    pub(crate) without_room: BTreeMap<usize, Rejection>,
    /// The rules that are left out, and why.
    pub(crate) dropped: Option<String>,
    pub(crate) unresolved: Option<Rejection>,
    pub(crate) notes: Vec<Note>,
    /// The clusters to which its connections may be passed on, whether these can be or not.
    pub(crate) passed_clusters: Vec<String>,
    /// The clusters and upstreams to which its requests may be sent, whether these can be or not.
    pub(crate) requested_clusters: Vec<String>,
    /// Whether a share of it would go anywhere else: to a Service, or to an object that is not there or that it may not refer to.
    leads_elsewhere: bool,
}

/// Judges all routes, the first in order of creation first.
pub(crate) fn judge_routes<'a>(
    objects: &'a GatewayObjects,
    grants: &Grants<'_>,
    inventory: &Inventory,
    upstreams: &JudgedUpstreams,
) -> Vec<JudgedRoute<'a>> {
    let found = Referable { grants, inventory, upstreams };
    let http = objects.http_routes.iter().map(|route| judge_http(route, found));
    let mut routes: Vec<_> = http.chain(objects.tls_routes.iter().map(|route| judge_tls(route, found))).collect();
    routes.sort_by_key(|route| (CreationOrder::of(route.metadata), route.kind));
    routes
}

fn judge_http<'a>(route: &'a HttpRoute, found: Referable<'_>) -> JudgedRoute<'a> {
    let spec = &route.spec;
    let rules = rules::http(spec);
    let judged = new(RouteKind::Http, &route.metadata, &spec.parent_refs, &spec.hostnames);
    judged.with_rules(rules, found)
}

fn judge_tls<'a>(route: &'a TlsRoute, found: Referable<'_>) -> JudgedRoute<'a> {
    let spec = &route.spec;
    let rules = rules::tls(spec);
    let judged = new(RouteKind::Tls, &route.metadata, &spec.parent_refs, &spec.hostnames);
    judged.with_rules(rules, found)
}

fn new<'a>(
    kind: RouteKind,
    metadata: &'a ObjectMeta,
    parents: &'a [ParentReference],
    hostnames: &[String],
) -> JudgedRoute<'a> {
    let mut hosts: Vec<HostPattern> = Vec::new();
    let mut invalid = Vec::new();
    for (index, text) in hostnames.iter().enumerate() {
        match HostPattern::parse(text) {
            Some(host) => hosts.push(host),
            None => invalid.push(format!("spec.hostnames[{index}]: {text:?} is not a DNS name or a wildcard")),
        }
    }
    let refusal = (!invalid.is_empty()).then(|| Rejection::new("UnsupportedValue", invalid.join("; ")));
    JudgedRoute {
        kind,
        name: ObjectName::of(metadata),
        metadata,
        parents,
        // A route of which no host name can be read has none, and not the listener's.
        hosts: (!hostnames.is_empty()).then(|| HostIndex::of(hosts)),
        backends: Vec::new(),
        refused_weight: 0,
        refusal,
        without_room: BTreeMap::new(),
        dropped: None,
        unresolved: None,
        notes: Vec::new(),
        passed_clusters: Vec::new(),
        requested_clusters: Vec::new(),
        leads_elsewhere: false,
    }
}

impl JudgedRoute<'_> {
    fn with_rules(mut self, rules: rules::JudgedRules<'_>, found: Referable<'_>) -> Self {
        let backends = backends::resolve(self.kind, &self.name.namespace, &rules, found);
        self.backends = backends.usable;
        self.refused_weight = backends.refused_weight;
        self.unresolved = backends.unresolved;
        self.passed_clusters = backends.passed_clusters;
        self.requested_clusters = backends.requested_clusters;
        self.leads_elsewhere = backends.leads_elsewhere;
        self.notes = rules.notes;
        self.notes.extend(backends.notes);
        self.refusal = self.refusal.or(rules.refusal);
        self.dropped = rules.dropped;
        self
    }

    /// Refuses it at a Gateway that has no room for it. The first reason stays.
    pub(crate) fn refuse_at(&mut self, gateway: usize, why: Rejection) {
        self.without_room.entry(gateway).or_insert(why);
    }

    /// Why a Gateway does not accept it, whatever host names it has there.
    pub(crate) fn refusal_at(&self, gateway: usize) -> Option<&Rejection> {
        self.refusal.as_ref().or_else(|| self.without_room.get(&gateway))
    }

    /// Whether it may lead to an `UpstreamCluster`, by its references, and leads nowhere else. One that is refused for a moment is led to
    /// all the same: its names must not go from one route that leads there to another one meanwhile.
    pub(crate) fn means_only(&self, cluster: &str) -> bool {
        let mut clusters = self.passed_clusters.iter().chain(&self.requested_clusters).peekable();
        !self.leads_elsewhere && clusters.peek().is_some() && clusters.all(|other| other == cluster)
    }

    /// The one `UpstreamCluster` that it leads to, if it leads nowhere else and this can be used.
    pub(crate) fn only_cluster(&self) -> Option<&str> {
        let mut clusters = self.backends.iter().map(|one| match &one.backend {
            ServedBackend::Cluster(name) => Some(name.as_str()),
            ServedBackend::Service { .. } => None,
        });
        let first = clusters.next()??;
        (self.refused_weight == 0 && clusters.all(|other| other == Some(first))).then_some(first)
    }
}
