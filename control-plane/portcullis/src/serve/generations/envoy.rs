//! A model of Envoy, as far as the order of responses matters: subscriptions, warming, and acknowledgements at any time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use envoy_types::pb::envoy::config::cluster::v3::Cluster;
use envoy_types::pb::envoy::config::route::v3::{Route, RouteConfiguration, route, route_action::ClusterSpecifier};
use envoy_types::pb::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DeltaDiscoveryResponse};
use envoy_types::pb::google::rpc::Status;
use envoy_types::pb::xds::r#type::matcher::v3::matcher::{MatcherType, matcher_tree::TreeType, on_match::OnMatch};
use portcullis_translate::type_urls;
use portcullis_xds::Snapshot;
use portcullis_xds::testing::InMemoryStream;
use proptest::prelude::*;
use prost::Message;

use super::chains;

/// A resource as Envoy has it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Applied {
    pub(super) url: String,
    pub(super) name: String,
    pub(super) body: Vec<u8>,
}

/// The next step of Envoy, by number among those that are possible.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// Takes a response of some type.
    Take(u8),
    /// Takes all of a response but its first resource, and refuses the response.
    Refuse(u8),
    /// Sends what it has to say of some type.
    Say(u8),
    /// A cluster whose endpoints and secrets are there is warm.
    Warm(u8),
    /// A cluster waits no longer for endpoints or secrets that did not come in time.
    GiveUp(u8),
}

impl Arbitrary for Step {
    type Parameters = ();
    type Strategy = BoxedStrategy<Self>;

    fn arbitrary_with((): ()) -> Self::Strategy {
        prop_oneof![
            8 => any::<u8>().prop_map(Step::Take),
            8 => any::<u8>().prop_map(Step::Say),
            8 => any::<u8>().prop_map(Step::Warm),
            1 => any::<u8>().prop_map(Step::GiveUp),
        ]
        .boxed()
    }
}

/// A route configuration, or a chain that passes connections on: by what is decided, and where each destination leads.
pub(super) struct Decided {
    pub(super) routes: Applied,
    pub(super) destinations: BTreeMap<String, String>,
}

/// A cluster with the names that it needs.
#[derive(Clone)]
struct ClusterState {
    body: Vec<u8>,
    endpoints: Option<String>,
    secrets: BTreeSet<String>,
}

/// The state of one resource type.
#[derive(Default)]
struct TypeState {
    /// The resources that Envoy has: version and body.
    has: BTreeMap<String, (String, Vec<u8>)>,
    /// Names that it wants; of clusters and listeners it wants all.
    wants: BTreeSet<String>,
    /// Names that this stream was asked for.
    asked: BTreeSet<String>,
    /// Whether this stream was asked for this type.
    is_open: bool,
    /// Responses that came.
    inbox: VecDeque<DeltaDiscoveryResponse>,
    /// Responses to be acknowledged by their nonces, or refused with a reason.
    owed: VecDeque<(String, Option<Status>)>,
}

pub(super) struct EnvoyModel {
    plane: InMemoryStream,
    snapshot: Arc<Snapshot>,
    kinds: BTreeMap<String, TypeState>,
    warming: BTreeMap<String, ClusterState>,
    active: BTreeMap<String, ClusterState>,
    decisions: Vec<Decided>,
}

impl EnvoyModel {
    pub(super) fn new(snapshot: Arc<Snapshot>) -> Self {
        let types = [
            type_urls::cluster(),
            type_urls::assignment(),
            type_urls::secret(),
            type_urls::listener(),
            type_urls::route_configuration(),
        ];
        Self {
            plane: InMemoryStream::new(Arc::clone(&snapshot)),
            snapshot,
            kinds: types.map(|url| (url.to_owned(), TypeState::default())).into(),
            warming: BTreeMap::new(),
            active: BTreeMap::new(),
            decisions: Vec::new(),
        }
    }

    pub(super) fn on_snapshot(&mut self, snapshot: Arc<Snapshot>) {
        self.snapshot = Arc::clone(&snapshot);
        let responses = self.plane.on_snapshot(snapshot);
        self.hear(responses);
    }

    /// The stream ends, and another control plane answers the next one.
    pub(super) fn reconnect(&mut self, snapshot: Arc<Snapshot>) {
        self.snapshot = Arc::clone(&snapshot);
        self.plane = InMemoryStream::new(snapshot);
        for kind in self.kinds.values_mut() {
            kind.inbox.clear();
            kind.owed.clear();
            kind.asked.clear();
            kind.is_open = false;
        }
    }

    fn hear(&mut self, responses: Vec<DeltaDiscoveryResponse>) {
        for response in responses {
            if let Some(kind) = self.kinds.get_mut(&response.type_url) {
                kind.inbox.push_back(response);
            }
        }
    }

    pub(super) fn take(&mut self, step: Step) {
        let pick = |number: u8, from: &[String]| from.get(usize::from(number) % from.len().max(1)).cloned();
        match step {
            Step::Take(number) => {
                let ready: Vec<_> = self.of(|_, kind| !kind.inbox.is_empty());
                pick(number, &ready).into_iter().for_each(|url| self.receive(&url, true));
            }
            Step::Refuse(number) => {
                let ready: Vec<_> = self.of(|_, kind| kind.inbox.front().is_some_and(|one| !one.resources.is_empty()));
                pick(number, &ready).into_iter().for_each(|url| self.receive(&url, false));
            }
            Step::Say(number) => {
                let ready = self.of(|url, _| self.has_to_say(url));
                pick(number, &ready).into_iter().for_each(|url| self.say(&url));
            }
            Step::Warm(number) => {
                let ready: Vec<_> = self.warming.iter().filter(|(_, pool)| self.is_complete(pool)).collect();
                let ready: Vec<_> = ready.into_iter().map(|(name, _)| name.clone()).collect();
                pick(number, &ready).into_iter().for_each(|name| self.activate(name));
            }
            Step::GiveUp(number) => {
                let all: Vec<_> = self.warming.keys().cloned().collect();
                pick(number, &all).into_iter().for_each(|name| self.activate(name));
            }
        }
    }

    fn activate(&mut self, name: String) {
        if let Some(pool) = self.warming.remove(&name) {
            self.active.insert(name, pool);
        }
    }

    fn of(&self, wanted: impl Fn(&String, &TypeState) -> bool) -> Vec<String> {
        self.kinds.iter().filter(|(url, kind)| wanted(url, kind)).map(|(url, _)| url.clone()).collect()
    }

    /// Everything of clusters waits while one of them is warming, the first request of a stream, too.
    fn has_to_say(&self, url: &str) -> bool {
        if url == type_urls::cluster() && !self.warming.is_empty() {
            return false;
        }
        let Some(kind) = self.kinds.get(url) else { return false };
        let is_whole = is_whole(url);
        let opens = !kind.is_open && (is_whole || !kind.wants.is_empty());
        opens || !kind.owed.is_empty() || (!is_whole && kind.asked != kind.wants)
    }

    fn say(&mut self, url: &str) {
        let Some(kind) = self.kinds.get_mut(url) else { return };
        let mut request = DeltaDiscoveryRequest { type_url: url.to_owned(), ..Default::default() };
        if !std::mem::replace(&mut kind.is_open, true) {
            request.initial_resource_versions =
                kind.has.iter().map(|(name, (version, _))| (name.clone(), version.clone())).collect();
        }
        if !is_whole(url) {
            request.resource_names_subscribe = kind.wants.difference(&kind.asked).cloned().collect();
            request.resource_names_unsubscribe = kind.asked.difference(&kind.wants).cloned().collect();
            kind.asked = kind.wants.clone();
        }
        (request.response_nonce, request.error_detail) = kind.owed.pop_front().unwrap_or_default();
        let responses = self.plane.on_request(request);
        self.hear(responses);
    }

    fn receive(&mut self, url: &str, takes_all: bool) {
        let Some(kind) = self.kinds.get_mut(url) else { return };
        let Some(mut response) = kind.inbox.pop_front() else { return };
        let refused = (!takes_all).then(|| response.resources.remove(0));
        let refusal =
            refused.map(|one| Status { code: 13, message: format!("{} is refused", one.name), ..Status::default() });
        let mut taken = Vec::new();
        for resource in response.resources {
            if is_whole(url) || kind.wants.contains(&resource.name) {
                let body = resource.resource.map(|any| any.value).unwrap_or_default();
                kind.has.insert(resource.name.clone(), (resource.version, body.clone()));
                taken.push((resource.name, body));
            }
        }
        for name in &response.removed_resources {
            kind.has.remove(name);
        }
        kind.owed.push_back((response.nonce, refusal));
        for (name, body) in taken {
            self.apply(url, name, body);
        }
        if url == type_urls::cluster() {
            for name in &response.removed_resources {
                self.warming.remove(name);
                self.active.remove(name);
            }
        }
        self.want();
    }

    fn apply(&mut self, url: &str, name: String, body: Vec<u8>) {
        if url == type_urls::cluster() {
            let pool = ClusterState::of(body);
            // It goes on as it was until its successor is warm.
            self.warming.insert(name, pool);
        } else if url == type_urls::listener() {
            self.decisions.extend(chains::of(&body).into_iter().filter_map(chains::decided));
        } else if url == type_urls::route_configuration() {
            let decided = Decided::of(Applied { url: url.to_owned(), name, body });
            self.decisions.push(decided);
        }
    }

    /// Asks for what clusters and listeners refer to, and lets go of the rest.
    fn want(&mut self) {
        let pools = || self.warming.values().chain(self.active.values());
        let endpoints: BTreeSet<_> = pools().filter_map(|pool| pool.endpoints.clone()).collect();
        let secrets: BTreeSet<_> = pools().flat_map(|pool| pool.secrets.clone()).collect();
        let listeners = self.kinds.get(type_urls::listener()).map(|kind| &kind.has);
        let routes = listeners.into_iter().flatten().flat_map(|(_, (_, body))| chains::routes(body)).collect();
        for (url, wants) in [
            (type_urls::assignment(), endpoints),
            (type_urls::secret(), secrets),
            (type_urls::route_configuration(), routes),
        ] {
            if let Some(kind) = self.kinds.get_mut(url) {
                kind.has.retain(|name, _| wants.contains(name));
                // Envoy subscribes anew to a name that it let go of and wants again before it has said either: it has forgotten the resource.
                kind.asked.retain(|name| kind.wants.contains(name) || !wants.contains(name));
                kind.wants = wants;
            }
        }
    }

    fn is_complete(&self, pool: &ClusterState) -> bool {
        let has = |url: &str, name: &String| self.kinds.get(url).is_some_and(|kind| kind.has.contains_key(name));
        pool.endpoints.iter().all(|name| has(type_urls::assignment(), name))
            && pool.secrets.iter().all(|name| has(type_urls::secret(), name))
    }

    /// Every route configuration that was ever in effect.
    pub(super) fn decisions(&self) -> impl Iterator<Item = &Decided> {
        self.decisions.iter()
    }

    /// The route configuration that is in effect.
    pub(super) fn current(&self) -> Option<&Decided> {
        let routes = self.kinds.get(type_urls::route_configuration())?;
        let is_current = |decided: &&Decided| {
            routes.has.get(&decided.routes.name).is_some_and(|(_, body)| *body == decided.routes.body)
        };
        self.decisions.iter().rev().find(is_current)
    }

    /// The chain that passes connections on and is in effect.
    pub(super) fn current_chain(&self) -> Option<Decided> {
        let listeners = self.kinds.get(type_urls::listener())?;
        let mut chains = listeners.has.values().flat_map(|(_, body)| chains::of(body));
        chains.find_map(chains::decided)
    }

    /// The resources that a request to a cluster uses: the cluster, its endpoints and its secrets. Empty if the cluster does
    /// not exist or is not warm.
    pub(super) fn way(&self, cluster: &str) -> Vec<Applied> {
        let Some(pool) = self.active.get(cluster) else { return Vec::new() };
        let found = |url: &str, name: &String| {
            let (_, body) = self.kinds.get(url)?.has.get(name)?;
            Some(Applied { url: url.to_owned(), name: name.clone(), body: body.clone() })
        };
        let endpoints = pool.endpoints.iter().filter_map(|name| found(type_urls::assignment(), name));
        let secrets = pool.secrets.iter().filter_map(|name| found(type_urls::secret(), name));
        let own = Applied { url: type_urls::cluster().to_owned(), name: cluster.to_owned(), body: pool.body.clone() };
        std::iter::once(own).chain(endpoints).chain(secrets).collect()
    }

    /// Does the next thing; whether there was one.
    fn go_on(&mut self) -> bool {
        let takes = self.of(|_, kind| !kind.inbox.is_empty());
        let says = self.of(|url, _| self.has_to_say(url));
        let warms = self.warming.values().any(|pool| self.is_complete(pool));
        match (takes.first(), says.first()) {
            (Some(url), _) => self.receive(url, true),
            (None, Some(url)) => self.say(url),
            (None, None) if warms => self.take(Step::Warm(0)),
            (None, None) if !self.warming.is_empty() => self.take(Step::GiveUp(0)),
            (None, None) => return false,
        }
        true
    }

    /// Does the next thing, if there is one.
    pub(super) fn go_on_once(&mut self) {
        self.go_on();
    }

    /// Does all that it can until nothing is left to do.
    pub(super) fn settle(&mut self) {
        let has_ended = (0..2_000).any(|_| !self.go_on());
        assert!(has_ended, "it does not end");
    }

    /// Whether it has all that is served of a type and nothing else.
    pub(super) fn has_only_what_is_served(&self, url: &str) -> bool {
        let served: BTreeSet<_> = self.snapshot.names(url).collect();
        let has = |kind: &TypeState| kind.has.keys().map(String::as_str).collect::<BTreeSet<_>>() == served;
        self.kinds.get(url).is_some_and(has)
    }
}

/// Whether all there is of a type is wanted.
fn is_whole(url: &str) -> bool {
    url == type_urls::cluster() || url == type_urls::listener()
}

impl ClusterState {
    fn of(body: Vec<u8>) -> Self {
        let cluster = Cluster::decode(body.as_slice()).unwrap();
        let endpoints = cluster.eds_cluster_config.map(|config| config.service_name);
        // Secrets are named in messages within messages: found as the words that they are.
        let secrets = names(&body).into_iter().filter(|name| SECRETS.contains(&part(name)));
        Self { secrets: secrets.collect(), endpoints, body }
    }
}

/// Parts of the names of secrets that pools need.
const SECRETS: [&str; 3] = ["client", "token", "ca"];

/// The part of a cluster that a name refers to, without a generation.
fn part(name: &str) -> &str {
    let part = name.rsplit('/').next().unwrap_or_default();
    part.split('@').next().unwrap_or_default()
}

/// Texts in a message that begin as names of resources do. Before each stands its length.
fn names(body: &[u8]) -> BTreeSet<String> {
    let begin = b"portcullis/-/";
    let starts = body.windows(begin.len()).enumerate().filter(|(_, window)| window == begin).map(|(at, _)| at);
    let text = |at: usize| {
        let length = usize::from(*body.get(at.checked_sub(1)?)?);
        String::from_utf8(body.get(at..at + length)?.to_vec()).ok()
    };
    starts.filter_map(text).collect()
}

impl Decided {
    fn of(routes: Applied) -> Self {
        let decoded = RouteConfiguration::decode(routes.body.as_slice()).unwrap();
        let mut destinations = BTreeMap::new();
        for host in decoded.virtual_hosts {
            let tree = host.matcher.and_then(|matcher| matcher.matcher_type);
            let Some(MatcherType::MatcherTree(tree)) = tree else { continue };
            let Some(TreeType::ExactMatchMap(map)) = tree.tree_type else { panic!("a map") };
            for (destination, on_match) in map.map {
                let Some(OnMatch::Action(action)) = on_match.on_match else { panic!("an action") };
                let route = Route::decode(action.typed_config.unwrap().value.as_slice()).unwrap();
                let Some(route::Action::Route(action)) = route.action else { continue };
                let Some(ClusterSpecifier::Cluster(target)) = action.cluster_specifier else { continue };
                destinations.insert(destination, target);
            }
        }
        Self { routes, destinations }
    }
}
