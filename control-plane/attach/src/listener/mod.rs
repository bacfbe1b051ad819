//! Listeners of a Gateway.

mod allowed;
mod conflicts;
mod tls;

use std::collections::BTreeSet;

use portcullis_gateway_api::{Gateway, Listener, OtherFields, TlsMode};

use crate::condition::{ConditionVerdict, Note, Rejection, effects_in_words};
use crate::contents::{ContentName, ReferredContents};
use crate::former::FormerCertificates;
use crate::grants::Grants;
use crate::host::HostPattern;
use crate::input::Inventory;
use crate::name::{ObjectName, RouteKind};

pub(crate) use allowed::AllowingListeners;
pub(crate) use tls::permits;
pub use tls::{ServedClientCa, listener_secrets};

/// The protocols that are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListenerProtocol {
    /// Plain HTTP, which never leads to an apiserver.
    Http,
    /// TLS that ends here.
    Https,
    /// TLS that is passed on.
    Passthrough,
}

/// A listener and what is wrong with it.
pub(crate) struct JudgedListener<'a> {
    pub(crate) spec: &'a Listener,
    pub(crate) host: HostPattern,
    pub(crate) protocol: Option<ListenerProtocol>,
    /// The kinds of routes that may attach.
    pub(crate) kinds: Vec<RouteKind>,
    /// The certificates that can be used.
    pub(crate) certificates: Vec<ObjectName>,
    pub(crate) client_ca: Option<ServedClientCa>,
    /// Of fields that are accepted and assumed, or without effect.
    pub(crate) notes: Vec<Note>,
    /// Why it is not accepted.
    refusal: Option<Rejection>,
    conflict: Option<Rejection>,
    unresolved: Option<Rejection>,
    overlap: Option<String>,
}

/// Judges the listeners of a Gateway.
pub(crate) fn judge_listeners<'a>(
    gateway: &'a Gateway,
    grants: &Grants<'_>,
    contents: &ReferredContents,
    inventory: &Inventory,
) -> Vec<JudgedListener<'a>> {
    let mut judged: Vec<_> = Vec::new();
    for (index, listener) in gateway.spec.listeners.iter().enumerate() {
        let path = format!("spec.listeners[{index}]");
        let at = tls::ReferenceContext { gateway, listener: &path, grants, contents, inventory };
        judged.push(judge(&at, listener));
    }
    refuse_equal_names(&mut judged);
    let conflicts = conflicts::conflicts(&judged);
    for (listener, conflict) in judged.iter_mut().zip(conflicts) {
        listener.conflict = conflict;
    }
    let overlaps = conflicts::overlaps(&judged);
    for (listener, overlap) in judged.iter_mut().zip(overlaps) {
        listener.overlap = overlap;
    }
    judged
}

/// The Secrets and `ConfigMaps` to which a Gateway refers, permitted or not, of its listeners that end TLS; former ones last.
pub(crate) fn contents_of<'a>(
    gateway: &'a Gateway,
    former: &'a FormerCertificates,
) -> impl Iterator<Item = ContentName> + 'a {
    let ends_tls = |listener: &&Listener| matches!(protocol(listener, ""), Ok(ListenerProtocol::Https));
    let listeners = gateway.spec.listeners.iter().filter(ends_tls);
    let own = listeners.clone().flat_map(|listener| tls::contents_of(gateway, listener));
    own.chain(listeners.flat_map(|listener| tls::former_contents(gateway, listener, former)))
}

fn judge<'a>(at: &tls::ReferenceContext<'_>, spec: &'a Listener) -> JudgedListener<'a> {
    let path = at.listener;
    let (host, bad_host) = host(spec, path);
    let protocol = protocol(spec, path);
    let kinds = allowed::kinds(spec, protocol.as_ref().ok().copied());
    let mut listener = JudgedListener {
        spec,
        host,
        protocol: protocol.as_ref().ok().copied(),
        kinds: kinds.allowed,
        certificates: Vec::new(),
        client_ca: None,
        notes: Vec::new(),
        refusal: protocol.err().or(bad_host).or_else(|| Rejection::of_fields(&unsupported(spec, path))),
        conflict: None,
        unresolved: kinds.unresolved,
        overlap: None,
    };
    if listener.protocol == Some(ListenerProtocol::Https) {
        let certificates = tls::certificates(at, spec);
        listener.certificates = certificates.usable;
        let client_ca = tls::client_ca(at, spec.port);
        listener.client_ca = client_ca.served;
        listener.notes.extend(certificates.notes.into_iter().chain(client_ca.notes));
        listener.unresolved = listener.unresolved.or(certificates.unresolved).or(client_ca.unresolved);
        listener.refusal = listener.refusal.or(client_ca.refusal);
    }
    if listener.protocol == Some(ListenerProtocol::Passthrough) {
        listener.notes.extend(tls::passed_on(at, spec));
    }
    listener
}

fn host(spec: &Listener, path: &str) -> (HostPattern, Option<Rejection>) {
    let Some(text) = spec.hostname.as_deref().filter(|text| !text.is_empty()) else { return (HostPattern::Any, None) };
    match HostPattern::parse(text) {
        Some(host) => (host, None),
        None => {
            let message = format!("{path}.hostname: {text:?} is not a DNS name or a wildcard");
            (HostPattern::Exact(text.to_ascii_lowercase()), Some(Rejection::new("UnsupportedValue", message)))
        }
    }
}

fn protocol(spec: &Listener, path: &str) -> Result<ListenerProtocol, Rejection> {
    let unsupported = |message: String| Err(Rejection::new("UnsupportedValue", message));
    let mode = spec.tls.as_ref().map(|tls| &tls.mode);
    match (spec.protocol.as_str(), mode) {
        _ if spec.port == 0 => Err(Rejection::new("PortUnavailable", format!("{path}.port: 0 is not a port"))),
        ("HTTP", None) => Ok(ListenerProtocol::Http),
        ("HTTP", Some(_)) => unsupported(format!("{path}.tls: HTTP has no TLS")),
        ("HTTPS", Some(TlsMode::Terminate)) => Ok(ListenerProtocol::Https),
        ("HTTPS", Some(_)) => unsupported(format!("{path}.tls.mode: HTTPS ends TLS here: the mode is Terminate")),
        ("TLS", Some(TlsMode::Passthrough)) => Ok(ListenerProtocol::Passthrough),
        ("TLS", Some(_)) => unsupported(format!("{path}.tls.mode: protocol TLS is served with mode Passthrough only")),
        ("HTTPS" | "TLS", None) => unsupported(format!("{path}.tls: is required with protocol {}", spec.protocol)),
        _ => {
            let message = format!("{path}.protocol: {:?} is not supported; HTTP, HTTPS and TLS are", spec.protocol);
            Err(Rejection::new("UnsupportedProtocol", message))
        }
    }
}

/// The fields that are set and not served.
fn unsupported(spec: &Listener, path: &str) -> Vec<String> {
    let tls = format!("{path}.tls");
    let options = spec.tls.iter().flat_map(|tls| tls.options.keys()).map(|key| format!("{tls}.options[{key}]"));
    let others = |other: &OtherFields, path: &str| other.paths(path).collect::<Vec<_>>();
    let mut paths = others(&spec.other, path);
    paths.extend(spec.tls.iter().flat_map(|one| others(&one.other, &tls)));
    paths.extend(options);
    paths.extend(allowed::unsupported(spec, path));
    paths
}

/// Listeners of a file may have equal names; a route could mean either.
fn refuse_equal_names(listeners: &mut [JudgedListener<'_>]) {
    let mut seen = BTreeSet::new();
    let names = listeners.iter().map(|listener| listener.spec.name.as_str());
    let twice: BTreeSet<&str> = names.filter(|name| !seen.insert(*name)).collect();
    for listener in listeners.iter_mut().filter(|listener| twice.contains(listener.spec.name.as_str())) {
        let message = format!("several listeners are named {}", listener.spec.name);
        listener.refusal = Some(Rejection::new("UnsupportedValue", message));
    }
}

impl JudgedListener<'_> {
    /// Why it is not accepted. A listener in conflict is not, with the reason of the conflict.
    pub(crate) fn refusal(&self) -> Option<&Rejection> {
        self.conflict.as_ref().or(self.refusal.as_ref())
    }

    /// Whether connections can be accepted: it is accepted, and has a certificate if it needs one.
    pub(crate) fn is_served(&self) -> bool {
        let has_key = self.protocol != Some(ListenerProtocol::Https) || !self.certificates.is_empty();
        self.refusal().is_none() && has_key
    }

    /// Whether it is for plain HTTP.
    pub(crate) fn is_plain(&self) -> bool {
        self.protocol == Some(ListenerProtocol::Http)
    }

    /// Whether all references are resolved.
    pub(crate) fn is_resolved(&self) -> bool {
        self.unresolved.is_none()
    }

    pub(crate) fn conditions(&self) -> Vec<ConditionVerdict> {
        let conflicted = match &self.conflict {
            Some(why) => ConditionVerdict::holds("Conflicted", why.reason, why.message.clone()),
            None => ConditionVerdict::fails("Conflicted", &Rejection::new("NoConflicts", "")),
        };
        let overlap = self.overlap.as_ref();
        let overlap =
            overlap.map(|message| ConditionVerdict::holds("OverlappingTLSConfig", "OverlappingHostnames", message));
        let accepted = match self.refusal() {
            Some(why) => ConditionVerdict::fails("Accepted", why),
            None => {
                let effects: Vec<String> = effects_in_words(&self.notes).collect();
                ConditionVerdict::holds("Accepted", "Accepted", effects.join("; "))
            }
        };
        let resolved = ConditionVerdict::unless("ResolvedRefs", "ResolvedRefs", self.unresolved.as_ref());
        [accepted, conflicted, resolved].into_iter().chain(overlap).collect()
    }
}
