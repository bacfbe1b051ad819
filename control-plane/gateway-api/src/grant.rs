use serde::{Deserialize, Serialize};

use crate::meta::ObjectMeta;
use crate::other_fields::OtherFields;

/// Permission for objects of other namespaces to refer to objects of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReferenceGrant {
    /// Name and namespace.
    pub metadata: ObjectMeta,
    /// The permission.
    pub spec: ReferenceGrantSpec,
}

/// Each of `from` may refer to each of `to`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReferenceGrantSpec {
    /// The objects that may refer.
    pub from: Vec<GrantFrom>,
    /// The objects that may be referred to.
    pub to: Vec<GrantTo>,
    /// Fields that are not known: they could narrow the permission.
    #[serde(flatten)]
    pub other: OtherFields,
}

/// Objects of a kind in a namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantFrom {
    /// Their API group.
    pub group: String,
    /// Their kind.
    pub kind: String,
    /// Their namespace.
    pub namespace: String,
    /// Fields that are not known: they could narrow the permission.
    #[serde(flatten)]
    pub other: OtherFields,
}

/// Objects of a kind in the namespace of the [`ReferenceGrant`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantTo {
    /// Their API group.
    pub group: String,
    /// Their kind.
    pub kind: String,
    /// The name of the one; none is all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Fields that are not known: they could narrow the permission.
    #[serde(flatten)]
    pub other: OtherFields,
}
