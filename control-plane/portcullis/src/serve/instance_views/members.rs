use std::collections::BTreeMap;
use std::sync::Arc;

use portcullis_instances::{Entitlement, Member, MemberName, labels_of};
use serde_json::Value;

/// An `UpstreamCluster` with its labels.
pub(super) fn member(document: &Value) -> Member {
    Member { name: member_name(document), labels: labels_of(document), entitlement: Entitlement::Any }
}

/// By the name that resources have.
pub(super) fn member_name(document: &Value) -> MemberName {
    let name = document.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    MemberName::cluster(name.to_ascii_lowercase())
}

/// The UIDs of objects: one that was deleted and made anew under its name has another one.
pub(super) fn uids<'a>(documents: impl IntoIterator<Item = &'a Arc<Value>>) -> BTreeMap<MemberName, String> {
    let uid =
        |document: &Arc<Value>| Some((member_name(document), document.pointer("/metadata/uid")?.as_str()?.to_owned()));
    documents.into_iter().filter_map(uid).collect()
}
