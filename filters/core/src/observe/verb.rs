//! Verbs and scopes as kube-apiserver's own metrics report them (`k8s.io/apiserver/pkg/endpoints/metrics`), so that its
//! dashboards read ours.

use crate::request_info::RequestInfo;

/// Subresources that count as `CONNECT`, whatever the method.
const CONNECT: [&[u8]; 5] = [b"attach", b"exec", b"log", b"portforward", b"proxy"];

/// A verb of a closed set, as kube-apiserver's metrics report it: by the method, and not by the verb of RBAC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(super) enum ReportedVerb {
    /// Every other method.
    #[default]
    Other,
    /// `GET` and `HEAD` of an object or a plain path.
    Get,
    /// `GET` and `HEAD` of a collection.
    List,
    /// A watch.
    Watch,
    /// A creation.
    Post,
    /// A replacement.
    Put,
    /// A patch.
    Patch,
    /// A server-side apply.
    Apply,
    /// A deletion, of a collection too.
    Delete,
    /// `exec`, `log`, `proxy` and their like.
    Connect,
}

impl ReportedVerb {
    /// All of them, in the order of their codes.
    pub(super) const ALL: [Self; 10] = [
        ReportedVerb::Other,
        ReportedVerb::Get,
        ReportedVerb::List,
        ReportedVerb::Watch,
        ReportedVerb::Post,
        ReportedVerb::Put,
        ReportedVerb::Patch,
        ReportedVerb::Apply,
        ReportedVerb::Delete,
        ReportedVerb::Connect,
    ];

    /// The verb of a request. `is_apply` says that its body is a server-side apply.
    pub(super) fn of(info: &RequestInfo<'_>, is_apply: bool) -> Self {
        if info.is_resource && CONNECT.contains(&info.subresource) {
            return ReportedVerb::Connect;
        }
        match &*info.verb {
            b"get" | b"head" => ReportedVerb::Get,
            b"list" => ReportedVerb::List,
            b"watch" => ReportedVerb::Watch,
            b"create" | b"post" => ReportedVerb::Post,
            b"update" | b"put" => ReportedVerb::Put,
            b"patch" if is_apply => ReportedVerb::Apply,
            b"patch" => ReportedVerb::Patch,
            b"delete" | b"deletecollection" => ReportedVerb::Delete,
            _ => ReportedVerb::Other,
        }
    }

    pub(super) fn of_code(code: u8) -> Self {
        Self::ALL.get(usize::from(code)).copied().unwrap_or_default()
    }

    pub(super) const fn code(self) -> u8 {
        self as u8
    }

    /// The label `verb`.
    pub(super) const fn label(self) -> &'static str {
        match self {
            ReportedVerb::Other => "other",
            ReportedVerb::Get => "GET",
            ReportedVerb::List => "LIST",
            ReportedVerb::Watch => "WATCH",
            ReportedVerb::Post => "POST",
            ReportedVerb::Put => "PUT",
            ReportedVerb::Patch => "PATCH",
            ReportedVerb::Apply => "APPLY",
            ReportedVerb::Delete => "DELETE",
            ReportedVerb::Connect => "CONNECT",
        }
    }

    /// Whether kube-apiserver records the size of its answers.
    pub(super) const fn is_read(self) -> bool {
        matches!(self, ReportedVerb::Get | ReportedVerb::List)
    }
}

/// The extent of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(super) enum Scope {
    /// A plain path, or an unknown resource.
    #[default]
    None,
    /// A collection of all namespaces, or one that has none.
    Cluster,
    /// A collection of a namespace.
    Namespace,
    /// An object, and every creation.
    Resource,
}

impl Scope {
    /// All of them, in the order of their codes.
    pub(super) const ALL: [Self; 4] = [Scope::None, Scope::Cluster, Scope::Namespace, Scope::Resource];

    /// The scope of a request, by its path: kube-apiserver does not count the name that a field selector requires.
    pub(super) fn of(info: &RequestInfo<'_>) -> Self {
        if !info.is_resource {
            return Scope::None;
        }
        let is_collection = matches!(&*info.verb, b"list" | b"deletecollection")
            || *info.verb == *b"watch" && (!info.verb_in_path || info.name.is_empty());
        match (is_collection, info.namespace.is_empty()) {
            (false, _) => Scope::Resource,
            (true, true) => Scope::Cluster,
            (true, false) => Scope::Namespace,
        }
    }

    pub(super) fn of_code(code: u8) -> Self {
        Self::ALL.get(usize::from(code)).copied().unwrap_or_default()
    }

    pub(super) const fn code(self) -> u8 {
        self as u8
    }

    /// The label `scope`.
    pub(super) const fn label(self) -> &'static str {
        match self {
            Scope::None => "",
            Scope::Cluster => "cluster",
            Scope::Namespace => "namespace",
            Scope::Resource => "resource",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request_info::RequestTarget;

    fn reported(method: &str, path: &str) -> (&'static str, &'static str) {
        let target = RequestTarget::parse(path.as_bytes()).unwrap();
        let info = target.resolve(method.as_bytes()).unwrap();
        (ReportedVerb::of(&info, false).label(), Scope::of(&info).label())
    }

    #[test]
    fn verb_and_scope_are_kube_apiservers() {
        let table = [
            ("GET", "/api/v1/namespaces/n/pods/a", "GET", "resource"),
            ("HEAD", "/api/v1/namespaces/n/pods/a", "GET", "resource"),
            ("GET", "/api/v1/namespaces/n/pods", "LIST", "namespace"),
            ("GET", "/api/v1/pods", "LIST", "cluster"),
            ("GET", "/api/v1/nodes", "LIST", "cluster"),
            ("GET", "/api/v1/namespaces/n", "GET", "resource"),
            ("GET", "/api/v1/namespaces", "LIST", "cluster"),
            ("GET", "/api/v1/namespaces/n/pods?fieldSelector=metadata.name=a", "LIST", "namespace"),
            ("GET", "/api/v1/namespaces/n/pods?watch=1", "WATCH", "namespace"),
            ("GET", "/api/v1/pods?watch=1&fieldSelector=metadata.name=a", "WATCH", "cluster"),
            ("GET", "/api/v1/watch/namespaces/n/pods/a", "WATCH", "resource"),
            ("POST", "/api/v1/namespaces/n/pods", "POST", "resource"),
            ("PUT", "/api/v1/namespaces/n/pods/a", "PUT", "resource"),
            ("PATCH", "/api/v1/namespaces/n/pods/a", "PATCH", "resource"),
            ("DELETE", "/api/v1/namespaces/n/pods/a", "DELETE", "resource"),
            ("DELETE", "/api/v1/namespaces/n/pods", "DELETE", "namespace"),
            ("GET", "/api/v1/namespaces/n/pods/a/log", "CONNECT", "resource"),
            ("POST", "/api/v1/namespaces/n/pods/a/exec", "CONNECT", "resource"),
            ("GET", "/healthz", "GET", ""),
            ("HEAD", "/healthz", "GET", ""),
            ("POST", "/healthz", "POST", ""),
            ("OPTIONS", "/healthz", "other", ""),
            ("PURGE", "/api/v1/namespaces/n/pods/a", "other", "resource"),
        ];
        for (method, path, verb, scope) in table {
            assert_eq!(reported(method, path), (verb, scope), "{method} {path}");
        }
        let info = RequestInfo { is_resource: true, verb: b"patch"[..].into(), ..RequestInfo::default() };
        assert_eq!(ReportedVerb::of(&info, true), ReportedVerb::Apply);
    }

    #[test]
    fn every_verb_and_scope_survives_its_code() {
        for verb in ReportedVerb::ALL {
            assert_eq!(ReportedVerb::of_code(verb.code()), verb);
        }
        for scope in Scope::ALL {
            assert_eq!(Scope::of_code(scope.code()), scope);
        }
        assert_eq!((ReportedVerb::of_code(99), Scope::of_code(99)), (ReportedVerb::Other, Scope::None));
    }
}
