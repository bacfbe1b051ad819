//! Attributes of an access review.

use std::borrow::Cow;

use crate::request_info::RequestInfo;

/// The attributes that a SubjectAccessReview asks about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessAttributes<'a> {
    /// Of an object of the API (`resourceAttributes`).
    Resource(Cow<'a, ResourceAttributes>),
    /// Of a plain path (`nonResourceAttributes`).
    Path {
        /// The verb.
        verb: String,
        /// The path, decoded.
        path: String,
    },
}

/// Attributes of an object of the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceAttributes {
    /// The verb.
    pub verb: Cow<'static, str>,
    /// The API group.
    pub group: Cow<'static, str>,
    /// The API version, or empty.
    pub version: Cow<'static, str>,
    /// The resource, in the plural.
    pub resource: Cow<'static, str>,
    /// The subresource; of `userextras` the key; else empty.
    pub subresource: String,
    /// The namespace, or empty.
    pub namespace: String,
    /// The name or value.
    pub name: String,
}

impl AccessAttributes<'_> {
    /// The verb.
    pub fn verb(&self) -> &str {
        match self {
            AccessAttributes::Resource(attributes) => &attributes.verb,
            AccessAttributes::Path { verb, .. } => verb,
        }
    }

    /// The attributes of a request under another verb, which is made of its own. `None` if they are not UTF-8.
    pub(crate) fn of_request(info: &RequestInfo<'_>, verb: impl FnOnce(&str) -> String) -> Option<Self> {
        let text = |bytes| std::str::from_utf8(bytes).ok().map(str::to_owned);
        let verb = verb(std::str::from_utf8(&info.verb).ok()?);
        if !info.is_resource {
            return Some(AccessAttributes::Path { verb, path: text(info.path)? });
        }
        Some(AccessAttributes::Resource(Cow::Owned(ResourceAttributes {
            verb: verb.into(),
            group: text(info.api_group)?.into(),
            version: text(info.api_version)?.into(),
            resource: text(info.resource)?.into(),
            subresource: text(info.subresource)?,
            namespace: text(info.namespace)?,
            name: text(&info.name)?,
        })))
    }
}

impl<'a> From<&'a ResourceAttributes> for AccessAttributes<'a> {
    fn from(attributes: &'a ResourceAttributes) -> Self {
        AccessAttributes::Resource(Cow::Borrowed(attributes))
    }
}
