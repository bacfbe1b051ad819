//! The outcome of an object with one change.

use portcullis_e2e::Manifest;
use serde_json::{Value, json};

/// The programs that accept an object.
#[derive(Clone, Copy, Debug)]
pub(super) enum Verdict {
    /// `check` and the server.
    Accepted,
    /// Neither; the server names this field.
    Refused(&'static str),
    /// The server accepts it; only `check` looks that far.
    ByCheckAlone,
}

/// One change of an object that is accepted.
pub(super) struct Case {
    pub(super) name: String,
    pub(super) verdict: Verdict,
    pointer: &'static str,
    value: Value,
}

impl Case {
    pub(super) fn apply(&self, manifest: Manifest) -> Manifest {
        full(manifest).set(self.pointer, self.value.clone())
    }
}

/// An object that says something in every part.
pub(super) fn full(manifest: Manifest) -> Manifest {
    let rule = json!({
        "verbs": ["get", "-list"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods", "*/status"],
        "resourceNames": [""], "namespaces": ["default"], "users": ["system:node:*"], "userGroups": ["dev"],
        "serviceAccounts": [{"name": "a", "namespace": "b"}], "nonResourceURLs": ["/healthz/*"],
    });
    let policies = json!([
        {"strategy": "RoundRobin", "upstreamSubset": ["https://10.0.0.1:6443"], "rules": [rule],
         "flowControlSchemaName": "few", "logMode": "on"},
        {"upsteamSubset": ["https://10.0.0.2:6443"], "rules": [rule]},
    ]);
    manifest
        .policies(policies)
        .set("/spec/logging", json!({"mode": "off"}))
        .set(
            "/spec/flowControl",
            json!({"flowControlSchemas": [
                {"name": "few", "strategy": "local", "maxRequestsInflight": {"max": 3}},
                {"name": "all", "exempt": {}},
            ]}),
        )
        .set(
            "/spec/portcullis",
            json!({
                "requestTimeout": "1m15s", "drainPeriod": "90s", "maxSessionDuration": "24h",
                "logging": {"slow": "2s", "failed": true}, "virtualIPs": ["10.9.8.7", "2001:db8::1"],
                "servers": [{"endpoint": "https://10.0.0.1:6443", "zone": "eu-1a", "weight": 90}], "allowAnonymous": false, "extraAuthorities": ["*.Example.com"],
                "clientCertificateVerification": "Handshake", "forwardedExtras": ["example.com/role"],
                "credentialCache": {"tokenTTL": "0", "unauthorizedTTL": "1.5m"}, "auditAttribution": true,
            }),
        )
}

pub(super) fn cases() -> Vec<Case> {
    [whole(), servers_and_client(), limits(), policies(), ours(), super::references::rows(), super::tokens::rows()]
        .concat_cases()
}

/// Path, value, and the outcome of the object.
pub(super) type Row = (&'static str, Value, Verdict);

trait Cases {
    fn concat_cases(self) -> Vec<Case>;
}

impl<const N: usize> Cases for [Vec<Row>; N] {
    fn concat_cases(self) -> Vec<Case> {
        let rows = self.into_iter().flatten();
        let case = |(pointer, value, verdict): Row| {
            let shown: String = value.to_string().chars().take(200).collect();
            Case { name: format!("{pointer} = {shown}"), verdict, pointer, value }
        };
        rows.map(case).collect()
    }
}

use Verdict::{Accepted, ByCheckAlone, Refused};

fn whole() -> Vec<Row> {
    vec![
        ("/status", json!({}), Accepted),
        ("/spec", Value::Null, Refused("spec")),
        ("/spec/serverz", json!([]), Refused("spec.serverz")),
        ("/spec/logging", Value::Null, Accepted),
        ("/spec/logging", json!({"mode": ""}), Accepted),
        ("/spec/logging", json!({"mode": "On"}), Refused("spec.logging.mode")),
        ("/spec/flowControl/flowControlSchemas", json!([]), ByCheckAlone),
        ("/metadata/name", json!("a"), Accepted),
        ("/metadata/name", json!("a.1"), Refused("metadata.name")),
        ("/metadata/name", json!("1.2.3.4"), Refused("metadata.name")),
        ("/metadata/name", json!(format!("{}.test", "a".repeat(64))), Refused("metadata.name")),
        ("/metadata/name", json!(format!("{}.1a", "1".repeat(63))), Accepted),
        ("/metadata/annotations", json!({"proxy.kubegateway.io/feature-gates": "x"}), ByCheckAlone),
    ]
}

fn servers_and_client() -> Vec<Row> {
    let servers = |endpoints: &[&str]| json!(endpoints.iter().map(|one| json!({"endpoint": one})).collect::<Vec<_>>());
    let own = &["https://10.0.0.1:6443", "https://10.0.0.2:6443"];
    vec![
        ("/spec/servers", json!([]), Refused("spec.servers")),
        ("/spec/servers", Value::Null, Refused("spec.servers")),
        ("/spec/servers", json!([{"disabled": true}]), Refused("spec.servers[0].endpoint")),
        ("/spec/servers", servers(&["http://10.0.0.1"]), Refused("spec.servers[0].endpoint")),
        ("/spec/servers", servers(&[own[0], own[1], own[0], "https://A.test/path"]), Accepted),
        ("/spec/servers", servers(&[own[0], own[1], "https://169.254.169.254"]), ByCheckAlone),
        ("/spec/clientConfig", json!({}), Refused("spec.clientConfig")),
        ("/spec/clientConfig", json!({"insecure": true, "bearerToken": "YQ=="}), Accepted),
        (
            "/spec/clientConfig",
            json!({"insecure": true, "bearerToken": "YQ==", "caData": "", "keyData": null}),
            Accepted,
        ),
        ("/spec/clientConfig", json!({"bearerToken": "YQ=="}), Refused("spec.clientConfig.caData")),
        ("/spec/clientConfig", json!({"insecure": true}), Refused("neither certData")),
        (
            "/spec/clientConfig",
            json!({"insecure": true, "bearerToken": "YQ==", "caData": "YQ=="}),
            Refused("spec.clientConfig.caData"),
        ),
        ("/spec/clientConfig", json!({"insecure": true, "keyData": "YQ=="}), Refused("spec.clientConfig.certData")),
        ("/spec/clientConfig", json!({"insecure": true, "certData": "YQ=="}), Refused("spec.clientConfig.keyData")),
        ("/spec/clientConfig", json!({"insecure": true, "bearerToken": "Y*Y*"}), ByCheckAlone),
        (
            "/spec/clientConfig",
            json!({"insecure": true, "bearerToken": "YWFh", "keyData": "Y*Y*"}),
            Refused("spec.clientConfig.certData"),
        ),
        (
            "/spec/clientConfig",
            json!({"insecure": true, "bearerToken": ["YWFh"]}),
            Refused("spec.clientConfig.bearerToken"),
        ),
        ("/spec/clientConfig", json!({"insecure": true, "bearerToken": "YWFh\nYWFh\n"}), Accepted),
        ("/spec/clientConfig", json!({"insecure": true, "bearerToken": "YWFh YWFh\t"}), Accepted),
        ("/spec/clientConfig", json!({"insecure": true, "bearerToken": "YWFh", "certData": " "}), Accepted),
        ("/spec/clientConfig/qps", json!(-1), Refused("spec.clientConfig.qps")),
        ("/spec/clientConfig/qps", json!(1), Refused("spec.clientConfig.burst")),
        ("/spec/clientConfig/qps", json!("1"), Refused("spec.clientConfig.qps")),
        ("/spec/clientConfig/burst", json!(1), Accepted),
        ("/spec/clientConfig/serverName", json!("2001:db8::1"), Accepted),
        ("/spec/secureServing", json!({"serverNames": ["*", "a_b"]}), Accepted),
        ("/spec/secureServing/serverNames", json!(["*", "a_b"]), Accepted),
        ("/spec/secureServing/serverNames", json!(vec!["a"; 257]), Refused("spec.secureServing.serverNames")),
        ("/spec/secureServing/keyData", json!(""), Accepted),
    ]
}

fn limits() -> Vec<Row> {
    let field = "/spec/flowControl";
    let list = |more: &[Value]| {
        let few = json!({"name": "few", "maxRequestsInflight": {}});
        json!({"flowControlSchemas": std::iter::once(&few).chain(more).collect::<Vec<_>>()})
    };
    let one = |schema: Value| list(&[schema]);
    let local = json!({"qps": 2, "burst": 3});
    let at = |what: &'static str| Refused(what);
    vec![
        (field, json!({"schemas": [{"name": "few", "exempt": {}}]}), Accepted),
        (field, json!({"schemas": [], "flowControlSchemas": []}), at("spec.flowControl")),
        (field, one(json!({"exempt": {}})), at("spec.flowControl.flowControlSchemas[1].name")),
        (field, one(json!({"name": "", "exempt": {}})), at("spec.flowControl.flowControlSchemas[1].name")),
        (field, one(json!({"name": "few", "exempt": {}})), at("spec.flowControl.flowControlSchemas[1]")),
        (field, one(json!({"name": "a"})), at("exactly one of exempt, maxRequestsInflight and tokenBucket")),
        (field, one(json!({"name": "a", "exempt": {}, "tokenBucket": local})), at("exactly one of exempt")),
        (field, one(json!({"name": "a", "exempt": {}, "tokenBucket": null})), Accepted),
        (field, one(json!({"name": "a", "exempt": {}, "strategy": "x"})), at("flowControlSchemas[1].strategy")),
        (field, one(json!({"name": "a", "maxRequestsInflight": {"max": -1}})), at("maxRequestsInflight.max")),
        (field, one(json!({"name": "a", "tokenBucket": local})), Accepted),
        (field, one(json!({"name": "a", "tokenBucket": {"qps": 1}})), at("tokenBucket.burst")),
        (field, one(json!({"name": "a", "tokenBucket": {"qps": 0, "burst": 1}})), at("tokenBucket.qps")),
        (field, one(json!({"name": "a", "tokenBucket": {"qps": 2, "burst": 1}})), at("tokenBucket.burst")),
        (field, one(json!({"name": "a", "tokenBucket": local, "globalTokenBucket": {"qps": 9, "burst": 3}})), Accepted),
        (
            field,
            one(json!({"name": "a", "tokenBucket": local, "globalTokenBucket": {"qps": 9, "burst": 2}})),
            at("globalTokenBucket"),
        ),
        (field, one(json!({"name": "a", "exempt": {}, "globalTokenBucket": local})), at("globalTokenBucket")),
        (field, one(json!({"name": "a", "maxRequestsInflight": {}, "globalMaxRequestsInflight": {}})), Accepted),
        (
            field,
            one(json!({"name": "a", "maxRequestsInflight": {"max": 1}, "globalMaxRequestsInflight": {}})),
            at("globalMaxRequestsInflight"),
        ),
        (
            field,
            one(json!({"name": "a", "exempt": {}, "globalMaxRequestsInflight": {"max": 1}})),
            at("globalMaxRequestsInflight"),
        ),
    ]
}

fn policies() -> Vec<Row> {
    let field = "/spec/dispatchPolicies";
    let empty = json!([{}]);
    let with = |name: &str, value: Value| json!([{"rules": [{}], name: value}]);
    let subset = json!(["https://10.0.0.1:6443"]);
    vec![
        (field, json!([]), Refused("spec.dispatchPolicies")),
        (field, json!([{"rules": []}]), Refused("spec.dispatchPolicies[0].rules")),
        (field, json!([{}]), Refused("spec.dispatchPolicies[0].rules")),
        (field, json!([{"rules": empty}]), Accepted),
        (field, json!([{"rules": [{"serviceAccounts": [{}, {"name": "a"}], "verbs": null}]}]), Accepted),
        (field, with("strategy", json!("")), Accepted),
        (field, with("strategy", json!("Random")), Accepted),
        (field, with("strategy", json!("LeastRequest")), Accepted),
        (field, with("strategy", json!("random")), Refused("spec.dispatchPolicies[0].strategy")),
        (field, with("logMode", json!("no")), Refused("spec.dispatchPolicies[0].logMode")),
        (field, with("upstreamSubset", json!(["10.0.0.1"])), Refused("spec.dispatchPolicies[0].upstreamSubset[0]")),
        (field, with("upsteamSubset", json!(["10.0.0.1"])), Refused("spec.dispatchPolicies[0].upsteamSubset[0]")),
        (
            field,
            json!([{"rules": empty, "upstreamSubset": subset, "upsteamSubset": subset}]),
            Refused("spec.dispatchPolicies[0]"),
        ),
        (field, with("upstreamSubset", json!(["https://10.0.0.9:6443"])), ByCheckAlone),
        (field, with("flowControlSchemaName", json!("none")), ByCheckAlone),
    ]
}

fn ours() -> Vec<Row> {
    let mut rows = Vec::new();
    let health = "/spec/portcullis/healthCheck";
    for good in [
        json!({}),
        json!({"path": "/livez?exclude=etcd", "interval": "1s", "timeout": "5m", "healthyThreshold": 1}),
        json!({"unhealthyThreshold": 10}),
    ] {
        rows.push((health, good, Accepted));
    }
    for (bad, field) in [
        (json!({"path": "livez"}), "spec.portcullis.healthCheck.path"),
        (json!({"path": "/a#b"}), "spec.portcullis.healthCheck.path"),
        (json!({"path": "/a b"}), "spec.portcullis.healthCheck.path"),
        (json!({"interval": "0.5s"}), "spec.portcullis.healthCheck.interval"),
        (json!({"timeout": "5m1s"}), "spec.portcullis.healthCheck.timeout"),
        (json!({"healthyThreshold": 0}), "spec.portcullis.healthCheck.healthyThreshold"),
        (json!({"unhealthyThreshold": 11}), "spec.portcullis.healthCheck.unhealthyThreshold"),
    ] {
        rows.push((health, bad, Refused(field)));
    }
    for text in ["1s", "1h", "3600.9s", "60m", ".5m", "1.m", "1h0s", "1000000us"] {
        rows.push(("/spec/portcullis/requestTimeout", json!(text), Accepted));
    }
    for text in ["", "75", "0", "0.999s", "3601s", "2h", "-1s", "1 s", "9999999999999h", "1s\n", "1µs"] {
        rows.push(("/spec/portcullis/requestTimeout", json!(text), Refused("spec.portcullis.requestTimeout")));
    }
    for text in ["0", "0.5s", "24h", "1440m"] {
        rows.push(("/spec/portcullis/drainPeriod", json!(text), Accepted));
    }
    for text in ["", "1d", "24h1s", "-1s"] {
        rows.push(("/spec/portcullis/drainPeriod", json!(text), Refused("spec.portcullis.drainPeriod")));
    }
    for text in ["1s", "720h", "24h0m0s"] {
        rows.push(("/spec/portcullis/maxSessionDuration", json!(text), Accepted));
    }
    for text in ["", "0", "0.5s", "30d", "720h1s", "-1s"] {
        rows.push(("/spec/portcullis/maxSessionDuration", json!(text), Refused("spec.portcullis.maxSessionDuration")));
    }
    for text in ["0", "10ms", "1h", "5s"] {
        rows.push(("/spec/portcullis/logging", json!({"slow": text, "failed": false}), Accepted));
    }
    for text in ["", "9ms", "1h1s", "-1s", "5"] {
        rows.push(("/spec/portcullis/logging", json!({"slow": text}), Refused("spec.portcullis.logging.slow")));
    }
    let servers = "/spec/portcullis/servers";
    let server = |zone: &str| json!({"endpoint": "https://10.0.0.1:6443", "zone": zone});
    let weight = |weight: Value| json!([{"endpoint": "https://10.0.0.1:6443", "weight": weight}]);
    rows.extend([
        (servers, json!([server(""), {"endpoint": "https://10.0.0.2:6443"}]), Accepted),
        (servers, json!([server("a"), server("b")]), Refused("spec.portcullis.servers[1]")),
        (servers, json!([server("a.")]), Refused("spec.portcullis.servers[0].zone")),
        (servers, json!([{"zone": "a"}]), Refused("spec.portcullis.servers[0].endpoint")),
        (servers, weight(json!(1)), Accepted),
        (servers, weight(json!(128)), Accepted),
        (servers, weight(json!(0)), Refused("spec.portcullis.servers[0].weight")),
        (servers, weight(json!(129)), Refused("spec.portcullis.servers[0].weight")),
        (servers, weight(json!("3")), Refused("spec.portcullis.servers[0].weight")),
        (servers, json!([{"endpoint": "https://10.0.0.9", "zone": "a"}]), ByCheckAlone),
    ]);
    let discovery = "/spec/portcullis/discovery";
    let service = |more: Value| {
        let mut service = json!({"namespace": "a", "name": "b"});
        service.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"service": service})
    };
    let field = |name: &str| -> &'static str { format!("spec.portcullis.discovery.service.{name}").leak() };
    rows.extend([
        (discovery, json!({"kubernetesService": true}), Accepted),
        (discovery, service(json!({"portName": "https"})), Accepted),
        (discovery, json!({}), Refused("spec.portcullis.discovery")),
        (discovery, json!({"kubernetesService": false}), Refused("spec.portcullis.discovery")),
        (discovery, service(json!({"port": 0})), Refused(field("port"))),
        (discovery, service(json!({"port": 65_536})), Refused(field("port"))),
        (discovery, service(json!({"port": 1, "portName": "a"})), Refused(field("portName"))),
        (discovery, service(json!({"portName": "A"})), Refused(field("portName"))),
        (discovery, service(json!({"namespace": "a/b"})), Refused(field("namespace"))),
        (discovery, service(json!({"name": ""})), Refused(field("name"))),
        (discovery, json!({"srvRecord": "_https._tcp.a.test"}), Accepted),
        (discovery, json!({"srvRecord": "a.test"}), Refused("spec.portcullis.discovery.srvRecord")),
        (discovery, json!({"srvRecord": ""}), Refused("spec.portcullis.discovery.srvRecord")),
        (discovery, json!({"srvRecord": "_https._tcp.10.0.0.1"}), ByCheckAlone),
        (
            discovery,
            json!({"kubernetesService": true, "srvRecord": "_https._tcp.a"}),
            Refused("spec.portcullis.discovery"),
        ),
    ]);
    let virtual_ips = "/spec/portcullis/virtualIPs";
    rows.extend([
        (virtual_ips, json!(["192.0.2.1", "2001:DB8::1", "2001:db8::1"]), Accepted),
        (virtual_ips, json!(["192.0.2.1", "2001:DB8::1", "192.0.2.1"]), Refused("spec.portcullis.virtualIPs[2]")),
        (
            "/spec/portcullis/extraAuthorities",
            json!(["a.test", "a.test"]),
            Refused("spec.portcullis.extraAuthorities[1]"),
        ),
        ("/spec/portcullis/forwardedExtras", json!(["a", "a"]), Refused("spec.portcullis.forwardedExtras[1]")),
        ("/spec/portcullis/anonymous", json!(false), Refused("its name is allowAnonymous now")),
        ("/spec/portcullis/sessionLimit", json!("1h"), Refused("its name is maxSessionDuration now")),
        ("/spec/portcullis/credentialCache", json!({"token": "0"}), Refused("its name is tokenTTL now")),
        (virtual_ips, json!(["192.0.2.0/24"]), Refused("spec.portcullis.virtualIPs[0]")),
        (virtual_ips, json!(["a.test"]), Refused("spec.portcullis.virtualIPs[0]")),
        (virtual_ips, json!(["0.0.0.0"]), ByCheckAlone),
        (virtual_ips, json!(["1.2.3"]), ByCheckAlone),
    ]);
    let cache = "/spec/portcullis/credentialCache";
    for text in ["0", "00s", "1.s", ".5s", "1m1s1ms1us1ns", "0h0m"] {
        rows.push((cache, json!({"tokenTTL": text}), Accepted));
    }
    for text in ["", "00", "0s0", ".s", "1..s", "1.2.3s", "1", "1d", "+1s", " 1s", "0\n"] {
        rows.push((cache, json!({"tokenTTL": text}), Refused("spec.portcullis.credentialCache.tokenTTL")));
    }
    let verification = "/spec/portcullis/clientCertificateVerification";
    let extras = "/spec/portcullis/forwardedExtras";
    rows.extend([
        (cache, json!({"tokenTTL": "0", "rejectedTokenTTL": "1h", "authorizedTTL": null}), Accepted),
        (cache, json!({"tokenTTL": "1h1s"}), Refused("spec.portcullis.credentialCache.tokenTTL")),
        (verification, json!(""), Accepted),
        (verification, json!("request"), Refused("spec.portcullis.clientCertificateVerification")),
        ("/spec/portcullis/extraAuthorities", json!(["A.test", "*.b.test"]), Accepted),
        ("/spec/portcullis/extraAuthorities", json!(["a:443"]), Refused("spec.portcullis.extraAuthorities[0]")),
        ("/spec/portcullis/extraAuthorities", json!(["*.test"]), ByCheckAlone),
        (extras, json!(["a b", "ärger"]), Accepted),
        (extras, json!([""]), Refused("spec.portcullis.forwardedExtras[0]")),
        (extras, json!(["A"]), Refused("spec.portcullis.forwardedExtras[0]")),
        (extras, json!(["portcullis.dev/x"]), Refused("spec.portcullis.forwardedExtras[0]")),
    ]);
    rows
}
