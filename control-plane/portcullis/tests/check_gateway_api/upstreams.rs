//! `KubernetesUpstreams`, with their routes and policies.

use serde_json::{Value, json};

use super::{CLUSTER, GATEWAY, GRANT, NAMESPACE, ROUTE, assert_has, check, run, tls_gateway};

const UPSTREAM: &str = "\
apiVersion: portcullis.dev/v1alpha1
kind: KubernetesUpstream
metadata: {name: prod, namespace: team-a}
spec:
  servers: [{endpoint: https://10.0.0.1:6443}]
  serverName: kubernetes.default.svc
  references:
    upstreamCA: {configMap: {name: servers}}
    client: {secret: {name: gateway}}
";

const UPSTREAM_GRANT: &str = "\
apiVersion: gateway.networking.k8s.io/v1
kind: ReferenceGrant
metadata: {name: gateways, namespace: team-a}
spec:
  from: [{group: gateway.networking.k8s.io, kind: Gateway, namespace: infra}]
  to: [{group: portcullis.dev, kind: KubernetesUpstream}]
";

/// The route to the upstream of its namespace.
fn upstream_route() -> String {
    ROUTE.replace(
        "group: proxy.kubegateway.io, kind: UpstreamCluster, name: prod.test",
        "group: portcullis.dev, kind: KubernetesUpstream, name: prod",
    )
}

#[test]
fn upstream_of_a_tenant_is_checked_with_its_routes() {
    let route = upstream_route();
    let (code, lines) = check(&[GATEWAY, NAMESPACE, &route, UPSTREAM, UPSTREAM_GRANT], &["--strict"]);
    assert_eq!(code, Some(0), "{}", lines.join("\n"));
    for wanted in [
        "KubernetesUpstream team-a/prod: Accepted",
        "  Accepted True Accepted",
        "  ResolvedRefs True ResolvedRefs",
        "  parent g: ResolvedRefs True ResolvedRefs",
        "note: Secret team-a/gateway is not read, also if it is among the objects; it is assumed to exist",
        "note: ConfigMap team-a/servers is not read, also if it is among the objects; it is assumed to exist",
        "checked: 4 objects, 0 errors, 0 warnings",
    ] {
        assert_has(&lines, wanted);
    }
    let (code, lines) = check(&[UPSTREAM], &[]);
    assert_eq!(code, Some(0), "alone: {}", lines.join("\n"));
    let (code, lines) = check(&[GATEWAY, NAMESPACE, &route, UPSTREAM], &[]);
    assert_eq!(code, Some(1));
    assert_has(
        &lines,
        "all.yaml:21:16: error: spec.parentRefs[0]: parent g: RefNotPermitted: no ReferenceGrant in namespace team-a permits Gateways",
    );
    for (why, upstream, finding) in [
        (
            "a DNS name",
            UPSTREAM.replace("10.0.0.1", "a.test"),
            "all.yaml:5:24: error: spec.servers[0].endpoint: must have an IP address",
        ),
        (
            "loopback",
            UPSTREAM.replace("10.0.0.1", "127.0.0.1"),
            "all.yaml:5:24: error: spec.servers[0].endpoint: a loopback address",
        ),
        (
            "no name",
            UPSTREAM.replace("  serverName: kubernetes.default.svc\n", ""),
            "all.yaml:4:1: error: spec.serverName: is required",
        ),
        ("a policy", UPSTREAM.to_owned() + "  dispatchPolicies: []\n", "all.yaml:10:3: error: spec.dispatchPolicies: "),
        (
            "a misspelt kind",
            UPSTREAM.replace("KubernetesUpstream", "KubernetesUpstreams"),
            "all.yaml:2:7: error: kind: ",
        ),
    ] {
        let (code, lines) = check(&[&upstream], &[]);
        assert_eq!(code, Some(1), "{why}: {}", lines.join("\n"));
        assert_has(&lines, finding);
    }
    let wrong = UPSTREAM.replace("10.0.0.1", "127.0.0.1");
    let (_, lines) = check(&[GATEWAY, NAMESPACE, &route, &wrong, UPSTREAM_GRANT], &[]);
    assert!(lines.iter().any(|line| line.contains("TerminationRefused")), "{}", lines.join("\n"));
    let (_, lines) = check(&[UPSTREAM, UPSTREAM], &[]);
    assert!(lines.iter().any(|line| line.contains("another one has the same name")), "{}", lines.join("\n"));
}

/// The words of the control plane's conditions are there offline, too.
#[test]
fn connections_and_discovery_of_upstreams_are_refused_by_name() {
    let tls_route = upstream_route().replace("HTTPRoute", "TLSRoute");
    let (code, lines) = check(&[&tls_gateway(), &tls_route, UPSTREAM, UPSTREAM_GRANT], &[]);
    assert_eq!(code, Some(1));
    let why = "InvalidKind: spec.rules[0].backendRefs[0]: no connection is passed on to a KubernetesUpstream";
    assert!(lines.iter().any(|line| line.contains(why)), "{}", lines.join("\n"));
    let discovers = UPSTREAM.to_owned() + "  discovery: {service: {name: kube-apiserver}}\n";
    let (code, lines) = check(&[&discovers], &[]);
    assert_eq!(code, Some(1));
    assert_has(&lines, "all.yaml:10:3: error: spec.discovery: ");
}

fn policy(kind: &str, target: &str, fields: &str) -> String {
    format!(
        "apiVersion: portcullis.dev/v1alpha1\nkind: {kind}\nmetadata: {{name: {}, namespace: team-a}}\nspec:\n  targetRefs: [{target}]\n  overrides:\n{fields}",
        kind.to_lowercase()
    )
}

#[test]
fn policies_of_an_upstream_are_checked_with_it() {
    let at = "{group: portcullis.dev, kind: KubernetesUpstream, name: prod}";
    let rules = "{verbs: ['*'], apiGroups: ['*'], resources: ['*'], nonResourceURLs: ['*']}";
    let dispatch =
        |more: &str| policy("DispatchPolicy", at, &format!("    dispatchPolicies: [{{rules: [{rules}]{more}}}]\n"));
    let schema = "{name: few, maxRequestsInflight: {max: 5}}";
    let limits = policy("FlowControlPolicy", at, &format!("    flowControl: {{flowControlSchemas: [{schema}]}}\n"));
    let route = upstream_route();
    let base = [GATEWAY, NAMESPACE, &route, UPSTREAM, UPSTREAM_GRANT];
    let few = dispatch(", flowControlSchemaName: few");
    let (code, lines) = check(&[&base[..], &[&few, &limits]].concat(), &["--strict"]);
    assert_eq!(code, Some(0), "{}", lines.join("\n"));
    for wanted in [
        "KubernetesUpstream team-a/prod: Accepted",
        "  portcullis.dev/DispatchPolicyAffected True DispatchPolicy team-a/dispatchpolicy decides (overrides of the object's own namespace",
        "  portcullis.dev/FlowControlPolicyAffected True FlowControlPolicy team-a/flowcontrolpolicy decides",
        "FlowControlPolicy team-a/flowcontrolpolicy: Accepted",
        "  target KubernetesUpstream prod: Accepted True Accepted",
        "  parent g: ResolvedRefs True ResolvedRefs",
    ] {
        assert_has(&lines, wanted);
    }
    let users = policy("UpstreamIdentityPolicy", at, "    allowAnonymous: false\n");
    for (case, policies, is_closed, wanted) in [
        ("a limit that is not there", vec![&few], true, "of DispatchPolicy team-a/dispatchpolicy: "),
        ("users", vec![&users], false, "users are decided by the fields of the KubernetesUpstream itself"),
        (
            "a subset",
            vec![&dispatch(", upstreamSubset: ['https://10.0.0.1:6443']")],
            true,
            "strategy and upstreamSubset",
        ),
    ] {
        let policies: Vec<&str> = policies.into_iter().map(String::as_str).collect();
        let (code, lines) = check(&[&base[..], &policies].concat(), &[]);
        let text = lines.join("\n");
        assert_eq!(code, Some(1), "{case}: {text}");
        assert!(text.contains(wanted), "{case}: {wanted} in {text}");
        assert_eq!(text.contains("TerminationRefused"), is_closed, "{case}: {text}");
    }
}

/// By the host name of a route, whatever clusters are beside it.
#[test]
fn requests_for_an_upstream_are_explained_by_its_policies() {
    let at = "{group: portcullis.dev, kind: KubernetesUpstream, name: prod}";
    let all = "rules: [{verbs: ['*'], apiGroups: ['*'], resources: ['*'], nonResourceURLs: ['*']}]";
    let denial = "{rules: [{verbs: [delete], apiGroups: ['*'], resources: ['*']}], portcullis: {action: Deny}}";
    let dispatch = |more: &str| {
        let policies = format!("    dispatchPolicies: [{denial}, {{{all}, flowControlSchemaName: few{more}}}]\n");
        policy("DispatchPolicy", at, &policies)
    };
    let limits = "    flowControl: {flowControlSchemas: [{name: few, maxRequestsInflight: {max: 5}}]}\n";
    let (dispatch, wrong) = (dispatch(""), dispatch(", strategy: Random"));
    let limits = policy("FlowControlPolicy", at, limits);
    let route = upstream_route();
    let gateway = GATEWAY.replace("from: Selector, selector: {matchLabels: {team: a}}", "from: All");
    let explain = |policies: &[&str], method: &str| -> Value {
        let base = [&gateway, &route, UPSTREAM, UPSTREAM_GRANT, CLUSTER];
        let arguments = [method, "/api/v1/namespaces/a/pods/b", "--host", "a.test", "--user", "alice", "-o", "json"];
        let (_, lines) = run("explain", &[&base[..], policies].concat(), &arguments);
        serde_json::from_str(&lines.join("\n")).unwrap_or_else(|error| panic!("{error}: {}", lines.join("\n")))
    };
    let answer = explain(&[&dispatch, &limits], "GET");
    assert_eq!(answer["dispatch"]["upstreamCluster"], "team-a/prod", "{answer:#}");
    assert_eq!(answer["dispatch"]["decidedBy"], "DispatchPolicy team-a/dispatchpolicy", "{answer:#}");
    assert!(answer["dispatch"].to_string().contains("few"), "{answer:#}");
    let roles: Vec<&Value> = answer["policies"].as_array().unwrap().iter().map(|one| &one["role"]).collect();
    assert_eq!(roles, [&json!("decides"), &json!("decides")], "{answer:#}");
    let answer = explain(&[&dispatch, &limits], "DELETE");
    assert_eq!(answer["refusal"]["code"], 403, "{answer:#}");
    let answer = explain(&[], "DELETE");
    assert_eq!(answer["dispatch"]["upstreamCluster"], "team-a/prod", "all requests: {answer:#}");
    let answer = explain(&[&wrong, &limits], "GET");
    let error = answer["error"].as_str().unwrap_or_default();
    assert!(
        error.contains("KubernetesUpstream team-a/prod is refused, and requests of its routes get 500"),
        "{answer:#}"
    );
}

/// A denial of the Gateway that asks for the user, at an upstream whose servers find that out.
#[test]
fn policy_that_does_not_fit_an_upstream_closes_its_route() {
    let at = "{group: gateway.networking.k8s.io, kind: Gateway, name: g}";
    let rule = "{verbs: ['*'], apiGroups: ['*'], resources: ['*'], userGroups: [contractors]}";
    let denial = format!("    dispatchPolicies: [{{rules: [{rule}], portcullis: {{action: Deny}}}}]\n");
    let denial = policy("DispatchPolicy", at, &denial).replace("namespace: team-a", "namespace: infra");
    let by_header = UPSTREAM.replace("  serverName:", "  upstreamIdentity: RequestHeader\n  serverName:");
    let route = upstream_route();
    for (upstream, is_open) in [(UPSTREAM, true), (by_header.as_str(), false)] {
        let (code, lines) = check(&[GATEWAY, NAMESPACE, &route, upstream, UPSTREAM_GRANT, &denial], &[]);
        let text = lines.join("\n");
        assert_eq!(code == Some(0), is_open, "{text}");
        assert_eq!(text.contains("UnsupportedPolicies"), !is_open, "{text}");
        assert_eq!(text.contains("DispatchPolicy infra/dispatchpolicy closes the route"), !is_open, "{text}");
    }
    let open = GATEWAY.replace("from: Selector, selector: {matchLabels: {team: a}}", "from: All");
    let own = route.replace("[a.test]", "[a.test, '*.a.test']");
    let wide = ROUTE.replace("name: r,", "name: wide,").replace("[a.test]", "['*.test']");
    let objects = [open.as_str(), &own, &by_header, UPSTREAM_GRANT, &denial];
    let beside = [&objects[..], &[wide.as_str(), GRANT, CLUSTER]].concat();
    let explain = |objects: &[&str], host: &str| -> Value {
        let (_, lines) = run("explain", objects, &["GET", "/version", "--host", host, "--user", "alice", "-o", "json"]);
        serde_json::from_str(&lines.join("\n")).unwrap_or_else(|error| panic!("{error}: {}", lines.join("\n")))
    };
    for (objects, hosts) in
        [(&objects[..], &["a.test", "x.a.test"][..]), (&beside[..], &["a.test", "x.a.test", "x.y.a.test"])]
    {
        for host in hosts {
            let answer = explain(objects, host);
            let error = answer["error"].as_str().unwrap_or_default();
            let why = "DispatchPolicy infra/dispatchpolicy: KubernetesUpstream team-a/prod";
            assert!(error.contains(why), "{host}: {answer:#}");
        }
    }
    let answer = explain(&beside, "b.test");
    assert_eq!(answer["dispatch"]["upstreamCluster"], "prod.test", "{answer:#}");
    // The connection is the route's by its server name, and the filter takes one label of a wildcard.
    let answer = explain(&beside, "x.b.test");
    assert_eq!(answer["refusal"]["code"], 421, "{answer:#}");
}

/// As at a listener, where the wider route has none of its requests.
#[test]
fn closest_route_that_leads_nowhere_is_explained_as_such() {
    let gateway = GATEWAY.replace("from: Selector, selector: {matchLabels: {team: a}}", "from: All");
    let wide = ROUTE.replace("name: r,", "name: wide,").replace("[a.test]", "['*.test']");
    let to = |name: &str| ROUTE.replace("name: prod.test", &format!("name: {name}"));
    let not_permitted = to("other.test");
    let other = CLUSTER.replace("name: prod.test", "name: other.test");
    let absent_grant =
        GRANT.replace("name: to-prod,", "name: to-other,").replace("name: prod.test", "name: other.test");
    let refused = ROUTE.replace("  - backendRefs:", "  - filters: [{type: RequestMirror}]\n    backendRefs:");
    let upstream = upstream_route();
    for (why, objects, expected) in [
        (
            "a backend without a grant",
            &[not_permitted.as_str(), &other][..],
            "HTTPRoute team-a/r has no backend that can be used, and its requests get 500",
        ),
        (
            "a cluster that is not there",
            &[&not_permitted, &absent_grant],
            "HTTPRoute team-a/r leads to UpstreamCluster other.test, which is not among the objects",
        ),
        (
            "an upstream that is not there",
            &[&upstream, UPSTREAM_GRANT],
            "HTTPRoute team-a/r leads to KubernetesUpstream team-a/prod, which is not among the objects",
        ),
        (
            "a route that is not accepted",
            &[&refused],
            "the name leads nowhere at listener https of Gateway infra/g: its route is not accepted",
        ),
    ] {
        let all = [&[gateway.as_str(), &wide, GRANT, CLUSTER][..], objects].concat();
        let explain = |host: &str| -> Value {
            let line = ["GET", "/version", "--host", host, "--user", "alice", "-o", "json"];
            let (_, lines) = run("explain", &all, &line);
            serde_json::from_str(&lines.join("\n")).unwrap_or_else(|error| panic!("{error}: {}", lines.join("\n")))
        };
        let answer = explain("a.test");
        assert!(answer["error"].as_str().unwrap_or_default().contains(expected), "{why}: {answer:#}");
        assert!(answer["dispatch"].is_null(), "{why}: {answer:#}");
        let answer = explain("b.test");
        assert_eq!(answer["dispatch"]["upstreamCluster"], "prod.test", "{why}: {answer:#}");
    }
}
