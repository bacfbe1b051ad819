use std::collections::{BTreeMap, BTreeSet};

use crate::claim::{InstanceClaim, OrderedClaims};
use crate::conflict::{Conflict, Conflicts};
use crate::holder::MemberHolder;
use crate::member::{Member, MemberKind, MemberName};
use crate::ownership::{HandOver, Ownership};

/// Everything that decides about owners, at one time.
#[derive(Clone, Debug, Default)]
pub struct InstanceObjects {
    /// The instances.
    pub instances: Vec<InstanceClaim>,
    /// Gateways and clusters. Their names are unique.
    pub members: Vec<Member>,
    /// Whether owners that statuses name go before those of the last settlement. A control plane that writes the statuses goes by its
    /// own; one that does not follows it, because it may have had the same events in another order.
    pub follows_statuses: bool,
}

/// The owners of all gateways and clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settlement {
    /// The owner of each.
    pub owners: BTreeMap<MemberName, Ownership>,
    /// Conflicts: the members that an instance selects and does not get; only of instances that have some.
    pub conflicts: BTreeMap<String, Conflicts>,
    /// Instances beyond [`crate::MAX_INSTANCES`]: they keep what they have, and take nothing that others have or select.
    pub excess: BTreeSet<String>,
}

impl Settlement {
    /// All hand-overs in the order in which they end: those of gateways before those of clusters, which their gateways need until
    /// then.
    pub fn hand_overs(&self) -> Vec<HandOver> {
        let under_way = self.owners.iter().filter_map(|(member, owner)| {
            let (from, to) = (owner.holder.clone(), owner.next.clone()?);
            Some(HandOver { member: member.clone(), from, to })
        });
        under_way.collect()
    }

    /// The number of members of a kind that an instance has.
    pub fn count(&self, instance: &str, is_meant: impl Fn(MemberKind) -> bool) -> usize {
        let held = |owner: &Ownership| owner.holder.instance() == Some(instance);
        self.owners.iter().filter(|(member, owner)| is_meant(member.kind) && held(owner)).count()
    }
}

/// Settles all owners anew. `before` is the last settlement; an empty one after the first start. `is_ready` says whether an owner
/// to be has prepared what it serves of a member.
///
/// A hand-over of a cluster ends only after those of all gateways between the same owners: until then both serve it.
pub fn settle(
    before: &Settlement,
    objects: &InstanceObjects,
    is_ready: impl Fn(&MemberName, &MemberHolder) -> bool,
) -> Settlement {
    let claims = OrderedClaims::of(&objects.instances);
    let mut members: Vec<&Member> = objects.members.iter().collect();
    members.sort_by(|one, other| one.name.cmp(&other.name));
    members.dedup_by(|one, other| one.name == other.name);
    let excess = claims.excess.iter().map(|name| (*name).to_owned()).collect();
    let mut settled = Settlement { excess, ..Settlement::default() };
    let mut moving: BTreeSet<(MemberHolder, MemberHolder)> = BTreeSet::new();
    // Clusters are last in the order of names.
    for member in members {
        let selecting: Vec<&str> = selecting(&claims, member).collect();
        let last = before.owners.get(&member.name);
        let wanted = wanted(&claims, (member, objects.follows_statuses), &selecting, last);
        for name in selecting.iter().filter(|name| wanted.instance().is_some_and(|owner| owner != **name)) {
            let owner = wanted.instance().unwrap_or_default().to_owned();
            let conflict = Conflict { member: member.name.clone(), owner };
            settled.conflicts.entry((*name).to_owned()).or_default().add(conflict);
        }
        let is_cluster = member.name.kind == MemberKind::UpstreamCluster;
        let ends = |from: &MemberHolder, to: &MemberHolder| {
            is_ready(&member.name, to) && !(is_cluster && moving.contains(&(from.clone(), to.clone())))
        };
        let ownership = hand_over(member, last, wanted, ends);
        if let (false, Some(next)) = (is_cluster, &ownership.next) {
            moving.insert((ownership.holder.clone(), next.clone()));
        }
        settled.owners.insert(member.name.clone(), ownership);
    }
    settled
}

/// The instances that select a member to which it may belong, in their order.
fn selecting<'a>(claims: &'a OrderedClaims<'a>, member: &'a Member) -> impl Iterator<Item = &'a str> {
    let selecting =
        claims.claims.iter().filter(|claim| claim.selects(member) && member.entitlement.admits(&claim.name));
    selecting.map(|claim| claim.name.as_str())
}

/// The owner that a member should have.
fn wanted(
    claims: &OrderedClaims<'_>,
    (member, follows_status): (&Member, bool),
    selecting: &[&str],
    last: Option<&Ownership>,
) -> MemberHolder {
    let keeps =
        |name: &str| selecting.contains(&name) || (claims.holds_blindly(name) && member.entitlement.admits(name));
    let of_last = |holder: Option<&MemberHolder>| {
        holder.and_then(MemberHolder::instance).filter(|name| keeps(name)).map(str::to_owned)
    };
    let held = of_last(last.map(|last| &last.holder));
    let kept = held.or_else(|| of_last(last.and_then(|last| last.next.as_ref())));
    let recorded = member.recorded.as_deref().filter(|name| keeps(name)).map(str::to_owned);
    // A hand-over that began because of the status goes on where this control plane leads meanwhile.
    let is_next = recorded.is_some() && last.and_then(|last| last.next.as_ref()?.instance()) == recorded.as_deref();
    let settled = if follows_status || is_next { recorded.or(kept) } else { kept.or(recorded) };
    let name = settled.or_else(|| selecting.first().map(|name| (*name).to_owned()));
    name.map_or_else(|| unselected(claims, member, last), MemberHolder::Instance)
}

/// The holder of a member that no instance selects. A cluster that had none yet may belong to an instance of which it is not known
/// what it selects: Envoys of none would get its keys.
fn unselected(claims: &OrderedClaims<'_>, member: &Member, last: Option<&Ownership>) -> MemberHolder {
    let is_new = last.is_none_or(|last| last.holder == MemberHolder::Nobody);
    if !is_new || member.name.kind != MemberKind::UpstreamCluster {
        return member.entitlement.without_instance();
    }
    match claims.excess_selecting(member) {
        Some(name) => MemberHolder::Instance(name.to_owned()),
        None if claims.has_unknown() => MemberHolder::Nobody,
        None => member.entitlement.without_instance(),
    }
}

/// The owner of a member that should have another one. Waiting for it is right only as long as the last owner may have the member.
fn hand_over(
    member: &Member,
    last: Option<&Ownership>,
    wanted: MemberHolder,
    ends: impl Fn(&MemberHolder, &MemberHolder) -> bool,
) -> Ownership {
    let at_once = |holder| Ownership { holder, next: None };
    let Some(Ownership { holder, .. }) = last else { return at_once(wanted) };
    let is_served = *holder != MemberHolder::Nobody && member.entitlement.admits_holder(holder);
    if *holder == wanted || wanted == MemberHolder::Nobody || !is_served || ends(holder, &wanted) {
        return at_once(wanted);
    }
    Ownership { holder: holder.clone(), next: Some(wanted) }
}
