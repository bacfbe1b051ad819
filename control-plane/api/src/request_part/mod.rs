//! Dispatch rules in a form that can be compared: the requests that one rule matches and another does not.

mod selector;

use crate::dns_name::{is_dns_label, is_subdomain};
use portcullis_filter_config::{Rule, ServiceAccount};
use selector::{Exact, Pattern, Prefix, ResourcePattern, Selector};

/// The part of a rule about one of the two kinds of requests, in a form that can be compared.
#[derive(Clone, Debug)]
pub(crate) struct RequestPart {
    verbs: Selector<Exact>,
    target: Target,
    users: Selector<Prefix>,
    /// User names of the service accounts.
    accounts: Vec<String>,
    groups: Selector<Exact>,
}

#[derive(Clone, Debug)]
enum Target {
    Resource {
        groups: Selector<Exact>,
        versions: Selector<Exact>,
        resources: Selector<ResourcePattern>,
        names: Selector<Exact>,
        namespaces: Selector<Exact>,
    },
    Path(Selector<Prefix>),
}

/// The rule's part for resource requests and the one for the others.
pub(crate) fn parts(rule: &Rule) -> [RequestPart; 2] {
    let nobody_named = rule.users.is_empty() && rule.service_accounts.is_empty();
    let resource = Target::Resource {
        groups: Selector::new(&rule.api_groups, Selector::nothing()),
        versions: Selector::new(&rule.api_versions, Selector::All),
        resources: Selector::new(&rule.resources, Selector::nothing()),
        names: Selector::new(&rule.resource_names, Selector::All),
        namespaces: Selector::new(&rule.namespaces, Selector::All),
    };
    let path = Target::Path(Selector::without_exclusions(&rule.non_resource_urls));
    [resource, path].map(|target| RequestPart {
        verbs: Selector::new(&rule.verbs, Selector::nothing()),
        target,
        users: Selector::new(&rule.users, if nobody_named { Selector::All } else { Selector::nothing() }),
        accounts: rule.service_accounts.iter().filter(|account| can_be(account)).map(user_name).collect(),
        groups: Selector::new(&rule.user_groups, Selector::All),
    })
}

/// Whether a user can be this service account.
pub(crate) fn can_be(account: &ServiceAccount) -> bool {
    is_dns_label(&account.namespace) && is_subdomain(&account.name)
}

fn user_name(account: &ServiceAccount) -> String {
    format!("system:serviceaccount:{}:{}", account.namespace, account.name)
}

impl RequestPart {
    /// Whether it certainly matches no request. `false` is no promise.
    pub(crate) fn is_empty(&self) -> bool {
        self.verbs.is_empty() || self.target.is_empty() || (self.users.is_empty() && self.accounts.is_empty())
    }

    /// Whether it is about the other kind of requests only.
    pub(crate) fn asks_nothing(&self) -> bool {
        self.target.is_empty()
    }

    /// Whether it matches every request of its kind.
    pub(crate) fn is_everything(&self) -> bool {
        self.verbs == Selector::All && self.target.is_everything() && self.is_for_everybody()
    }

    /// Whether it matches every `get` of anybody to `path`.
    pub(crate) fn serves_path(&self, path: &str) -> bool {
        let Target::Path(paths) = &self.target else { return false };
        let get = Selector::AnyOf(vec![Exact::parse("get")]);
        let path = Selector::AnyOf(vec![Prefix::Text(path.to_owned())]);
        self.verbs.covers(&get) && paths.covers(&path) && self.is_for_everybody()
    }

    fn is_for_everybody(&self) -> bool {
        self.users == Selector::All && self.groups == Selector::All
    }

    /// Whether it certainly matches every request that `narrow` matches. `false` is no promise.
    pub(crate) fn covers(&self, narrow: &Self) -> bool {
        self.target.covers(&narrow.target)
            && self.verbs.covers(&narrow.verbs)
            && self.covers_subjects(narrow)
            && covers_groups(&self.groups, &narrow.groups)
    }

    fn covers_subjects(&self, narrow: &Self) -> bool {
        let is_covered = |name: &String| {
            self.accounts.contains(name) || self.users.covers(&Selector::AnyOf(vec![Prefix::Text(name.clone())]))
        };
        let users = match &narrow.users {
            // Names one by one, because some may be service accounts of the wider rule.
            Selector::AnyOf(names) => names.iter().all(|name| match name {
                Prefix::Text(text) => is_covered(text),
                start @ Prefix::Start(_) => self.users.covers(&Selector::AnyOf(vec![start.clone()])),
            }),
            other => self.users.covers(other),
        };
        users && narrow.accounts.iter().all(is_covered)
    }
}

impl Target {
    fn is_empty(&self) -> bool {
        match self {
            Target::Path(paths) => paths.is_empty(),
            Target::Resource { groups, versions, resources, names, namespaces } => {
                let texts = [groups, versions, names, namespaces];
                let unreal =
                    matches!(resources, Selector::AnyOf(all) if all.iter().all(|one| *one == ResourcePattern::Nothing));
                resources.is_empty() || unreal || texts.into_iter().any(Selector::is_empty)
            }
        }
    }

    fn is_everything(&self) -> bool {
        match self {
            Target::Path(paths) => *paths == Selector::All,
            Target::Resource { groups, versions, resources, names, namespaces } => {
                *resources == Selector::All
                    && [groups, versions, names, namespaces].into_iter().all(|texts| *texts == Selector::All)
            }
        }
    }

    fn covers(&self, narrow: &Self) -> bool {
        match (self, narrow) {
            (Target::Path(wide), Target::Path(narrow)) => wide.covers(narrow),
            (
                Target::Resource { groups, versions, resources, names, namespaces },
                Target::Resource { groups: g, versions: v, resources: r, names: n, namespaces: ns },
            ) => {
                resources.covers(r)
                    && groups.covers(g)
                    && versions.covers(v)
                    && names.covers(n)
                    && namespaces.covers(ns)
            }
            _ => false,
        }
    }
}

/// A user has several groups: a positive entry wants one of them, an exclusion wants none. A wanted group therefore says
/// nothing about the absence of another.
fn covers_groups(wide: &Selector<Exact>, narrow: &Selector<Exact>) -> bool {
    match (wide, narrow) {
        (Selector::All, _) => true,
        (Selector::AnyOf(wide), Selector::AnyOf(narrow)) => narrow.iter().all(|n| wide.contains(n)),
        (Selector::NoneOf(out), Selector::NoneOf(narrow)) => out.iter().all(|o| narrow.iter().any(|n| n.covers(o))),
        _ => false,
    }
}
