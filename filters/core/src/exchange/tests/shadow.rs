//! A shadow changes nothing of any request, and its counts are those of a model that walks lists.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use portcullis_filter_config::activity::{MAX_DIFFERENCES, ShadowDifference};
use portcullis_filter_config::{
    AccessEntry, AccessLists, AccessScope, ClusterConfig, CountedRequests, Denial, FlowControlLimit, FlowControlSchema,
    Policy, Rule, Shadow,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use rcgen::DnType;

use super::*;
use crate::bucket::{Rate, TokenBucket};
use crate::gateway::tests::fixture_in;
use crate::identity::UserInfo;
use crate::observe::catalog::Metric;
use crate::observe::{MetricsSink, Publisher};
use crate::policy::LinearMatcher;
use crate::request_info::RequestTarget;
use crate::state_store::ProcessState;

const GENERATION: &str = "0123456789abcdef";
const USERS: [&str; 2] = ["alice", "bob"];
const TARGETS: [&str; 5] = [
    "/api/v1/namespaces/n/pods",
    "/api/v1/namespaces/n/secrets",
    "/api/v1/pods?watch=1",
    "/version",
    "/api/v1/nodes/a",
];

struct Users {
    ca: testing::Ca,
    chains: BTreeMap<&'static str, Vec<u8>>,
}

static CLIENTS: LazyLock<Users> = LazyLock::new(|| {
    let ca = testing::ca("clients");
    let chain = |name| {
        let params = testing::client_params(&[(DnType::OrganizationName, "dev"), (DnType::CommonName, name)]);
        (name, testing::encode(&[&issue(params, &ca)]))
    };
    let chains = USERS.into_iter().map(chain).collect();
    Users { ca, chains }
});

fn all() -> Vec<String> {
    vec!["*".to_owned()]
}

fn rule() -> impl Strategy<Value = Rule> {
    let list =
        |words: &'static [&'static str]| prop_oneof![Just(all()), select(words).prop_map(|one| vec![one.to_owned()])];
    let users = prop_oneof![
        2 => Just(Vec::new()),
        1 => select(&["alice", "bob", "-alice", "system:*"][..]).prop_map(|one| vec![one.to_owned()]),
    ];
    (list(&["get", "list", "watch"]), list(&["pods", "secrets", "nodes"]), users, any::<bool>()).prop_map(
        |(verbs, resources, users, has_paths)| {
            let non_resource_urls = if has_paths { all() } else { Vec::new() };
            Rule { verbs, api_groups: all(), resources, users, non_resource_urls, ..Rule::default() }
        },
    )
}

fn policy() -> impl Strategy<Value = Policy> {
    let schema = prop_oneof![2 => Just(None), 3 => select(&["few", "rate", "watches", "free"][..]).prop_map(Some)];
    (select(&["all", "s-a"][..]), schema, prop::bool::weighted(0.2), vec(rule(), 1..3)).prop_map(
        |(group, schema, denies, rules)| Policy {
            group: group.to_owned(),
            flow_control_schema: schema.filter(|_| !denies).map(str::to_owned),
            deny: denies.then(Denial::default),
            rules,
            ..Policy::default()
        },
    )
}

fn schemas() -> impl Strategy<Value = Vec<FlowControlSchema>> {
    (0..3_u32, 0..3_u32, 0..3_u32).prop_map(|(few, burst, watches)| {
        let rate = FlowControlLimit::TokenBucket { qps: 1, burst: burst.max(1) };
        let watches = FlowControlSchema {
            counts: CountedRequests::Watches,
            ..FlowControlSchema::local("watches", FlowControlLimit::MaxRequestsInflight(watches))
        };
        let few = FlowControlSchema::local("few", FlowControlLimit::MaxRequestsInflight(few));
        vec![few, FlowControlSchema::local("rate", rate), watches]
    })
}

fn lists() -> impl Strategy<Value = Vec<AccessLists>> {
    let entry = |user: &str| {
        let rule =
            Rule { verbs: all(), api_groups: all(), resources: all(), non_resource_urls: all(), ..Rule::default() };
        AccessEntry { rules: vec![Rule { users: vec![user.to_owned()], ..rule }], ..AccessEntry::default() }
    };
    let entries = move || vec(select(&["alice", "bob", "-bob"][..]).prop_map(entry), 0..2);
    let lists =
        (entries(), entries()).prop_map(|(deny, allow)| vec![AccessLists { scope: AccessScope::Cluster, deny, allow }]);
    prop_oneof![2 => Just(Vec::new()), 1 => lists]
}

fn shadow() -> impl Strategy<Value = Shadow> {
    let parts = (lists(), schemas(), vec(policy(), 1..5));
    let generation = GENERATION.to_owned();
    parts.prop_map(move |(access, flow_control_schemas, policies)| Shadow {
        generation: generation.clone(),
        access,
        flow_control_schemas,
        policies,
    })
}

/// A request of a user (or without one), with the milliseconds since the last one; or the end of one that runs.
#[derive(Clone, Debug)]
enum Step {
    Request(Option<&'static str>, &'static str, u64),
    End(prop::sample::Index),
}

fn step() -> impl Strategy<Value = Step> {
    let user = prop_oneof![3 => select(&USERS[..]).prop_map(Some), 1 => Just(None)];
    prop_oneof![
        4 => (user, select(&TARGETS[..]), 0..700_u64).prop_map(|(user, path, after)| Step::Request(user, path, after)),
        2 => any::<prop::sample::Index>().prop_map(Step::End),
    ]
}

/// A gateway with what its clients and its operator get to see of it.
struct Served {
    fixture: Fixture,
    state: ProcessState,
    publisher: Arc<Publisher>,
    running: Vec<(Exchange<()>, Proxy, Model)>,
}

/// The schema in which a request has a place, for the model.
type Model = Option<String>;

impl Served {
    fn new(real: &Shadow, shadow: Option<&Shadow>) -> Self {
        let state = ProcessState::default();
        let fixture = fixture_in(&state.with_secret([7; 32]), |config: &mut ClusterConfig| {
            config.client_ca = Some(CLIENTS.ca.pem());
            config.access.clone_from(&real.access);
            config.flow_control_schemas.clone_from(&real.flow_control_schemas);
            config.policies = real.policies.clone().into();
            config.policies =
                config.policies.policies().iter().map(|one| Policy { log: true, ..one.clone() }).collect();
            config.log_refused = true;
            config.shadow = shadow.cloned();
        });
        Served { fixture, state, publisher: Arc::default(), running: Vec::new() }
    }

    /// The requests that the shadow has judged, those of each kind of difference, and those of other kinds, as they are reported.
    fn reported(&self) -> (u64, BTreeMap<String, u64>, u64) {
        let activity = self.state.activity(Duration::ZERO);
        let shadow = activity.iter().flat_map(|cluster| &cluster.shadows).find(|one| one.generation == GENERATION);
        let shadow = shadow.unwrap();
        let text = |kind: &ShadowDifference| {
            let ShadowDifference { policy, shadow_policy, agreement, verb, resource } = kind;
            format!("{policy} {shadow_policy} {agreement} {verb} {resource}")
        };
        let kinds = shadow.differences.iter().map(|(kind, count)| (text(kind), *count)).collect();
        (shadow.judged, kinds, shadow.others)
    }

    fn request(&self, user: Option<&str>, target: &str, milliseconds: u64) -> (Exchange<()>, Proxy) {
        let mut host = proxy(&self.fixture, target, &[("user-agent", "kubectl/v1"), ("x-request-id", "1")]);
        host.chain = user.and_then(|user| CLIENTS.chains.get(user)).cloned();
        host.moment = Some(Moment { now: now(), uptime: Duration::from_millis(milliseconds) });
        host.publisher = Some(Arc::clone(&self.publisher));
        let (exchange, _) = begin(&self.fixture, &mut host);
        (exchange, host)
    }

    fn end(&mut self, at: usize) -> (Proxy, Model) {
        let (mut exchange, mut host, model) = self.running.remove(at);
        host.status = Some("200");
        if host.reply.is_none() {
            let _ = exchange.response_headers(&mut host);
        }
        exchange.complete(&mut host);
        (host, model)
    }
}

/// All that the client, the server and the operator get of a request, without the shadow's members of its log line.
fn visible(host: &Proxy) -> String {
    let line = |effect: &String| {
        let Some(members) = effect.strip_prefix("log ") else { return effect.clone() };
        let mut line: serde_json::Value = serde_json::from_str(&format!("{{{members}}}")).unwrap();
        let shadow = ["shadow", "shadowPolicy"].map(|name| line.as_object_mut().unwrap().remove(name));
        assert_eq!(shadow[0].is_some(), shadow[1].is_some());
        line.to_string()
    };
    let effects: Vec<String> = host.effects.iter().map(line).collect();
    format!("{:?} {:?} {:?} {effects:?}", host.headers, host.destination, host.reply)
}

/// The verb and the resource of a request in reports. Those of clients that are not authenticated are coarse.
fn asked(user: Option<&str>, target: &str) -> &'static str {
    match (target, user) {
        ("/api/v1/namespaces/n/pods", Some(_)) => "LIST pods",
        ("/api/v1/namespaces/n/secrets", Some(_)) => "LIST secrets",
        ("/api/v1/pods?watch=1", Some(_)) => "WATCH pods",
        ("/api/v1/nodes/a", Some(_)) => "GET nodes",
        ("/version", _) => "GET ",
        ("/api/v1/nodes/a", None) => "GET other",
        ("/api/v1/pods?watch=1", None) => "WATCH other",
        _ => "LIST other",
    }
}

/// The shadow by the letter.
struct ModelShadow<'a> {
    shadow: &'a Shadow,
    real: &'a Shadow,
    running: BTreeMap<String, u32>,
    buckets: BTreeMap<String, TokenBucket>,
}

impl<'a> ModelShadow<'a> {
    fn new(real: &'a Shadow, shadow: &'a Shadow) -> Self {
        let bucket = |schema: &FlowControlSchema| match schema.limit {
            FlowControlLimit::TokenBucket { qps, burst } => {
                Some((schema.name.clone(), TokenBucket::new(Rate { qps, burst })))
            }
            FlowControlLimit::MaxRequestsInflight(_) => None,
        };
        let buckets = shadow.flow_control_schemas.iter().filter_map(bucket).collect();
        ModelShadow { shadow, real, running: BTreeMap::new(), buckets }
    }

    /// The labels `policy`, `shadow_policy` and `agreement`, and the schema in which the request has a place.
    fn judge(
        &mut self,
        name: Option<&str>,
        target: &str,
        at: u64,
        real: (Option<usize>, Option<Cause>),
    ) -> (String, Model) {
        let target = RequestTarget::parse(target.as_bytes()).unwrap();
        let info = target.resolve(b"GET").unwrap();
        let groups = ["dev", "system:authenticated"].map(str::to_owned).to_vec();
        let user =
            name.map_or_else(UserInfo::anonymous, |name| UserInfo { name: name.into(), groups, ..UserInfo::default() });
        let matches = |entry: &AccessEntry| {
            let policy = Policy { rules: entry.rules.clone(), ..Policy::default() };
            LinearMatcher::new(&[policy]).first_match(&info, &user).is_some()
        };
        let is_let_in = self.shadow.access.iter().all(|lists| {
            !lists.deny.iter().any(matches) && (lists.allow.is_empty() || lists.allow.iter().any(matches))
        });
        let number = LinearMatcher::new(&self.shadow.policies).first_match(&info, &user).filter(|_| is_let_in);
        let number = number.map(|matched| matched.policy);
        let policy = number.map(|number| &self.shadow.policies[number]);
        let (mut place, mut kind) = (None, if policy.is_none_or(|policy| policy.deny.is_some()) { 403 } else { 200 });
        let schema = policy.and_then(|policy| policy.flow_control_schema.as_ref());
        let schema =
            schema.and_then(|name| self.shadow.flow_control_schemas.iter().find(|schema| schema.name == *name));
        if let Some(schema) = schema.filter(|schema| kind == 200 && schema.counts.includes(*info.verb == *b"watch")) {
            let is_admitted = match schema.limit {
                FlowControlLimit::TokenBucket { .. } => self.buckets[&schema.name].take(Duration::from_millis(at)),
                FlowControlLimit::MaxRequestsInflight(max) => {
                    let running = self.running.entry(schema.name.clone()).or_default();
                    let has_room = *running < max;
                    if has_room {
                        *running += 1;
                        place = Some(schema.name.clone());
                    }
                    has_room
                }
            };
            kind = if is_admitted { 200 } else { 429 };
        }
        let real_kind = match real.1 {
            None => 200,
            Some(Cause::FlowControl) => 429,
            Some(_) => 403,
        };
        let treatment = |policy: &Policy| (policy.group.clone(), policy.flow_control_schema.clone());
        let is_other = || real.0.map(|number| treatment(&self.real.policies[number])) != policy.map(treatment);
        let agreement = match (real_kind, kind) {
            (200, 200) if is_other() => "other_policy",
            (one, other) if one == other => "same",
            (_, 200) => "would_allow",
            (_, 403) => "would_refuse",
            _ => "would_limit",
        };
        let text = |policy: Option<usize>| policy.map_or("-".to_owned(), |policy| policy.to_string());
        if agreement == "same" {
            return ("- - same".to_owned(), place);
        }
        (format!("{} {} {agreement}", text(real.0), text(number)), place)
    }
}

#[derive(Default)]
struct ShadowCounts(BTreeMap<String, u64>);

impl MetricsSink for ShadowCounts {
    fn add(&mut self, metric: Metric, labels: &[&str], count: u64) {
        if metric.name == "shadow_total" {
            *self.0.entry(labels[1..].join(" ")).or_default() += count;
        }
    }

    fn set(&mut self, _metric: Metric, _labels: &[&str], _before: u64, _value: u64) {}
}

proptest! {
    #[test]
    fn shadow_changes_nothing_and_counts_as_the_model(
        real in shadow(),
        shadow in shadow(),
        steps in vec(step(), 1..33),
    ) {
        let (mut plain, mut shadowed) = (Served::new(&real, None), Served::new(&real, Some(&shadow)));
        let mut model = ModelShadow::new(&real, &shadow);
        let (mut expected, mut at) = (BTreeMap::<String, u64>::new(), 0);
        let mut kinds = BTreeMap::<String, u64>::new();
        let end = |plain: &mut Served, shadowed: &mut Served, model: &mut ModelShadow<'_>, index: usize| {
            let (without, _) = plain.end(index);
            let (with, place) = shadowed.end(index);
            if let Some(running) = place.and_then(|schema| model.running.get_mut(&schema)) {
                *running -= 1;
            }
            (visible(&without), visible(&with))
        };
        for step in steps {
            match step {
                Step::Request(user, target, after) => {
                    at += after;
                    let (one, host) = plain.request(user, target, at);
                    let (other, shadowed_host) = shadowed.request(user, target, at);
                    prop_assert_eq!(visible(&host), visible(&shadowed_host));
                    let refused = shadowed_host.reply.as_ref().map(|refusal| refusal.cause);
                    let decided = (other.record.decided_by(), refused);
                    let (labels, place) = model.judge(user, target, at, decided);
                    if labels != "- - same" {
                        *kinds.entry(format!("{labels} {}", asked(user, target))).or_default() += 1;
                    }
                    *expected.entry(labels).or_default() += 1;
                    plain.running.push((one, host, None));
                    shadowed.running.push((other, shadowed_host, place));
                }
                Step::End(index) if !plain.running.is_empty() => {
                    let index = index.index(plain.running.len());
                    let (without, with) = end(&mut plain, &mut shadowed, &mut model, index);
                    prop_assert_eq!(without, with);
                }
                Step::End(_) => {}
            }
        }
        while !plain.running.is_empty() {
            let (without, with) = end(&mut plain, &mut shadowed, &mut model, 0);
            prop_assert_eq!(without, with);
        }
        let mut counts = ShadowCounts::default();
        while !shadowed.publisher.publish(&mut counts) {}
        let (judged, reported, others) = shadowed.reported();
        prop_assert_eq!(judged, expected.values().sum::<u64>());
        // Of kinds of clients without a name a report has no more.
        let has_all = kinds.len() <= MAX_DIFFERENCES / 4;
        prop_assert_eq!(reported.values().sum::<u64>() + others, kinds.values().sum::<u64>());
        prop_assert!(reported.iter().all(|(kind, count)| kinds.get(kind).is_some_and(|all| count <= all)));
        prop_assert!(!has_all || reported == kinds, "{:?}", reported);
        prop_assert_eq!(counts.0, expected);
    }
}

#[test]
fn place_in_a_shadow_ends_with_the_answer() {
    let few = FlowControlSchema::local("few", FlowControlLimit::MaxRequestsInflight(1));
    let rule = Rule { verbs: all(), api_groups: all(), resources: all(), non_resource_urls: all(), ..Rule::default() };
    let policy = Policy { group: "all".to_owned(), rules: vec![rule], ..Policy::default() };
    let real = Shadow { policies: vec![policy.clone()], ..Shadow::default() };
    let limited = Policy { flow_control_schema: Some("few".to_owned()), ..policy };
    let shadow = Shadow { flow_control_schemas: vec![few], policies: vec![limited], ..Shadow::default() };
    let served = Served::new(&real, Some(&shadow));
    let agreement = |exchange: &Exchange<()>| exchange.record.shadow.as_ref().unwrap().key.agreement.as_str();
    let (mut first, mut host) = served.request(Some("alice"), POD, 0);
    let (second, _) = served.request(Some("alice"), POD, 1);
    assert_eq!([agreement(&first), agreement(&second)], ["other_policy", "would_limit"]);
    host.status = Some("200");
    assert_eq!(first.response_headers(&mut host), Next::Continue);
    // The client has yet to read the answer.
    first.response_ended(&mut host);
    let (third, _) = served.request(Some("alice"), POD, 2);
    assert_eq!(agreement(&third), "other_policy");
}
