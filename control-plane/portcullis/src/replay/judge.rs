use std::cell::OnceCell;
use std::fmt::Write;
use std::net::IpAddr;

use portcullis_core::cluster::Cluster;
use portcullis_core::gateway::{IdentifiedRequest, Judgement};
use portcullis_core::identity::UserInfo;
use portcullis_core::request_info::{RequestInfo, RequestTarget};
use portcullis_core::{CompileError, Gateway};
use portcullis_filter_config::{AccessLists, ClusterConfig, Rule, UpstreamIdentity};

use super::bounds::{self, UNKNOWN};
use super::outcome::{MetOutcome, Unjudged};
use super::record::{LogRecord, NAME, PATH, USER, VERB, cut, is_written};
use crate::explain::EmptyState;

/// The finding about a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LineVerdict {
    Unjudged(Unjudged),
    /// A part that the line lacks could decide.
    Unknown(&'static str),
    /// Both outcomes, and whether a limit refused the request then.
    Judged {
        then: MetOutcome,
        now: MetOutcome,
        was_limited: bool,
    },
}

/// A cluster by whose configuration lines are judged.
#[derive(Debug)]
pub(super) struct ReplayedCluster {
    pub(super) config: ClusterConfig,
    exact: Cluster,
    /// Compiled for the first line that needs it.
    strict: OnceCell<Option<Cluster>>,
    lenient: OnceCell<Option<Cluster>>,
    asks: AskedOrigins,
    longest: LongestTexts,
}

/// The parts of a request's origin that access lists ask for.
#[derive(Debug)]
struct AskedOrigins {
    addresses: bool,
    user_agents: bool,
}

/// The length of the longest entry of rules, in characters.
#[derive(Debug)]
struct LongestTexts {
    users: usize,
    groups: usize,
    paths: usize,
    user_agents: usize,
}

/// The users of a line, as far as it names them.
struct Users {
    user: Option<UserInfo>,
    impersonated: Option<UserInfo>,
    /// The part of them that is not known.
    unknown: Option<&'static str>,
}

impl ReplayedCluster {
    pub(super) fn new(config: ClusterConfig) -> Result<Self, CompileError> {
        let entries = || config.access.iter().flat_map(AccessLists::all);
        let asks = AskedOrigins {
            addresses: entries().any(|entry| !entry.addresses.is_empty()),
            user_agents: entries().any(|entry| !entry.user_agents.is_empty()),
        };
        let longest = LongestTexts::of(&config);
        let exact = Cluster::compile(&config, &EmptyState)?;
        Ok(ReplayedCluster { exact, config, strict: OnceCell::new(), lenient: OnceCell::new(), asks, longest })
    }

    /// Judges a line. `now` is in seconds since 1970.
    pub(super) fn judge(&self, gateway: &Gateway, record: &LogRecord<'_>, now: u64) -> LineVerdict {
        let (then, was_limited) = match MetOutcome::logged(record) {
            Ok(met) => met,
            Err(unjudged) => return LineVerdict::Unjudged(unjudged),
        };
        let judgement = with_attributes(record, |info| {
            let unknown = self.unknown_part(record, info);
            unknown.map_or_else(|| self.judgement(gateway, record, info, now, then.policy.is_some()), Err)
        });
        match judgement {
            None => LineVerdict::Unknown("the attributes, which do not follow from the path of the line"),
            Some(Err(unknown)) => LineVerdict::Unknown(unknown),
            Some(Ok(judgement)) => {
                let now = MetOutcome::judged(&judgement, &self.config);
                let was_protected = then.refused == Some("protected_identity");
                if was_protected && now.refused != then.refused && now.refused != Some("denied_by_list") {
                    return LineVerdict::Unknown("the identity that was asked for and is protected");
                }
                LineVerdict::Judged { then, now, was_limited }
            }
        }
    }

    /// A part of the request itself that is not known, and could decide.
    fn unknown_part(&self, record: &LogRecord<'_>, info: &RequestInfo<'_>) -> Option<&'static str> {
        let address: Option<IpAddr> = record.client.parse().ok();
        if self.asks.addresses && address.is_none() {
            return Some("the client's address");
        }
        // The gateway writes both at once: without an agent there is still an id.
        if self.asks.user_agents && record.user_agent.is_empty() && record.request_id.is_empty() {
            return Some("the user agent");
        }
        let is_cut = |text: &str, most: usize, longest: usize| longest >= most && cut(text, most).is_some();
        let groups = || record.groups.iter().any(|group| is_cut(group, USER, self.longest.groups));
        let has_cut = is_cut(&record.user, USER, self.longest.users)
            || is_cut(&record.impersonated_user, USER, self.longest.users)
            || is_cut(&record.user_agent, USER, self.longest.user_agents)
            || (!info.is_resource && is_cut(&record.path, PATH, self.longest.paths))
            || groups();
        has_cut.then_some("the end of a value that is cut")
    }

    fn judgement(
        &self,
        gateway: &Gateway,
        record: &LogRecord<'_>,
        info: &RequestInfo<'_>,
        now: u64,
        was_dispatched: bool,
    ) -> Result<Judgement, &'static str> {
        let users = self.users(record, was_dispatched);
        let request = IdentifiedRequest {
            info,
            address: record.client.parse().ok(),
            user_agent: record.user_agent.as_bytes(),
            now,
            user: users.user.as_ref(),
            has_token: false,
            impersonated: users.impersonated.as_ref(),
        };
        if let Some(unknown) = users.unknown {
            let bounds = [(&self.strict, bounds::strict as Reader), (&self.lenient, bounds::lenient)];
            let [strict, lenient] = bounds.map(|(cell, read)| {
                let compile = || Cluster::compile(&read(&self.config), &EmptyState).ok();
                let cluster = cell.get_or_init(compile).as_ref();
                cluster.map(|cluster| gateway.judge_identified(cluster, &request))
            });
            // A token that nothing reviews is of a user whom no rule knows.
            let opaque = IdentifiedRequest { user: None, ..request };
            let opaque = (users.user.as_ref().is_some_and(|user| user.name == UNKNOWN) && self.knows_no_tokens())
                .then(|| gateway.judge_identified(&self.exact, &opaque));
            return match strict.filter(|strict| Some(strict) == lenient.as_ref()) {
                Some(same) if opaque.as_ref().is_none_or(|opaque| *opaque == same) => Ok(same),
                _ => Err(unknown),
            };
        }
        let judgement = gateway.judge_identified(&self.exact, &request);
        let by_token = IdentifiedRequest { has_token: true, ..request };
        let is_alike = !self.may_drop_groups() || gateway.judge_identified(&self.exact, &by_token) == judgement;
        if is_alike { Ok(judgement) } else { Err("whether the user has a token or a certificate") }
    }

    fn users(&self, record: &LogRecord<'_>, was_dispatched: bool) -> Users {
        let unknown_user =
            |name: &str| UserInfo { name: name.to_owned(), groups: vec![UNKNOWN.to_owned()], ..UserInfo::default() };
        if record.user.is_empty() {
            // It went on unreviewed, and does so again.
            let goes_on = was_dispatched && self.knows_no_tokens();
            return match goes_on {
                true => Users { user: None, impersonated: None, unknown: None },
                false => Users { user: Some(unknown_user(UNKNOWN)), impersonated: None, unknown: Some("the user") },
            };
        }
        let mut user =
            UserInfo { name: record.user.clone().into_owned(), groups: record.groups.clone(), ..UserInfo::default() };
        let mut unknown = None;
        if record.more_groups > 0 {
            user.groups.push(UNKNOWN.to_owned());
            unknown = Some("the user's groups behind the first 32");
        }
        let impersonated = (!record.impersonated_user.is_empty()).then(|| unknown_user(&record.impersonated_user));
        if impersonated.is_some() {
            unknown = Some("the groups of the impersonated user");
        }
        Users { user: Some(user), impersonated, unknown }
    }

    /// The assumptions about this cluster's lines.
    pub(super) fn notes(&self, name: &str) -> Vec<String> {
        let mut notes = Vec::new();
        let is_impersonate = self.config.upstream_identity == UpstreamIdentity::Impersonate;
        if self.knows_no_tokens() {
            notes.push(format!("{name} reviews no tokens: users of the log are taken for users of certificates"));
        }
        let asks_users = self.config.access.iter().any(AccessLists::depends_on_user) || self.config.protected.is_some();
        if !is_impersonate && asks_users {
            notes.push(format!(
                "{name}: the servers judge impersonation, and the log does not have it: access lists and protected \
                 identities may refuse more"
            ));
        }
        if self.config.protected.as_ref().is_some_and(|protected| protected.drop_groups) {
            notes.push(format!("{name}: groups that protectedIdentities dropped are not in the log"));
        }
        notes
    }

    /// Whether tokens go on without a review.
    fn knows_no_tokens(&self) -> bool {
        self.config.reviews.is_none() && self.config.upstream_identity != UpstreamIdentity::Impersonate
    }

    /// Whether a user in a protected group goes on without the group by a certificate, and is refused by a token.
    fn may_drop_groups(&self) -> bool {
        self.config.upstream_identity != UpstreamIdentity::Impersonate
            && self.config.protected.as_ref().is_some_and(|protected| protected.drop_groups)
    }
}

type Reader = fn(&ClusterConfig) -> ClusterConfig;

impl LongestTexts {
    fn of(config: &ClusterConfig) -> Self {
        let policies = config.policies.policies();
        let entries = || config.access.iter().flat_map(AccessLists::all);
        let rules = || policies.iter().flat_map(|policy| &policy.rules).chain(entries().flat_map(|entry| &entry.rules));
        let longest = |list: fn(&Rule) -> &Vec<String>| longest(rules().flat_map(list));
        let protected = config.protected.as_ref();
        let protected = |list: fn(&portcullis_filter_config::ProtectedIdentities) -> &Vec<String>| {
            protected.map_or(0, |protected| self::longest(list(protected)))
        };
        LongestTexts {
            // The name of a service account is longer than its parts.
            users: longest(|rule| &rule.users)
                .max(protected(|protected| &protected.users))
                .max(if rules().any(|rule| !rule.service_accounts.is_empty()) { usize::MAX } else { 0 }),
            groups: longest(|rule| &rule.user_groups).max(protected(|protected| &protected.groups)),
            paths: longest(|rule| &rule.non_resource_urls),
            user_agents: self::longest(entries().flat_map(|entry| &entry.user_agents)),
        }
    }
}

fn longest<'t>(texts: impl IntoIterator<Item = &'t String>) -> usize {
    texts.into_iter().map(|text| text.chars().count()).max().unwrap_or_default()
}

/// Reads the attributes of a line's request; `None` if they do not follow from its method and path.
fn with_attributes<R>(record: &LogRecord<'_>, read: impl FnOnce(&RequestInfo<'_>) -> R) -> Option<R> {
    let path = cut(&record.path, PATH).unwrap_or(&record.path);
    let target = RequestTarget::parse(path.as_bytes()).ok().filter(|_| path.starts_with('/'))?;
    let info = target.resolve(record.method.as_bytes()).ok()?;
    if is_of(&info, record) {
        return Some(read(&info));
    }
    let queried = with_query(path, record);
    let target = RequestTarget::parse(queried.as_bytes()).ok()?;
    let info = target.resolve(record.method.as_bytes()).ok()?;
    is_of(&info, record).then(|| read(&info))
}

/// As much of a query as the attributes need: queries are not logged.
fn with_query(path: &str, record: &LogRecord<'_>) -> String {
    let watch = if record.verb == "watch" { "watch=true&" } else { "" };
    let mut target = format!("{path}?{watch}");
    if !record.name.is_empty() {
        target.push_str("fieldSelector=metadata.name%3D");
        for byte in record.name.bytes() {
            // Writing to a String does not fail.
            let _ = write!(target, "%{byte:02X}");
        }
    }
    target
}

/// Whether the line has these attributes.
fn is_of(info: &RequestInfo<'_>, record: &LogRecord<'_>) -> bool {
    if record.verb.is_empty() && !info.verb.is_empty() {
        // Refused before it was resolved; nothing contradicts.
        return record.resource.is_empty();
    }
    let of_resource = |bytes| if info.is_resource { bytes } else { &b""[..] };
    is_written(&info.verb, &record.verb, VERB)
        && [
            (info.api_group, &record.api_group),
            (info.api_version, &record.api_version),
            (info.resource, &record.resource),
            (info.subresource, &record.subresource),
            (info.namespace, &record.namespace),
            (&info.name, &record.name),
        ]
        .into_iter()
        .all(|(value, logged)| is_written(of_resource(value), logged, NAME))
}
