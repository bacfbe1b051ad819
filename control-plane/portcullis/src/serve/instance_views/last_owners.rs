use std::collections::BTreeMap;
use std::sync::Arc;

use portcullis_instances::{Member, MemberHolder, Ownership, Settlement};
use portcullis_xds::Snapshot;
use serde_json::Value;

use super::instance_of_view;
use super::members::member_name;

/// The instances that have a view in a snapshot.
pub(super) fn instances_of(snapshot: &Snapshot) -> impl Iterator<Item = &str> {
    snapshot.views().filter_map(|(name, _)| instance_of_view(name))
}

/// The owners before the first instance: Envoys of none serve everything that was accepted.
pub(super) fn undivided(accepted: &BTreeMap<String, Arc<Value>>) -> Settlement {
    let free = |document: &Arc<Value>| (member_name(document), Ownership { holder: MemberHolder::Free, next: None });
    Settlement { owners: accepted.values().map(free).collect(), ..Settlement::default() }
}

/// The owners as a snapshot has them.
pub(super) fn settled_by(snapshot: &Snapshot, members: &[Member]) -> Settlement {
    let holder = |name: &str| {
        let mut views = snapshot.views().filter(|(_, view)| view.version_of(name).is_some());
        let instance = views.find_map(|(view, _)| instance_of_view(view));
        let free = snapshot.version_of(name).map(|_| MemberHolder::Free);
        instance.map(|instance| MemberHolder::Instance(instance.to_owned())).or(free)
    };
    let mut settled = Settlement::default();
    for member in members {
        let Some(holder) = holder(&member.name.name) else { continue };
        settled.owners.insert(member.name.clone(), Ownership { holder, next: None });
    }
    settled
}
