use super::LinearMatcher;
use super::{Policies, RequestInfo, UserInfo, config};
use crate::request_info::unescape_path;

fn list(entries: &str) -> Vec<String> {
    // An empty entry is written as _.
    entries.split_whitespace().map(|entry| entry.replace('_', "")).collect()
}

fn everything() -> config::Rule {
    config::Rule {
        verbs: list("*"),
        api_groups: list("*"),
        resources: list("*"),
        non_resource_urls: list("*"),
        ..config::Rule::default()
    }
}

fn user(name: &str, groups: &str) -> UserInfo {
    UserInfo::authenticated(name.into(), String::new(), list(groups), vec![])
}

fn matches(rule: &config::Rule, request: &str, user: &UserInfo) -> bool {
    let (method, target) = request.split_once(' ').unwrap();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let path = unescape_path(path.as_bytes()).unwrap();
    let info = RequestInfo::resolve(method.as_bytes(), &path, query.as_bytes()).unwrap();
    let policies = [config::Policy {
        group: "g".into(),
        flow_control_schema: None,
        log: false,
        deny: None,
        rules: vec![rule.clone()],
    }];
    let index = Policies::new(&policies).first_match(&info, user);
    assert_eq!(
        LinearMatcher::new(&policies).first_match(&info, user).map(|matched| matched.policy),
        index,
        "the model differs: {rule:?} {request}"
    );
    index.is_some()
}

const POD: &str = "GET /api/v1/namespaces/n/pods/a";
const POD_STATUS: &str = "PATCH /api/v1/namespaces/n/pods/a/status";
const DEPLOYMENTS: &str = "GET /apis/apps/v1/deployments";
const HEALTHZ: &str = "GET /healthz";

#[test]
fn resource_lists_match_as_documented() {
    let table = [
        ("*", POD, true),
        ("*", POD_STATUS, true),
        ("pods", POD, true),
        ("pods", POD_STATUS, false),
        ("pods", DEPLOYMENTS, false),
        ("pods deployments", DEPLOYMENTS, true),
        ("pods/status", POD_STATUS, true),
        ("pods/status", POD, false),
        ("*/status", POD_STATUS, true),
        ("*/status", POD, false),
        ("pods/*", POD_STATUS, false),
        ("*/*", POD_STATUS, false),
        ("-pods", POD, false),
        ("-pods", POD_STATUS, true),
        ("-pods -deployments", POD, false),
        ("-pods -deployments", DEPLOYMENTS, false),
        ("-pods -deployments", POD_STATUS, true),
        ("-*/status", POD_STATUS, false),
        ("-*/status", POD, true),
        ("-*", POD, false),
        ("pods -pods", POD, true),
        ("-pods *", POD, true),
        ("nodes -deployments", POD, false),
        ("", POD, false),
    ];
    for (resources, request, expected) in table {
        let rule = config::Rule { resources: list(resources), ..everything() };
        assert_eq!(matches(&rule, request, &user("u", "")), expected, "{resources} {request}");
    }
}

#[test]
fn other_lists_match_as_documented() {
    type Set = fn(&mut config::Rule, Vec<String>);
    let verbs: Set = |rule, list| rule.verbs = list;
    let groups: Set = |rule, list| rule.api_groups = list;
    let versions: Set = |rule, list| rule.api_versions = list;
    let names: Set = |rule, list| rule.resource_names = list;
    let namespaces: Set = |rule, list| rule.namespaces = list;
    let urls: Set = |rule, list| rule.non_resource_urls = list;
    let table = [
        (verbs, "get", POD, true),
        (verbs, "list", POD, false),
        (verbs, "-list -watch", POD, true),
        (verbs, "-list -get", POD, false),
        (verbs, "-get", "PURGE /api/v1/pods", true),
        (verbs, "*", "PURGE /api/v1/pods", true),
        (verbs, "", POD, false),
        (verbs, "get", HEALTHZ, true),
        (verbs, "head", "HEAD /healthz", true),
        (groups, "_", POD, true),
        (groups, "core", POD, false),
        (groups, "apps", DEPLOYMENTS, true),
        (groups, "-", POD, false),
        (groups, "-", DEPLOYMENTS, true),
        (groups, "", POD, false),
        (groups, "", HEALTHZ, true),
        (versions, "v1", POD, true),
        (versions, "v1beta1", POD, false),
        (versions, "", POD, true),
        (names, "a", POD, true),
        (names, "b", POD, false),
        (names, "-a", POD, false),
        (names, "_", POD, false),
        (names, "_", DEPLOYMENTS, true),
        (names, "-a", DEPLOYMENTS, true),
        (names, "a*", POD, false),
        (names, "d", "GET /apis/apps/v1/deployments?fieldSelector=metadata.name=d", true),
        (namespaces, "n", POD, true),
        (namespaces, "m", POD, false),
        (namespaces, "_", DEPLOYMENTS, true),
        (namespaces, "-n", POD, false),
        (namespaces, "m", HEALTHZ, true),
        (urls, "/healthz", HEALTHZ, true),
        (urls, "/health*", HEALTHZ, true),
        (urls, "/healthz/*", HEALTHZ, false),
        (urls, "-/healthz", HEALTHZ, false),
        (urls, "-/health*", HEALTHZ, false),
        (urls, "-/readyz", HEALTHZ, false),
        (urls, "-/readyz /healthz", HEALTHZ, true),
        (urls, "-/readyz *", HEALTHZ, true),
        (urls, "", HEALTHZ, false),
        (urls, "", POD, true),
    ];
    for (set, entries, request, expected) in table {
        let mut rule = everything();
        set(&mut rule, list(entries));
        assert_eq!(matches(&rule, request, &user("u", "")), expected, "{entries:?} {request}");
    }
}

#[test]
fn users_and_groups_match_as_documented() {
    let account =
        |namespace: &str, name: &str| config::ServiceAccount { namespace: namespace.into(), name: name.into() };
    let robot = user("system:serviceaccount:ns:sa", "system:serviceaccounts");
    let table = [
        ("", vec![], "", user("alice", "dev"), true),
        ("alice", vec![], "", user("alice", "dev"), true),
        ("bob", vec![], "", user("alice", "dev"), false),
        ("ali*", vec![], "", user("alice", "dev"), true),
        ("-ali*", vec![], "", user("alice", "dev"), false),
        ("-bob -eve", vec![], "", user("alice", "dev"), true),
        ("-*", vec![], "", user("alice", "dev"), false),
        ("", vec![account("ns", "sa")], "", robot.clone(), true),
        ("", vec![account("ns", "sa")], "", user("alice", "dev"), false),
        ("", vec![account("ns", "")], "", robot.clone(), false),
        ("alice", vec![account("ns", "sa")], "", robot.clone(), true),
        ("-system:serviceaccount:*", vec![account("ns", "sa")], "", robot, true),
        ("", vec![], "dev", user("alice", "dev"), true),
        ("", vec![], "ops", user("alice", "dev"), false),
        ("", vec![], "system:authenticated", user("alice", "dev"), true),
        ("", vec![], "-dev", user("alice", "dev"), false),
        ("", vec![], "-ops -dev", user("alice", "dev"), false),
        ("", vec![], "-ops", user("alice", "dev"), true),
        ("", vec![], "-ops", UserInfo { name: "in none".into(), ..UserInfo::default() }, true),
        ("", vec![], "-*", UserInfo { name: "in none".into(), ..UserInfo::default() }, false),
        ("", vec![], "system:unauthenticated", UserInfo::anonymous(), true),
        ("system:anonymous", vec![], "", UserInfo::anonymous(), true),
    ];
    for (users, service_accounts, groups, user, expected) in table {
        let rule = config::Rule { users: list(users), service_accounts, user_groups: list(groups), ..everything() };
        assert_eq!(matches(&rule, POD, &user), expected, "{rule:?} {user:?}");
    }
}

#[test]
fn first_policy_that_matches_wins() {
    let policy = |group: &str, verbs: &str| config::Policy {
        group: group.into(),
        flow_control_schema: None,
        log: false,
        deny: None,
        rules: vec![config::Rule { verbs: list(verbs), ..everything() }],
    };
    let policies = Policies::new(&[policy("a", "list"), policy("b", "get"), policy("c", "*")]);
    let path = b"/api/v1/namespaces/n/pods/a";
    let index =
        |method: &'static [u8]| policies.first_match(&RequestInfo::resolve(method, path, b"").unwrap(), &user("u", ""));
    assert_eq!(index(b"GET"), Some(1));
    assert_eq!(index(b"DELETE"), Some(2));
    assert_eq!(Policies::new(&[]).first_match(&RequestInfo::default(), &user("u", "")), None);
}
