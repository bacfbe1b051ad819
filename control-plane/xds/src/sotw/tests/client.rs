use std::collections::{BTreeMap, BTreeSet, VecDeque};

use envoy_types::pb::envoy::service::discovery::v3::{DiscoveryRequest, DiscoveryResponse};

use super::*;
use crate::sotw::SotwStream;
use crate::stream::Conversation;

/// What Envoy does: all clusters and listeners, the endpoints of its clusters, the routes of its listeners.
pub(super) struct Client {
    pub(super) stream: SotwStream,
    inbox: VecDeque<DiscoveryResponse>,
    /// By type: name and content.
    pub(super) view: BTreeMap<&'static str, BTreeMap<String, String>>,
    asked: BTreeMap<&'static str, BTreeSet<String>>,
    /// By type: the version and the nonce that were accepted last.
    heard: BTreeMap<&'static str, (String, String)>,
}

const TYPES: [&str; 4] = [CDS, EDS, LDS, RDS];

impl Client {
    pub(super) fn connect(snapshot: Arc<Snapshot>) -> Self {
        let view = TYPES.into_iter().map(|url| (url, BTreeMap::new())).collect();
        let (stream, inbox) = (SotwStream::new(snapshot), VecDeque::new());
        let mut client = Self { stream, inbox, view, asked: BTreeMap::new(), heard: BTreeMap::new() };
        client.open();
        client
    }

    /// Loses the stream and all that was under way.
    pub(super) fn reconnect(&mut self, snapshot: Arc<Snapshot>) {
        self.stream = SotwStream::new(snapshot);
        self.inbox.clear();
        self.heard.values_mut().for_each(|(_, nonce)| nonce.clear());
        self.open();
    }

    fn open(&mut self) {
        for url in TYPES {
            if !self.asked.entry(url).or_default().is_empty() || url == CDS || url == LDS {
                self.say(url);
            }
        }
    }

    fn say(&mut self, url: &'static str) {
        let (version_info, response_nonce) = self.heard.get(url).cloned().unwrap_or_default();
        let resource_names = self.asked[url].iter().cloned().collect();
        let type_url = url.to_owned();
        let request = DiscoveryRequest { version_info, response_nonce, resource_names, type_url, ..Default::default() };
        let responses = self.stream.on_request(request);
        self.inbox.extend(responses);
    }

    pub(super) fn on_snapshot(&mut self, snapshot: Arc<Snapshot>) {
        let responses = self.stream.on_snapshot(snapshot);
        self.inbox.extend(responses);
    }

    /// Takes the next response, asks for what it needs now, acknowledges. Tells whether there was one.
    pub(super) fn step(&mut self) -> bool {
        let Some(response) = self.inbox.pop_front() else { return false };
        let url = TYPES.into_iter().find(|url| *url == response.type_url).unwrap();
        let asked = self.asked.entry(url).or_default().clone();
        let is_full = url == CDS || url == LDS;
        let view = self.view.get_mut(url).unwrap();
        if is_full {
            view.clear();
        }
        for any in &response.resources {
            let text = String::from_utf8(any.value.clone()).unwrap();
            let (name, content) = text.split_once('=').unwrap();
            if is_full || asked.contains(name) {
                view.insert(name.to_owned(), content.to_owned());
            }
        }
        self.check_references();
        // The acknowledgement, before it asks for more.
        self.heard.insert(url, (response.version_info, response.nonce));
        self.say(url);
        match url {
            CDS => self.follow(CDS, EDS),
            LDS => self.follow(LDS, RDS),
            _ => {}
        }
        true
    }

    /// Asks for the resources of type `to` that those of type `from` are named like.
    fn follow(&mut self, from: &str, to: &'static str) {
        let wanted: BTreeSet<String> = self.view[from].keys().cloned().collect();
        self.view.get_mut(to).unwrap().retain(|name, _| wanted.contains(name));
        if self.asked.insert(to, wanted.clone()).unwrap_or_default() != wanted {
            self.say(to);
        }
    }

    /// A route's content is the list of its clusters.
    fn check_references(&self) {
        for (route, content) in &self.view[RDS] {
            for cluster in content.split(',').filter(|cluster| !cluster.is_empty()) {
                assert!(self.view[CDS].contains_key(cluster), "route {route} refers to {cluster}, which is not there");
            }
        }
    }
}
