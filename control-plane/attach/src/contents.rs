//! Secrets and `ConfigMaps` with the certificates of Gateways.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::name::ObjectName;

/// The most to which one Gateway refers.
const MAX_OF_GATEWAY: usize = 64;
/// The most to which the Gateways of one namespace refer: a tenant takes no room from others.
const MAX_OF_NAMESPACE: usize = 128;
/// The most of all Gateways: each is read again and again, and kept in memory.
const MAX_IN_ALL: usize = 500;

/// A kind of objects that have certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ContentKind {
    /// A Secret with a certificate and its key, of a Gateway.
    Secret,
    /// CA certificates.
    ConfigMap,
    /// A Secret of a `KubernetesUpstream`.
    UpstreamSecret,
}

/// The name of an object that has certificates.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ContentName {
    /// Its kind.
    pub kind: ContentKind,
    /// Its name.
    pub object: ObjectName,
}

/// The Secrets and `ConfigMaps` that are to be read: Gateways of this controller, or `KubernetesUpstreams`, refer to them and may do it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReferredContents {
    all: BTreeSet<ContentName>,
    /// How many of them each namespace of Gateways brought.
    of_namespace: BTreeMap<String, usize>,
}

impl ReferredContents {
    /// Adds those of one Gateway of a namespace to which it may refer, as far as there is room. Each reference is looked at once, and
    /// none behind the last for which there is room.
    pub(crate) fn charge(
        &mut self,
        namespace: &str,
        of_gateway: impl Iterator<Item = ContentName>,
        may_refer: impl Fn(&ContentName) -> bool,
    ) {
        let mut seen: BTreeSet<ContentName> = BTreeSet::new();
        let mut own = 0_usize;
        let brought = self.of_namespace.entry(namespace.to_owned()).or_default();
        for name in of_gateway {
            if own >= MAX_OF_GATEWAY {
                break;
            }
            let is_new = !self.all.contains(&name);
            let has_room = !is_new || (*brought < MAX_OF_NAMESPACE && self.all.len() < MAX_IN_ALL);
            if !has_room || seen.contains(&name) {
                continue;
            }
            seen.insert(name.clone());
            if !may_refer(&name) {
                continue;
            }
            own = own.saturating_add(1);
            *brought = brought.saturating_add(usize::from(is_new));
            self.all.insert(name);
        }
    }

    /// Adds those of upstreams, after those of all Gateways, from which they take no room.
    pub(crate) fn add_upstreams(&mut self, of_upstreams: impl Iterator<Item = ContentName>) {
        self.all.extend(of_upstreams);
    }

    /// Why one that a Gateway may refer to is not read.
    pub(crate) fn excess(&self, name: &ContentName) -> Option<String> {
        let message = || {
            format!(
                "{name} is not read: more than {MAX_OF_GATEWAY} Secrets and ConfigMaps of one Gateway, {MAX_OF_NAMESPACE} of \
                 the Gateways of one namespace, or {MAX_IN_ALL} of all"
            )
        };
        (!self.all.contains(name)).then(message)
    }

    /// Whether this one is among them.
    pub fn contains(&self, name: &ContentName) -> bool {
        self.all.contains(name)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &ContentName> {
        self.all.iter()
    }
}

impl ContentKind {
    /// The kind, as objects name it.
    pub fn as_str(self) -> &'static str {
        match self {
            ContentKind::Secret | ContentKind::UpstreamSecret => "Secret",
            ContentKind::ConfigMap => "ConfigMap",
        }
    }
}

impl fmt::Display for ContentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.as_str(), self.object)
    }
}
