//! Which resource a path means. Covers what the stub serves; not a model of all of Kubernetes' rules.

/// A request below /api or /apis that names a resource.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) namespace: String,
    pub(crate) resource: String,
    pub(crate) name: String,
    pub(crate) subresource: String,
}

/// The target of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Route {
    /// /healthz, /livez, /readyz and what is below them.
    Health,
    /// /version.
    Version,
    /// /api.
    CoreVersions,
    /// /apis.
    Groups,
    /// /apis/<group>.
    Group(String),
    /// /api/v1 or /apis/<group>/<version>.
    Resources(String, String),
    /// Something in one of these.
    Resource(Target),
    /// Anything else.
    Unknown,
}

/// The route of a raw path without query.
pub(crate) fn route(path: &str) -> Route {
    let decoded = decode(path, false);
    let parts: Vec<&str> = decoded.trim_matches('/').split('/').collect();
    match parts.as_slice() {
        ["healthz" | "livez" | "readyz", ..] => Route::Health,
        ["version"] => Route::Version,
        ["api"] => Route::CoreVersions,
        ["apis"] => Route::Groups,
        ["apis", group] => Route::Group((*group).to_owned()),
        ["api", version] => Route::Resources(String::new(), (*version).to_owned()),
        ["apis", group, version] => Route::Resources((*group).to_owned(), (*version).to_owned()),
        ["api", version, rest @ ..] => Route::Resource(target("", version, rest)),
        ["apis", group, version, rest @ ..] => Route::Resource(target(group, version, rest)),
        _ => Route::Unknown,
    }
}

fn target(group: &str, version: &str, rest: &[&str]) -> Target {
    let (namespace, rest) = match rest {
        // A namespace's own status and finalize are about the namespace.
        ["namespaces", _, "status" | "finalize"] => ("", rest),
        ["namespaces", namespace, inner @ ..] if !inner.is_empty() => (*namespace, inner),
        _ => ("", rest),
    };
    let part = |at: usize| rest.get(at).copied().unwrap_or_default().to_owned();
    Target {
        group: group.to_owned(),
        version: version.to_owned(),
        namespace: namespace.to_owned(),
        resource: part(0),
        name: part(1),
        subresource: part(2),
    }
}

/// The first value of a query parameter.
pub(crate) fn query(target: &str, key: &str) -> Option<String> {
    let query = target.split_once('?')?.1;
    let pairs = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    pairs
        .map(|(name, value)| (decode(name, true), decode(value, true)))
        .find(|(name, _)| name == key)
        .map(|(_, value)| value)
}

/// Whether a query parameter says yes, as Kubernetes reads booleans.
pub(crate) fn flag(target: &str, key: &str) -> bool {
    query(target, key).is_some_and(|value| value != "0" && !value.eq_ignore_ascii_case("false"))
}

/// Percent-decodes once; bad escapes stay as they are.
pub(crate) fn decode(text: &str, plus_is_blank: bool) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        rest = tail;
        match (first, tail) {
            (b'%', [high, low, after @ ..]) if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                let digits = [*high, *low];
                let value = std::str::from_utf8(&digits).ok().and_then(|text| u8::from_str_radix(text, 16).ok());
                out.push(value.unwrap_or(b'%'));
                rest = after;
            }
            (b'+', _) if plus_is_blank => out.push(b' '),
            (other, _) => out.push(*other),
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::{Route, Target, flag, query, route};

    fn target(parts: [&str; 6]) -> Route {
        let [group, version, namespace, resource, name, subresource] = parts.map(str::to_owned);
        Route::Resource(Target { group, version, namespace, resource, name, subresource })
    }

    #[test]
    fn paths_lead_to_their_routes() {
        let table = [
            ("/healthz", Route::Health),
            ("/readyz/etcd", Route::Health),
            ("/version", Route::Version),
            ("/api", Route::CoreVersions),
            ("/apis/apps", Route::Group("apps".into())),
            ("/api/v1", Route::Resources(String::new(), "v1".into())),
            ("/api/v1/pods", target(["", "v1", "", "pods", "", ""])),
            ("/api/v1/namespaces/a", target(["", "v1", "", "namespaces", "a", ""])),
            ("/api/v1/namespaces/a/status", target(["", "v1", "", "namespaces", "a", "status"])),
            ("/api/v1/namespaces/a/pods/b/exec", target(["", "v1", "a", "pods", "b", "exec"])),
            ("/apis/apps/v1/namespaces/a/deployments/x%2Fy", target(["apps", "v1", "a", "deployments", "x", "y"])),
            ("/metrics", Route::Unknown),
        ];
        for (path, expected) in table {
            assert_eq!(route(path), expected, "{path}");
        }
    }

    #[test]
    fn query_values_are_decoded() {
        let target = "/x?watch&fieldSelector=metadata.name%3Da+b&follow=False";
        assert_eq!(query(target, "fieldSelector").unwrap(), "metadata.name=a b");
        assert!(flag(target, "watch") && !flag(target, "follow") && !flag(target, "absent"));
    }
}
