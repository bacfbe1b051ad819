use portcullis_filter_config as config;

use super::selector::{Exact, Prefix, ResourcePattern, Selector};
use crate::identity::UserInfo;
use crate::request_info::RequestInfo;

/// A rule, compiled. All fields that apply to a request's kind must match.
#[derive(Debug)]
pub(super) struct Rule {
    verbs: Selector<Exact>,
    api_groups: Selector<Exact>,
    api_versions: Selector<Exact>,
    resources: Selector<ResourcePattern>,
    resource_names: Selector<Exact>,
    namespaces: Selector<Exact>,
    subjects: Subjects,
    user_groups: Selector<Exact>,
    non_resource_urls: Selector<Prefix>,
}

/// Users and service accounts: a union, and everybody where both lists are empty.
#[derive(Debug)]
struct Subjects {
    users: Selector<Prefix>,
    service_accounts: Vec<config::ServiceAccount>,
}

impl Rule {
    pub(super) fn new(rule: &config::Rule) -> Self {
        Rule {
            verbs: Selector::new(&rule.verbs, Selector::nothing()),
            api_groups: Selector::new(&rule.api_groups, Selector::nothing()),
            api_versions: Selector::new(&rule.api_versions, Selector::All),
            resources: Selector::new(&rule.resources, Selector::nothing()),
            resource_names: Selector::new(&rule.resource_names, Selector::All),
            namespaces: Selector::new(&rule.namespaces, Selector::All),
            subjects: Subjects::new(rule),
            user_groups: Selector::new(&rule.user_groups, Selector::All),
            non_resource_urls: Selector::new(&rule.non_resource_urls, Selector::nothing()),
        }
    }

    pub(super) fn matches(&self, info: &RequestInfo<'_>, user: &UserInfo) -> bool {
        self.verbs.matches(&info.verb)
            && self.matches_target(info)
            && self.subjects.include(user)
            && self.matches_groups(user)
    }

    fn matches_target(&self, info: &RequestInfo<'_>) -> bool {
        if !info.is_resource {
            return self.non_resource_urls.matches(info.path);
        }
        self.resources.matches(&(info.resource, info.subresource))
            && self.api_groups.matches(info.api_group)
            && self.api_versions.matches(info.api_version)
            && self.resource_names.matches(&info.name)
            && self.namespaces.matches(info.namespace)
    }

    /// A positive entry wants one group of the user's, an exclusion wants none.
    fn matches_groups(&self, user: &UserInfo) -> bool {
        let mut groups = user.groups.iter().map(String::as_bytes);
        match &self.user_groups {
            Selector::All => true,
            wanted @ Selector::AnyOf(_) => groups.any(|group| wanted.matches(group)),
            unwanted @ Selector::NoneOf(_) => groups.all(|group| unwanted.matches(group)),
        }
    }
}

impl Subjects {
    fn new(rule: &config::Rule) -> Self {
        let nobody_named = rule.users.is_empty() && rule.service_accounts.is_empty();
        let empty = if nobody_named { Selector::All } else { Selector::nothing() };
        let is_whole = |account: &&config::ServiceAccount| !account.namespace.is_empty() && !account.name.is_empty();
        Subjects {
            users: Selector::new(&rule.users, empty),
            service_accounts: rule.service_accounts.iter().filter(is_whole).cloned().collect(),
        }
    }

    fn include(&self, user: &UserInfo) -> bool {
        self.users.matches(user.name.as_bytes())
            || user.service_account().is_some_and(|(namespace, name)| {
                self.service_accounts.iter().any(|account| account.namespace == namespace && account.name == name)
            })
    }
}
