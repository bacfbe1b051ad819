//! The server's side of one Envoy's stream in the incremental protocol.
//!
//! Each type has at most one response without an answer. The next response is computed from the node's acknowledgements and the
//! newest snapshot, never from a queue: a burst of snapshots costs one response, and so do all that come while there is no room for it.
//!
//! A refusal (NACK) goes to the type's `subscription`, which tries halves of the refused response. `composed` passes the refusal
//! of a resource that is made of parts, such as a listener, to [`crate::quarantine`].

mod composed;
mod events;
mod gates;
mod nonces;
mod refusals;
mod response;
mod subscription;
mod turn;

#[cfg(test)]
mod tests;

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::RandomState;
use std::sync::Arc;

use envoy_types::pb::envoy::service::discovery::v3::DeltaDiscoveryRequest;

use crate::changed_names::ChangedNames;
use crate::kind::{RDS, ResourceKind};
use crate::node::{Refused, combined};
use crate::snapshot::Snapshot;
use gates::{Blocked, SendGates};
use nonces::Nonces;
use portcullis_api::status::GatewayProgress;
pub(crate) use response::PendingResponse;
use subscription::Subscription;
pub(crate) use turn::NextResponse;

/// The progress of one type on one stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TypeStatus {
    /// The version of all resources of the type when something was sent last; empty before.
    pub sent: String,
    /// The same, when the last response that was acknowledged was sent. It may have been a part: more may be due of that version.
    pub acked: String,
    /// Why the node refused a resource, as long as it does.
    pub nack: Option<String>,
}

/// The server's side of one stream.
#[derive(Debug)]
pub(crate) struct DeltaStream {
    snapshot: Arc<Snapshot>,
    node: String,
    subscriptions: BTreeMap<SubscriptionKey, Subscription>,
    nonces: Nonces,
    /// Most bytes of the resources of one response.
    most: usize,
    /// Whether the node has acknowledged every resource of the snapshot, once that was asked for; empty after each event.
    has_everything: OnceCell<bool>,
    /// The number of events.
    revision: u64,
    /// The owners whose progress may be another one than when they were taken last, if there was an event since.
    changed: Option<ChangedNames>,
    /// The types that are still to be asked for a response to the last event, the last one first; `None` if none was asked since.
    turn: Option<Vec<SubscriptionKey>>,
}

/// In the order in which types have their turn.
type SubscriptionKey = (ResourceKind, String);

impl DeltaStream {
    /// The resources of a type that have to wait now, given the progress of the other types. Resources of one owner refer to
    /// none of another owner, so that owners do not wait for each other: only parts of a listener do at a Gateway's Envoys, and a
    /// listener has no owner itself, so that it waits for all. `referred` is the same for all that refer to others: each has a type that
    /// may have as many names as a node likes.
    fn gates(&self, kind: ResourceKind, referred: &OnceCell<Blocked>) -> SendGates {
        let busy = |wanted: fn(ResourceKind) -> bool, busy: fn(&Subscription, &Snapshot, &str) -> Blocked| {
            self.subscriptions
                .iter()
                .filter(|((other, _), _)| *other != kind && wanted(*other))
                .map(|((_, type_url), subscription)| busy(subscription, &self.snapshot, type_url))
                .fold(Blocked::None, Blocked::and)
        };
        if kind.is_referred_to() {
            let referrers = busy(|kind| !kind.is_referred_to(), Subscription::out_of_sync);
            let clusters = busy(|kind| kind == ResourceKind::Cluster, Subscription::unsettled);
            let removals = if self.knows_referrers() { referrers.and(clusters) } else { Blocked::All };
            return SendGates { updates: Blocked::None, removals };
        }
        if kind == ResourceKind::Routes && !self.knows_clusters() {
            return SendGates::CLOSED;
        }
        let referred = referred.get_or_init(|| busy(ResourceKind::is_referred_to, Subscription::updating)).clone();
        let updates = if kind == ResourceKind::Routes { referred.clone().and(self.kept()) } else { referred.clone() };
        SendGates { updates, removals: referred }
    }

    /// The owners whose routes stay as the node has them: the node refuses the clusters, endpoints or secrets that newer routes
    /// lead to. Routes without an owner lead to none of these.
    fn kept(&self) -> Blocked {
        let of =
            |wanted: fn(ResourceKind) -> bool| self.subscriptions.iter().filter(move |((kind, _), _)| wanted(*kind));
        let lacking = of(ResourceKind::is_referred_to).flat_map(|((_, url), one)| one.lacking(&self.snapshot, url));
        let lacking: BTreeSet<_> = lacking.collect();
        if lacking.is_empty() {
            return Blocked::None;
        }
        // Each route is looked at once: a node may claim to have as many as it likes, and refuse as much.
        let routes = of(|kind| kind == ResourceKind::Routes);
        let owners = routes.flat_map(|((_, url), routes)| routes.known_owners(&self.snapshot, url));
        let owners: BTreeSet<_> = owners.filter(|owner| lacking.contains(owner)).map(str::to_owned).collect();
        if owners.is_empty() { Blocked::None } else { Blocked::OwnersAlone(owners) }
    }

    /// Whether the node can take routes. One that comes back while it warms clusters does not ask for them, nor say which it
    /// has, until they are warm; the routes that it has lead to the ones before.
    fn knows_clusters(&self) -> bool {
        let of = |wanted: ResourceKind| self.subscriptions.iter().filter(move |((other, _), _)| *other == wanted);
        let is_asked = of(ResourceKind::Cluster).any(|(_, subscription)| subscription.is_open());
        is_asked || !of(ResourceKind::Routes).any(|(_, subscription)| subscription.is_resumed())
    }

    /// Whether the references of the node's resources are known. After a reconnect the types come one by one, and before routes
    /// and listeners are asked for, their references are unknown. If there are no routes, because all connections are passed
    /// on, or only ended ones, to which no chain leads, a node with the newest listeners asks for none.
    fn knows_referrers(&self) -> bool {
        let asked = |kind| self.subscriptions.iter().find(|((other, _), _)| *other == kind);
        let has_newest = |url: &str, one: &Subscription| one.out_of_sync(&self.snapshot, url) == Blocked::None;
        let has_no_routes = || self.snapshot.of_type(RDS).all(|(_, routes)| routes.is_on_demand());
        asked(ResourceKind::Listener).is_some_and(|((_, url), listeners)| {
            listeners.knows_nothing()
                || asked(ResourceKind::Routes).is_some()
                || (has_no_routes() && has_newest(url, listeners))
        })
    }
}

/// Most bytes of the resources of one response; the rest follows when it is acknowledged. The routes of thousands of objects have
/// hundreds of megabytes, and Envoy takes a message as a whole. Clusters are not divided: Envoy acknowledges none
/// before all servers of the new ones were checked, so that one that hangs would delay every response.
const MAX_RESPONSE: usize = 32 * 1024 * 1024;
/// Maximum length of the name of a type or a resource.
const MAX_NAME_LENGTH: usize = 1_024;
/// Maximum length of a version: one lists the digests of thousands of parts.
const MAX_VERSION_LENGTH: usize = 32 * 1_024;
/// Maximum number of types on one stream.
const MAX_TYPES: usize = 32;

/// A node refuses a response.
pub(crate) struct Nack<'a> {
    pub(crate) type_url: &'a str,
    pub(crate) message: &'a str,
}

/// The refusal in a request, if it is one.
pub(crate) fn refusal(request: &DeltaDiscoveryRequest) -> Option<Nack<'_>> {
    let error = request.error_detail.as_ref()?;
    Some(Nack { type_url: &request.type_url, message: &error.message })
}

/// Whether every name and version in a request has a usual length.
pub(crate) fn is_within_limits(request: &DeltaDiscoveryRequest) -> bool {
    let names = request.resource_names_subscribe.iter().chain(&request.resource_names_unsubscribe);
    let mut names = names.chain(request.initial_resource_versions.keys()).chain([&request.type_url]);
    names.all(|name| name.len() <= MAX_NAME_LENGTH)
        && request.initial_resource_versions.values().all(|version| version.len() <= MAX_VERSION_LENGTH)
}

/// The type of the response that a request answers, if it answers one.
pub(crate) fn answered_kind(request: &DeltaDiscoveryRequest) -> Option<ResourceKind> {
    (!request.response_nonce.is_empty()).then(|| ResourceKind::of(&request.type_url))
}

impl DeltaStream {
    /// A new stream. `key` is a random one, of its nonces.
    pub(crate) fn new(snapshot: Arc<Snapshot>, key: RandomState) -> Self {
        Self {
            snapshot,
            node: String::new(),
            subscriptions: BTreeMap::new(),
            nonces: Nonces::new(key),
            most: MAX_RESPONSE,
            has_everything: OnceCell::new(),
            revision: 0,
            changed: Some(ChangedNames::All),
            turn: None,
        }
    }

    /// A stream whose responses have so many bytes at most, as far as they can be divided.
    pub(crate) fn with_most(self, most: usize) -> Self {
        Self { most: most.min(self.most), ..self }
    }

    /// Takes a request: a subscription, an acknowledgement or both.
    pub(crate) fn take_request(&mut self, request: DeltaDiscoveryRequest) {
        if self.node.is_empty()
            && let Some(node) = &request.node
        {
            self.node.clone_from(&node.id);
        }
        self.begin_event();
        let key = (ResourceKind::of(&request.type_url), request.type_url.clone());
        self.subscriptions.entry(key).or_default().on_request(request, &self.snapshot);
        self.turn = None;
        self.note_changes();
    }

    /// Takes a newer snapshot. That costs little more than what is other than before, and nothing is kept of the one before.
    pub(crate) fn take_snapshot(&mut self, snapshot: Arc<Snapshot>) {
        if self.snapshot.has_same_resources(&snapshot) {
            // It is another one for nodes of other views alone.
            self.snapshot = snapshot;
            return;
        }
        self.begin_event();
        for ((_, type_url), subscription) in &mut self.subscriptions {
            subscription.on_snapshot(self.snapshot.changes(&snapshot, type_url));
        }
        self.snapshot = snapshot;
        self.turn = None;
        self.note_changes();
    }

    /// Logs a response, without its content.
    pub(crate) fn log(&self, response: &PendingResponse) {
        let (resources, removed) = (response.change.updates.len(), response.change.removals.len());
        let node = &self.node;
        tracing::debug!(node, type_url = response.type_url, nonce = response.nonce, resources, removed, "sent");
    }

    /// The node's id; empty before the first request.
    pub(crate) fn node(&self) -> &str {
        &self.node
    }

    /// The version of the newest snapshot that the stream has taken.
    pub(crate) fn snapshot_version(&self) -> &str {
        self.snapshot.version()
    }

    /// Whether all that the node subscribed to is acknowledged in the newest version, clusters and listeners among it.
    pub(crate) fn is_in_sync(&self) -> bool {
        let asked = |kind| self.subscriptions.keys().any(|(other, _)| *other == kind);
        // Before, it is not known whether something is to be sent after the last event.
        self.turn.is_some()
            && asked(ResourceKind::Cluster)
            && asked(ResourceKind::Listener)
            && self.subscriptions.iter().all(|((_, url), subscription)| subscription.is_in_sync(&self.snapshot, url))
    }

    /// The progress of each type that was asked for.
    pub(crate) fn status(&self) -> BTreeMap<String, TypeStatus> {
        let open = self.subscriptions.iter().filter(|(_, subscription)| subscription.is_open());
        open.map(|((_, url), subscription)| (url.clone(), subscription.status())).collect()
    }

    /// Bytes of the reasons of refusals that are kept.
    pub(crate) fn reason_bytes(&self) -> usize {
        self.subscriptions.values().map(Subscription::reason_bytes).sum()
    }

    /// The resources of the newest snapshot that the node refuses.
    pub(crate) fn refused(&self) -> Vec<Refused> {
        let refused = |((_, url), subscription): (&'_ (ResourceKind, String), &'_ Subscription)| {
            subscription.refused(&self.snapshot, url).collect::<Vec<_>>()
        };
        self.subscriptions.iter().flat_map(refused).collect()
    }

    /// Whether the node has acknowledged every resource of the newest snapshot: the usual case, in which nothing has to be asked of
    /// each owner.
    fn has_everything(&self) -> bool {
        let has_all = |type_url: &str| {
            let subscription = self.subscriptions.get(&(ResourceKind::of(type_url), type_url.to_owned()));
            match subscription {
                Some(subscription) => subscription.has_everything(&self.snapshot, type_url),
                // Nothing is under way of what the node did not ask for.
                None => self.snapshot.of_type(type_url).all(|(_, resource)| resource.is_on_demand()),
            }
        };
        let is_known = || self.is_in_sync() && self.refused().is_empty() && self.snapshot.types().all(has_all);
        *self.has_everything.get_or_init(is_known)
    }

    /// The node's progress with one owner's resources in a snapshot; `None` if it holds none of them.
    pub(crate) fn progress(&self, snapshot: &Snapshot, owner: &str) -> Option<GatewayProgress> {
        if std::ptr::eq(Arc::as_ptr(&self.snapshot), snapshot) && self.has_everything() {
            let progress = snapshot.has_owner(owner).then_some(GatewayProgress::Acknowledged);
            debug_assert_eq!(progress, self.progress_by_resource(snapshot, owner));
            return progress;
        }
        self.progress_by_resource(snapshot, owner)
    }

    /// The node's progress with everything in a snapshot.
    pub(crate) fn progress_with_all(&self, snapshot: &Snapshot) -> GatewayProgress {
        let refused = self.refused().into_iter().find(|refused| !refused.is_optional);
        match refused {
            Some(refused) => GatewayProgress::Refused { message: format!("{}: {}", refused.name, refused.message) },
            // In sync is also a node that has not asked yet for the endpoints of clusters that it took.
            None if self.has_everything() && self.snapshot.has_resources_of(snapshot) => GatewayProgress::Acknowledged,
            None => GatewayProgress::Pending,
        }
    }

    fn progress_by_resource(&self, snapshot: &Snapshot, owner: &str) -> Option<GatewayProgress> {
        let one = |(type_url, name): (&str, &str)| {
            let resource = snapshot.get(type_url, name)?;
            let subscription = self.subscriptions.get(&(ResourceKind::of(type_url), type_url.to_owned()));
            Some(match subscription {
                Some(subscription) => subscription.progress(name, resource, owner),
                None if resource.is_on_demand() => GatewayProgress::Acknowledged,
                None => GatewayProgress::Pending,
            })
        };
        snapshot.owned_by(owner).filter_map(one).reduce(combined)
    }

    /// The number of the oldest response without an answer.
    pub(crate) fn oldest_unanswered(&self) -> Option<u64> {
        self.subscriptions.values().filter_map(Subscription::unanswered).min()
    }

    /// The number of resources that the node may know.
    pub(crate) fn resource_count(&self) -> usize {
        self.snapshot.len()
    }

    /// Bytes of names and versions that the node brought and no resource had then.
    pub(crate) fn foreign_bytes(&self) -> usize {
        self.subscriptions.values().map(Subscription::foreign_bytes).sum()
    }

    /// The number of names that are kept on behalf of the node.
    pub(crate) fn subscription_count(&self) -> usize {
        let names = self.subscriptions.values().map(Subscription::name_count).sum();
        if self.subscriptions.len() > MAX_TYPES { usize::MAX } else { names }
    }
}
