use std::collections::BTreeSet;

use portcullis_core::identity::UserInfo;
use portcullis_filter_config::{AccessEntry, Rule, RuleEntries, RuleList, ServiceAccount};

use super::atoms::AtomSet;
use super::region::{Axis, Membership, Region};
use super::target_text::{is_path, is_segment};
use super::vocabulary::{AddressVocabulary, ResourceVocabulary, Vocabulary};

/// The kinds of requests: rules have a part for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestKind {
    Resource,
    Path,
}

/// The atoms of all axes: the values that two configurations distinguish.
#[derive(Debug)]
pub(super) struct Space {
    pub(super) kind: RequestKind,
    pub(super) users: Vocabulary,
    pub(super) names: Vocabulary,
    pub(super) namespaces: Vocabulary,
    pub(super) paths: Vocabulary,
    pub(super) resources: ResourceVocabulary,
    pub(super) verbs: Vocabulary,
    pub(super) api_groups: Vocabulary,
    pub(super) api_versions: Vocabulary,
    pub(super) addresses: AddressVocabulary,
    pub(super) user_agents: Vocabulary,
    pub(super) groups: Vocabulary,
}

/// The verbs that a request for a resource can have; kube-apiserver knows no others.
pub(super) const RESOURCE_VERBS: [&str; 10] =
    ["", "create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"];
const METHODS: [&str; 7] = ["delete", "get", "head", "options", "patch", "post", "put"];

pub(super) const ANONYMOUS: &str = "system:anonymous";
pub(super) const AUTHENTICATED: &str = "system:authenticated";
pub(super) const UNAUTHENTICATED: &str = "system:unauthenticated";

/// Resources that mean something else at some places of a path.
pub(super) const NAMESPACES: &str = "namespaces";
pub(super) const SUBRESOURCES_OF_NAMESPACES: [&str; 2] = ["status", "finalize"];
pub(super) const VERBS_IN_PATHS: [&str; 2] = ["watch", "proxy"];

/// The meaning of the entries of a list.
enum Entries {
    Whole,
    Starts,
}

impl Space {
    /// Everything that is written in the rules and entries.
    pub(super) fn new(kind: RequestKind, rules: &[&Rule], entries: &[&AccessEntry]) -> Self {
        let texts = |list: fn(&Rule) -> &Vec<String>, own: &[&'static str]| {
            let written = rules.iter().flat_map(|rule| list(rule)).map(|entry| without_dash(entry));
            let own: Vec<String> = own.iter().map(|text| (*text).to_owned()).collect();
            written.map(str::to_owned).chain(own).collect::<BTreeSet<String>>()
        };
        let whole = |texts: &BTreeSet<String>, is_possible: &dyn Fn(&str) -> bool, unnamed: &str| {
            let starts = BTreeSet::from([unnamed]);
            Vocabulary::new(texts.iter().map(String::as_str).collect(), &starts, is_possible)
        };
        let accounts = || rules.iter().flat_map(|rule| &rule.service_accounts);
        let mut users = texts(|rule| &rule.users, &[ANONYMOUS]);
        users.extend(accounts().map(account_name));
        let paths = texts(|rule| &rule.non_resource_urls, &["/version"]);
        let agents: BTreeSet<&str> =
            entries.iter().flat_map(|entry| &entry.user_agents).map(String::as_str).chain([""]).collect();
        let verbs: BTreeSet<String> = match kind {
            RequestKind::Resource => RESOURCE_VERBS.iter().map(|verb| (*verb).to_owned()).collect(),
            RequestKind::Path => texts(|rule| &rule.verbs, &METHODS),
        };
        let named_verb = |verb: &str| match kind {
            RequestKind::Resource => RESOURCE_VERBS.contains(&verb),
            RequestKind::Path => is_method(verb),
        };
        let subresources = texts(|rule| &rule.resources, &[]);
        let split = |entry: &String| entry.split_once('/').map(|(one, sub)| (sub.to_owned(), one.to_owned()));
        let any_of = subresources.iter().filter_map(split).filter(|(sub, one)| one == "*" && is_segment(sub));
        let any_of: BTreeSet<String> = any_of.map(|(subresource, _)| subresource).collect();
        let pair = |entry: &String| split(entry).unwrap_or_else(|| (String::new(), entry.clone()));
        let is_named = |(sub, one): &(String, String)| is_segment(one) && (sub.is_empty() || is_segment(sub));
        let named = subresources.iter().map(pair).chain([(String::new(), "pods".to_owned())]).filter(is_named);
        let is_name = |name: &str| name.is_empty() || is_segment(name);
        Space {
            kind,
            users: starting(&users, &|user| !user.is_empty(), ""),
            names: whole(&texts(|rule| &rule.resource_names, &[""]), &is_name, ""),
            namespaces: whole(&texts(|rule| &rule.namespaces, &["", "default"]), &is_name, ""),
            paths: starting(&paths, &is_path, "/"),
            resources: ResourceVocabulary::new(named.collect(), &any_of, "widgets"),
            verbs: whole(&verbs, &named_verb, ""),
            api_groups: whole(&texts(|rule| &rule.api_groups, &["", "apps"]), &is_name, ""),
            api_versions: whole(&texts(|rule| &rule.api_versions, &["v1"]), &is_segment, "v1"),
            addresses: AddressVocabulary::new(entries.iter().flat_map(|entry| &entry.addresses)),
            user_agents: Vocabulary::new(BTreeSet::new(), &agents, |agent| agent.bytes().all(is_header_byte)),
            groups: whole(
                &texts(|rule| &rule.user_groups, &[AUTHENTICATED, UNAUTHENTICATED]),
                &|group| !group.is_empty(),
                "",
            ),
        }
    }

    /// All requests.
    pub(super) fn everything(&self) -> [AtomSet; Axis::COUNT] {
        Axis::ALL.map(|axis| self.all(axis))
    }

    fn all(&self, axis: Axis) -> AtomSet {
        let is_of_resource = self.kind == RequestKind::Resource;
        match axis {
            Axis::Path if is_of_resource => AtomSet::first(1),
            Axis::Name | Axis::Namespace | Axis::Resource | Axis::ApiGroup | Axis::ApiVersion if !is_of_resource => {
                AtomSet::first(1)
            }
            Axis::User => self.users.all(),
            Axis::Name => self.names.all(),
            Axis::Namespace => self.namespaces.all(),
            Axis::Path => self.paths.all(),
            Axis::Resource => self.resources.all(),
            Axis::Verb => self.verbs.all(),
            Axis::ApiGroup => self.api_groups.all(),
            Axis::ApiVersion => self.api_versions.all(),
            Axis::Address => self.addresses.all(),
            Axis::UserAgent => self.user_agents.all(),
        }
    }

    /// The atoms of values that no rule has.
    pub(super) fn usual(&self) -> [AtomSet; Axis::COUNT] {
        Axis::ALL.map(|axis| match axis {
            Axis::User => self.users.usual().clone(),
            Axis::Name => self.names.usual().clone(),
            Axis::Namespace => self.namespaces.usual().clone(),
            Axis::Path => self.paths.usual().clone(),
            Axis::Resource => self.resources.usual().clone(),
            Axis::ApiGroup => self.api_groups.usual().clone(),
            Axis::ApiVersion => self.api_versions.usual().clone(),
            Axis::Address => self.addresses.usual(),
            Axis::UserAgent => self.user_agents.usual().clone(),
            Axis::Verb => AtomSet::EMPTY,
        })
    }

    /// The requests of this kind that a rule matches: several regions if it wants one of several groups.
    pub(super) fn rule(&self, rule: &Rule) -> Vec<Region> {
        let mut axes = self.everything();
        let mut set = |axis: Axis, atoms: AtomSet| {
            if let Some(place) = axes.get_mut(axis as usize) {
                *place = atoms;
            }
        };
        let list = |entries: &[String], vocabulary: &Vocabulary, how: &Entries, empty: AtomSet| {
            let range = |entry: &str| match (how, entry.strip_suffix('*')) {
                (Entries::Starts, Some(start)) => vocabulary.start_range(start),
                _ => vocabulary.text_range(entry),
            };
            read(entries, &vocabulary.all(), empty, range)
        };
        set(Axis::Verb, list(&rule.verbs, &self.verbs, &Entries::Whole, AtomSet::EMPTY));
        set(Axis::User, self.subjects(rule, &list));
        match self.kind {
            RequestKind::Resource => {
                let resource = |entry: &str| match entry.split_once('/') {
                    None => self.resources.pair_range(entry, ""),
                    Some((_, "*" | "")) => (0, 0),
                    Some(("*", subresource)) => self.resources.of_subresource(subresource),
                    Some((resource, subresource)) => self.resources.pair_range(resource, subresource),
                };
                let all = |vocabulary: &Vocabulary| vocabulary.all();
                set(Axis::Resource, read(&rule.resources, &self.resources.all(), AtomSet::EMPTY, resource));
                set(Axis::ApiGroup, list(&rule.api_groups, &self.api_groups, &Entries::Whole, AtomSet::EMPTY));
                let versions = list(&rule.api_versions, &self.api_versions, &Entries::Whole, all(&self.api_versions));
                set(Axis::ApiVersion, versions);
                set(Axis::Name, list(&rule.resource_names, &self.names, &Entries::Whole, all(&self.names)));
                set(Axis::Namespace, list(&rule.namespaces, &self.namespaces, &Entries::Whole, all(&self.namespaces)));
            }
            RequestKind::Path => {
                // No path can be excluded.
                let excludes = matches!(RuleList::read(&rule.non_resource_urls), Some(RuleList::NoneOf(_)));
                let paths = list(&rule.non_resource_urls, &self.paths, &Entries::Starts, AtomSet::EMPTY);
                set(Axis::Path, if excludes { AtomSet::EMPTY } else { paths });
            }
        }
        let memberships = self.memberships(&rule.user_groups);
        memberships.into_iter().filter_map(|groups| Region::new(axes.clone(), groups)).collect()
    }

    /// Users and service accounts: a union.
    fn subjects(&self, rule: &Rule, list: &impl Fn(&[String], &Vocabulary, &Entries, AtomSet) -> AtomSet) -> AtomSet {
        let nobody_named = rule.users.is_empty() && rule.service_accounts.is_empty();
        let empty = if nobody_named { self.users.all() } else { AtomSet::EMPTY };
        let users = list(&rule.users, &self.users, &Entries::Starts, empty);
        let is_real = |account: &&ServiceAccount| is_service_account(account);
        let accounts = rule.service_accounts.iter().filter(is_real);
        let accounts = accounts.map(|account| self.users.text_range(&account_name(account)));
        AtomSet::of_ranges(users.ranges().iter().copied().chain(accounts).collect())
    }

    /// The ways to be a member as a list asks for.
    fn memberships(&self, entries: &[String]) -> Vec<Vec<Membership>> {
        let group = |entry: &str, is_member: bool| {
            let (atom, end) = self.groups.text_range(entry);
            (atom < end).then_some((atom, is_member))
        };
        match RuleList::read(entries) {
            None | Some(RuleList::All) => vec![Vec::new()],
            Some(RuleList::AnyOf(wanted)) => wanted.filter_map(|one| Some(vec![group(one, true)?])).collect(),
            Some(RuleList::NoneOf(unwanted)) => vec![unwanted.filter_map(|one| group(one, false)).collect()],
        }
    }

    /// The requests of this kind that an entry of an access list names, whatever the time.
    pub(super) fn entry(&self, entry: &AccessEntry) -> Vec<Region> {
        let addresses = entry.addresses.iter().map(|range| self.addresses.range(range));
        let addresses: Vec<(u32, u32)> = addresses.flat_map(|atoms| atoms.ranges().to_vec()).collect();
        let agents: Vec<(u32, u32)> =
            entry.user_agents.iter().map(|start| self.user_agents.start_range(start)).collect();
        let rules: Vec<Region> = match entry.rules.as_slice() {
            [] => Region::new(self.everything(), Vec::new()).into_iter().collect(),
            rules => rules.iter().flat_map(|rule| self.rule(rule)).collect(),
        };
        let narrowed = rules.into_iter().filter_map(|mut region| {
            if !entry.addresses.is_empty() {
                region.set(Axis::Address, AtomSet::of_ranges(addresses.clone()));
            }
            if !entry.user_agents.is_empty() {
                region.set(Axis::UserAgent, AtomSet::of_ranges(agents.clone()));
            }
            Axis::ALL.into_iter().all(|axis| !region.axis(axis).is_empty()).then_some(region)
        });
        narrowed.collect()
    }
}

fn starting(entries: &BTreeSet<String>, is_possible: &dyn Fn(&str) -> bool, every: &str) -> Vocabulary {
    let starts = entries.iter().filter_map(|entry| entry.strip_suffix('*')).chain([every]).collect();
    let whole = entries.iter().map(String::as_str).filter(|entry| !entry.ends_with('*')).collect();
    Vocabulary::new(whole, &starts, is_possible)
}

fn without_dash(entry: &str) -> &str {
    entry.strip_prefix('-').unwrap_or(entry)
}

fn read(entries: &[String], all: &AtomSet, empty: AtomSet, range: impl Fn(&str) -> (u32, u32)) -> AtomSet {
    let union = |entries: RuleEntries<'_>| AtomSet::of_ranges(entries.map(&range).collect());
    match RuleList::read(entries) {
        None => empty,
        Some(RuleList::All) => all.clone(),
        Some(RuleList::AnyOf(entries)) => union(entries),
        Some(RuleList::NoneOf(entries)) => all.without(&union(entries)),
    }
}

pub(super) fn account_name(account: &ServiceAccount) -> String {
    format!("system:serviceaccount:{}:{}", account.namespace, account.name)
}

/// Whether a user can be this service account.
fn is_service_account(account: &ServiceAccount) -> bool {
    let user = UserInfo { name: account_name(account), ..UserInfo::default() };
    user.service_account() == Some((&*account.namespace, &*account.name))
}

/// Whether the lower-case form of a method reads so.
fn is_method(verb: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte == b'-';
    !verb.is_empty() && verb.len() <= 32 && verb.bytes().all(is_letter) && verb != "connect"
}

fn is_header_byte(byte: u8) -> bool {
    matches!(byte, b' '..=b'~')
}
