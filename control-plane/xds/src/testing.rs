//! Streams without a network: for properties of what a node is sent and when, and a client driven by bytes, for fuzzing.

mod registered_stream;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::RandomState;
use std::sync::Arc;

use envoy_types::pb::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, Resource as WireResource,
};
use envoy_types::pb::google::rpc::Status;
use prost::Message;

use crate::delta::{DeltaStream, NextResponse, PendingResponse};
use crate::kind::{CDS, EDS, LDS, RDS, SDS};
use crate::resource::{Part, Resource};
use crate::snapshot::Snapshot;
use portcullis_api::status::GatewayProgress;
pub use registered_stream::{RegisteredStream, reject};

const TYPES: [&str; 5] = [CDS, EDS, LDS, RDS, SDS];
/// Responses after which a conversation with a client that takes everything must have ended.
const MAX_RESPONSES: usize = 300;

impl DeltaStream {
    /// Takes a request. Returns the responses in the order to send them.
    pub(crate) fn on_request(&mut self, request: DeltaDiscoveryRequest) -> Vec<PendingResponse> {
        self.take_request(request);
        self.responses()
    }

    /// Takes a newer snapshot. Returns the responses in the order to send them.
    pub(crate) fn on_snapshot(&mut self, snapshot: Arc<Snapshot>) -> Vec<PendingResponse> {
        self.take_snapshot(snapshot);
        self.responses()
    }

    /// Every response that is due, with room for each.
    pub(crate) fn responses(&mut self) -> Vec<PendingResponse> {
        let next = || match self.respond(|_| Some(())) {
            NextResponse::Made(response, ()) => Some(response),
            NextResponse::Waits(_) | NextResponse::None => None,
        };
        std::iter::from_fn(next).collect()
    }
}

/// The server's side of an incremental stream.
#[derive(Debug)]
pub struct InMemoryStream(DeltaStream);

impl InMemoryStream {
    /// A new stream.
    pub fn new(snapshot: Arc<Snapshot>) -> Self {
        Self(DeltaStream::new(snapshot, RandomState::new()))
    }

    /// The responses to a request.
    pub fn on_request(&mut self, request: DeltaDiscoveryRequest) -> Vec<DeltaDiscoveryResponse> {
        self.0.on_request(request).into_iter().map(PendingResponse::decoded).collect()
    }

    /// The responses to a newer snapshot.
    pub fn on_snapshot(&mut self, snapshot: Arc<Snapshot>) -> Vec<DeltaDiscoveryResponse> {
        self.0.on_snapshot(snapshot).into_iter().map(PendingResponse::decoded).collect()
    }
}

/// Drives a stream by bytes. Panics if an invariant is broken.
pub fn exercise(bytes: &[u8]) {
    let mut input = FuzzInput(bytes);
    let snapshot = Arc::new(Snapshot::new(resources(input.byte(), input.byte())));
    let mut client = Client {
        stream: DeltaStream::new(Arc::clone(&snapshot), RandomState::new()),
        seen: (BTreeMap::new(), Arc::clone(&snapshot)),
        snapshot,
        served: BTreeSet::new(),
        open: BTreeMap::new(),
        asked: BTreeSet::new(),
        held_versions: Vec::new(),
    };
    client.serve();
    while let Some(what) = input.next() {
        match what % 8 {
            0 => client.change(&mut input),
            1 => {
                let length = input.byte();
                if let Ok(request) = DeltaDiscoveryRequest::decode(input.take(length)) {
                    // It may get every secret that it asks for by name.
                    client.asked.insert("s".to_owned());
                    let pending = client.stream.on_request(request);
                    client.hear(pending);
                }
            }
            2 => client.reconnect(),
            3..=5 => client.answer(&mut input),
            _ => client.ask(&mut input),
        }
        client.look();
    }
    client.settle();
}

struct ClientMessage {
    type_url: String,
    names: Vec<String>,
    others: Vec<String>,
    versions: Vec<(String, String)>,
    nonce: String,
    refuses: bool,
}

fn error(refuses: bool) -> Option<Status> {
    refuses.then(|| Status { message: "no: c1".to_owned(), ..Default::default() })
}

fn request(message: ClientMessage) -> DeltaDiscoveryRequest {
    DeltaDiscoveryRequest {
        type_url: message.type_url,
        resource_names_subscribe: message.names,
        resource_names_unsubscribe: message.others,
        initial_resource_versions: message.versions.into_iter().collect(),
        response_nonce: message.nonce,
        error_detail: error(message.refuses),
        ..Default::default()
    }
}

fn body(resource: &WireResource) -> &[u8] {
    resource.resource.as_ref().map(|any| any.value.as_slice()).unwrap_or_default()
}

/// Bytes, read one after the other.
struct FuzzInput<'a>(&'a [u8]);

impl<'a> FuzzInput<'a> {
    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn byte(&mut self) -> usize {
        self.next().unwrap_or_default().into()
    }

    fn take(&mut self, most: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(most.min(self.0.len()));
        self.0 = rest;
        taken
    }

    fn names(&mut self) -> Vec<String> {
        let bits = self.byte();
        let usual = (0..6).filter(|bit| bits & 1 << bit != 0).map(|bit| format!("c{bit}"));
        let odd = ["*", "s", "l", ""].into_iter().enumerate().filter(|(bit, _)| *bit < 2 && bits & 1 << (bit + 6) != 0);
        usual.chain(odd.map(|(_, name)| name.to_owned())).collect()
    }
}

/// Clusters with endpoints and routes, a listener of parts and a secret.
fn resources(bits: usize, edition: usize) -> Vec<(String, String, Resource)> {
    let mut all = Vec::new();
    let mut parts = Vec::new();
    for number in (0..6).filter(|bit| bits & 1 << bit != 0) {
        let name = format!("c{number}");
        let body = format!("{name}={}", edition & 1 << (number % 3));
        let made = |url: &str| {
            let resource = Resource::new(format!("{url}{body}").into_bytes()).owned_by(name.as_str());
            (url.to_owned(), name.clone(), resource)
        };
        all.extend([EDS, RDS].map(made));
        let (url, name, cluster) = made(CDS);
        all.push((url, name.clone(), cluster.with_companion(EDS, name.clone())));
        parts.push(Part { owner: name.into(), body: vec![body.into()], fallback: Some("-".into()) });
    }
    all.push((LDS.to_owned(), "l".to_owned(), Resource::new("l").with_parts(parts)));
    all.push((SDS.to_owned(), "s".to_owned(), Resource::new(b"SECRET".to_vec())));
    all
}

struct Client {
    stream: DeltaStream,
    snapshot: Arc<Snapshot>,
    /// Every body that was ever served.
    served: BTreeSet<Vec<u8>>,
    /// By type: the nonce that was heard last, and not answered.
    open: BTreeMap<String, String>,
    /// Names of secrets that were asked for.
    asked: BTreeSet<String>,
    /// Names and versions that were received, to be claimed later.
    held_versions: Vec<(String, String)>,
    /// The progress with each owner at the last look, and the snapshot of then.
    seen: (BTreeMap<String, Option<GatewayProgress>>, Arc<Snapshot>),
}

impl Client {
    fn serve(&mut self) {
        for (_, _, resource) in self.snapshot.resources() {
            self.served.insert(resource.pieces().concat());
        }
    }

    fn change(&mut self, input: &mut FuzzInput<'_>) {
        self.snapshot = Arc::new(self.snapshot.succeeded_by(resources(input.byte(), input.byte())));
        self.serve();
        let pending = self.stream.on_snapshot(Arc::clone(&self.snapshot));
        self.hear(pending);
    }

    fn reconnect(&mut self) {
        self.stream = DeltaStream::new(Arc::clone(&self.snapshot), RandomState::new());
        self.open.clear();
        self.asked.clear();
    }

    /// Answers the last response, or one that was never sent.
    fn answer(&mut self, input: &mut FuzzInput<'_>) {
        let (which, how) = (input.byte(), input.byte());
        let type_url = TYPES.into_iter().nth(which % TYPES.len()).unwrap_or(CDS).to_owned();
        let heard = self.open.get(&type_url).cloned();
        let nonce = match how % 4 {
            0..=2 => heard.unwrap_or_default(),
            _ => how.to_string(),
        };
        if how % 4 < 3 {
            self.open.remove(&type_url);
        }
        let names = if how & 64 != 0 { input.names() } else { Vec::new() };
        let refuses = how & 128 != 0;
        self.say(ClientMessage { type_url, names, others: Vec::new(), versions: Vec::new(), nonce, refuses });
    }

    fn ask(&mut self, input: &mut FuzzInput<'_>) {
        let which = input.byte();
        let type_url = TYPES.into_iter().nth(which % 6).unwrap_or("type.googleapis.com/other").to_owned();
        let (names, others) = (input.names(), input.names());
        let versions = if which & 64 != 0 { self.held_versions.clone() } else { Vec::new() };
        self.say(ClientMessage { type_url, names, others, versions, nonce: String::new(), refuses: false });
    }

    fn say(&mut self, message: ClientMessage) {
        if message.type_url == SDS {
            self.asked.extend(message.names.iter().cloned());
        }
        let pending = self.stream.on_request(request(message));
        self.hear(pending);
    }

    fn hear(&mut self, pending: Vec<PendingResponse>) {
        for draft in pending {
            let size = draft.size();
            let response = draft.decoded();
            let bodies = response.resources.iter().map(body);
            let of_resources =
                response.resources.iter().map(|one| one.name.len() + one.version.len() + body(one).len());
            let of_removals = response.removed_resources.iter().map(String::len);
            assert_eq!(size, of_resources.chain(of_removals).sum::<usize>(), "a response has its announced size");
            for body in bodies {
                assert!(response.type_url == LDS || self.served.contains(body), "only served resources are sent");
                assert!(response.type_url != SDS || self.asked.contains("s"), "secrets are sent on request only");
            }
            self.held_versions.extend(response.resources.into_iter().map(|one| (one.name, one.version)));
            self.held_versions.drain(..self.held_versions.len().saturating_sub(8));
            self.open.insert(response.type_url, response.nonce);
        }
    }

    /// Calls every query of the stream: all are allowed at any time.
    fn look(&mut self) {
        let _ = (self.stream.status(), self.stream.is_in_sync(), self.stream.oldest_unanswered());
        for refused in self.stream.refused() {
            assert!(!refused.message.is_empty());
        }
        self.look_at_progress();
        assert!(self.stream.subscription_count() < 10_000, "its memory is bounded");
    }

    /// The progress is another one only with owners that are among the changed ones, of the stream or of the snapshot.
    fn look_at_progress(&mut self) {
        let mut changed = self.stream.take_changed().unwrap_or_default();
        let (before, known) = &self.seen;
        known.changed_owners(&self.snapshot).into_iter().for_each(|owner| changed.add(owner));
        let owners = (0..6).map(|number| format!("c{number}")).chain(["unknown".to_owned()]);
        let now = owners.map(|owner| (self.stream.progress(&self.snapshot, &owner), owner));
        let now: BTreeMap<_, _> = now.map(|(progress, owner)| (owner, progress)).collect();
        for (owner, progress) in &now {
            assert!(changed.has(owner) || before.get(owner) == Some(progress), "{owner}: {before:?}, {now:?}");
        }
        self.seen = (now, Arc::clone(&self.snapshot));
    }

    /// Takes everything from now on: the conversation must end.
    fn settle(&mut self) {
        let mut left = MAX_RESPONSES;
        while let Some((type_url, nonce)) = self.open.pop_first() {
            left -= 1;
            assert!(left > 0, "the conversation does not end");
            self.say(ClientMessage {
                type_url,
                names: Vec::new(),
                others: Vec::new(),
                versions: Vec::new(),
                nonce,
                refuses: false,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::exercise;

    proptest! {
        #[test]
        fn stream_keeps_its_invariants_for_any_client(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            exercise(&bytes);
        }
    }
}
