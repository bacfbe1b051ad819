//! One Envoy's conversation in the state-of-the-world variant of the protocol.
//!
//! The order is that of the incremental variant. Clusters and listeners are told all at a time, and what is not told is
//! gone; of the other types only what changed is told. An acknowledgement or a refusal is about the whole response, so
//! that a bad resource is found by leaving out, see [`crate::quarantine`].

mod state;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use envoy_types::pb::envoy::config::core::v3::Node;
use envoy_types::pb::envoy::service::discovery::v3::{DiscoveryRequest, DiscoveryResponse};
use envoy_types::pb::google::protobuf::Any;

use crate::kind::Kind;
use crate::piece::{Body, Key, length};
use crate::stream::{Conversation, MAX_TYPES, NodeStream, Refusal, are_short, are_versions};
use crate::wait::Wait;
use crate::{Refused, Snapshot, Standing, TypeStatus};
use state::{Change, State};

/// The server's side of one stream.
#[derive(Debug)]
pub(crate) struct SotwStream {
    snapshot: Arc<Snapshot>,
    node: String,
    states: BTreeMap<(Kind, String), State>,
    nonces: u64,
}

impl SotwStream {
    fn advance(&mut self) -> Vec<Draft> {
        for ((_, type_url), state) in &mut self.states {
            state.refresh(&self.snapshot, type_url);
        }
        let keys: Vec<_> = self.states.keys().cloned().collect();
        let mut responses = Vec::new();
        for key in keys {
            let (updates, removals) = self.waits(key.0);
            let Some(state) = self.states.get_mut(&key) else { continue };
            let Some(change) = state.next_change(updates, removals) else { continue };
            self.nonces += 1;
            let nonce = self.nonces.to_string();
            state.sent(&nonce, &change);
            self.touch_companions(&key.1, &change);
            responses.push(Draft { type_url: key.1, nonce, change });
        }
        responses
    }

    /// Marks what has to be sent again with a change; it comes later in the order of types.
    fn touch_companions(&mut self, type_url: &str, change: &Change) {
        for name in &change.changed {
            let Some(resource) = self.snapshot.get(type_url, name) else { continue };
            let Some((type_url, name)) = resource.companion() else { continue };
            if let Some(state) = self.states.get_mut(&(Kind::of(type_url), type_url.to_owned())) {
                state.touch(name);
            }
        }
    }

    /// Whose updates and whose removals of a type have to wait, given where the others stand.
    fn waits(&self, kind: Kind) -> (Wait, Wait) {
        let busy = |wanted: fn(Kind) -> bool, busy: fn(&State) -> Wait| {
            let others = self.states.iter().filter(|((other, _), _)| *other != kind && wanted(*other));
            others.map(|(_, state)| busy(state)).fold(Wait::Nobody, Wait::and)
        };
        if kind.is_referred_to() {
            let referrers = busy(|kind| !kind.is_referred_to(), State::out_of_sync);
            return (Wait::Nobody, if self.knows_referrers() { referrers } else { Wait::Everybody });
        }
        if kind == Kind::Routes && !self.knows_clusters() {
            return (Wait::Everybody, Wait::Everybody);
        }
        let referred = busy(Kind::is_referred_to, State::updating);
        let updates = if kind == Kind::Routes { referred.clone().and(self.kept()) } else { referred.clone() };
        (updates, referred)
    }

    /// As in the incremental variant: whose routes stay as the node has them, because newer ones would lead nowhere.
    fn kept(&self) -> Wait {
        let of = |wanted: fn(Kind) -> bool| self.states.iter().filter(move |((kind, _), _)| wanted(*kind));
        let has_routes = |owner: &&str| of(|kind| kind == Kind::Routes).any(|(_, routes)| routes.has_of(owner));
        let lacking = of(Kind::is_referred_to).flat_map(|(_, one)| one.lacking());
        lacking.filter(has_routes).map(|owner| Wait::for_owner(Some(owner))).fold(Wait::Nobody, Wait::and)
    }

    /// As in the incremental variant: a node that comes back while it warms clusters does not ask for them until then.
    fn knows_clusters(&self) -> bool {
        let of = |wanted: Kind| self.states.iter().filter(move |((other, _), _)| *other == wanted);
        of(Kind::Cluster).next().is_some() || !of(Kind::Routes).any(|(_, state)| state.is_resumed())
    }

    /// As in the incremental variant: before routes and listeners are asked for, nobody can tell what they refer to.
    fn knows_referrers(&self) -> bool {
        let asked = |kind| self.states.iter().find(|((other, _), _)| *other == kind);
        asked(Kind::Listener).is_some_and(|(_, listeners)| listeners.knows_nothing() || asked(Kind::Routes).is_some())
    }
}

impl Conversation for SotwStream {
    type Request = DiscoveryRequest;
    type Response = DiscoveryResponse;
    type Draft = Draft;

    fn new(snapshot: Arc<Snapshot>) -> Self {
        Self { snapshot, node: String::new(), states: BTreeMap::new(), nonces: 0 }
    }

    fn on_request(&mut self, request: DiscoveryRequest) -> Vec<Draft> {
        if self.node.is_empty()
            && let Some(node) = Self::node_of(&request)
        {
            self.node.clone_from(&node.id);
        }
        let key = (Kind::of(&request.type_url), request.type_url.clone());
        self.states.entry(key).or_default().on_request(request);
        self.advance()
    }

    fn on_snapshot(&mut self, snapshot: Arc<Snapshot>) -> Vec<Draft> {
        self.snapshot = snapshot;
        self.advance()
    }

    fn size(draft: &Draft) -> usize {
        draft.change.bodies.values().map(|body| length(body)).sum()
    }

    fn finish(draft: Draft) -> DiscoveryResponse {
        encode(draft)
    }

    fn node_of(request: &DiscoveryRequest) -> Option<&Node> {
        request.node.as_ref()
    }

    fn refusal(request: &DiscoveryRequest) -> Option<Refusal<'_>> {
        let error = request.error_detail.as_ref()?;
        Some(Refusal { type_url: &request.type_url, message: &error.message })
    }

    fn reason(request: &mut DiscoveryRequest) -> Option<&mut String> {
        request.error_detail.as_mut().map(|error| &mut error.message)
    }

    fn is_sane(request: &DiscoveryRequest) -> bool {
        are_short(request.resource_names.iter().chain([&request.type_url])) && are_versions([&request.version_info])
    }

    fn answered(request: &DiscoveryRequest) -> Option<Kind> {
        (!request.response_nonce.is_empty()).then(|| Kind::of(&request.type_url))
    }

    fn kind_of(response: &DiscoveryResponse) -> Kind {
        Kind::of(&response.type_url)
    }

    fn log(&self, response: &DiscoveryResponse) {
        let (node, resources) = (&self.node, response.resources.len());
        tracing::debug!(node, type_url = response.type_url, nonce = response.nonce, resources, "sent");
    }
}

impl NodeStream for SotwStream {
    fn node(&self) -> &str {
        &self.node
    }

    fn snapshot_version(&self) -> &str {
        self.snapshot.version()
    }

    fn is_in_sync(&self) -> bool {
        let asked = |kind| self.states.keys().any(|(other, _)| *other == kind);
        asked(Kind::Cluster) && asked(Kind::Listener) && self.states.values().all(State::is_in_sync)
    }

    fn status(&self) -> BTreeMap<String, TypeStatus> {
        self.states.iter().map(|((_, url), state)| (url.clone(), state.status())).collect()
    }

    fn refused(&self) -> Vec<Refused> {
        self.states.iter().flat_map(|((_, url), state)| state.refused(&self.snapshot, url)).collect()
    }

    fn standing(&self, snapshot: &Snapshot, owner: &str) -> Option<Standing> {
        let one = |(type_url, name): (&str, &str)| {
            let resource = snapshot.get(type_url, name)?;
            let (part, version) = match resource.part_version(owner) {
                Some(version) => (Some(owner.to_owned()), version),
                None => (None, resource.version()),
            };
            let key = Key { resource: name.to_owned(), part };
            let state = self.states.get(&(Kind::of(type_url), type_url.to_owned()));
            Some(state.map_or(Standing::Pending, |state| state.standing(&key, version)))
        };
        snapshot.owned_by(owner).filter_map(one).reduce(Standing::and)
    }

    fn oldest_unanswered(&self) -> Option<u64> {
        self.states.values().filter_map(State::unanswered).min()
    }

    fn burden(&self) -> usize {
        let names = self.states.values().map(State::burden).sum();
        if self.states.len() > MAX_TYPES { usize::MAX } else { names }
    }
}

/// A response, its bytes shared with the snapshot.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    type_url: String,
    nonce: String,
    change: Change,
}

fn encode(draft: Draft) -> DiscoveryResponse {
    let type_url = draft.type_url;
    let resource = |body: Body| Any { type_url: type_url.clone(), value: body.concat() };
    DiscoveryResponse {
        version_info: draft.change.offer.told(),
        resources: draft.change.bodies.into_values().map(resource).collect(),
        type_url,
        nonce: draft.nonce,
        ..Default::default()
    }
}

/// What is said, whole.
#[cfg(test)]
impl SotwStream {
    pub(crate) fn on_request(&mut self, request: DiscoveryRequest) -> Vec<DiscoveryResponse> {
        Conversation::on_request(self, request).into_iter().map(encode).collect()
    }

    pub(crate) fn on_snapshot(&mut self, snapshot: Arc<Snapshot>) -> Vec<DiscoveryResponse> {
        Conversation::on_snapshot(self, snapshot).into_iter().map(encode).collect()
    }
}
