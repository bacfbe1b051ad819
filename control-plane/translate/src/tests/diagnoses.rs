use serde_json::{Value, json};

use super::fixture::{Pki, base64, set, translated};
use crate::diagnosis::Reason;
use crate::settings::choose_settings;

/// Path, value, and a part of the message or warning.
type Row = (&'static str, Value, &'static str);

fn diagnosed(pki: &Pki, (pointer, value, _): &Row) -> std::sync::Arc<crate::Diagnosis> {
    let mut cluster = pki.cluster("prod.example.com");
    set(&mut cluster, pointer, value.clone());
    translated(&pki.settings(), &[cluster]).diagnoses.remove(0)
}

fn virtual_ip(ip: &str, message: &'static str) -> Row {
    ("/spec/portcullis", json!({"virtualIPs": [ip]}), message)
}

fn zone(endpoint: &str, zone: &str, message: &'static str) -> Row {
    ("/spec/portcullis", json!({"servers": [{"endpoint": endpoint, "zone": zone}]}), message)
}

fn health(field: &str, value: Value, message: &'static str) -> Row {
    ("/spec/portcullis", json!({"healthCheck": {field: value}}), message)
}

#[test]
fn problems_are_told_with_their_field() {
    let pki = Pki::new();
    let schema = |body: Value| json!({"flowControlSchemas": [body]});
    let gates = |text: &str| json!({"proxy.kubegateway.io/feature-gates": text});
    let rows: Vec<Row> = vec![
        ("/metadata/name", json!("Prod.example.com"), "metadata.name: must be lower-case"),
        ("/spec/clientConfig/qps", json!(-1), "spec.clientConfig.qps: must not be negative"),
        ("/spec/clientConfig/qps", json!(5), "spec.clientConfig.burst: must be at least qps"),
        (
            "/spec/dispatchPolicies/0/upsteamSubset",
            json!(["https://10.0.0.2:6443/"]),
            "spec.dispatchPolicies[0].upstreamSubset[0]: must be spelled as in spec.servers (hint: write it as https://10.0.0.2:6443)",
        ),
        ("/metadata/name", json!("10.0.0.1"), "metadata.name: must be a DNS name"),
        ("/metadata/name", json!(""), "metadata.name: must be a DNS name"),
        ("/metadata/annotations", gates("DenyAllRequests"), "must be a list of Gate=true"),
        ("/spec/servers", json!([]), "spec.servers: at least one"),
        ("/spec/servers/0/endpoint", json!("http://10.0.0.1"), "spec.servers[0].endpoint: http is not supported"),
        ("/spec/servers/1/endpoint", json!("https://127.0.0.1"), "spec.servers[1].endpoint: a loopback address"),
        ("/spec/servers/1/endpoint", json!("https://169.254.169.254"), "spec.servers[1].endpoint: link-local"),
        ("/spec/clientConfig/insecure", json!(true), "spec.clientConfig.caData: excludes insecure"),
        ("/spec/clientConfig/caData", json!(""), "spec.clientConfig.caData: is required"),
        ("/spec/clientConfig/caData", json!(base64("nothing")), "spec.clientConfig.caData: holds no PEM certificate"),
        ("/spec/clientConfig/caData", json!("%"), "not valid base64"),
        ("/spec/clientConfig/certData", json!(""), "spec.clientConfig.certData: is missing beside keyData"),
        ("/spec/clientConfig/keyData", json!(""), "spec.clientConfig.keyData: is missing beside certData"),
        ("/spec/clientConfig/keyData", json!(base64(&pki.serving.key)), "does not belong to the key"),
        ("/spec/clientConfig", json!({"caData": base64(&pki.upstream_ca.cert)}), "the gateway would have no identity"),
        ("/spec/clientConfig/bearerToken", json!(base64("a b")), "spec.clientConfig.bearerToken: must be visible"),
        ("/spec/clientConfig/serverName", json!("a_b"), "spec.clientConfig.serverName: must be"),
        ("/spec/secureServing/clientCAData", json!(base64("x")), "spec.secureServing.clientCAData: holds no PEM"),
        ("/spec/dispatchPolicies", json!([]), "spec.dispatchPolicies: at least one"),
        ("/spec/dispatchPolicies/0/rules", json!([]), "spec.dispatchPolicies[0].rules: at least one"),
        ("/spec/dispatchPolicies/0/strategy", json!("random"), "spec.dispatchPolicies[0].strategy: must be"),
        ("/spec/dispatchPolicies/0/upsteamSubset", json!(["https://x.test"]), "upstreamSubset[0]: is not one of"),
        ("/spec/dispatchPolicies/0/flowControlSchemaName", json!("x"), "flowControlSchemaName: is not one of"),
        (
            "/spec/dispatchPolicies/0/portcullis",
            json!({"action": "deny"}),
            "portcullis.action: must be Dispatch or Deny",
        ),
        (
            "/spec/dispatchPolicies/0/portcullis",
            json!({"message": "x"}),
            "portcullis.message: is only for action: Deny",
        ),
        (
            "/spec/dispatchPolicies/0/portcullis",
            json!({"action": "Deny", "message": "a\nb"}),
            "portcullis.message: must be one line of up to 256 characters",
        ),
        (
            "/spec/dispatchPolicies/1/portcullis",
            json!({"action": "Deny"}),
            "spec.dispatchPolicies[1]: denies the heartbeats of kubelets",
        ),
        (
            "/spec/dispatchPolicies/0",
            json!({"rules": [{"verbs": ["*"]}], "strategy": "Random", "portcullis": {"action": "Deny"}}),
            "spec.dispatchPolicies[0].strategy: means nothing in a policy with action: Deny",
        ),
        (
            "/spec/dispatchPolicies/0/portcullis",
            json!({"mode": "shadow"}),
            "spec.dispatchPolicies[0].portcullis.mode: must be Enforce or Shadow",
        ),
        (
            "/spec/dispatchPolicies/1/portcullis",
            json!({"mode": "Shadow", "action": "Deny"}),
            "spec.dispatchPolicies[1]: denies the heartbeats of kubelets",
        ),
        ("/spec/flowControl", schema(json!({"name": "a"})), "flowControlSchemas[0]: exactly one of"),
        ("/spec/flowControl", schema(json!({"exempt": {}})), "flowControlSchemas[0].name: is required"),
        (
            "/spec/flowControl",
            schema(json!({"name": "a", "tokenBucket": {"qps": 5, "burst": 1}})),
            "flowControlSchemas[0].tokenBucket.burst: must be at least qps",
        ),
        (
            "/spec/flowControl",
            schema(json!({"name": "a", "tokenBucket": {"qps": 5}})),
            "flowControlSchemas[0].tokenBucket.burst: must be at least qps",
        ),
        (
            "/spec/flowControl",
            schema(json!({"name": "a", "tokenBucket": {"qps": 0, "burst": 5}})),
            "flowControlSchemas[0].tokenBucket.qps: must be at least 1",
        ),
        (
            "/spec/flowControl",
            schema(json!({"name": "a", "tokenBucket": {"qps": -1, "burst": 5}})),
            "flowControlSchemas[0].tokenBucket.qps: must be at least 1",
        ),
        (
            "/spec/flowControl",
            schema(json!({"name": "a", "tokenBucket": {"qps": 1, "burst": 1}, "maxRequestsInflight": {"max": 1}})),
            "flowControlSchemas[0]: exactly one of",
        ),
        (
            "/spec/flowControl",
            schema(json!({"name": "a", "exempt": {}, "globalMaxRequestsInflight": {"max": -1}})),
            "flowControlSchemas[0].globalMaxRequestsInflight: needs maxRequestsInflight",
        ),
        ("/spec/portcullis", json!({"requestTimeout": "5"}), "spec.portcullis.requestTimeout: not a duration"),
        ("/spec/portcullis", json!({"drainPeriod": "-1s"}), "spec.portcullis.drainPeriod: not a duration"),
        ("/spec/portcullis", json!({"drainPeriod": "25h"}), "spec.portcullis.drainPeriod: must be from 0 to 24h"),
        ("/spec/portcullis", json!({"maxSessionDuration": "x"}), "spec.portcullis.maxSessionDuration: not a duration"),
        (
            "/spec/portcullis",
            json!({"maxSessionDuration": "0"}),
            "spec.portcullis.maxSessionDuration: must be from 1s to 720h",
        ),
        (
            "/spec/portcullis",
            json!({"maxSessionDuration": "-1h"}),
            "spec.portcullis.maxSessionDuration: not a duration",
        ),
        (
            "/spec/portcullis",
            json!({"maxSessionDuration": "721h"}),
            "spec.portcullis.maxSessionDuration: must be from 1s to 720h",
        ),
        virtual_ip("10.0.0.300", "spec.portcullis.virtualIPs[0]: must be the IP address of one machine"),
        virtual_ip("0.0.0.0", "spec.portcullis.virtualIPs[0]: must be the IP address of one machine"),
        virtual_ip("224.0.0.1", "spec.portcullis.virtualIPs[0]: must be the IP address of one machine"),
        virtual_ip(
            "10.9.9.9",
            "spec.portcullis.virtualIPs: 10.9.9.9 is not in listener.virtualIPs of the GatewaySettings",
        ),
        zone("https://10.0.0.9:6443", "a", "spec.portcullis.servers[0].endpoint: is not an endpoint of spec.servers"),
        zone("https://10.0.0.1:6443", "-a", "spec.portcullis.servers[0].zone: must be letters"),
        zone("https://10.0.0.1:6443", "a b", "spec.portcullis.servers[0].zone: must be letters"),
        ("/spec/portcullis", json!({"requestTimeout": "2h"}), "spec.portcullis.requestTimeout: must be from 1s"),
        ("/spec/portcullis", json!({"extraAuthorities": ["A:1"]}), "spec.portcullis.extraAuthorities[0]: must be"),
        ("/spec/portcullis", json!({"typo": 1}), "unknown field `typo`"),
        health("path", json!("readyz"), "healthCheck.path: must start with /"),
        health("path", json!(""), "healthCheck.path: must start with /"),
        health("path", json!("/a b"), "healthCheck.path: must start with /"),
        health("path", json!("/a\r\nx: y"), "healthCheck.path: must start with /"),
        health("path", json!("/a#b"), "healthCheck.path: must start with /"),
        health("path", json!("/é"), "healthCheck.path: must start with /"),
        health("path", json!(format!("/{}", "a".repeat(1024))), "healthCheck.path: must start with /"),
        health("interval", json!("999ms"), "healthCheck.interval: must be from 1s to 5m"),
        health("interval", json!("5m1s"), "healthCheck.interval: must be from 1s to 5m"),
        health("timeout", json!("0"), "healthCheck.timeout: must be from 1s to 5m"),
        health("timeout", json!("5"), "healthCheck.timeout: not a duration"),
        health("healthyThreshold", json!(0), "healthCheck.healthyThreshold: must be from 1 to 10"),
        health("unhealthyThreshold", json!(11), "healthCheck.unhealthyThreshold: must be from 1 to 10"),
        health("unhealthyThreshold", json!(-1), "healthCheck.unhealthyThreshold: must be a whole number"),
    ];
    for row in &rows {
        let diagnosis = diagnosed(&pki, row);
        assert_eq!((diagnosis.accepted, diagnosis.reason), (false, Reason::Invalid), "{row:?}");
        assert!(diagnosis.message.contains(row.2), "{row:?}: {}", diagnosis.message);
    }
}

#[test]
fn field_without_effect_is_warned_of() {
    let pki = Pki::new();
    let gates = |text: &str| json!({"proxy.kubegateway.io/feature-gates": text});
    let rule = |rule: Value| json!([{"rules": [rule]}]);
    let rows: Vec<Row> = vec![
        (
            "/metadata/annotations",
            gates("Tracing=true,DenyAllRequests=false"),
            "Tracing has no effect: the GatewaySettings have no tracing",
        ),
        ("/spec/clientConfig/burst", json!(5), "spec.clientConfig.burst: has no effect"),
        ("/metadata/namespace", json!("x"), "metadata.namespace: is ignored"),
        ("/metadata/annotations", gates("DenyAllRequest=true"), "names a feature gate that does not exist"),
        ("/spec/secureServing/keyData", json!(""), "spec.secureServing: keyData is missing"),
        (
            "/spec/secureServing/serverNames",
            json!(["ok.test", "*"]),
            "spec.secureServing.serverNames[1]: is not served",
        ),
        (
            "/spec/dispatchPolicies",
            rule(json!({"verbs": ["*"]})),
            "spec.dispatchPolicies[0].rules[0]: the rule matches",
        ),
        ("/spec/dispatchPolicies", rule(json!({"nonResourceURLs": ["*"]})), "rules[0].verbs: the rule matches nothing"),
        (
            "/spec/servers/0/endpoint",
            json!("https://10.0.0.1:6443/path"),
            "spec.servers[0].endpoint: the path is ignored",
        ),
        ("/spec/servers/0/endpoint", json!("https://10.0.0.2:6443"), "spec.servers[1].endpoint: is listed twice"),
    ];
    for row in &rows {
        let diagnosis = diagnosed(&pki, row);
        assert!(diagnosis.accepted, "{row:?}: {}", diagnosis.message);
        assert!(diagnosis.warnings.iter().any(|warning| warning.contains(row.2)), "{row:?}: {:?}", diagnosis.warnings);
    }
    let plain = diagnosed(&pki, &("/metadata/labels", json!({}), ""));
    assert_eq!((plain.accepted, &plain.warnings), (true, &Vec::new()));
}

#[test]
fn limit_that_is_not_enforced_is_reported() {
    let pki = Pki::new();
    let bucket = json!({"qps": 5, "burst": 5});
    let (off, needs) = ("the gate GlobalRateLimiter is false", "strategy needs");
    let neither = "strategy is neither globalAllocate nor globalCount";
    let global = json!({"name": "a", "tokenBucket": bucket, "globalTokenBucket": bucket, "strategy": "globalCount"});
    let seats = json!({"name": "a", "maxRequestsInflight": {"max": 1}, "globalMaxRequestsInflight": {"max": 2}});
    let mut long = global.clone();
    long["name"] = json!("a".repeat(64));
    for (limit, gates, reported) in [
        (json!({"name": "a", "exempt": {}}), "", None),
        (json!({"name": "a", "exempt": {}, "strategy": "globalCount"}), "", None),
        (json!({"name": "a", "maxRequestsInflight": {"max": 5}}), "", None),
        (json!({"name": "a", "maxRequestsInflight": {"max": 0}}), "", None),
        (json!({"name": "a", "tokenBucket": bucket}), "", None),
        (json!({"name": "a", "tokenBucket": bucket, "strategy": "local"}), "", None),
        (json!({"name": "a", "tokenBucket": bucket, "strategy": "globalCount"}), "", Some(needs)),
        (json!({"name": "a", "tokenBucket": bucket, "globalTokenBucket": bucket}), "", Some(neither)),
        (seats, "", Some(neither)),
        (global.clone(), "", None),
        (global.clone(), "GlobalRateLimiter=true", None),
        (global.clone(), "GlobalRateLimiter=false", Some(off)),
        (global.clone(), "AllAlpha=false", Some(off)),
        (global, "AllAlpha=false,GlobalRateLimiter=true", None),
        (long, "GlobalRateLimiter=false", Some(off)),
    ] {
        let mut cluster = pki.cluster("prod.example.com");
        set(&mut cluster, "/spec/flowControl", json!({"flowControlSchemas": [limit]}));
        set(&mut cluster, "/spec/dispatchPolicies/1/flowControlSchemaName", limit["name"].clone());
        set(&mut cluster, "/metadata/annotations", json!({"proxy.kubegateway.io/feature-gates": gates}));
        let diagnosis = translated(&pki.settings(), &[cluster]).diagnoses.remove(0);
        assert!(diagnosis.accepted, "{limit}: {}", diagnosis.message);
        let found: Vec<_> =
            diagnosis.warnings.iter().filter(|warning| warning.contains("flowControlSchemas[0]")).collect();
        let is_reported = reported.is_some_and(|reason| found.iter().any(|warning| warning.contains(reason)));
        assert_eq!(
            (found.len(), is_reported),
            (usize::from(reported.is_some()), reported.is_some()),
            "{limit}: {found:?}"
        );
    }
}

#[test]
fn object_is_served_without_the_names_that_another_one_owns() {
    let pki = Pki::new();
    let owner = pki.cluster("a.test");
    let mut other = pki.cluster("b.test");
    set(&mut other, "/spec/secureServing/serverNames", json!(["A.test", "c.test"]));
    set(&mut other, "/spec/portcullis", json!({"virtualIPs": ["10.9.8.7", "10.9.8.8"]}));
    let mut third = pki.cluster("d.test");
    set(&mut third, "/spec/portcullis", json!({"virtualIPs": ["10.9.8.7"]}));
    set(&mut third, "/metadata/creationTimestamp", json!("2001-01-01T00:00:00Z"));
    let document = json!({
        "apiVersion": "portcullis.dev/v1alpha1", "kind": "GatewaySettings", "metadata": {"name": "lab"},
        "spec": {"listener": {"virtualIPs": ["10.9.8.0/24"]}},
    });
    let range = choose_settings(&[document], None);
    let settings = portcullis_api::Settings { virtual_ips: range.settings.unwrap().virtual_ips, ..pki.settings() };
    let translation = translated(&settings, &[other, owner, third]);
    let [in_part, accepted, older] = &translation.diagnoses[..] else { panic!("three objects") };
    assert_eq!(
        (in_part.reason, accepted.reason, older.reason),
        (Reason::Conflicted, Reason::Accepted, Reason::Accepted)
    );
    assert!(in_part.accepted);
    assert_eq!(
        in_part.message,
        "spec.secureServing.serverNames: the name a.test belongs to the UpstreamCluster a.test; \
         spec.portcullis.virtualIPs: the name 10.9.8.7 belongs to the UpstreamCluster d.test"
    );
    assert_eq!(in_part.names, ["b.test", "c.test", "10.9.8.8"]);
    let listener = translation.resources().into_iter().find(|one| one.name.ends_with("/listener")).unwrap();
    let text = super::render::render(listener);
    for (name, times) in [("a.test", 1), ("b.test", 1), ("c.test", 1), ("10.9.8.7", 1), ("10.9.8.8", 1)] {
        assert_eq!(text.matches(&format!("\"{name}\",")).count(), times, "{name}");
    }
}

#[test]
fn object_whose_own_name_is_anothers_is_refused_with_the_owner() {
    let pki = Pki::new();
    let mut holder = pki.cluster("b.test");
    set(&mut holder, "/spec/secureServing/serverNames", json!(["a.test"]));
    set(&mut holder, "/status", json!({"names": ["b.test", "a.test"], "conditions": []}));
    let translation = translated(&pki.settings(), &[pki.cluster("a.test"), holder.clone()]);
    let [refused, accepted] = &translation.diagnoses[..] else { panic!("two objects") };
    assert_eq!((refused.accepted, refused.reason), (false, Reason::Conflicted));
    assert_eq!(refused.message, "metadata.name: the name a.test belongs to the UpstreamCluster b.test");
    assert_eq!(accepted.reason, Reason::Accepted);
    assert!(!translation.resources().into_iter().any(|one| one.name.contains("/a.test/")));
    assert_eq!(
        (&refused.names[..], &accepted.names[..]),
        (&["*.a.test".to_owned()][..], &["b.test".to_owned(), "a.test".to_owned()][..])
    );
}

#[test]
fn settings_without_any_certificate_serve_nothing() {
    let pki = Pki::new();
    let mut settings = pki.settings();
    settings.default_certificate = None;
    let mut cluster = pki.cluster("a.test");
    cluster["spec"].as_object_mut().unwrap().remove("secureServing");
    let diagnosis = translated(&settings, &[cluster]).diagnoses.remove(0);
    assert!(diagnosis.message.contains("spec.secureServing.certData: is required"), "{diagnosis:?}");
}

#[test]
fn settings_that_cannot_be_used_are_told_and_not_guessed() {
    let with = |spec: Value| json!({"apiVersion": "portcullis.dev/v1alpha1", "kind": "GatewaySettings", "metadata": {"name": "g"}, "spec": spec});
    assert_eq!(choose_settings(&[], None).settings, Some(portcullis_api::Settings::default()));
    for (spec, message) in [
        (json!({"instance": "A.b"}), "spec.instance: must be a DNS label"),
        (json!({"listener": {"address": "localhost"}}), "spec.listener.address: must be an IP address"),
        (json!({"listener": {"port": 0}}), "spec.listener.port: must not be 0"),
        (json!({"limits": {"maxRequests": 0}}), "spec.limits.maxRequests: must be at least 1"),
        (json!({"defaultCertificate": {"certData": "", "keyData": ""}}), "spec.defaultCertificate: holds no PEM"),
        (json!({"port": 1}), "unknown field `port`"),
    ] {
        let choice = choose_settings(&[with(spec)], None);
        assert_eq!(choice.settings, None, "{message}");
        assert!(choice.diagnoses[0].message.contains(message), "{:?}", choice.diagnoses);
    }
    let twice = choose_settings(&[with(json!({})), with(json!({}))], None);
    assert_eq!((twice.settings, twice.diagnoses[0].reason), (None, Reason::Conflicted));
}

#[test]
fn shadow_is_checked_as_if_it_decided() {
    let pki = Pki::new();
    let all = json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "nonResourceURLs": ["*"]}]);
    let shadow = |shadow: Value| json!({"shadow": shadow});
    let place = "spec.portcullis.shadow";
    for (portcullis, problem) in [
        (shadow(json!({"dispatchPolicies": []})), "dispatchPolicies: at least one policy"),
        (
            shadow(json!({"dispatchPolicies": [{"rules": all, "upstreamSubset": ["https://x.test"]}]})),
            "dispatchPolicies[0].upstreamSubset[0]: is not one of",
        ),
        (
            shadow(json!({"dispatchPolicies": [{"rules": all, "portcullis": {"action": "Deny"}}]})),
            "dispatchPolicies[0]: denies the heartbeats of kubelets",
        ),
        (
            shadow(json!({"dispatchPolicies": [{"rules": all, "portcullis": {"mode": "Shadow"}}, {"rules": all}]})),
            "dispatchPolicies[0].portcullis.mode: is not for a policy that only reports",
        ),
        (
            shadow(json!({"flowControl": {"flowControlSchemas": [{"name": "a"}]}})),
            "flowControl.flowControlSchemas[0]: exactly one of",
        ),
        (shadow(json!({"access": {"allow": [{"users": ["a"]}]}})), "access.allow: no entry without an end is certain"),
        (
            shadow(json!({"dispatchPolicies": [{"rules": all, "flowControlSchemaName": "x"}]})),
            "dispatchPolicies[0].flowControlSchemaName: is not one of",
        ),
    ] {
        let row = ("/spec/portcullis", portcullis, "");
        let found = diagnosed(&pki, &row).problems.clone();
        let expected = format!("{place}.{problem}");
        assert!(found.iter().any(|one| one.to_string().starts_with(&expected)), "{expected}: {found:?}");
    }
    let mut cluster = pki.cluster("prod.example.com");
    set(&mut cluster, "/spec/dispatchPolicies/0/portcullis", json!({"mode": "Shadow"}));
    assert!(translated(&pki.settings(), &[cluster.clone()]).diagnoses[0].accepted);
    set(&mut cluster, "/spec/portcullis", shadow(json!({"access": {}})));
    let both = translated(&pki.settings(), &[cluster]).diagnoses.remove(0);
    assert!(both.problems[0].to_string().starts_with("spec.portcullis.shadow: excludes mode: Shadow"), "{both:?}");
}
