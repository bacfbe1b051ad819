//! The policies' meaning, by a walk over their list: the model that the index is compared with, and the source of the reasons
//! why a policy does not match. Far too slow for requests.

use std::fmt::Write;

use portcullis_filter_config as config;

use crate::identity::UserInfo;
use crate::request_info::RequestInfo;

/// The policies, read but not indexed.
#[derive(Debug)]
pub struct LinearMatcher(Vec<Vec<LinearRule>>);

/// The first rule that matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Matched {
    /// Index of the policy.
    pub policy: usize,
    /// Index of the rule in it.
    pub rule: usize,
}

impl LinearMatcher {
    /// Reads policies, in the order in which they are tried.
    pub fn new(policies: &[config::Policy]) -> Self {
        LinearMatcher(policies.iter().map(|policy| policy.rules.iter().map(LinearRule::new).collect()).collect())
    }

    /// The first rule that the request matches.
    pub fn first_match(&self, info: &RequestInfo<'_>, user: &UserInfo) -> Option<Matched> {
        self.0.iter().enumerate().find_map(|(policy, rules)| {
            let rule = rules.iter().position(|rule| rule.matches(info, user))?;
            Some(Matched { policy, rule })
        })
    }

    /// Why each of the first `count` policies does not match, a sentence for each.
    pub fn mismatches(&self, count: usize, info: &RequestInfo<'_>, user: &UserInfo) -> Vec<String> {
        self.0
            .iter()
            .take(count)
            .enumerate()
            .map(|(policy, rules)| {
                let mut text = format!("policy {policy}");
                if rules.is_empty() {
                    text.push_str(" has no rules");
                }
                for (number, rule) in rules.iter().enumerate() {
                    let reason = rule.mismatch(info, user).unwrap_or_else(|| "matches".to_owned());
                    // Writing to a String does not fail.
                    let _ = write!(text, "{} rule {number}: {reason}", if number == 0 { "," } else { ";" });
                }
                text
            })
            .collect()
    }
}

/// The fields of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FieldMatcher {
    Verbs,
    NonResourceUrls,
    ApiGroups,
    Resources,
    ApiVersions,
    ResourceNames,
    Namespaces,
    Users,
    UserGroups,
}

/// A rule, compiled. All fields that apply to a request's kind must match.
#[derive(Debug)]
struct LinearRule {
    raw: config::Rule,
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

/// Users and service accounts: a union, which matches every user if both lists are empty.
#[derive(Debug)]
struct Subjects {
    users: Selector<Prefix>,
    service_accounts: Vec<config::ServiceAccount>,
}

impl LinearRule {
    fn new(rule: &config::Rule) -> Self {
        LinearRule {
            raw: rule.clone(),
            verbs: Selector::new(&rule.verbs, Selector::nothing()),
            api_groups: Selector::new(&rule.api_groups, Selector::nothing()),
            api_versions: Selector::new(&rule.api_versions, Selector::All),
            resources: Selector::new(&rule.resources, Selector::nothing()),
            resource_names: Selector::new(&rule.resource_names, Selector::All),
            namespaces: Selector::new(&rule.namespaces, Selector::All),
            subjects: Subjects::new(rule),
            user_groups: Selector::new(&rule.user_groups, Selector::All),
            non_resource_urls: Selector::without_exclusions(&rule.non_resource_urls),
        }
    }

    fn matches(&self, info: &RequestInfo<'_>, user: &UserInfo) -> bool {
        self.failed_field(info, user).is_none()
    }

    /// The first field that keeps the request out.
    fn failed_field(&self, info: &RequestInfo<'_>, user: &UserInfo) -> Option<FieldMatcher> {
        let resource = info.is_resource;
        let fields = [
            (FieldMatcher::Verbs, self.verbs.matches(&info.verb)),
            (FieldMatcher::NonResourceUrls, resource || self.non_resource_urls.matches(info.path)),
            (FieldMatcher::ApiGroups, !resource || self.api_groups.matches(info.api_group)),
            (FieldMatcher::Resources, !resource || self.resources.matches(&(info.resource, info.subresource))),
            (FieldMatcher::ApiVersions, !resource || self.api_versions.matches(info.api_version)),
            (FieldMatcher::ResourceNames, !resource || self.resource_names.matches(&info.name)),
            (FieldMatcher::Namespaces, !resource || self.namespaces.matches(info.namespace)),
            (FieldMatcher::Users, self.subjects.include(user)),
            (FieldMatcher::UserGroups, self.matches_groups(user)),
        ];
        fields.into_iter().find(|(_, holds)| !holds).map(|(field, _)| field)
    }

    fn mismatch(&self, info: &RequestInfo<'_>, user: &UserInfo) -> Option<String> {
        let field = self.failed_field(info, user)?;
        let text = |bytes: &[u8]| format!("{:?}", String::from_utf8_lossy(bytes));
        let entries = |list: &[String]| if list.is_empty() { "are empty and".to_owned() } else { format!("{list:?}") };
        let raw = &self.raw;
        let (name, list, said) = match field {
            FieldMatcher::Verbs => ("verbs", &raw.verbs, text(&info.verb)),
            FieldMatcher::NonResourceUrls => ("nonResourceURLs", &raw.non_resource_urls, text(info.path)),
            FieldMatcher::ApiGroups => ("apiGroups", &raw.api_groups, text(info.api_group)),
            FieldMatcher::Resources => {
                let both = [info.resource, info.subresource].join(&b'/');
                let shown = if info.subresource.is_empty() { info.resource } else { &both };
                ("resources", &raw.resources, text(shown))
            }
            FieldMatcher::ApiVersions => ("apiVersions", &raw.api_versions, text(info.api_version)),
            FieldMatcher::ResourceNames => ("resourceNames", &raw.resource_names, text(&info.name)),
            FieldMatcher::Namespaces => ("namespaces", &raw.namespaces, text(info.namespace)),
            FieldMatcher::Users if raw.service_accounts.is_empty() => ("users", &raw.users, format!("{:?}", user.name)),
            FieldMatcher::Users => ("users and serviceAccounts", &raw.users, format!("{:?}", user.name)),
            FieldMatcher::UserGroups => ("userGroups", &raw.user_groups, format!("{:?}", user.groups)),
        };
        Some(format!("{name} {} do not cover {said}", entries(list)))
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

/// A rule's list, compiled: `*` is everything, positive entries are alternatives, and a list of exclusions only excludes
/// every one of them, with `-*` everything. Exclusions beside a positive entry do not count.
#[derive(Debug, PartialEq, Eq)]
enum Selector<P> {
    All,
    AnyOf(Vec<P>),
    NoneOf(Vec<P>),
}

/// The pattern of one entry of a list.
trait Pattern: Sized {
    /// The value that an entry is matched against.
    type Subject<'a>: ?Sized;

    /// Reads an entry, without its leading `-`.
    fn parse(entry: &str) -> Self;

    /// Whether the entry covers the subject.
    fn covers(&self, subject: &Self::Subject<'_>) -> bool;
}

impl<P: Pattern> Selector<P> {
    /// Compiles a list. The meaning of an empty one is the field's own rule.
    fn new(entries: &[String], empty: Selector<P>) -> Self {
        if entries.is_empty() {
            return empty;
        }
        if entries.iter().any(|entry| entry == "*") {
            return Selector::All;
        }
        let positives: Vec<P> = entries.iter().filter(|e| !e.starts_with('-')).map(|e| P::parse(e)).collect();
        if !positives.is_empty() {
            return Selector::AnyOf(positives);
        }
        if entries.iter().any(|entry| entry == "-*") {
            return Selector::nothing();
        }
        Selector::NoneOf(entries.iter().filter_map(|entry| entry.strip_prefix('-')).map(P::parse).collect())
    }

    /// Compiles a list that knows no exclusions.
    fn without_exclusions(entries: &[String]) -> Selector<P> {
        match Selector::new(entries, Selector::nothing()) {
            Selector::NoneOf(_) => Selector::nothing(),
            selector => selector,
        }
    }

    /// Nothing at all.
    const fn nothing() -> Self {
        Selector::AnyOf(Vec::new())
    }

    fn matches(&self, subject: &P::Subject<'_>) -> bool {
        match self {
            Selector::All => true,
            Selector::AnyOf(patterns) => patterns.iter().any(|pattern| pattern.covers(subject)),
            Selector::NoneOf(patterns) => !patterns.iter().any(|pattern| pattern.covers(subject)),
        }
    }
}

/// The same text.
#[derive(Debug, PartialEq, Eq)]
struct Exact(Box<[u8]>);

impl Pattern for Exact {
    type Subject<'a> = [u8];

    fn parse(entry: &str) -> Self {
        Exact(entry.as_bytes().into())
    }

    fn covers(&self, subject: &[u8]) -> bool {
        *self.0 == *subject
    }
}

/// The same text, or the same beginning where the entry ends in `*`.
#[derive(Debug, PartialEq, Eq)]
enum Prefix {
    Text(Box<[u8]>),
    Start(Box<[u8]>),
}

impl Pattern for Prefix {
    type Subject<'a> = [u8];

    fn parse(entry: &str) -> Self {
        match entry.strip_suffix('*') {
            Some(start) => Prefix::Start(start.as_bytes().into()),
            None => Prefix::Text(entry.as_bytes().into()),
        }
    }

    fn covers(&self, subject: &[u8]) -> bool {
        match self {
            Prefix::Text(text) => **text == *subject,
            Prefix::Start(start) => subject.starts_with(start),
        }
    }
}

/// `resource`, `resource/subresource` or `*/subresource`. `resource/*` covers nothing.
#[derive(Debug, PartialEq, Eq)]
enum ResourcePattern {
    Resource(Box<[u8]>),
    Subresource { resource: Box<[u8]>, subresource: Box<[u8]> },
    AnySubresource(Box<[u8]>),
    Nothing,
}

impl Pattern for ResourcePattern {
    /// Resource and subresource.
    type Subject<'a> = (&'a [u8], &'a [u8]);

    fn parse(entry: &str) -> Self {
        match entry.split_once('/') {
            None => ResourcePattern::Resource(entry.as_bytes().into()),
            Some((_, "*" | "")) => ResourcePattern::Nothing,
            Some(("*", subresource)) => ResourcePattern::AnySubresource(subresource.as_bytes().into()),
            Some((resource, subresource)) => ResourcePattern::Subresource {
                resource: resource.as_bytes().into(),
                subresource: subresource.as_bytes().into(),
            },
        }
    }

    fn covers(&self, (resource, subresource): &(&[u8], &[u8])) -> bool {
        match self {
            ResourcePattern::Resource(wanted) => subresource.is_empty() && **wanted == **resource,
            ResourcePattern::Subresource { resource: wanted, subresource: sub } => {
                **wanted == **resource && **sub == **subresource
            }
            ResourcePattern::AnySubresource(sub) => **sub == **subresource,
            ResourcePattern::Nothing => false,
        }
    }
}
