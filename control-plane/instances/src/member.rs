use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::holder::MemberHolder;

/// A gateway or a cluster, which instances select.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its name.
    pub name: MemberName,
    /// Its labels. Those of an Envoy are claims of the peer: [`Member::entitlement`] bounds what they can do.
    pub labels: BTreeMap<String, String>,
    /// The instances to which it may belong.
    pub entitlement: Entitlement,
    /// The instance that its status names as its owner; `None` without a status.
    pub recorded: Option<String>,
}

/// The name of a [`Member`]: one of each kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MemberName {
    /// The kind.
    pub kind: MemberKind,
    /// The node id of an Envoy, `NAMESPACE/NAME` of a Gateway, `metadata.name` of an `UpstreamCluster`.
    pub name: String,
}

/// The kinds of members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MemberKind {
    /// An Envoy that belongs to no Gateway of the Gateway API.
    Envoy,
    /// A Gateway of the Gateway API, with all its Envoys.
    Gateway,
    /// An `UpstreamCluster`.
    UpstreamCluster,
}

/// The instances to which a member may belong, whatever its labels are: labels narrow this, and never widen it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Entitlement {
    /// To any or none: an object, whose labels the API's own authorization guards, or an Envoy of the control plane's machine.
    #[default]
    Any,
    /// To none: an Envoy whose certificate names no instance.
    Free,
    /// To one of these, and to nothing else: an Envoy whose certificate names them. It may also be that there is none which can
    /// be.
    Named(BTreeSet<String>),
}

impl Entitlement {
    /// Whether a member may belong to an instance.
    pub(crate) fn admits(&self, instance: &str) -> bool {
        match self {
            Entitlement::Any => true,
            Entitlement::Free => false,
            Entitlement::Named(names) => names.contains(instance),
        }
    }

    /// Whether a member may have this holder.
    pub(crate) fn admits_holder(&self, holder: &MemberHolder) -> bool {
        match holder {
            MemberHolder::Instance(name) => self.admits(name),
            MemberHolder::Free => !matches!(self, Entitlement::Named(_)),
            MemberHolder::Nobody => true,
        }
    }

    /// The holder of a member that no instance gets.
    pub(crate) fn without_instance(&self) -> MemberHolder {
        if matches!(self, Entitlement::Named(_)) { MemberHolder::Nobody } else { MemberHolder::Free }
    }
}

impl MemberName {
    /// The name of an Envoy, by its node id.
    pub fn envoy(node: impl Into<String>) -> Self {
        Self { kind: MemberKind::Envoy, name: node.into() }
    }

    /// The name of a Gateway, as `NAMESPACE/NAME`.
    pub fn gateway(name: impl Into<String>) -> Self {
        Self { kind: MemberKind::Gateway, name: name.into() }
    }

    /// The name of an `UpstreamCluster`.
    pub fn cluster(name: impl Into<String>) -> Self {
        Self { kind: MemberKind::UpstreamCluster, name: name.into() }
    }
}

impl fmt::Display for MemberName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            MemberKind::Envoy => "Envoy",
            MemberKind::Gateway => "Gateway",
            MemberKind::UpstreamCluster => "UpstreamCluster",
        };
        write!(f, "{kind} {}", self.name)
    }
}
