use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;

use portcullis_api::{
    Cluster, Discovery, Endpoint, KeyPair, PeerName, PublicBytes, SecretBytes, ServerHost, Settings, SlicePort, Trust,
    UpstreamIdentity, check_cluster, parse_cluster, token_account,
};
use portcullis_filter_config::hex;
use portcullis_translate::ServicePort;
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A source of servers, and whose it is. An answer of one is never taken for that of another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AnswerKey {
    /// The object's name.
    pub(super) name: String,
    /// Its UID; empty if it comes from a file.
    pub(super) uid: String,
    /// The source, in words.
    pub(super) source: String,
    /// A hash of whom the upstream is known by (CA, name in the certificate) and as whom it is asked; empty for other sources.
    pub(super) place: String,
}

impl AnswerKey {
    /// Whether it is of a Service behind a Gateway's route, and not of an object's: names of objects hold no slash.
    pub(super) fn is_of_gateways(&self) -> bool {
        self.name.contains('/')
    }

    /// The name of the task that follows the source. The ports of a Service behind routes share one.
    pub(super) fn task(&self) -> &str {
        match self.name.rsplit_once(':') {
            Some((service, _)) if self.is_of_gateways() => service,
            _ => &self.name,
        }
    }
}

/// The source that has to be watched for an object. It holds the gateway's credential, which its `Debug` form does not show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Want {
    pub(super) key: AnswerKey,
    pub(super) source: WantedSource,
    /// Whether the object has no server but those that are found: no written one is enabled.
    pub(super) is_sole: bool,
    /// The addresses of written servers that are disabled: a source that names one brings no server by that.
    pub(super) disabled: BTreeSet<SocketAddr>,
    pub(super) allow_loopback: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum WantedSource {
    Service {
        namespace: String,
        name: String,
        /// The UID of the Service, where it is known: slices of another one that had its name are not its.
        uid: Option<String>,
        port: SlicePort,
    },
    Upstream(UpstreamAccess),
    /// The name of SRV records.
    Srv(String),
}

/// How the upstream is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UpstreamAccess {
    /// The written servers, disabled ones included.
    pub(super) servers: Vec<Endpoint>,
    pub(super) peer_name: PeerName,
    pub(super) authorities: PublicBytes,
    pub(super) certificate: Option<KeyPair>,
    pub(super) token: Option<SecretBytes>,
    /// The header by which an authenticating proxy names its own user, and the user.
    pub(super) user: Option<(String, String)>,
}

/// The upstream of an object, and the servers of it that are asked as the gateway. A credential is in it as a hash alone, by which a
/// token that can be guessed could be tried: kept in private files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in super::super) struct AskedUpstream {
    place: String,
    servers: BTreeSet<String>,
}

impl AskedUpstream {
    /// `None` if the upstream is not verified.
    pub(in super::super) fn of(cluster: &Cluster, settings: &Settings) -> Option<Self> {
        let access = access(cluster, settings)?;
        let place = format!("{} {}", cluster.uid.as_deref().unwrap_or_default(), access.place());
        Some(Self { place, servers: access.servers.iter().map(ToString::to_string).collect() })
    }

    /// Whether an answer of the one is one of the other: CA, name in the certificate, account and UID are the same, and one of the
    /// servers is.
    pub(in super::super) fn is_same(&self, other: &Self) -> bool {
        self.place == other.place && !self.servers.is_disjoint(&other.servers)
    }

    #[cfg(test)]
    pub(in super::super) fn new(place: &str, servers: &[&str]) -> Self {
        Self { place: place.to_owned(), servers: servers.iter().map(|server| (*server).to_owned()).collect() }
    }
}

/// By the objects' names.
pub(in super::super) type Wants = BTreeMap<String, Arc<Want>>;

impl Want {
    /// That of a port of a Service to which a Gateway's route leads. `port_name` is empty for the Service's only one. Nothing waits
    /// for its first answer: the authors of routes could hold up all objects.
    pub(in super::super) fn of_service(port: &ServicePort, uid: &str, port_name: &str, settings: &Settings) -> Self {
        let name = Self::name_of_service(port);
        let (service, port) = (&port.service, port_name);
        let port = if port.is_empty() { SlicePort::Only } else { SlicePort::Name(port.to_owned()) };
        let source = format!("Service {service}, {port:?}");
        let (namespace, of) = (service.namespace.clone(), service.name.clone());
        Self {
            key: AnswerKey { name, uid: uid.to_owned(), source, place: String::new() },
            source: WantedSource::Service { namespace, name: of, uid: Some(uid.to_owned()), port },
            is_sole: false,
            disabled: BTreeSet::new(),
            allow_loopback: settings.allow_loopback_upstreams,
        }
    }

    /// The name of a Service's port among the names of objects, which hold no slash.
    pub(in super::super) fn name_of_service(ServicePort { service, port }: &ServicePort) -> String {
        format!("{service}:{port}")
    }

    /// The object's name.
    pub(in super::super) fn name(&self) -> &str {
        &self.key.name
    }

    pub(super) fn needs_kubernetes(&self) -> bool {
        matches!(self.source, WantedSource::Service { .. })
    }

    /// Whether the source is the upstream itself, which may be away when others are not.
    pub(super) fn asks_upstream(&self) -> bool {
        matches!(self.source, WantedSource::Upstream(_))
    }

    /// Whether answers for the one are answers for the other.
    pub(super) fn is_of_source(&self, other: &Self) -> bool {
        self.key == other.key && self.shares_written(&other.written())
    }

    /// Whether one of these servers is written still, if any is written there and here.
    pub(super) fn shares_written(&self, others: &BTreeSet<String>) -> bool {
        let written = self.written();
        written.is_empty() || others.is_empty() || !written.is_disjoint(others)
    }

    /// The servers that are asked, and that an answer is therefore about; none where others are asked.
    pub(super) fn written(&self) -> BTreeSet<String> {
        match &self.source {
            WantedSource::Service { .. } | WantedSource::Srv(_) => BTreeSet::new(),
            WantedSource::Upstream(access) => access.servers.iter().map(ToString::to_string).collect(),
        }
    }

    /// `None` if the cluster discovers nothing.
    fn of(cluster: &Cluster, settings: &Settings) -> Option<Self> {
        let discovery = cluster.discovery.as_ref()?;
        let source = match discovery.clone() {
            Discovery::Service { namespace, name, port } => WantedSource::Service { namespace, name, uid: None, port },
            Discovery::KubernetesService => WantedSource::Upstream(access(cluster, settings)?),
            Discovery::SrvRecord(name) => WantedSource::Srv(name),
        };
        let uid = cluster.uid.clone().unwrap_or_default();
        let place = match &source {
            WantedSource::Service { .. } | WantedSource::Srv(_) => String::new(),
            WantedSource::Upstream(access) => access.place(),
        };
        let key = AnswerKey { name: cluster.name.clone(), uid, source: discovery.to_string(), place };
        let disabled = cluster.servers.iter().filter(|server| !server.enabled && !server.discovered);
        let disabled = disabled.filter_map(|server| match &server.endpoint {
            Endpoint { host: ServerHost::Ip(ip), port } => Some(SocketAddr::new(*ip, *port)),
            Endpoint { host: ServerHost::Dns(_), .. } => None,
        });
        let disabled = disabled.collect();
        let is_sole = !cluster.servers.iter().any(|server| server.enabled && !server.discovered);
        Some(Self { key, source, is_sole, disabled, allow_loopback: settings.allow_loopback_upstreams })
    }
}

impl UpstreamAccess {
    /// A hash of all that distinguishes this upstream from others. A renewed key or token of the same account leads to the same, as
    /// it does for the names of Envoy's clusters.
    fn place(&self) -> String {
        let account = |token: &[u8]| token_account(token).unwrap_or_else(|| digest(&SHA256, token).as_ref().to_vec());
        let peer_name = match &self.peer_name {
            PeerName::Dns(name) => format!("dns {name}"),
            PeerName::Ip(ip) => format!("ip {ip}"),
        };
        let parts: [&[u8]; 4] = [
            self.authorities.as_slice(),
            peer_name.as_bytes(),
            self.certificate.as_ref().map(|pair| pair.holder.as_slice()).unwrap_or_default(),
            &self.token.as_ref().map(|token| account(token.expose())).unwrap_or_default(),
        ];
        // Hashes have one length, so that no two parts run together.
        let hashes: Vec<u8> = parts.iter().flat_map(|part| digest(&SHA256, part).as_ref().to_vec()).collect();
        hex(digest(&SHA256, &hashes).as_ref())
    }
}

fn access(cluster: &Cluster, settings: &Settings) -> Option<UpstreamAccess> {
    let Trust::Bundle(authorities) = &cluster.trust else { return None };
    let written = cluster.servers.iter().filter(|server| !server.discovered);
    let user = match &cluster.upstream_identity {
        UpstreamIdentity::Impersonate => None,
        UpstreamIdentity::RequestHeader { user, .. } => {
            Some((settings.request_header_names.user.clone(), user.clone()))
        }
    };
    Some(UpstreamAccess {
        servers: written.map(|server| server.endpoint.clone()).collect(),
        peer_name: cluster.peer_name.clone(),
        authorities: authorities.clone(),
        certificate: cluster.certificate.clone(),
        token: cluster.token.clone(),
        user,
    })
}

/// The wants of documents, each of which is read once.
#[derive(Default)]
pub(super) struct WantCache {
    known: BTreeMap<String, (Arc<Value>, Option<Arc<Want>>)>,
    settings: Settings,
}

impl WantCache {
    /// Reads all anew if these settings are other ones. Returns whether they are.
    pub(super) fn follow(&mut self, settings: &Settings) -> bool {
        let is_other = self.settings != *settings;
        if is_other {
            *self = Self { settings: settings.clone(), known: BTreeMap::new() };
        }
        is_other
    }

    /// The want of a document with its references resolved. A document that cannot be served wants nothing.
    pub(super) fn want(&mut self, document: &Arc<Value>) -> Option<Arc<Want>> {
        // Not by a pointer, which is taken apart for each of thousands of documents.
        document.get("spec")?.get("portcullis")?.get("discovery")?;
        let name = document.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        if let Some((known, want)) = self.known.get(name)
            && (Arc::ptr_eq(known, document) || known == document)
        {
            return want.clone();
        }
        let cluster = parse_cluster(document)
            .ok()
            .and_then(|raw| check_cluster(&raw, self.settings.allow_loopback_upstreams).outcome.ok());
        let want = cluster.and_then(|cluster| Want::of(&cluster, &self.settings)).map(Arc::new);
        self.known.insert(name.to_owned(), (Arc::clone(document), want.clone()));
        want
    }

    /// Forgets objects that are not there any more.
    pub(super) fn keep(&mut self, is_there: impl Fn(&str) -> bool) {
        self.known.retain(|name, _| is_there(name));
    }
}
