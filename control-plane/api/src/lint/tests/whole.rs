use super::*;

fn unreachable(policies: &str) -> Vec<Warnings> {
    let mut warnings = codes(&warned(json!({"dispatchPolicies": yaml(policies)})));
    warnings.retain(|(code, _)| matches!(code, ProblemCode::UnreachablePolicy | ProblemCode::UnreachableRule));
    warnings
}

#[test]
fn policies_behind_wider_ones_are_told() {
    let first = "{verbs: [get, list], apiGroups: [''], resources: [pods, pods/log]}";
    for (wide, narrow) in [
        (first, first),
        (first, "{verbs: [get], apiGroups: [''], resources: [pods]}"),
        (first, "{verbs: [get], apiGroups: [''], resources: [pods], namespaces: [a], users: [bob]}"),
        ("{verbs: ['*'], apiGroups: ['*'], resources: ['*']}", first),
        (
            "{verbs: ['*'], apiGroups: ['*'], resources: ['*/log']}",
            "{verbs: [get], apiGroups: [a], resources: [b/log]}",
        ),
        ("{verbs: [-delete], apiGroups: [''], resources: [-nodes]}", first),
        (
            "{verbs: [-delete], apiGroups: [''], resources: [pods]}",
            "{verbs: [-delete, -get], apiGroups: [''], resources: [pods]}",
        ),
        ("{verbs: [get], nonResourceURLs: ['/health*']}", "{verbs: [get], nonResourceURLs: [/healthz, '/healthz/*']}"),
        (
            "{verbs: [get], apiGroups: [''], resources: [pods], users: ['system:serviceaccount:ns:*']}",
            "{verbs: [get], apiGroups: [''], resources: [pods], serviceAccounts: [{namespace: ns, name: sa}]}",
        ),
        (
            "{verbs: [get], apiGroups: [''], resources: [pods], userGroups: [a, b]}",
            "{verbs: [get], apiGroups: [''], resources: [pods], userGroups: [b], users: [x]}",
        ),
    ] {
        let warnings = unreachable(&format!("[{{rules: [{wide}]}}, {{rules: [{narrow}]}}]"));
        assert_eq!(
            warnings,
            [(ProblemCode::UnreachablePolicy, "spec.dispatchPolicies[1]".to_owned())],
            "{wide} before {narrow}"
        );
        let inside = unreachable(&format!("[{{rules: [{wide}, {narrow}]}}]"));
        let path = "spec.dispatchPolicies[0].rules[1]".to_owned();
        assert_eq!(inside, [(ProblemCode::UnreachableRule, path)], "{wide} beside {narrow}");
    }
}

#[test]
fn policy_that_something_is_left_to_is_reachable() {
    let narrow = "{verbs: [get], apiGroups: [''], resources: [pods]}";
    for wide in [
        "{verbs: [list], apiGroups: [''], resources: [pods]}",
        "{verbs: [get], apiGroups: [apps], resources: [pods]}",
        "{verbs: [get], apiGroups: [''], resources: ['*/log', pods/*]}",
        "{verbs: [get], apiGroups: [''], resources: [pods], resourceNames: [a]}",
        "{verbs: [get], apiGroups: [''], resources: [pods], namespaces: [-a]}",
        "{verbs: [get], apiGroups: [''], resources: [pods], users: [-a]}",
        "{verbs: [get], apiGroups: [''], resources: [pods], serviceAccounts: [{namespace: a}]}",
        "{verbs: [get], apiGroups: [''], resources: [pods], userGroups: [-a]}",
        "{verbs: ['*'], nonResourceURLs: ['*']}",
    ] {
        assert_eq!(unreachable(&format!("[{{rules: [{wide}]}}, {{rules: [{narrow}]}}]")), [], "{wide}");
    }
    // A user in both groups skips the first rule and matches the second.
    let groups =
        |list: &str| format!("{{rules: [{{verbs: [get], apiGroups: [''], resources: [pods], userGroups: [{list}]}}]}}");
    assert_eq!(unreachable(&format!("[{}, {}]", groups("-a"), groups("b"))), []);
}

#[test]
fn rule_of_both_kinds_needs_both_covered() {
    let both = "{verbs: [get], apiGroups: [''], resources: [pods], nonResourceURLs: [/a]}";
    let resources = "{rules: [{verbs: [get], apiGroups: [''], resources: [pods]}]}";
    let paths = "{rules: [{verbs: [get], nonResourceURLs: ['/*']}]}";
    assert_eq!(unreachable(&format!("[{resources}, {{rules: [{both}]}}]")), []);
    let warnings = unreachable(&format!("[{resources}, {paths}, {{rules: [{both}]}}]"));
    assert_eq!(warnings, [(ProblemCode::UnreachablePolicy, "spec.dispatchPolicies[2]".to_owned())]);
    let message = warned(with_default(&format!("[{resources}, {paths}, {{rules: [{both}]}}]"))).pop().unwrap().message;
    assert!(
        message.contains("spec.dispatchPolicies[0].rules[0] and spec.dispatchPolicies[1].rules[0] match"),
        "{message}"
    );
}

#[test]
fn requests_that_no_policy_takes_are_told() {
    let missing = |rules: &str| {
        let mut warnings = warned(json!({"dispatchPolicies": [{"rules": yaml(rules)}]}));
        warnings.retain(|warnings| warnings.code == ProblemCode::MissingDefault);
        warnings.into_iter().map(|warnings| warnings.message).collect::<Vec<_>>()
    };
    let resources = "{verbs: ['*'], apiGroups: ['*'], resources: ['*']}";
    let paths = "{verbs: ['*'], nonResourceURLs: ['*']}";
    assert_eq!(missing(&format!("[{resources}, {paths}]")), [""; 0]);
    assert_eq!(missing("[{verbs: ['*'], apiGroups: ['*'], resources: ['*'], nonResourceURLs: ['*']}]"), [""; 0]);
    assert!(missing(&format!("[{paths}]"))[0].contains("resource requests"));
    let some = missing(&format!("[{resources}, {{verbs: [get], nonResourceURLs: ['/api*', '/openapi/*']}}]"));
    assert!(some[0].ends_with("kubectl and probes need /version, /healthz, /livez, /readyz"), "{some:?}");
    assert_eq!(missing("[{verbs: [get], apiGroups: ['*'], resources: ['*']}]").len(), 2);
}

#[test]
fn limits_and_subsets_that_let_nothing_through_are_told() {
    let spec = "
servers: [{endpoint: 'https://a.test'}, {endpoint: 'https://b.test', disabled: true}]
flowControl: {flowControlSchemas: [{name: shut, maxRequestsInflight: {max: 0}}, {name: idle, exempt: {}}]}
dispatchPolicies:
- upstreamSubset: ['https://b.test']
  flowControlSchemaName: shut
  rules: [{verbs: ['*'], apiGroups: ['*'], resources: ['*'], nonResourceURLs: ['*']}]
";
    let schemas = "spec.flowControl.flowControlSchemas";
    let wanted = [
        (ProblemCode::RefusesEverything, "spec.dispatchPolicies[0].upstreamSubset".to_owned()),
        (ProblemCode::RefusesEverything, format!("{schemas}[0].maxRequestsInflight.max")),
        (ProblemCode::UnusedSchema, format!("{schemas}[1].name")),
    ];
    assert_eq!(codes(&warned(yaml(spec))), wanted);
}

#[test]
fn gates_close_a_cluster_as_kubernetes_reads_them() {
    let gates = |text: &str| {
        let mut raw = cluster(json!({
            "servers": [{"endpoint": "https://a.test"}], "clientConfig": {"insecure": true, "bearerToken": "YQ=="},
            "dispatchPolicies": [{"rules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}]}],
        }));
        let annotation = ("proxy.kubegateway.io/feature-gates".to_owned(), text.to_owned());
        raw.metadata.annotations = Some([annotation].into());
        let checked = check_cluster(&raw, true);
        let unknown = checked.warnings.iter().any(|warnings| warnings.code == ProblemCode::UnknownGate);
        let gates = checked.outcome.map(|cluster| cluster.gates);
        gates.map(|gates| (gates.deny_all_requests, gates.close_connections, unknown)).ok()
    };
    for (text, outcome) in [
        ("", Some((false, false, false))),
        ("DenyAllRequests=true", Some((true, false, false))),
        ("CloseConnectionWhenIdle=true", Some((false, true, false))),
        ("DenyAllRequests=T, Tracing=false", Some((true, false, false))),
        ("AllAlpha=true", Some((true, true, false))),
        ("AllAlpha=true,DenyAllRequests=false", Some((false, true, false))),
        ("CloseConnectionWhenIdle=f,AllAlpha=true", Some((true, false, false))),
        ("DenyAllRequest=true", Some((false, false, true))),
        ("DenyAllRequests", None),
        ("DenyAllRequests=yes", None),
    ] {
        assert_eq!(gates(text), outcome, "{text}");
    }
}

#[test]
fn rules_that_ask_who_it_is_are_told_where_nobody_knows() {
    let warnings = |portcullis: Value, rule: &str| -> Vec<Warnings> {
        let rule = format!("[{{rules: [{{verbs: [get], apiGroups: [''], resources: [pods], {rule}}}]}}]");
        let spec = json!({"portcullis": portcullis, "dispatchPolicies": yaml(&rule)});
        let mut warnings = codes(&warned(spec));
        warnings.retain(|(code, _)| *code == ProblemCode::Caution);
        warnings
    };
    let unreviewed = json!({"upstreamIdentity": "RequestHeader", "requestHeader": {"tokenReview": false}});
    let reviewed = json!({"upstreamIdentity": "RequestHeader"});
    for (rule, field) in [
        ("users: [a]", Some("users")),
        ("users: [-a]", Some("users")),
        ("serviceAccounts: [{namespace: a, name: b}]", Some("serviceAccounts")),
        ("userGroups: [a]", Some("userGroups")),
        ("users: ['*'], userGroups: [-a]", Some("userGroups")),
        ("users: ['*'], serviceAccounts: [{namespace: a, name: b}]", None),
        ("users: ['*'], userGroups: ['*']", None),
        ("namespaces: [a]", None),
    ] {
        // Whatever the rules say, such tokens cost connections.
        let costs = "spec.portcullis.requestHeader.tokenReview".to_owned();
        let field = field.map(|field| format!("spec.dispatchPolicies[0].rules[0].{field}"));
        let expected: Vec<Warnings> =
            std::iter::once(costs).chain(field).map(|path| (ProblemCode::Caution, path)).collect();
        assert_eq!(warnings(unreviewed.clone(), rule), expected, "{rule}");
        assert_eq!(warnings(reviewed.clone(), rule), [], "{rule}");
    }
}

#[test]
fn tunnels_for_every_address_are_pointed_out() {
    let found = |tunnel: Value| {
        let mut raw = json!({"apiVersion": crate::SETTINGS_API_VERSION, "kind": crate::SETTINGS_KIND});
        raw["metadata"] = json!({"name": "a"});
        raw["spec"] = json!({"instance": "a", "listener": {"port": 6443, "tunnel": tunnel}});
        let raw = crate::parse::parse_settings(&raw).unwrap();
        crate::lint_settings(&raw, 0).into_iter().map(|one| one.path).collect::<Vec<_>>()
    };
    assert_eq!(found(json!({"port": 1})), ["spec.listener.tunnel.trustedSources"]);
    assert_eq!(found(json!({"port": 1, "trustedSources": ["10.0.0.0/8"]})), [""; 0]);
}
