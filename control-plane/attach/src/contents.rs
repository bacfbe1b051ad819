//! Secrets and `ConfigMaps` with the certificates of Gateways.

use std::collections::BTreeSet;
use std::fmt;

use crate::name::ObjectName;

/// The most to which one Gateway refers.
const MAX_OF_GATEWAY: usize = 64;
/// The most of all Gateways: each is read again and again, and kept in memory.
const MAX_IN_ALL: usize = 500;

/// A kind of objects that have certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ContentKind {
    /// A certificate with its key.
    Secret,
    /// CA certificates.
    ConfigMap,
}

/// The name of an object that has certificates.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ContentName {
    /// Its kind.
    pub kind: ContentKind,
    /// Its name.
    pub object: ObjectName,
}

/// The Secrets and `ConfigMaps` that are to be read: Gateways of this controller refer to them and may do it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReferredContents(BTreeSet<ContentName>);

impl ReferredContents {
    /// Adds those of one Gateway, as far as there is room.
    pub(crate) fn charge(&mut self, of_gateway: impl Iterator<Item = ContentName>) {
        let mut own: BTreeSet<ContentName> = BTreeSet::new();
        for name in of_gateway {
            let is_beyond = own.len() >= MAX_OF_GATEWAY && !own.contains(&name);
            if is_beyond || (self.0.len() >= MAX_IN_ALL && !self.0.contains(&name)) {
                continue;
            }
            own.insert(name.clone());
            self.0.insert(name);
        }
    }

    /// Why one that a Gateway may refer to is not read.
    pub(crate) fn excess(&self, name: &ContentName) -> Option<String> {
        let message = || {
            format!(
                "{name} is not read: more than {MAX_OF_GATEWAY} Secrets and ConfigMaps of one Gateway, or {MAX_IN_ALL} of all"
            )
        };
        (!self.0.contains(name)).then(message)
    }

    /// Whether this one is among them.
    pub fn contains(&self, name: &ContentName) -> bool {
        self.0.contains(name)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &ContentName> {
        self.0.iter()
    }
}

impl ContentKind {
    /// The kind, as objects name it.
    pub fn as_str(self) -> &'static str {
        match self {
            ContentKind::Secret => "Secret",
            ContentKind::ConfigMap => "ConfigMap",
        }
    }
}

impl fmt::Display for ContentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.as_str(), self.object)
    }
}
