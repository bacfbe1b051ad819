//! Attributes of an access review.

/// The object of the RBAC verb `impersonate`, as a SubjectAccessReview names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceAttributes {
    /// The API group.
    pub group: &'static str,
    /// The resource: users, groups, serviceaccounts, uids or userextras.
    pub resource: &'static str,
    /// The key of an extra, else empty.
    pub subresource: String,
    /// The service account's namespace, else empty.
    pub namespace: String,
    /// The name or value.
    pub name: String,
}
