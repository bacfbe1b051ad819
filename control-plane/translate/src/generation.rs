use std::net::Ipv6Addr;

use portcullis_api::{
    self as api, Cluster, PeerName, Settings, Tracing, TracingProtocol, Transport, Trust, token_account,
};
use portcullis_filter_config::names::EARLY_REMOVED_PREFIXES;
use portcullis_filter_config::{ClusterConfig, Policy, RequestHeaders, UpstreamIdentity, hex, without_generation};
use ring::digest::{Context, Digest, SHA256, digest};

/// Digits of a generation in names.
pub(crate) const DIGITS: usize = 16;

/// A hash of everything that the filter decides by and the servers rely on. Two versions of an object that differ in it share
/// no cluster, no endpoints and no credential: their names differ.
///
/// It covers the object's UID, the way in which users are forwarded (the mode, all header names, reserved ones included, and
/// the user of the gateway's own requests; or that connections are passed on), the gateway's account by its certificate or token, and the CA and name by which
/// servers are trusted: their addresses where they are not verified. All else may change under open connections: a renewed key,
/// the clients' CA, servers that are verified, policies, limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Generation(String);

impl Generation {
    /// That of an object under these settings.
    pub(crate) fn of(cluster: &Cluster, settings: &Settings) -> Self {
        let made = made(cluster);
        if cluster.transport == Transport::Passthrough {
            return Self::of_passed_on(made);
        }
        let identity_mode = identity_mode(cluster, settings);
        let certificate = cluster.certificate.as_ref().map(|pair| pair.holder.as_slice());
        let token = cluster.token.as_ref().map(|token| account(token.expose()));
        let peer = peer_text(&cluster.peer_name);
        let trust = match &cluster.trust {
            Trust::Bundle(pem) => pem.as_slice().to_vec(),
            Trust::Insecure => format!("insecure {}", endpoints(cluster)).into_bytes(),
        };
        let parts: [&[u8]; 6] = [
            made.as_bytes(),
            identity_mode.as_bytes(),
            certificate.unwrap_or_default(),
            token.as_deref().unwrap_or_default(),
            peer.as_bytes(),
            &trust,
        ];
        Self(sha256_hex(parts))
    }

    /// That of a Service to which connections are passed on.
    pub(crate) fn of_service(uid: &str) -> Self {
        Self::of_passed_on(uid)
    }

    /// Clients and servers verify each other, and nothing of the gateway's own is between them.
    fn of_passed_on(made: &str) -> Self {
        Self(sha256_hex([made.as_bytes(), Transport::Passthrough.as_str().as_bytes()]))
    }

    /// That of a collector of traces: its address, its protocol and the name in its certificate. A tracer of settings before an edit
    /// ends with its listener, and its spans, which may name users, are not for the collector after the edit.
    pub(crate) fn of_collector(tracing: &Tracing) -> Self {
        let peer = tracing.tls.as_ref().map_or_else(String::new, |tls| peer_text(&tls.name));
        let protocol = match tracing.protocol {
            TracingProtocol::Grpc => "grpc",
            TracingProtocol::Http => "http",
        };
        Self(sha256_hex([tracing.endpoint.to_string().as_bytes(), protocol.as_bytes(), peer.as_bytes()]))
    }

    /// All digits, for what is longer than a name may be.
    pub(crate) fn whole(&self) -> &str {
        &self.0
    }

    /// The hash in names.
    pub(crate) fn short(&self) -> &str {
        self.0.get(..DIGITS).unwrap_or(&self.0)
    }
}

/// The object's own mark: another one of its name has another. Files have none.
fn made(cluster: &Cluster) -> &str {
    cluster.uid.as_deref().or(cluster.creation_timestamp.as_deref()).unwrap_or_default()
}

/// The object's mark as a word that the filter keeps counts by; empty for one of a file.
pub fn cluster_word(cluster: &Cluster) -> String {
    object_word(made(cluster))
}

/// The word by which the filter knows the object with this UID, and counts for it; empty without one.
pub fn object_word(made: &str) -> String {
    let digits = if made.is_empty() { 0 } else { DIGITS };
    sha256_hex([made.as_bytes()]).chars().take(digits).collect()
}

/// A hash of a shadow and of what decides beside it: access lists, policies and limits of both, and the object they are of. Differences
/// that were counted under another one are not of this shadow. Empty without a shadow.
pub(crate) fn shadow_generation(config: &ClusterConfig) -> String {
    let Some(shadow) = &config.shadow else { return String::new() };
    // A new identity of the gateway at the servers is none of policies: groups of servers are the same under it.
    let policies = |policies: &[Policy]| -> Vec<Policy> {
        let named = |policy: &Policy| Policy { group: without_generation(&policy.group).to_owned(), ..policy.clone() };
        policies.iter().map(named).collect()
    };
    let real =
        (&config.access, policies(&config.policies.policies()), &config.flow_control_schemas, &config.fair_queues);
    let beside = (&shadow.access, policies(&shadow.policies), &shadow.flow_control_schemas);
    // Its types are plain, so that it always serialises.
    let both = serde_json::to_vec(&(real, beside)).unwrap_or_default();
    sha256_hex([config.object.as_bytes(), &both]).chars().take(DIGITS).collect()
}

/// The address of the object's chain for tunnels. No network has it: it is a local one of IPv6 (RFC 4193). All other bits are a hash
/// of the name and the object's own mark, so that a route of one object never leads to another, whatever names they exchange.
pub(crate) fn tunnel_address(cluster: &Cluster) -> Ipv6Addr {
    let digest = sha256([cluster.name.as_bytes(), made(cluster).as_bytes()]);
    let mut octets = [0xfd; 16];
    octets.iter_mut().skip(1).zip(digest.as_ref()).for_each(|(octet, byte)| *octet = *byte);
    octets.into()
}

fn peer_text(name: &PeerName) -> String {
    match name {
        PeerName::Dns(name) => format!("dns {name}"),
        PeerName::Ip(ip) => format!("ip {ip}"),
    }
}

/// The way in which users and the gateway itself are forwarded to the servers, in the words of the filter's configuration.
fn identity_mode(cluster: &Cluster, settings: &Settings) -> String {
    // Its types are plain, so that it always serialises.
    let identity = serde_json::to_string(&upstream_identity(cluster, settings)).unwrap_or_default();
    match &cluster.upstream_identity {
        api::UpstreamIdentity::Impersonate => identity,
        api::UpstreamIdentity::RequestHeader { user, .. } => format!("{identity} {user:?}"),
    }
}

/// The account of a token: its issuer and subject, or the token itself if it has none.
fn account(token: &[u8]) -> Vec<u8> {
    token_account(token).unwrap_or_else(|| digest(&SHA256, token).as_ref().to_vec())
}

/// The identity of a cluster in the keys of credential caches, which start empty with each generation of the object, and
/// when its servers or the CA that signs for its users change. Disabling a server changes nothing. `name` is that of its chain.
pub(crate) fn identity(cluster: &Cluster, name: &str, generation: &Generation) -> String {
    let client_ca = cluster.client_ca.as_ref().map_or(&b""[..], |pem| pem.as_slice());
    let hash = sha256_hex([generation.whole().as_bytes(), endpoints(cluster).as_bytes(), client_ca]);
    format!("{name}/{hash}")
}

/// The addresses of all written servers, disabled ones included, and the source of others.
pub(crate) fn endpoints(cluster: &Cluster) -> String {
    let written = cluster.servers.iter().filter(|server| !server.discovered);
    let servers = written.map(|server| server.endpoint.to_string());
    servers.chain(cluster.discovery.as_ref().map(ToString::to_string)).collect::<Vec<_>>().join(",")
}

/// The way in which the user is forwarded to the servers.
pub(crate) fn upstream_identity(cluster: &Cluster, settings: &Settings) -> UpstreamIdentity {
    match cluster.upstream_identity {
        api::UpstreamIdentity::Impersonate => UpstreamIdentity::Impersonate,
        api::UpstreamIdentity::RequestHeader { .. } => {
            let names = settings.request_header_names.clone();
            UpstreamIdentity::RequestHeader(RequestHeaders { reserved: reserved_headers(settings), ..names })
        }
    }
}

/// The header names of an authenticating proxy that no filter knows by itself: the names that the gateway writes, and those
/// that the servers may believe beside them.
pub(crate) fn reserved_headers(settings: &Settings) -> Vec<String> {
    let RequestHeaders { user, group, uid, extra_prefix, reserved } = &settings.request_header_names;
    let is_known = |name: &str| EARLY_REMOVED_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    let named =
        [user, group, uid, extra_prefix].into_iter().chain(reserved).filter(|name| !name.is_empty() && !is_known(name));
    named.cloned().collect()
}

/// The SHA-256 of a list, in hexadecimal.
pub(crate) fn sha256_hex<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> String {
    hex(sha256(parts).as_ref())
}

/// Every part is preceded by its length, so that no two lists run together.
fn sha256<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Digest {
    let mut context = Context::new(&SHA256);
    for part in parts {
        context.update(&u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        context.update(part);
    }
    context.finish()
}
