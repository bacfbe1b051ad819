use std::cmp::Ordering;
use std::fmt;

use portcullis_api::UPSTREAM_KIND;
use portcullis_gateway_api::ObjectMeta;

/// API group and kind of clusters.
pub(crate) const CLUSTER: (&str, &str) = ("proxy.kubegateway.io", "UpstreamCluster");

/// API group and kind of upstreams.
pub(crate) const UPSTREAM: (&str, &str) = ("portcullis.dev", UPSTREAM_KIND);

/// The name of an object of a kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectName {
    /// Its namespace; empty of a cluster-scoped object.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// The kinds of routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RouteKind {
    /// `HTTPRoute`.
    Http,
    /// `TLSRoute`.
    Tls,
}

/// Which object comes first: the older one, then by `namespace/name` as one text. An object without a creation time counts as younger
/// than any that has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CreationOrder<'a> {
    undated: bool,
    created: Option<&'a str>,
    namespace: &'a str,
    name: &'a str,
}

impl ObjectName {
    /// From both parts.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// The name of an object.
    pub fn of(metadata: &ObjectMeta) -> Self {
        Self::new(metadata.namespace.clone(), metadata.name.clone())
    }
}

impl RouteKind {
    /// The kind, as objects name it.
    pub fn as_str(self) -> &'static str {
        match self {
            RouteKind::Http => "HTTPRoute",
            RouteKind::Tls => "TLSRoute",
        }
    }
}

impl<'a> CreationOrder<'a> {
    pub(crate) fn of(metadata: &'a ObjectMeta) -> Self {
        let created = metadata.creation_timestamp.as_deref();
        Self { undated: created.is_none(), created, namespace: &metadata.namespace, name: &metadata.name }
    }
}

impl Ord for CreationOrder<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_age = (self.undated, self.created).cmp(&(other.undated, other.created));
        let text = |one: &Self| one.namespace.bytes().chain([b'/']).chain(one.name.bytes());
        by_age.then_with(|| text(self).cmp(text(other))).then_with(|| self.name.cmp(other.name))
    }
}

impl PartialOrd for CreationOrder<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(&self.name)
    }
}

impl fmt::Display for RouteKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
