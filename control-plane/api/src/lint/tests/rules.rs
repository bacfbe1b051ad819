use super::*;

/// A rule as it is good, with fields of the row's own.
fn rule(fields: &str) -> Vec<Problem> {
    let mut rule = yaml("{verbs: [get], apiGroups: [''], resources: [pods]}");
    for (name, value) in yaml(fields).as_object().unwrap() {
        rule[name] = value.clone();
    }
    warned(with_default(&format!("[{{rules: [{rule}]}}]")))
}

#[test]
fn entry_that_cannot_match_or_count_is_reported() {
    use ProblemCode::{BesideWildcard, MixedEntries, NeverMatches, NoEffect, NoPattern};
    for (fields, code, field) in [
        ("verbs: []", NeverMatches, ".verbs"),
        ("resources: []", NeverMatches, ".resources"),
        ("apiGroups: []", NeverMatches, ".apiGroups"),
        ("{apiGroups: [], resources: []}", NeverMatches, ""),
        ("namespaces: ['-*']", NeverMatches, ""),
        ("namespaces: ['-*']", NeverMatches, ".namespaces[0]"),
        ("verbs: ['-get', list]", MixedEntries, ".verbs[0]"),
        ("users: [alice, -bob]", MixedEntries, ".users[1]"),
        ("verbs: [get, '*', list]", BesideWildcard, ".verbs[2]"),
        ("userGroups: ['*', '*']", BesideWildcard, ".userGroups[1]"),
        ("verbs: [get, get]", NoEffect, ".verbs[1]"),
        ("verbs: ['get,list']", NeverMatches, ".verbs[0]"),
        ("resources: [' pods']", NeverMatches, ".resources[0]"),
        ("verbs: [GET]", NeverMatches, ".verbs[0]"),
        ("verbs: [get, post]", NeverMatches, ".verbs[1]"),
        ("verbs: [head]", NeverMatches, ".verbs[0]"),
        ("verbs: [impersonate]", NeverMatches, ".verbs[0]"),
        ("{apiGroups: [], resources: [], nonResourceURLs: [/a], verbs: [get, list]}", NeverMatches, ".verbs[1]"),
        ("apiGroups: [core]", NeverMatches, ".apiGroups[0]"),
        ("apiGroups: [apps, apps/v1]", NeverMatches, ".apiGroups[1]"),
        ("apiGroups: [v1]", NeverMatches, ".apiGroups[0]"),
        ("apiGroups: [Apps]", NeverMatches, ".apiGroups[0]"),
        ("apiGroups: ['*.k8s.io']", NoPattern, ".apiGroups[0]"),
        ("apiVersions: [apps/v1]", NeverMatches, ".apiVersions[0]"),
        ("resources: [Pod]", NeverMatches, ".resources[0]"),
        ("resources: [nodes, pod]", NeverMatches, ".resources[1]"),
        ("resources: [svc/status]", NeverMatches, ".resources[0]"),
        ("resources: [deployments.apps]", NeverMatches, ".resources[0]"),
        ("resources: [pods/*]", NeverMatches, ".resources[0]"),
        ("resources: ['*/*']", NeverMatches, ".resources[0]"),
        ("resources: [pods/]", NeverMatches, ".resources[0]"),
        ("resources: ['-*']", NeverMatches, ".resources[0]"),
        ("resourceNames: ['a*']", NoPattern, ".resourceNames[0]"),
        ("userGroups: ['system:*']", NoPattern, ".userGroups[0]"),
        ("users: ['*:admin']", NoPattern, ".users[0]"),
        ("namespaces: ['team-*']", NoPattern, ".namespaces[0]"),
        ("namespaces: [Team]", NeverMatches, ".namespaces[0]"),
        ("users: ['']", NeverMatches, ".users[0]"),
        ("userGroups: [dev, '']", NeverMatches, ".userGroups[1]"),
        ("serviceAccounts: [{name: a}]", NeverMatches, ".serviceAccounts[0]"),
        ("serviceAccounts: [{name: a, namespace: b}, {namespace: b}]", NeverMatches, ".serviceAccounts[1]"),
        ("serviceAccounts: [{name: '*', namespace: b}]", NeverMatches, ".serviceAccounts[0]"),
        ("serviceAccounts: [{name: a, namespace: b.c}]", NeverMatches, ".serviceAccounts[0]"),
        ("{verbs: [get, create], resourceNames: [a]}", NeverMatches, ".verbs[1]"),
        ("{verbs: [deletecollection], resources: [pods/log], resourceNames: [a]}", NeverMatches, ".verbs[0]"),
        ("nonResourceURLs: [healthz]", NeverMatches, ".nonResourceURLs[0]"),
        ("nonResourceURLs: [-/metrics]", NeverMatches, ".nonResourceURLs"),
        ("nonResourceURLs: [-/metrics, '-*']", NeverMatches, ".nonResourceURLs[1]"),
        ("nonResourceURLs: [-/metrics, /a]", MixedEntries, ".nonResourceURLs[0]"),
        ("nonResourceURLs: [/a, '*/b']", NeverMatches, ".nonResourceURLs[1]"),
        ("nonResourceURLs: ['']", NeverMatches, ".nonResourceURLs[0]"),
        ("nonResourceURLs: [/api/v1/pods]", NeverMatches, ".nonResourceURLs[0]"),
        ("nonResourceURLs: ['/apis/apps/v1/d*']", NeverMatches, ".nonResourceURLs[0]"),
    ] {
        let warnings = codes(&rule(fields));
        let wanted = (code, format!("spec.dispatchPolicies[0].rules[0]{field}"));
        assert!(warnings.contains(&wanted), "{fields}: {warnings:?}");
    }
}

#[test]
fn difference_to_kubegateway_is_reported() {
    for (fields, field) in [
        ("resources: [-pods, -deployments]", ".resources"),
        ("verbs: [-get, -list]", ".verbs"),
        ("users: [-alice, -bob]", ".users"),
        ("resources: ['-*/status']", ".resources[0]"),
        ("users: ['-system:node:*']", ".users[0]"),
        ("resources: ['-*']", ".resources[0]"),
        ("userGroups: [-dev]", ".userGroups"),
        ("resourceNames: ['']", ".resourceNames[0]"),
        ("namespaces: [default]", ".namespaces"),
        ("apiVersions: [v1]", ".apiVersions"),
    ] {
        let warnings = codes(&rule(fields));
        let wanted = (ProblemCode::DiffersFromKubegateway, format!("spec.dispatchPolicies[0].rules[0]{field}"));
        assert!(warnings.contains(&wanted), "{fields}: {warnings:?}");
    }
}

#[test]
fn policy_that_decides_only_here_is_reported() {
    for (portcullis, field) in [("{mode: Shadow}", "mode"), ("{action: Deny}", "action"), ("{}", "")] {
        let rule = "{verbs: [get], apiGroups: [apps], resources: [deployments]}";
        let policy = format!("{{rules: [{rule}], portcullis: {portcullis}}}");
        let found: Vec<_> = codes(&warned(with_default(&format!("[{policy}]"))))
            .into_iter()
            .filter(|(code, _)| *code == ProblemCode::DiffersFromKubegateway)
            .map(|(_, path)| path)
            .collect();
        let wanted = (!field.is_empty()).then(|| format!("spec.dispatchPolicies[0].portcullis.{field}"));
        assert_eq!(found, Vec::from_iter(wanted), "{portcullis}");
    }
}

#[test]
fn sensible_rules_lead_to_no_finding() {
    for fields in [
        "{}",
        "verbs: [get, list, watch, create, update, patch, delete, deletecollection, proxy]",
        "verbs: [-get]",
        "{nonResourceURLs: [/healthz, '/livez*', /api, '/api/v1/', '/apis/apps/v1'], verbs: [get, post, create]}",
        "resources: [pods/log, '*/status', customthings]",
        "resources: [-pods]",
        "users: [alice, 'system:node:*']",
        "users: [-alice]",
        "{verbs: [get, delete], resourceNames: [a]}",
        "{verbs: [create], resources: [pods/exec], resourceNames: [a]}",
        "serviceAccounts: [{name: a.b, namespace: c}]",
        "userGroups: ['system:serviceaccounts:kube-system']",
        "apiGroups: ['*']",
        "namespaces: ['*']",
    ] {
        assert_eq!(rule(fields), [], "{fields}");
    }
}

#[test]
fn hints_name_what_is_meant() {
    for (fields, hint) in [
        ("verbs: [POST]", "write create"),
        ("resources: [Deployment/scale]", "write deployments/scale"),
        ("resources: [deploy]", "write deployments"),
        ("resources: [deployments.apps/status]", "write deployments/status, and apps into apiGroups"),
        ("apiGroups: [core]", "the core group is \"\""),
        ("nonResourceURLs: [healthz]", "write /healthz"),
    ] {
        let warnings = rule(fields);
        assert!(warnings.iter().any(|warnings| warnings.hint.as_deref() == Some(hint)), "{fields}: {warnings:?}");
    }
}
