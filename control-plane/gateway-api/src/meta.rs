use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The fields of Kubernetes' `ObjectMeta` that matter here; its other fields are allowed and ignored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectMeta {
    /// The object's name.
    pub name: String,
    /// Its namespace; empty of a cluster-scoped object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Differs from that of a former object of the same name. An object of a file has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// The version of the spec; an object of a file has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    /// RFC 3339 in UTC; decides between objects that claim the same name. An object of a file has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub creation_timestamp: Option<String>,
    /// Labels.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}
