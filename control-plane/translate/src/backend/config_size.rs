use std::collections::HashMap;
use std::sync::{Arc, Weak};

use portcullis_api::{DispatchPolicy, PolicyInEffect, PolicyKind, door_denials};
use portcullis_filter_config::ClusterConfig;
use serde::Serialize;
use serde_json::Value;

/// About the bytes in memory of a policy, a rule or an entry of its lists, each with its part of what it is in.
const ENTRY_BYTES: usize = 128;
/// Usual configurations take no more bytes in memory than so many times those of their texts.
const USUAL_TIMES: usize = 8;
/// Bytes of a denial's text in a configuration, beside its rules and its message: names of fields, and that of its group of servers.
const DENIAL_BYTES: usize = 96;
/// Up to so many policies a cluster with them counts once, though it may be checked with each; each further part of so many counts once more.
const TRIED_POLICIES: usize = 4;

/// The size of a configuration of the filter, or of a part of one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ConfigSize {
    /// Bytes of its text.
    text: usize,
    /// Number of policies, rules and entries of their lists.
    entries: usize,
}

/// The sizes of policies, by the addresses of their fields. No other fields have the address of some that are here, also when these are
/// gone.
#[derive(Default)]
pub(crate) struct KnownPolicySizes(HashMap<usize, (Weak<Value>, ConfigSize)>);

impl ConfigSize {
    pub(crate) fn of(config: &ClusterConfig) -> Self {
        let policies = config.policies.policies();
        let entries = policies.iter().fold(0_usize, |sum, policy| sum.saturating_add(policy.entries()));
        Self { text: text(config), entries }
    }

    /// That of policies of doors as a part of a configuration. A policy that lowers limits adds nothing to it, and is read for it.
    fn of_policy(policy: &PolicyInEffect) -> Self {
        let Ok(fields) = &policy.fields else { return Self::default() };
        match door_denials(policy) {
            Ok(denials) if policy.kind == PolicyKind::Dispatch => denials.iter().map(Self::of_denial).sum(),
            _ => Self { text: text(fields.as_ref()), ..Self::default() },
        }
    }

    fn of_denial(denial: &DispatchPolicy) -> Self {
        let entries = denial.rules.iter().fold(1, |sum: usize, rule| sum.saturating_add(rule.entries()));
        let parts = [text(&denial.rules), text(&denial.portcullis.message), DENIAL_BYTES];
        Self { text: parts.into_iter().fold(0, usize::saturating_add), entries }
    }

    /// Bytes of room that it takes: those of its text, or an eighth of those in memory where these are unusually many.
    pub(crate) fn room(self) -> usize {
        self.text.max(self.entries.saturating_mul(ENTRY_BYTES).saturating_add(self.text) / USUAL_TIMES)
    }

    /// How many times the room of a cluster with these policies counts: as it is checked with all of them, or with one after the other if
    /// one does not fit.
    pub(crate) fn times(policies: usize) -> usize {
        policies.div_ceil(TRIED_POLICIES).max(1)
    }
}

impl std::iter::Sum for ConfigSize {
    fn sum<I: Iterator<Item = Self>>(sizes: I) -> Self {
        sizes.fold(Self::default(), |sum, one| Self {
            text: sum.text.saturating_add(one.text),
            entries: sum.entries.saturating_add(one.entries),
        })
    }
}

impl KnownPolicySizes {
    /// The size of a policy. The same fields are not read again.
    pub(crate) fn of(&mut self, policy: &PolicyInEffect) -> ConfigSize {
        let Ok(fields) = &policy.fields else { return ConfigSize::default() };
        let new = || (Arc::downgrade(fields), ConfigSize::of_policy(policy));
        self.0.entry(Arc::as_ptr(fields).addr()).or_insert_with(new).1
    }

    /// Forgets those whose fields are gone.
    pub(crate) fn forget_unused(&mut self) {
        self.0.retain(|_, (fields, _)| fields.strong_count() > 0);
    }
}

/// Bytes as JSON.
fn text<T: Serialize + ?Sized>(value: &T) -> usize {
    serde_json::to_vec(value).map_or(usize::MAX, |text| text.len())
}

#[cfg(test)]
mod tests {
    use portcullis_api::PolicyRole;
    use portcullis_filter_config::{Denial, Policy};
    use serde_json::json;

    use super::*;

    fn policy(kind: PolicyKind, fields: Value) -> PolicyInEffect {
        let (policy, why) = ("team/x".to_owned(), "overrides".to_owned());
        PolicyInEffect { kind, policy, uid: None, role: PolicyRole::Tightens, why, fields: Ok(Arc::new(fields)) }
    }

    fn denials(rules: &Value, message: &str, count: usize) -> PolicyInEffect {
        let denial = json!({"rules": rules, "portcullis": {"action": "Deny", "message": message}});
        policy(PolicyKind::Dispatch, json!({"dispatchPolicies": vec![denial; count]}))
    }

    /// The part of a configuration that denials are.
    fn made(denials: &PolicyInEffect) -> Vec<Policy> {
        let one = |denial: DispatchPolicy| Policy {
            group: format!("all@{}", "0".repeat(32)),
            flow_control_schema: None,
            log: true,
            deny: Some(Denial { message: denial.portcullis.message }),
            rules: denial.rules,
        };
        door_denials(denials).unwrap().into_iter().map(one).collect()
    }

    #[test]
    fn size_of_a_policy_is_no_less_than_what_is_made_of_it() {
        for (rules, message) in [
            (json!([{"verbs": ["*"], "nonResourceURLs": ["*"]}]), ""),
            (json!([{"verbs": ["get"], "nonResourceURLs": ["/\"\\\n\u{1}ä"]}]), "\"no\" ä"),
            (json!([{"verbs": ["*"], "resources": ["*"], "serviceAccounts": vec![json!({}); 100]}]), "x"),
            (json!(vec![json!({}); 100]), ""),
        ] {
            let policy = denials(&rules, message, 10);
            let (size, made) = (ConfigSize::of_policy(&policy), text(&made(&policy)));
            assert!(made <= size.text && size.text <= 2 * made, "{rules}: {size:?} for {made}");
        }
    }

    /// Texts of many short entries are small beside what is kept of them.
    #[test]
    fn size_in_memory_counts_where_it_is_unusual() {
        let short = denials(&json!([{"verbs": vec!["a"; 10_000], "nonResourceURLs": ["*"]}]), "", 1);
        assert!(ConfigSize::of_policy(&short).room() > 10_000 * ENTRY_BYTES / USUAL_TIMES);
        let path = format!("/{}", "a".repeat(100));
        let usual = ConfigSize::of_policy(&denials(&json!([{"verbs": ["get"], "nonResourceURLs": [path]}]), "", 100));
        assert_eq!(usual.room(), usual.text);
    }

    #[test]
    fn policies_of_limits_count_and_the_same_are_read_once() {
        let schemas = json!([{"name": "few", "maxRequestsInflight": {"max": 1}}]);
        let limits = policy(PolicyKind::FlowControl, json!({"flowControl": {"flowControlSchemas": schemas}}));
        let mut sizes = KnownPolicySizes::default();
        let first = sizes.of(&limits);
        assert!(first.text > 40);
        sizes.forget_unused();
        assert_eq!((sizes.0.len(), sizes.of(&limits.clone())), (1, first));
        assert_eq!(sizes.0.len(), 1, "it is taken from there");
        drop(limits);
        sizes.forget_unused();
        assert!(sizes.0.is_empty());
    }

    #[test]
    fn many_policies_count_more_than_once() {
        assert_eq!([0, 1, 4, 5, 8, 9].map(ConfigSize::times), [1, 1, 1, 2, 2, 3]);
    }
}
