use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use portcullis_attach::ObjectName;
use portcullis_instances::{Entitlement, Member, MemberHolder, MemberName, Settlement, text_labels_of};
use serde_json::Value;

/// Labels by the names of their objects.
pub(super) type KnownLabels = BTreeMap<MemberName, BTreeMap<String, String>>;

/// An `UpstreamCluster` with its labels. One whose labels are no texts keeps those that it had. Without these it stays with Envoys of
/// none if they serve it, and goes to no others: it may be a tenant's.
pub(super) fn member(document: &Value, known: &KnownLabels, settled: &Settlement) -> Member {
    let name = member_name(document);
    let labels = text_labels_of(document).or_else(|| known.get(&name).cloned());
    let is_free = settled.owners.get(&name).is_some_and(|owner| owner.holder == MemberHolder::Free);
    let entitlement = match &labels {
        Some(_) => Entitlement::Any,
        None if is_free => Entitlement::Free,
        None => Entitlement::Named(BTreeSet::new()),
    };
    let recorded = document.pointer("/status/instance").and_then(Value::as_str).map(str::to_owned);
    Member { name, labels: labels.unwrap_or_default(), entitlement, recorded }
}

/// The labels of those members that have some which can be read.
pub(super) fn labels_of_all(members: &[Member]) -> KnownLabels {
    let known = members.iter().filter(|member| member.entitlement == Entitlement::Any);
    known.map(|member| (member.name.clone(), member.labels.clone())).collect()
}

/// A Gateway, as instances select it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct GatewayMember {
    /// `metadata.uid`.
    pub(in super::super) uid: Option<String>,
    /// `metadata.labels`.
    pub(in super::super) labels: BTreeMap<String, String>,
}

/// Gateways with their labels. The API server's own authorization guards these.
pub(super) fn gateway_members<'a>(
    gateways: impl Iterator<Item = (&'a ObjectName, &'a GatewayMember)>,
) -> impl Iterator<Item = Member> {
    gateways.map(|(name, gateway)| Member {
        name: MemberName::gateway(name.to_string()),
        labels: gateway.labels.clone(),
        entitlement: Entitlement::Any,
        recorded: None,
    })
}

/// The UIDs of Gateways.
pub(super) fn gateway_uids<'a>(
    gateways: impl Iterator<Item = (&'a ObjectName, &'a GatewayMember)>,
) -> impl Iterator<Item = (MemberName, String)> {
    gateways.filter_map(|(name, gateway)| Some((MemberName::gateway(name.to_string()), gateway.uid.clone()?)))
}

/// By the name that resources have.
pub(super) fn member_name(document: &Value) -> MemberName {
    let name = document.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    MemberName::cluster(name.to_ascii_lowercase())
}

/// The UIDs of objects: one that was deleted and made anew under its name has another one.
pub(super) fn uids<'a>(documents: impl IntoIterator<Item = &'a Arc<Value>>) -> BTreeMap<MemberName, String> {
    let named = |document: &Arc<Value>| Some((member_name(document), uid(document)?.to_owned()));
    documents.into_iter().filter_map(named).collect()
}

/// The UID of an object; `None` where the source has none.
pub(super) fn uid(document: &Value) -> Option<&str> {
    document.pointer("/metadata/uid")?.as_str()
}
