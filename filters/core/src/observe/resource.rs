use super::built_in::BUILT_IN;
use crate::policy::names::Names;
use crate::request_info::RequestInfo;
use portcullis_filter_config::Policy;
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// Codes of the words that are no resource's name.
pub(super) const OTHER: u16 = 0;
pub(super) const PLAIN: u16 = 1;
const FIRST: u32 = 2;
/// Every resource, for what has no room of its own.
pub(super) const REST: u16 = u16::MAX;

/// The most resources that a cluster's policies name and that count apart.
const MOST_NAMED: usize = 1_024;

static KNOWN: LazyLock<Names> = LazyLock::new(|| Names::new(BUILT_IN.iter().map(|name| parts(name)).zip(FIRST..)));

/// The resources that count apart for one cluster: Kubernetes' own, and those that its policies name.
#[derive(Debug)]
pub(super) struct ResourceLabels {
    named: Box<[Box<str>]>,
    index: Names,
}

impl ResourceLabels {
    pub(super) fn of(policies: &[Policy]) -> Self {
        let entries = policies.iter().flat_map(|policy| &policy.rules).flat_map(|rule| &rule.resources);
        let names: BTreeSet<&str> =
            entries.map(|entry| entry.strip_prefix('-').unwrap_or(entry)).filter(|name| is_a_name(name)).collect();
        let is_known = |name: &str| {
            let (resource, subresource) = parts(name);
            KNOWN.find(resource.as_bytes(), subresource.as_bytes()).is_some()
        };
        let named: Box<[Box<str>]> =
            names.into_iter().filter(|name| !is_known(name)).take(MOST_NAMED).map(Into::into).collect();
        let first = FIRST.saturating_add(u32::try_from(BUILT_IN.len()).unwrap_or(0));
        let index = Names::new(named.iter().map(|name| parts(name)).zip(first..));
        ResourceLabels { named, index }
    }

    pub(super) fn code(&self, info: &RequestInfo<'_>) -> u16 {
        if !info.is_resource {
            return PLAIN;
        }
        let find = |names: &Names| names.find(info.resource, info.subresource);
        find(&KNOWN).or_else(|| find(&self.index)).and_then(|code| u16::try_from(code).ok()).unwrap_or(OTHER)
    }

    /// The resource and the subresource of a code; both are empty for a plain path.
    pub(super) fn labels(&self, code: u16) -> (&str, &str) {
        match code {
            OTHER | REST => ("other", ""),
            PLAIN => ("", ""),
            code => {
                let at = usize::from(code).saturating_sub(FIRST as usize);
                let named = || self.named.get(at.saturating_sub(BUILT_IN.len())).map(|name| &**name);
                parts(BUILT_IN.get(at).copied().or_else(named).unwrap_or("other"))
            }
        }
    }
}

/// The code of a resource that a client which was not authenticated asked for: no client makes a series by a walk over names.
pub(super) fn coarse(code: u16) -> u16 {
    if code == PLAIN { PLAIN } else { OTHER }
}

fn parts(name: &str) -> (&str, &str) {
    name.split_once('/').unwrap_or((name, ""))
}

/// A pattern names nothing. A label has no room for what no Kubernetes resource is called.
fn is_a_name(name: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.' | b'/');
    (1..=128).contains(&name.len()) && name.bytes().all(is_word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::names::lookups;
    use portcullis_filter_config::Rule;

    fn label(resources: &ResourceLabels, resource: &str, subresource: &str) -> String {
        let (resource, subresource) = (resource.as_bytes(), subresource.as_bytes());
        let info = RequestInfo { is_resource: true, resource, subresource, ..RequestInfo::default() };
        let (resource, subresource) = resources.labels(resources.code(&info));
        [resource, subresource].join("/").trim_end_matches('/').to_owned()
    }

    #[test]
    fn resource_has_a_label_only_if_known() {
        let entries = ["widgets", "-gadgets", "widgets/scale", "*", "*/status", "pods", "x\"y", "Ünicode", ""];
        let rule = Rule { resources: entries.map(str::to_owned).to_vec(), ..Rule::default() };
        let resources = ResourceLabels::of(&[Policy {
            group: "all".into(),
            flow_control_schema: None,
            log: false,
            deny: None,
            rules: vec![rule],
        }]);
        let table = [
            ("pods", "", "pods"),
            ("pods", "exec", "pods/exec"),
            ("pods", "invented", "other"),
            ("widgets", "", "widgets"),
            ("widgets", "scale", "widgets/scale"),
            ("widgets", "status", "other"),
            ("gadgets", "", "gadgets"),
            ("gizmos", "", "other"),
            ("*", "", "other"),
            ("x\"y", "", "other"),
            ("", "", "other"),
        ];
        for (resource, subresource, expected) in table {
            assert_eq!(label(&resources, resource, subresource), expected, "{resource}/{subresource}");
        }
        assert_eq!(resources.labels(resources.code(&RequestInfo::default())), ("", ""));
        assert_eq!(resources.labels(REST), ("other", ""));
    }

    #[test]
    fn every_built_in_resource_has_its_own_label() {
        let resources = ResourceLabels::of(&[]);
        for name in BUILT_IN {
            let (resource, subresource) = parts(name);
            assert_eq!(label(&resources, resource, subresource), name);
        }
    }

    #[test]
    fn resource_of_many_policies_is_looked_up_once() {
        let names = ["pods", "pods/log", "widgets"].map(str::to_owned).to_vec();
        let rule = Rule { resources: names, ..Rule::default() };
        let policies = vec![Policy { rules: vec![rule; 10], ..Policy::default() }; 1_000];
        LazyLock::force(&KNOWN);
        let before = lookups();
        let resources = ResourceLabels::of(&policies);
        assert_eq!(lookups() - before, 3);
        assert_eq!(resources.named.len(), 1);
    }

    #[test]
    fn policies_name_only_so_many() {
        let names = (0..5_000).map(|n| format!("r{n}")).collect();
        let rule = Rule { resources: names, ..Rule::default() };
        let resources = ResourceLabels::of(&[Policy {
            group: "all".into(),
            flow_control_schema: None,
            log: false,
            deny: None,
            rules: vec![rule],
        }]);
        let kept = (0..5_000).filter(|n| label(&resources, &format!("r{n}"), "") != "other").count();
        assert_eq!(kept, MOST_NAMED);
    }
}
