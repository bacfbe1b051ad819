use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::*;

/// A client with Envoy's subscriptions: all clusters and listeners, the endpoints of its clusters, the routes of its listeners.
pub(super) struct Client {
    pub(super) stream: Encoded,
    inbox: VecDeque<DeltaDiscoveryResponse>,
    /// By type: name, version and content.
    pub(super) view: BTreeMap<&'static str, BTreeMap<String, (String, String)>>,
    asked: BTreeMap<&'static str, BTreeSet<String>>,
    /// Most bytes of a response.
    most: usize,
    /// Whether there is room for responses.
    has_room: bool,
}

const TYPES: [&str; 4] = [CDS, EDS, LDS, RDS];

impl Client {
    pub(super) fn connect(snapshot: Arc<Snapshot>, most: usize) -> Self {
        let view = TYPES.into_iter().map(|url| (url, BTreeMap::new())).collect();
        let stream = Encoded::with_most(snapshot, most);
        let mut client = Self { stream, inbox: VecDeque::new(), view, asked: BTreeMap::new(), most, has_room: true };
        client.open();
        client
    }

    /// Loses the stream and all that was under way.
    pub(super) fn reconnect(&mut self, snapshot: Arc<Snapshot>) {
        self.stream = Encoded::with_most(snapshot, self.most);
        self.inbox.clear();
        self.open();
    }

    fn open(&mut self) {
        for url in TYPES {
            let asked = self.asked.entry(url).or_default().clone();
            if asked.is_empty() && (url == EDS || url == RDS) {
                continue;
            }
            let versions = self.view[url].iter().map(|(name, (version, _))| (name.clone(), version.clone()));
            self.say(DeltaDiscoveryRequest {
                type_url: url.to_owned(),
                resource_names_subscribe: asked.into_iter().collect(),
                initial_resource_versions: versions.collect(),
                ..Default::default()
            });
        }
    }

    fn say(&mut self, request: DeltaDiscoveryRequest) {
        self.stream.on_request_without_room(request);
        self.hear();
    }

    pub(super) fn on_snapshot(&mut self, snapshot: Arc<Snapshot>) {
        self.stream.on_snapshot_without_room(snapshot);
        self.hear();
    }

    /// From now on there is room for responses, or none.
    pub(super) fn on_room(&mut self, has_room: bool) {
        self.has_room = has_room;
        self.hear();
    }

    fn hear(&mut self) {
        assert!(self.stream.is_complete());
        if self.has_room {
            self.inbox.extend(self.stream.on_room());
        }
    }

    /// Takes the next response, asks for the resources that it refers to, and acknowledges it. Returns whether there was one.
    pub(super) fn step(&mut self) -> bool {
        let Some(response) = self.inbox.pop_front() else { return false };
        let url = TYPES.into_iter().find(|url| *url == response.type_url).unwrap();
        let view = self.view.get_mut(url).unwrap();
        // Envoy drops resources that it unsubscribes from.
        let asked = self.asked.entry(url).or_default();
        let is_wanted = |name: &String| url == CDS || url == LDS || asked.contains(name);
        for resource in response.resources.iter().filter(|resource| is_wanted(&resource.name)) {
            let content = String::from_utf8(resource.resource.as_ref().unwrap().value.clone()).unwrap();
            view.insert(resource.name.clone(), (resource.version.clone(), content));
        }
        for name in &response.removed_resources {
            view.remove(name);
        }
        self.check_references();
        match url {
            CDS => self.follow(CDS, EDS),
            LDS => self.follow(LDS, RDS),
            _ => {}
        }
        self.say(DeltaDiscoveryRequest {
            type_url: response.type_url,
            response_nonce: response.nonce,
            ..Default::default()
        });
        true
    }

    /// Asks for the resources of type `to` that those of type `from` are named like.
    fn follow(&mut self, from: &str, to: &'static str) {
        let wanted: BTreeSet<String> = self.view[from].keys().cloned().collect();
        let asked = self.asked.insert(to, wanted.clone()).unwrap_or_default();
        let unsubscribe: Vec<_> = asked.difference(&wanted).cloned().collect();
        let subscribe: Vec<_> = wanted.difference(&asked).cloned().collect();
        self.view.get_mut(to).unwrap().retain(|name, _| wanted.contains(name));
        if !subscribe.is_empty() || !unsubscribe.is_empty() {
            self.say(DeltaDiscoveryRequest {
                type_url: to.to_owned(),
                resource_names_subscribe: subscribe,
                resource_names_unsubscribe: unsubscribe,
                ..Default::default()
            });
        }
    }

    /// A route's content is the list of its clusters.
    fn check_references(&self) {
        for (route, (_, content)) in &self.view[RDS] {
            for cluster in content.split(',').filter(|cluster| !cluster.is_empty()) {
                assert!(self.view[CDS].contains_key(cluster), "route {route} refers to {cluster}, which is not there");
            }
        }
    }
}
