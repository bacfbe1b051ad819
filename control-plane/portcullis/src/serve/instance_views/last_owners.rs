use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use portcullis_instances::{InstanceClaim, Member, MemberHolder, Ownership, Selection, Settlement};
use portcullis_translate::type_urls;
use portcullis_xds::Snapshot;
use serde_json::Value;

use super::instance_of_view;
use super::members::{KnownLabels, member, member_name};

/// The instances that have a view in a snapshot.
pub(super) fn instances_of(snapshot: &Snapshot) -> impl Iterator<Item = &str> {
    snapshot.views().filter_map(|(name, _)| instance_of_view(name))
}

/// The owners before the first instance: Envoys of none serve everything that was accepted.
pub(super) fn undivided(accepted: &BTreeMap<String, Arc<Value>>) -> Settlement {
    let free = |document: &Arc<Value>| (member_name(document), Ownership { holder: MemberHolder::Free, next: None });
    Settlement { owners: accepted.values().map(free).collect(), ..Settlement::default() }
}

/// The owners as a snapshot has them. Of several that serve a member the one that lets it go is the holder: the time of a hand-over
/// begins anew.
pub(super) fn settled_by(snapshot: &Snapshot, clusters: &[Arc<Value>], claims: &[InstanceClaim]) -> Settlement {
    let mut settled = Settlement::default();
    for document in clusters {
        let member = &member(document, &KnownLabels::new(), &Settlement::default());
        let holders = holders(snapshot, &member.name.name);
        let leaving = holders.iter().find(|holder| lets_go(holder, member, claims));
        let Some(holder) = leaving.or(holders.first()).cloned() else { continue };
        let next = holders.into_iter().find(|other| *other != holder);
        settled.owners.insert(member.name.clone(), Ownership { holder, next });
    }
    settled
}

/// The holders that serve an object, Envoys of none first. Routes of a removed object and resources that linger do not count.
fn holders(snapshot: &Snapshot, name: &str) -> BTreeSet<MemberHolder> {
    let clusters = type_urls::cluster();
    let serves = |view: &Snapshot| {
        let mut owned = view.owned_by(name);
        owned.any(|(url, one)| url == clusters && view.get(url, one).is_some_and(|resource| !resource.lingers()))
    };
    let instances = snapshot.views().filter(|(_, view)| serves(view)).filter_map(|(view, _)| instance_of_view(view));
    let instances = instances.map(|instance| MemberHolder::Instance(instance.to_owned()));
    serves(snapshot).then_some(MemberHolder::Free).into_iter().chain(instances).collect()
}

/// Whether an instance is gone or selects a member no more. One of which it is not known what it selects keeps it.
fn lets_go(holder: &MemberHolder, member: &Member, claims: &[InstanceClaim]) -> bool {
    let Some(name) = holder.instance() else { return false };
    claims.iter().find(|claim| claim.name == name).is_none_or(|claim| {
        let selects = |selection: &Selection| {
            selection.clusters.as_ref().is_some_and(|selector| selector.selects(&member.labels))
        };
        claim.selection.as_ref().is_some_and(|selection| !selects(selection))
    })
}
