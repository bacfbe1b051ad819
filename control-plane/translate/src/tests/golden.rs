use std::sync::Arc;

use serde_json::{Value, json};

use super::fixture::{Pki, set, translated};
use super::render::render;
use crate::filter_build::FilterBuild;
use crate::resource::type_urls;
use crate::{Input, Translation, translate};

/// Everything but secrets, whose content is no matter of a golden.
fn shown(pki: &Pki, translation: &Translation, wanted: impl Fn(&str) -> bool) -> String {
    let all =
        translation.resources().into_iter().filter(|one| one.type_url != type_urls::secret() && wanted(&one.name));
    let text: String = all.map(render).collect();
    // The hash in the identity covers the CAs, which are new in every run.
    let mut parts = text.split("0000-1111");
    let first = parts.next().unwrap_or_default().to_owned();
    assert_eq!(parts.next(), None, "the identity is a hash");
    hide_identity(&pki.hide(&first))
}

pub(super) fn hide_identity(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    let mark = "\\\"identity\\\":\\\"";
    while let Some(at) = rest.find(mark) {
        let (before, after) = rest.split_at(at + mark.len());
        let end = after.find("\\\"").unwrap();
        let (identity, behind) = after.split_at(end);
        out += before;
        out += identity.rsplit_once('/').unwrap().0;
        out += "/<hash>";
        rest = behind;
    }
    out + rest
}

#[test]
fn certificate_reaches_both_builds_by_the_connection() {
    let pki = Pki::new();
    let (settings, clusters) = (pki.settings(), [Arc::new(pki.cluster("prod.example.com"))]);
    let listener_for = |filter| {
        let input = Input { settings: &settings, clusters: &clusters, filter };
        shown(&pki, &translate(&input), |name| name.contains("/listener"))
    };
    let (module, wasm) = (listener_for(FilterBuild::Module), listener_for(FilterBuild::Wasm));
    for mark in ["envoy.filters.network.set_filter_state", "forward_client_cert_matcher"] {
        assert_eq!((module.contains(mark), wasm.contains(mark)), (true, true), "{mark}");
    }
    for listener in [module, wasm] {
        assert!(!listener.contains("SANITIZE_SET"), "for chains of several alone, by the matcher");
        assert!(listener.contains("/client-validation") && !listener.contains("custom_validator_config"));
    }
}

#[test]
fn strategy_has_clusters_of_its_own() {
    let pki = Pki::new();
    let mut cluster = pki.cluster("prod.example.com");
    let subset = ["https://10.0.0.2:6443"];
    let rules = json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]);
    let policies = [
        json!({"rules": rules, "strategy": "LeastRequest"}),
        json!({"rules": rules, "strategy": "Random"}),
        json!({"rules": rules, "upstreamSubset": subset}),
        json!({"rules": rules, "upstreamSubset": subset, "strategy": "RoundRobin"}),
        json!({"rules": rules, "upstreamSubset": subset, "strategy": "LeastRequest"}),
        json!({"rules": rules, "upstreamSubset": subset, "strategy": "Random"}),
        json!({"rules": rules, "strategy": "Random"}),
    ];
    set(&mut cluster, "/spec/dispatchPolicies", json!(policies));
    let translation = translated(&pki.settings(), &[cluster]);
    let balancing = |text: &str| {
        let line = text.lines().find(|line| line.contains("envoy.load_balancing_policies.")).unwrap_or("no balancing");
        line.trim().to_owned()
    };
    let clusters = translation.resources().into_iter().filter(|one| one.type_url == type_urls::cluster());
    let mut shown: Vec<_> = clusters.map(|one| format!("{} {}", one.name, balancing(&render(one)))).collect();
    let text = shown_groups(&shown_routes(&pki, &translation));
    shown.push(format!("groups of the policies: {}", text.join(" ")));
    insta::assert_snapshot!("strategies", pki.hide(&shown.join("\n")));
}

fn shown_routes(pki: &Pki, translation: &Translation) -> String {
    shown(pki, translation, |name| name.contains("/routes"))
}

/// The groups in the filter's configuration, policy by policy.
fn shown_groups(routes: &str) -> Vec<String> {
    let groups = routes.split("\\\"group\\\":\\\"").skip(1);
    groups.filter_map(|rest| rest.split('\\').next()).map(str::to_owned).collect()
}

/// The health check of each pool of a cluster with this `healthCheck`.
fn health_checks(check: Value) -> Vec<envoy_types::pb::envoy::config::core::v3::HealthCheck> {
    use envoy_types::pb::envoy::config::cluster::v3::Cluster;
    use prost::Message;
    let pki = Pki::new();
    let mut cluster = pki.cluster("prod.example.com");
    set(&mut cluster, "/spec/portcullis", json!({"healthCheck": check}));
    let translation = translated(&pki.settings(), &[cluster]);
    assert!(translation.diagnoses[0].accepted, "{:?}", translation.diagnoses);
    let clusters = translation.resources().into_iter().filter(|one| one.type_url == type_urls::cluster());
    clusters.flat_map(|one| Cluster::decode(one.value.as_slice()).unwrap().health_checks).collect()
}

fn what_is_set(check: &impl std::fmt::Debug) -> String {
    let text = format!("{check:#?}");
    let is_set = |line: &&str| ![": None,", ": [],", ": false,", ": \"\","].iter().any(|unset| line.ends_with(unset));
    text.lines().filter(is_set).collect::<Vec<_>>().join("\n")
}

#[test]
fn health_is_checked_as_wished_by_every_pool() {
    let wished = json!({
        "path": "/livez?exclude=etcd", "interval": "1m30s", "timeout": "1s",
        "healthyThreshold": 10, "unhealthyThreshold": 3,
    });
    let mut shown: Vec<_> = health_checks(wished).iter().map(what_is_set).collect();
    shown.sort();
    assert_eq!(shown.len(), 6, "two groups of three pools");
    shown.dedup();
    insta::assert_snapshot!("health_checks", shown.join("\n"));
    assert_eq!(health_checks(json!({})), health_checks(json!({"path": "/readyz", "interval": "5s", "timeout": "5s"})));
}

/// The filter's word for which requests are logged: of those that no policy decides about, then by policy.
fn logged(settings: &portcullis_api::Settings, mode: &str, policies: [&str; 2]) -> (bool, [bool; 2]) {
    let pki = Pki::new();
    let mut cluster = pki.cluster("prod.example.com");
    set(&mut cluster, "/spec/logging", json!({"mode": mode}));
    for (number, policy) in policies.into_iter().enumerate() {
        set(&mut cluster, &format!("/spec/dispatchPolicies/{number}/logMode"), json!(policy));
    }
    let translation = translated(settings, &[cluster]);
    let text = shown(&pki, &translation, |name| name.contains("/routes"));
    let policies: Vec<_> =
        text.split("\\\"group\\\":").skip(1).map(|policy| policy.contains("\\\"log\\\":true")).collect();
    (text.contains("\\\"logRefused\\\":true"), policies.try_into().unwrap())
}

#[test]
fn log_mode_is_part_of_the_filter_configuration() {
    use portcullis_api::AccessLog;
    let settings = Pki::new().settings();
    assert_eq!(logged(&settings, "", ["", ""]), (false, [false, false]));
    assert_eq!(logged(&settings, "", ["on", "off"]), (false, [true, false]));
    assert_eq!(logged(&settings, "on", ["", "off"]), (true, [true, false]));
    assert_eq!(logged(&settings, "off", ["on", ""]), (false, [false, false]));
    let silent = portcullis_api::Settings { access_log: AccessLog::None, ..settings.clone() };
    assert_eq!(logged(&silent, "on", ["on", "on"]), (false, [false, false]));

    let pki = Pki::new();
    let listener = |access_log| {
        let settings = portcullis_api::Settings { access_log, ..pki.settings() };
        let translation = translated(&settings, &[pki.cluster("prod.example.com")]);
        shown(&pki, &translation, |name| name.contains("/listener"))
    };
    assert!(listener(AccessLog::Stdout).contains("envoy.access_loggers.stdout"));
    assert!(!listener(AccessLog::None).contains("envoy.access_loggers.stdout"));
    assert!(listener(AccessLog::Stderr).contains("envoy.access_loggers.stderr"));
    assert!(listener(AccessLog::File("/var/log/portcullis".into())).contains("path: \"/var/log/portcullis\""));
}
