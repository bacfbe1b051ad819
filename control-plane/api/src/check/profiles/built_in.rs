//! Profiles that every object has: the steps in which a cluster is closed and opened again.

use portcullis_filter_config::Rule;

use crate::types::{DispatchPolicy, Exempt, FlowControlSchema, MaxRequestsInflight, PolicyProfile, TokenBucket};

/// The profile in which no request is answered but with 429.
pub(super) const FROZEN: &str = "frozen";
/// The profile in which nodes renew their leases and status, and operators do everything.
const HEARTBEATS: &str = "heartbeats";
/// The profile in which all others come in as well, at a rate.
const TRICKLE: &str = "trickle";

/// Names of the profiles that every object has.
pub const BUILT_IN_PROFILES: [&str; 3] = [FROZEN, HEARTBEATS, TRICKLE];

/// Groups of operators, if the object names none: kubeadm's `admin.conf` is of the first, its `super-admin.conf` of the second.
const OPERATOR_GROUPS: [&str; 2] = ["kubeadm:cluster-admins", "system:masters"];

/// The heartbeats of all nodes at a time.
const HEARTBEATS_IN_FLIGHT: i32 = 200;
/// Requests per second of controllers, of nodes, and of all others. A burst is twice that.
const CONTROLLERS: i32 = 100;
const NODES: i32 = 50;
const OTHERS: i32 = 10;

/// The built-in profile of that name, for an object that names these groups of operators.
pub(super) fn built_in(name: &str, operator_groups: &[String]) -> Option<PolicyProfile> {
    let mut profile = PolicyProfile { name: name.to_owned(), ..PolicyProfile::default() };
    match name {
        FROZEN => {}
        HEARTBEATS => {
            let_in_first(&mut profile, operator_groups);
            let nothing = MaxRequestsInflight { max: 0 };
            let limit = FlowControlSchema { max_requests_inflight: Some(nothing), ..schema("closed") };
            add(&mut profile, limit, vec![everything()]);
        }
        TRICKLE => {
            let_in_first(&mut profile, operator_groups);
            add(&mut profile, rate("controllers", CONTROLLERS), controllers());
            add(&mut profile, rate("nodes", NODES), vec![of_groups(everything(), &["system:nodes"])]);
            add(&mut profile, rate("others", OTHERS), vec![everything()]);
        }
        _ => return None,
    }
    Some(profile)
}

/// Lets in the heartbeats of nodes, so that none is taken for dead, and operators.
fn let_in_first(profile: &mut PolicyProfile, operator_groups: &[String]) {
    let few = MaxRequestsInflight { max: HEARTBEATS_IN_FLIGHT };
    add(profile, FlowControlSchema { max_requests_inflight: Some(few), ..schema(HEARTBEATS) }, heartbeats());
    let groups = if operator_groups.is_empty() { words(&OPERATOR_GROUPS) } else { operator_groups.to_vec() };
    let operators = Rule { user_groups: groups, ..everything() };
    add(profile, FlowControlSchema { exempt: Some(Exempt::default()), ..schema("operators") }, vec![operators]);
}

fn add(profile: &mut PolicyProfile, limit: FlowControlSchema, rules: Vec<Rule>) {
    let flow_control_schema_name = limit.name.clone();
    profile.flow_control.flow_control_schemas.push(limit);
    profile.dispatch_policies.push(DispatchPolicy { flow_control_schema_name, rules, ..DispatchPolicy::default() });
}

/// A limit whose name no fair queue of the object has.
fn schema(name: &str) -> FlowControlSchema {
    FlowControlSchema { name: format!("portcullis:{name}"), ..FlowControlSchema::default() }
}

fn rate(name: &str, qps: i32) -> FlowControlSchema {
    FlowControlSchema { token_bucket: Some(TokenBucket { qps, burst: 2 * qps }), ..schema(name) }
}

/// A kubelet renews its lease, and reads and updates its node's status (KEP-589).
fn heartbeats() -> Vec<Rule> {
    let of = |verbs: &[&str], group: &str, resource: &str| Rule {
        verbs: words(verbs),
        api_groups: words(&[group]),
        resources: words(&[resource]),
        user_groups: words(&["system:nodes"]),
        ..Rule::default()
    };
    let leases = of(&["get", "create", "update", "patch"], "coordination.k8s.io", "leases");
    vec![
        Rule { namespaces: words(&["kube-node-lease"]), ..leases },
        of(&["get"], "", "nodes"),
        of(&["update", "patch"], "", "nodes/status"),
    ]
}

fn controllers() -> Vec<Rule> {
    let users = words(&["system:kube-controller-manager", "system:kube-scheduler"]);
    vec![Rule { users, ..everything() }, of_groups(everything(), &["system:serviceaccounts:kube-system"])]
}

/// Matches every request.
fn everything() -> Rule {
    let all = || words(&["*"]);
    Rule { verbs: all(), api_groups: all(), resources: all(), non_resource_urls: all(), ..Rule::default() }
}

fn of_groups(rule: Rule, groups: &[&str]) -> Rule {
    Rule { user_groups: words(groups), ..rule }
}

fn words(all: &[&str]) -> Vec<String> {
    all.iter().map(|one| (*one).to_owned()).collect()
}
