use serde_json::{Value, json};

use super::Accepted::{self, Both, Here, Neither, There};
use super::Keys;

/// The subject of a case, a merge patch, and the programs that accept the outcome.
type Case = (&'static str, Value, Accepted);

const NOT_PLAIN: &str = "servers that are not plain";
const LEADS_HOME: &str = "servers at loopback";
const KEYS: &str = "keys and certificates";
const NAME: &str = "`metadata.name`";

pub(crate) fn all(keys: &Keys) -> Vec<Case> {
    [metadata(), servers(), client(keys), pairs(keys), serving(keys), limits(), policies(), rules()]
        .into_iter()
        .flatten()
        .collect()
}

fn spec(patch: Value) -> Value {
    json!({"spec": patch})
}

fn metadata() -> Vec<Case> {
    let named = |name: &str| json!({"metadata": {"name": name}});
    let gates = |text: &str| json!({"metadata": {"annotations": {"proxy.kubegateway.io/feature-gates": text}}});
    vec![
        ("nothing changed", json!({}), Both),
        ("a name with capitals", named("A.test"), Neither),
        ("a name with an underscore", named("a_b.test"), Neither),
        ("no name", named(""), Neither),
        ("a name that is an address", named("10.0.0.1"), There(NAME)),
        ("a name that ends in a number", named("a.1"), There(NAME)),
        ("a long label", named(&format!("{}.test", "a".repeat(64))), There(NAME)),
        ("a namespace", json!({"metadata": {"namespace": "x"}}), Both),
        ("labels and a status", json!({"metadata": {"labels": {"a": "b"}}, "status": {}}), Both),
        ("feature gates", gates("DenyAllRequests=true,Tracing=false"), Both),
        ("a feature gate that does not exist", gates("X=true"), Both),
        ("feature gates that cannot be read", gates("DenyAllRequests"), There("an annotation")),
        ("a field that does not exist", spec(json!({"serverz": []})), There("a field that does not exist")),
    ]
}

fn servers() -> Vec<Case> {
    let at = |endpoints: &[&str]| {
        spec(json!({"servers": endpoints.iter().map(|one| json!({"endpoint": one})).collect::<Vec<_>>()}))
    };
    let many: Vec<_> = (0..1_001).map(|number| format!("https://10.0.{}.{}", number / 256, number % 256)).collect();
    let many: Vec<_> = many.iter().map(String::as_str).collect();
    vec![
        ("no servers", at(&[]), Neither),
        ("no list of servers", spec(json!({"servers": null})), Neither),
        ("no scheme", at(&["10.0.0.1:6443"]), Neither),
        ("a scheme in capitals", at(&["HTTPS://10.0.0.1:6443"]), Neither),
        ("another scheme", at(&["tcp://10.0.0.1:6443"]), Neither),
        ("an empty endpoint", at(&[""]), Neither),
        ("two schemes", at(&["https://10.0.0.1", "http://10.0.0.2"]), Neither),
        ("a server without TLS", at(&["http://10.0.0.1"]), There("servers with `http://`")),
        ("a server twice", at(&["https://10.0.0.1", "https://10.0.0.1"]), Both),
        ("a server by name, with a path", at(&["https://kube.example.com/a"]), Both),
        ("a server over IPv6", at(&["https://[2001:db8::1]:6443"]), Both),
        ("a disabled server", spec(json!({"servers": [{"endpoint": "https://10.0.0.1", "disabled": true}]})), Both),
        ("user information", at(&["https://user@10.0.0.1"]), There(NOT_PLAIN)),
        ("a query", at(&["https://10.0.0.1?a"]), There(NOT_PLAIN)),
        ("a host that is none", at(&["https://a_b.test"]), There(NOT_PLAIN)),
        ("a number for an address", at(&["https://0x7f000001"]), There(NOT_PLAIN)),
        ("loopback", at(&["https://127.0.0.1"]), There(LEADS_HOME)),
        ("a cloud's metadata", at(&["https://169.254.169.254"]), There(LEADS_HOME)),
        ("the same by NAT64", at(&["https://[64:ff9b::169.254.169.254]"]), There(LEADS_HOME)),
        ("more servers than one object may have", at(&many), There("more than 1,000 servers")),
    ]
}

fn client(keys: &Keys) -> Vec<Case> {
    let with = |patch: Value| spec(json!({"clientConfig": patch}));
    vec![
        ("insecure", with(json!({"insecure": true, "caData": null})), Both),
        ("insecure with a CA", with(json!({"insecure": true})), There("`clientConfig.insecure` with `caData`")),
        ("neither secure nor insecure", with(json!({"caData": null})), Neither),
        ("a CA that is none", with(json!({"caData": "eA=="})), Neither),
        ("nothing to show to servers", with(json!({"bearerToken": null})), Neither),
        ("a certificate without its key", with(json!({"certData": keys.cert})), Neither),
        ("a key without its certificate", with(json!({"keyData": keys.key})), Neither),
        ("a negative qps", with(json!({"qps": -1})), Neither),
        ("a negative burst", with(json!({"burst": -1})), Neither),
        ("a negative divisor", with(json!({"qpsDivisor": -1})), Neither),
        ("a burst below qps", with(json!({"qps": 5, "burst": 4})), Neither),
        ("a burst as high as qps", with(json!({"qps": 5, "burst": 5, "qpsDivisor": 2})), Both),
        ("a burst without qps", with(json!({"burst": 5})), Both),
        ("a server name", with(json!({"serverName": "kubernetes"})), Both),
        ("a server name that is an address", with(json!({"serverName": "10.0.0.1"})), Both),
        ("a server name that is none", with(json!({"serverName": "a_b"})), There(NOT_PLAIN)),
        ("a token that no header carries", with(json!({"bearerToken": "YSBi"})), There(KEYS)),
    ]
}

fn pairs(keys: &Keys) -> Vec<Case> {
    let pair = |cert: &str, key: &str| json!({"certData": cert, "keyData": key});
    let client = |cert: &str, key: &str| spec(json!({"clientConfig": pair(cert, key)}));
    let serving = |cert: &str, key: &str| spec(json!({"secureServing": pair(cert, key)}));
    let (ed_cert, ed_key) = &keys.ed25519;
    vec![
        ("a client pair", client(&keys.cert, &keys.key), Both),
        ("a client pair that does not fit", client(&keys.cert, &keys.other_key), Neither),
        ("a client pair that is none", client("eA==", "eA=="), Neither),
        ("a client key of another kind", client(ed_cert, ed_key), There(KEYS)),
        ("a serving pair", serving(&keys.cert, &keys.key), Both),
        ("a serving pair that does not fit", serving(&keys.cert, &keys.other_key), Neither),
        ("a serving key of another kind", serving(ed_cert, ed_key), There(KEYS)),
    ]
}

fn serving(keys: &Keys) -> Vec<Case> {
    let with = |patch: Value| spec(json!({"secureServing": patch}));
    let many: Vec<_> = (0..257).map(|number| format!("n{number}.test")).collect();
    vec![
        ("half of a serving pair", with(json!({"certData": keys.cert})), Both),
        ("the other half", with(json!({"keyData": keys.key})), Both),
        ("half of a pair that cannot be read", with(json!({"certData": "eA=="})), Both),
        ("a client CA", with(json!({"clientCAData": keys.cert})), Both),
        ("a client CA that is none", with(json!({"clientCAData": "eA=="})), Neither),
        ("more host names", with(json!({"serverNames": ["b.test", "B.test"]})), Both),
        ("host names that nobody can ask for", with(json!({"serverNames": ["*", "A_B", ""]})), Both),
        ("more names than one object may have", with(json!({"serverNames": many})), There("more than 1,000 servers")),
    ]
}

fn limits() -> Vec<Case> {
    let with = |schemas: Value| spec(json!({"flowControl": {"flowControlSchemas": schemas}}));
    let one = |mut limit: Value| {
        limit["name"] = json!("a");
        with(json!([limit]))
    };
    let bucket = |qps: i64, burst: i64| json!({"qps": qps, "burst": burst});
    let inflight = |max: i64| json!({"max": max});
    let shared = |count: usize, name: usize| {
        let limit = |number: usize| {
            json!({"name": format!("{number:0>name$}"), "strategy": "globalCount", "tokenBucket": bucket(1, 1),
                "globalTokenBucket": bucket(2, 2)})
        };
        with((0..count).map(limit).collect())
    };
    vec![
        ("a limit without a name", with(json!([{"exempt": {}}])), Neither),
        ("a limit twice", with(json!([{"name": "a", "exempt": {}}, {"name": "a", "exempt": {}}])), Neither),
        ("a limit of no kind", one(json!({})), Neither),
        ("a limit of two kinds", one(json!({"exempt": {}, "tokenBucket": bucket(1, 1)})), Neither),
        ("two other kinds", one(json!({"maxRequestsInflight": inflight(1), "tokenBucket": bucket(1, 1)})), Neither),
        ("exempt", one(json!({"exempt": {}})), Both),
        ("no request at all", one(json!({"maxRequestsInflight": inflight(0)})), Both),
        ("less than none", one(json!({"maxRequestsInflight": inflight(-1)})), Neither),
        ("a bucket", one(json!({"tokenBucket": bucket(5, 5)})), Both),
        ("a bucket that is never filled", one(json!({"tokenBucket": bucket(0, 5)})), Neither),
        ("a bucket that is too small", one(json!({"tokenBucket": bucket(5, 4)})), Neither),
        ("a bucket without a size", one(json!({"tokenBucket": {"qps": 5}})), Neither),
        ("a bucket that loses", one(json!({"tokenBucket": bucket(-1, 1)})), There("negative `tokenBucket.qps`")),
        ("a global limit", one(json!({"tokenBucket": bucket(1, 1), "globalTokenBucket": bucket(2, 2)})), Both),
        ("a global limit alone", one(json!({"globalTokenBucket": bucket(2, 2)})), Neither),
        (
            "a global limit below the local one",
            one(json!({"tokenBucket": bucket(3, 3), "globalTokenBucket": bucket(2, 2)})),
            Neither,
        ),
        (
            "fewer in all than in one place",
            one(json!({"maxRequestsInflight": inflight(3), "globalMaxRequestsInflight": inflight(2)})),
            Neither,
        ),
        ("a strategy of limits", one(json!({"exempt": {}, "strategy": "globalCount"})), Both),
        ("as many limits of all gateways as may be", shared(64, 63), Both),
        ("more limits of all gateways", shared(65, 8), There("more than 64 limits of all gateways")),
        ("a long name of a limit of all gateways", shared(1, 64), There("more than 64 limits of all gateways")),
        ("a strategy of limits that does not exist", one(json!({"exempt": {}, "strategy": "x"})), Neither),
    ]
}

fn policies() -> Vec<Case> {
    let with = |mut policy: Value| {
        if policy.get("rules").is_none() {
            policy["rules"] = json!([{"verbs": ["*"], "nonResourceURLs": ["*"]}]);
        }
        spec(json!({"dispatchPolicies": [policy]}))
    };
    vec![
        ("no policies", spec(json!({"dispatchPolicies": []})), Neither),
        ("a policy without rules", with(json!({"rules": []})), Neither),
        ("round robin", with(json!({"strategy": "RoundRobin"})), Both),
        ("no strategy", with(json!({"strategy": ""})), Both),
        ("the least busy server", with(json!({"strategy": "LeastRequest"})), Here),
        ("any server", with(json!({"strategy": "Random"})), Here),
        ("a strategy that does not exist", with(json!({"strategy": "Fastest"})), Neither),
        ("a subset", with(json!({"upstreamSubset": ["https://10.0.0.1:6443"]})), Both),
        ("a subset as documents spell it", with(json!({"upsteamSubset": ["https://10.0.0.1:6443"]})), Both),
        ("a subset with a stranger", with(json!({"upstreamSubset": ["https://10.0.0.3:6443"]})), Neither),
        ("a member spelt otherwise", with(json!({"upstreamSubset": ["https://10.0.0.1:6443/"]})), Neither),
        ("a limit that is not there", with(json!({"flowControlSchemaName": "x"})), Neither),
        ("a log mode", with(json!({"logMode": "on"})), Both),
        ("a log mode that does not exist", with(json!({"logMode": "loud"})), Neither),
        ("a cluster's log mode", spec(json!({"logging": {"mode": "off"}})), Both),
        ("a cluster's log mode that does not exist", spec(json!({"logging": {"mode": "loud"}})), Neither),
    ]
}

fn rules() -> Vec<Case> {
    let with = |rule: Value| spec(json!({"dispatchPolicies": [{"rules": [rule]}]}));
    vec![
        ("an empty rule", with(json!({})), Both),
        ("no verbs", with(json!({"verbs": [], "apiGroups": [""], "resources": ["pods"]})), Both),
        ("no groups", with(json!({"verbs": ["get"], "resources": ["pods"]})), Both),
        ("all subresources", with(json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods/*"]})), Both),
        ("half a service account", with(json!({"verbs": ["*"], "serviceAccounts": [{"name": "x"}]})), Both),
        ("exclusions", with(json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["-pods", "-nodes"]})), Both),
    ]
}
