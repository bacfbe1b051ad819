//! A model of Envoy: it takes or refuses a response as a whole, and keeps what it had.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use envoy_types::pb::envoy::config::core::v3::Node;
use envoy_types::pb::envoy::service::discovery::v3::DeltaDiscoveryRequest;
use envoy_types::pb::google::rpc::Status as Refusal;

use crate::site::{Caller, Delta, SOON, Site};

/// The content of a refused part.
pub(crate) const BAD: &[u8] = b"!bad";

/// One type of one node.
pub(crate) struct Envoy {
    node: String,
    type_url: &'static str,
    stream: Delta,
    /// Contents by name.
    pub(crate) has: BTreeMap<String, Vec<u8>>,
    versions: BTreeMap<String, String>,
    /// Whether errors name the piece.
    names_it: bool,
    pub(crate) pushes: usize,
    pub(crate) refusals: usize,
}

/// The resources that another control plane sent it before.
#[derive(Clone, Default)]
pub(crate) struct History {
    pub(crate) has: BTreeMap<String, Vec<u8>>,
    pub(crate) versions: BTreeMap<String, String>,
}

fn is_bad(content: &[u8]) -> bool {
    content.windows(BAD.len()).any(|window| window == BAD)
}

impl Envoy {
    /// Connects and asks for all of a type.
    pub(crate) async fn connect(caller: &Caller, type_url: &'static str, history: History, names_it: bool) -> Self {
        let node = "envoy-0".to_owned();
        let channel = caller.channel().await.unwrap();
        let told = Node { id: node.clone(), ..Default::default() };
        let stream = Delta::open(channel).await.unwrap();
        let request = DeltaDiscoveryRequest {
            node: Some(told),
            type_url: type_url.to_owned(),
            initial_resource_versions: history.versions.clone().into_iter().collect(),
            ..Default::default()
        };
        stream.says.send(request).await.unwrap();
        let (pushes, refusals) = (0, 0);
        Self { node, type_url, stream, has: history.has, versions: history.versions, names_it, pushes, refusals }
    }

    /// Its resources, for the next control plane.
    pub(crate) fn history(&self) -> History {
        History { has: self.has.clone(), versions: self.versions.clone() }
    }

    /// Takes responses until a condition holds of what it has.
    pub(crate) async fn until(&mut self, what: &str, holds: impl Fn(&Self) -> bool) {
        while !holds(self) {
            let heard = tokio::time::timeout(SOON, self.step()).await;
            let state = || format!("{what}: {} pushes, {} refused", self.pushes, self.refusals);
            assert!(heard.is_ok(), "{}", state());
        }
    }

    /// Takes responses until a condition holds of the server.
    pub(crate) async fn wait_for_registry(&mut self, site: &Site, what: &str, holds: impl Fn(&Site) -> bool) {
        let end = Instant::now() + SOON;
        while !holds(site) {
            assert!(Instant::now() < end, "{what}: {} pushes, {:#?}", self.pushes, site.registry);
            let _ = tokio::time::timeout(Duration::from_millis(20), self.step()).await;
        }
    }

    /// Takes responses as long as some come within a moment.
    pub(crate) async fn settle(&mut self) {
        while tokio::time::timeout(Duration::from_millis(300), self.step()).await.is_ok() {}
    }

    async fn step(&mut self) {
        let response = self.stream.hears.message().await.unwrap().unwrap();
        let mut coming = BTreeMap::new();
        for one in &response.resources {
            let body = one.resource.clone().unwrap().value;
            coming.insert(one.name.clone(), (body, one.version.clone()));
        }
        let names = coming.iter().filter(|(_, (body, _))| is_bad(body)).map(|(name, _)| name.clone());
        let error = refusal(names.collect(), self.names_it);
        self.refusals += usize::from(error.is_some());
        if error.is_none() {
            for (name, (body, version)) in coming {
                self.has.insert(name.clone(), body);
                self.versions.insert(name, version);
            }
            for name in &response.removed_resources {
                self.has.remove(name);
                self.versions.remove(name);
            }
        }
        let answer = DeltaDiscoveryRequest {
            type_url: self.type_url.to_owned(),
            response_nonce: response.nonce,
            error_detail: error,
            ..Default::default()
        };
        self.stream.says.send(answer).await.unwrap();
        self.pushes += 1;
        assert!(!self.node.is_empty());
    }
}

fn refusal(bad: Vec<String>, names_it: bool) -> Option<Refusal> {
    let message = if names_it { format!("Error adding/updating: {}: no", bad.join(", ")) } else { "no".to_owned() };
    (!bad.is_empty()).then(|| Refusal { message, ..Default::default() })
}
