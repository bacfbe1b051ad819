use std::collections::BTreeMap;

use portcullis_api::{CheckedInstance, SelectedLabels};

use crate::member::{Member, MemberKind};

/// Maximum number of instances that select. Each is compared with each gateway and cluster. Those beyond it are compared with new
/// clusters that none of these selects.
pub const MAX_INSTANCES: usize = 100;

/// Why an instance beyond [`MAX_INSTANCES`] takes nothing.
pub(crate) fn too_many() -> String {
    format!(
        "it keeps what it has, and gets what is new and no other one selects: there are {MAX_INSTANCES} older instances"
    )
}

/// An `Instance`, as far as it decides about owners.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceClaim {
    /// `metadata.name`.
    pub name: String,
    /// RFC 3339; an instance without one is younger than any that has one.
    pub creation_timestamp: Option<String>,
    /// The labels that it selects. `None` of an object that is refused and has no accepted version: it keeps what it has, so
    /// that a typing error opens nothing to others, and gets nothing more.
    pub selection: Option<Selection>,
}

/// The labels that an instance selects; `None` selects nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Labels of Envoys and Gateways.
    pub gateways: Option<SelectedLabels>,
    /// Labels of `UpstreamClusters`.
    pub clusters: Option<SelectedLabels>,
}

impl InstanceClaim {
    /// The claim of an accepted object.
    pub fn accepted(checked: CheckedInstance) -> Self {
        let CheckedInstance { name, creation_timestamp, gateways, clusters, settings: _ } = checked;
        Self { name, creation_timestamp, selection: Some(Selection { gateways, clusters }) }
    }

    /// Whether it selects a member by its labels.
    pub(crate) fn selects(&self, member: &Member) -> bool {
        let Some(selection) = &self.selection else { return false };
        let selector = match member.name.kind {
            MemberKind::Envoy | MemberKind::Gateway => &selection.gateways,
            MemberKind::UpstreamCluster => &selection.clusters,
        };
        selector.as_ref().is_some_and(|selector| selector.selects(&member.labels))
    }
}

/// Claims in the order in which they come first, and their names.
pub(crate) struct OrderedClaims<'a> {
    pub(crate) claims: Vec<&'a InstanceClaim>,
    by_name: BTreeMap<&'a str, &'a InstanceClaim>,
    /// Names of those beyond [`MAX_INSTANCES`].
    pub(crate) excess: Vec<&'a str>,
}

impl<'a> OrderedClaims<'a> {
    /// The oldest first, then by name. Of several with one name the first counts.
    pub(crate) fn of(all: &'a [InstanceClaim]) -> Self {
        let mut claims: Vec<&InstanceClaim> = all.iter().collect();
        let age = |claim: &&'a InstanceClaim| {
            let created = claim.creation_timestamp.as_deref();
            (created.is_none(), created, claim.name.as_str())
        };
        claims.sort_by_key(age);
        let mut by_name: BTreeMap<&str, &InstanceClaim> = BTreeMap::new();
        claims.retain(|claim| match by_name.get(claim.name.as_str()) {
            Some(_) => false,
            None => by_name.insert(&claim.name, claim).is_none(),
        });
        let excess = claims.iter().skip(MAX_INSTANCES).map(|claim| claim.name.as_str()).collect();
        claims.truncate(MAX_INSTANCES);
        Self { claims, by_name, excess }
    }

    /// Whether an instance holds what it has without selecting it: it is there, and not known what it selects.
    pub(crate) fn holds_blindly(&self, name: &str) -> bool {
        self.by_name.get(name).is_some_and(|claim| claim.selection.is_none() || self.excess.contains(&name))
    }

    /// The first instance beyond [`MAX_INSTANCES`] that selects a member.
    pub(crate) fn excess_selecting(&self, member: &Member) -> Option<&'a str> {
        let mut claims = self.excess.iter().filter_map(|name| self.by_name.get(name).copied());
        let found = claims.find(|claim| claim.selects(member) && member.entitlement.admits(&claim.name));
        found.map(|claim| claim.name.as_str())
    }

    /// Whether it is not known of some instance what it selects.
    pub(crate) fn has_unknown(&self) -> bool {
        self.by_name.values().any(|claim| claim.selection.is_none())
    }
}
