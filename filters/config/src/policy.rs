use serde::{Deserialize, Serialize};

/// A dispatch policy: requests that match one of the rules go to the group, or are denied.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Policy {
    /// The server group, as in [`crate::destination`].
    pub group: String,
    /// The flow control schema that its requests count under; one that is not in the list does not limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow_control_schema: Option<String>,
    /// Set if the requests that match are denied: they go to no server, and count under no flow control schema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deny: Option<Denial>,
    /// Whether the access log has the requests that match.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub log: bool,
    /// A request that matches any of them matches the policy.
    pub rules: Vec<Rule>,
}

/// The answer of a policy that denies, 403 with the policy's number.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Denial {
    /// The end of the answer's message, for clients; empty is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// A dispatch policy's rule. Fields are combined with AND. In a list `*` is everything and `-x` excludes `x`; exclusions
/// count only without positive entries.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rule {
    /// Kubernetes verbs, or lower-case HTTP methods for non-resource requests. Empty matches nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub verbs: Vec<String>,
    /// API groups, `""` for core. Empty matches no resource request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub api_groups: Vec<String>,
    /// API versions. Empty matches all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub api_versions: Vec<String>,
    /// Resources, `resource/subresource` and `*/subresource`. Empty matches no resource request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
    /// Object names; `""` is a request without a name. Empty matches all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resource_names: Vec<String>,
    /// Namespaces; `""` is a request without one. Empty matches all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<String>,
    /// User names; a trailing `*` is a prefix. Empty matches all, unless service accounts are listed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub users: Vec<String>,
    /// Service accounts, in addition to `users`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub service_accounts: Vec<ServiceAccount>,
    /// Groups: the user is a member of one of them, and of none that is excluded. Empty matches all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub user_groups: Vec<String>,
    /// Paths of non-resource requests; a trailing `*` is a prefix. Empty matches no non-resource request.
    #[serde(default, rename = "nonResourceURLs", skip_serializing_if = "Vec::is_empty")]
    pub non_resource_urls: Vec<String>,
}

impl Policy {
    /// Its size: itself, its rules, and the entries of their lists.
    pub fn entries(&self) -> usize {
        self.rules.iter().fold(1, |sum, rule| sum.saturating_add(rule.entries()))
    }
}

impl Rule {
    /// Whether it wants or excludes users, service accounts or groups.
    pub fn depends_on_user(&self) -> bool {
        let is_all = |entries: &[String]| entries.is_empty() || entries.iter().any(|entry| entry == "*");
        let takes_all = if self.users.is_empty() { self.service_accounts.is_empty() } else { is_all(&self.users) };
        !takes_all || !is_all(&self.user_groups)
    }

    /// Its size: itself and the entries of its lists.
    pub fn entries(&self) -> usize {
        let lists = [
            self.verbs.len(),
            self.api_groups.len(),
            self.api_versions.len(),
            self.resources.len(),
            self.resource_names.len(),
            self.namespaces.len(),
            self.users.len(),
            self.service_accounts.len(),
            self.user_groups.len(),
            self.non_resource_urls.len(),
        ];
        lists.into_iter().fold(1, usize::saturating_add)
    }
}

/// A service account.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ServiceAccount {
    /// The account's namespace.
    pub namespace: String,
    /// The account's name.
    pub name: String,
}

/// A rule's list, read: `*` is everything, positive entries are alternatives, and a list of exclusions only excludes
/// every one of them, with `-*` everything. Exclusions beside a positive entry have no effect.
#[derive(Clone, Debug)]
pub enum RuleList<'c> {
    /// `*` is among the entries.
    All,
    /// One of these; none if the list excludes everything.
    AnyOf(RuleEntries<'c>),
    /// The excluded entries, without their leading `-`.
    NoneOf(RuleEntries<'c>),
}

/// The entries of a list that count, in its order.
#[derive(Clone, Debug)]
pub struct RuleEntries<'c> {
    all: std::slice::Iter<'c, String>,
    are_excluded: bool,
}

impl<'c> RuleList<'c> {
    /// Reads a list. `None` is an empty one, whose meaning is the field's own.
    pub fn read(entries: &'c [String]) -> Option<Self> {
        if entries.is_empty() {
            return None;
        }
        let (mut wants_some, mut excludes_all) = (false, false);
        for entry in entries {
            match entry.as_bytes() {
                b"*" => return Some(RuleList::All),
                b"-*" => excludes_all = true,
                [b'-', ..] => {}
                _ => wants_some = true,
            }
        }
        Some(match (wants_some, excludes_all) {
            (true, _) => RuleList::AnyOf(RuleEntries { all: entries.iter(), are_excluded: false }),
            (false, true) => RuleList::AnyOf(RuleEntries { all: [].iter(), are_excluded: false }),
            (false, false) => RuleList::NoneOf(RuleEntries { all: entries.iter(), are_excluded: true }),
        })
    }
}

impl<'c> Iterator for RuleEntries<'c> {
    type Item = &'c str;

    fn next(&mut self) -> Option<&'c str> {
        let are_excluded = self.are_excluded;
        self.all.find_map(|entry| match entry.strip_prefix('-') {
            Some(excluded) => are_excluded.then_some(excluded),
            None => (!are_excluded).then_some(entry.as_str()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::RuleList;

    #[test]
    fn list_of_entries_is_read_as_one_set() {
        let table: [(&[&str], &str, &[&str]); 8] = [
            (&[], "nothing", &[]),
            (&["a", "*", "-b"], "all", &[]),
            (&["-a", "*"], "all", &[]),
            (&["a", "-b", "c"], "any of", &["a", "c"]),
            (&["-a", "-*"], "any of", &[]),
            (&["-a", "-b"], "none of", &["a", "b"]),
            (&["a*"], "any of", &["a*"]),
            (&[""], "any of", &[""]),
        ];
        for (entries, expected, expected_entries) in table {
            let entries: Vec<String> = entries.iter().map(|entry| (*entry).to_owned()).collect();
            let (kind, read) = match RuleList::read(&entries) {
                None => ("nothing", Vec::new()),
                Some(RuleList::All) => ("all", Vec::new()),
                Some(RuleList::AnyOf(wanted)) => ("any of", wanted.collect()),
                Some(RuleList::NoneOf(excluded)) => ("none of", excluded.collect()),
            };
            assert_eq!((kind, read.as_slice()), (expected, expected_entries), "{entries:?}");
        }
    }
}
