//! The rules of a route, and the fields that a gateway of kube-apiservers cannot honour.

use std::collections::BTreeSet;

use portcullis_gateway_api::{BackendReference, HttpMatch, HttpRouteSpec, HttpRule, TlsRouteSpec};

use crate::condition::{Note, Rejection};

/// The outcome of a route's rules.
#[derive(Default)]
pub(super) struct JudgedRules<'a> {
    /// The servers of the rule in effect, with the paths of their references.
    pub(super) backends: Vec<(String, &'a BackendReference)>,
    /// Why the route is not accepted.
    pub(super) refusal: Option<Rejection>,
    /// The rules that are left out, and why.
    pub(super) dropped: Option<String>,
    pub(super) notes: Vec<Note>,
}

/// A rule, and the fields because of which it is invalid.
struct Rule<'a> {
    path: String,
    rule: &'a HttpRule,
    /// Those that choose requests.
    narrowing: Vec<String>,
    /// All others.
    changing: Vec<String>,
}

/// Each valid rule matches all requests, so that the first one is the route. A rule with an unsupported field is left out only
/// if it would have got no request: behind a rule that matches all. Otherwise its requests would go to another rule, without
/// what its author asked for, so that the route is not accepted.
pub(super) fn http(spec: &HttpRouteSpec) -> JudgedRules<'_> {
    let of_spec: Vec<String> =
        spec.other
            .paths("spec")
            .chain(spec.parent_refs.iter().enumerate().flat_map(|(index, parent)| {
                parent.other.paths(&format!("spec.parentRefs[{index}]")).collect::<Vec<_>>()
            }))
            .collect();
    let rules: Vec<Rule<'_>> = spec.rules.iter().enumerate().map(|(index, rule)| judge(index, rule)).collect();
    let first_valid = rules.iter().position(Rule::is_valid);
    let is_harmless =
        |index: usize, rule: &Rule<'_>| rule.narrowing.is_empty() && first_valid.is_some_and(|first| first < index);
    let invalid = rules.iter().enumerate().filter(|(_, rule)| !rule.is_valid());
    let (dropped, refused): (Vec<_>, Vec<_>) = invalid.partition(|(index, rule)| is_harmless(*index, rule));
    let fields =
        |rules: Vec<(usize, &Rule<'_>)>| rules.into_iter().flat_map(|(_, rule)| rule.fields()).collect::<Vec<_>>();
    let refused: Vec<String> = of_spec.into_iter().chain(fields(refused)).collect();
    let dropped = (!dropped.is_empty()).then(|| {
        let names: Vec<&str> = dropped.iter().map(|(_, rule)| rule.path.as_str()).collect();
        format!("Dropped Rule {}: not supported: {}", names.join(", "), fields(dropped.clone()).join(", "))
    });
    let mut judged = JudgedRules { refusal: Rejection::of_fields(&refused), dropped, ..JudgedRules::default() };
    let mut valid = rules.into_iter().filter(Rule::is_valid);
    if let Some(rule) = valid.next() {
        judged.backends = references(&rule.path, &rule.rule.backend_refs);
        judged.refusal = judged.refusal.or_else(|| several(&rule.path, &rule.rule.backend_refs));
        if judged.backends.is_empty() {
            let note = Note::no_effect(format!("{}.backendRefs", rule.path), "without any, all requests are refused");
            judged.notes.push(note);
        }
    } else if spec.rules.is_empty() {
        judged.refusal = judged.refusal.or_else(|| Some(Rejection::new("UnsupportedValue", "spec.rules: is empty")));
    }
    let never = valid.map(|rule| Note::no_effect(rule.path, "is never reached: an earlier rule matches all requests"));
    judged.notes.extend(never);
    judged
}

/// Shares of several servers: each cluster decides about identities itself, and a request has one decision.
fn several(rule: &str, backends: &[BackendReference]) -> Option<Rejection> {
    let weighted = backends.iter().filter(|one| one.weight > 0);
    let servers: BTreeSet<_> = weighted.map(|one| (&one.group, &one.kind, &one.namespace, &one.name)).collect();
    (servers.len() > 1).then(|| {
        let message = format!(
            "{rule}.backendRefs: requests of a route go to one UpstreamCluster or KubernetesUpstream; shares of several are not supported"
        );
        Rejection::new("UnsupportedValue", message)
    })
}

/// The one rule of a `TLSRoute`.
pub(super) fn tls(spec: &TlsRouteSpec) -> JudgedRules<'_> {
    let mut fields: Vec<String> = spec.other.paths("spec").collect();
    for (index, parent) in spec.parent_refs.iter().enumerate() {
        fields.extend(parent.other.paths(&format!("spec.parentRefs[{index}]")));
    }
    let mut judged = JudgedRules::default();
    for (index, rule) in spec.rules.iter().enumerate() {
        let path = format!("spec.rules[{index}]");
        fields.extend(rule.other.paths(&path));
        let references = references(&path, &rule.backend_refs);
        fields.extend(references.iter().flat_map(|(path, one)| unsupported(path, one)));
        judged.backends.extend(references);
    }
    judged.refusal = Rejection::of_fields(&fields);
    let needs_one =
        |field: &str| Some(Rejection::new("UnsupportedValue", format!("spec.{field}: exactly one is needed")));
    if judged.refusal.is_none() && spec.rules.len() != 1 {
        judged.refusal = needs_one("rules");
    } else if judged.refusal.is_none() && spec.hostnames.is_empty() {
        judged.refusal = Some(Rejection::new("UnsupportedValue", "spec.hostnames: at least one is needed"));
    }
    judged
}

fn references<'a>(rule: &str, backends: &'a [BackendReference]) -> Vec<(String, &'a BackendReference)> {
    let path = |index: usize| format!("{rule}.backendRefs[{index}]");
    backends.iter().enumerate().map(|(index, backend)| (path(index), backend)).collect()
}

fn judge(index: usize, rule: &HttpRule) -> Rule<'_> {
    let path = format!("spec.rules[{index}]");
    let narrowing =
        rule.matches.iter().enumerate().flat_map(|(at, one)| narrowing(&format!("{path}.matches[{at}]"), one));
    let narrowing: Vec<String> = narrowing.collect();
    let mut changing: Vec<String> = rule.other.paths(&path).collect();
    changing.extend(filters(&path, rule.filters.iter().map(|filter| filter.kind.as_str())));
    for (path, backend) in references(&path, &rule.backend_refs) {
        changing.extend(unsupported(&path, backend));
    }
    // One match of several that matches all makes the others meaningless, but they were asked for.
    Rule { path, rule, narrowing, changing }
}

/// The fields of a match that choose among the requests of a host name. The apiserver's authorisation is by path: the same
/// request must not have two servers.
fn narrowing(path: &str, one: &HttpMatch) -> Vec<String> {
    let mut fields: Vec<String> = one.other.paths(path).collect();
    if !one.path.matches_all() {
        fields.push(format!("{path}.path"));
    }
    fields
}

/// The fields of a reference that change requests to its server.
fn unsupported(path: &str, backend: &BackendReference) -> Vec<String> {
    let mut fields: Vec<String> = backend.other.paths(path).collect();
    fields.extend(filters(path, backend.filters.iter().map(|filter| filter.kind.as_str())));
    // The servers of a cluster have ports of their own.
    if backend.port.is_some() && ["UpstreamCluster", "KubernetesUpstream"].contains(&backend.kind.as_str()) {
        fields.push(format!("{path}.port"));
    }
    fields
}

fn filters<'a>(path: &'a str, kinds: impl Iterator<Item = &'a str> + 'a) -> impl Iterator<Item = String> + 'a {
    kinds.enumerate().map(move |(index, kind)| format!("{path}.filters[{index}] {kind}"))
}

impl Rule<'_> {
    fn is_valid(&self) -> bool {
        self.narrowing.is_empty() && self.changing.is_empty()
    }

    fn fields(&self) -> impl Iterator<Item = String> {
        self.narrowing.iter().chain(&self.changing).cloned()
    }
}
