use std::cell::Cell;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use portcullis_api::{PolicyInEffect, PolicyKind, PolicyRole};
use portcullis_attach::{FormerCertificates, GatewayObjects, referred_contents, upstreams_within_bounds};
use portcullis_sources::GatewayApiObjects;
use serde_json::json;
use tokio::time::Instant;

use super::super::content_documents::read_document;
use super::super::secrets::ContentAnswer;
use super::*;

thread_local! {
    /// Checks of an upstream with its rules.
    pub(super) static CHECKS: Cell<usize> = const { Cell::new(0) };
}

fn made() -> (String, String) {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new(vec!["gateway".to_owned()]).unwrap();
    params.distinguished_name.push(rcgen::DnType::CommonName, "gateway");
    let certificate = params.self_signed(&key).unwrap();
    (certificate.pem(), key.serialize_pem())
}

fn document(name: &str, endpoint: &str) -> Value {
    json!({
        "apiVersion": "portcullis.dev/v1alpha1", "kind": "KubernetesUpstream",
        "metadata": {"name": name, "namespace": "team-a", "uid": "u"},
        "spec": {
            "servers": [{"endpoint": endpoint}], "serverName": "kubernetes",
            "references": {"upstreamCA": {"configMap": {"name": "ca"}}, "client": {"secret": {"name": "gateway"}}},
        },
    })
}

fn objects(documents: Vec<Value>) -> GatewayApiObjects {
    GatewayApiObjects::of_kinds([(WatchedKind::KubernetesUpstream, documents.into_iter().map(Arc::new).collect())])
}

/// The contents of what upstreams refer to, as they are read.
fn contents(objects: &GatewayApiObjects, answers: &[(ContentKind, &str, String)]) -> GatewayContents {
    let mut contents = GatewayContents::default();
    let upstreams = upstream_objects(objects);
    let referred = GatewayObjects { upstreams, ..GatewayObjects::default() };
    contents.follow(&referred_contents(&referred, &FormerCertificates::new()));
    for (kind, name, document) in answers {
        let name = ContentName { kind: *kind, object: ObjectName::new("team-a", *name) };
        contents.take(&name, ContentAnswer::Found(read_document(*kind, document)), Instant::now());
    }
    contents
}

fn within(objects: &GatewayApiObjects) -> BTreeSet<ObjectName> {
    upstreams_within_bounds(upstream_objects(objects).iter().map(|one| &one.metadata))
}

fn secret(owner: &str, (cert, key): &(String, String)) -> String {
    let data = json!({"tls.crt": STANDARD.encode(cert), "tls.key": STANDARD.encode(key)});
    json!({"metadata": {"labels": {"portcullis.dev/kubernetes-upstream": owner}}, "data": data}).to_string()
}

fn state(known: &KnownUpstreams, name: &str) -> String {
    match &known.0[&ObjectName::new("team-a", name)].state {
        UpstreamState::Usable => "usable".to_owned(),
        UpstreamState::Invalid(why) => format!("invalid: {why}"),
        UpstreamState::Unresolved(why) => format!("unresolved: {why}"),
    }
}

#[test]
fn upstream_is_usable_with_the_content_of_its_references() {
    let pair = made();
    let ca = json!({"data": {"ca.crt": pair.0}}).to_string();
    let all = objects(vec![document("prod", "https://10.0.0.1"), document("blue", "https://a.test")]);
    let map = || (ContentKind::ConfigMap, "ca", ca.clone());
    let own = || (ContentKind::UpstreamSecret, "gateway", secret("prod", &pair));
    for (case, answers, expected) in [
        ("all of it", vec![map(), own()], "usable"),
        ("nothing yet", vec![], "unresolved: spec.references.upstreamCA: it is not read yet"),
        ("no key", vec![map()], "unresolved: spec.references.client: it is not read yet"),
        (
            "another's Secret",
            vec![map(), (ContentKind::UpstreamSecret, "gateway", secret("blue", &pair))],
            "unresolved: spec.references.client: the Secret has no label",
        ),
        (
            "no certificate",
            vec![(ContentKind::ConfigMap, "ca", json!({"data": {"ca.crt": "x"}}).to_string()), own()],
            "unresolved: spec.references.upstreamCA: ca.crt",
        ),
        (
            "a key of another",
            vec![map(), (ContentKind::UpstreamSecret, "gateway", secret("prod", &(pair.0.clone(), made().1)))],
            "invalid: spec.references.client",
        ),
    ] {
        let mut known = KnownUpstreams::default();
        known.follow(&all, &within(&all), &UpstreamPolicies::new(), &contents(&all, &answers));
        assert!(state(&known, "prod").starts_with(expected), "{case}: {}", state(&known, "prod"));
        assert!(state(&known, "blue").starts_with("invalid: spec.servers[0].endpoint"), "{}", state(&known, "blue"));
        let resolved = known.resolved(|_| true);
        assert_eq!(resolved.len(), usize::from(expected == "usable"), "{case}");
        assert!(!format!("{resolved:?}").contains("PRIVATE KEY"), "no key is shown");
        assert!(known.resolved(|key| key != "team-a/prod").is_empty(), "no route leads there");
    }
}

#[test]
fn upstream_that_is_the_same_is_not_checked_again() {
    let pair = made();
    let ca = json!({"data": {"ca.crt": pair.0}}).to_string();
    let answers = [(ContentKind::ConfigMap, "ca", ca), (ContentKind::UpstreamSecret, "gateway", secret("prod", &pair))];
    let all = objects(vec![document("prod", "https://10.0.0.1")]);
    let mut known = KnownUpstreams::default();
    known.follow(&all, &within(&all), &UpstreamPolicies::new(), &contents(&all, &answers));
    let first = known.resolved(|_| true);
    known.follow(&all, &within(&all), &UpstreamPolicies::new(), &contents(&all, &answers));
    assert!(Arc::ptr_eq(&first["team-a/prod"], &known.resolved(|_| true)["team-a/prod"]));
    let edited = objects(vec![document("prod", "https://10.0.0.2")]);
    known.follow(&edited, &within(&edited), &UpstreamPolicies::new(), &contents(&edited, &answers));
    assert_ne!(first, known.resolved(|_| true));
    known.follow(&objects(Vec::new()), &BTreeSet::new(), &UpstreamPolicies::new(), &GatewayContents::default());
    assert!(known.states().is_empty());
}

/// A step is for any edit of any object, and an upstream may be of 256 KiB, with policies of MiBs.
#[test]
fn upstream_that_waits_or_is_wrong_is_not_checked_again_either() {
    let pair = made();
    let ca = json!({"data": {"ca.crt": pair.0}}).to_string();
    let answers = [(ContentKind::ConfigMap, "ca", ca), (ContentKind::UpstreamSecret, "gateway", secret("prod", &pair))];
    let all = objects(vec![document("prod", "https://10.0.0.1"), document("wrong", "https://a.test")]);
    let mut known = KnownUpstreams::default();
    let mut checks = |answers: &[(ContentKind, &str, String)]| {
        CHECKS.set(0);
        known.follow(&all, &within(&all), &UpstreamPolicies::new(), &contents(&all, answers));
        (CHECKS.get(), state(&known, "prod"), state(&known, "wrong"))
    };
    for (answers, state) in [(&answers[..1], "unresolved: "), (&answers[..], "usable")] {
        let first = checks(answers);
        let again = checks(answers);
        assert!(again.1.starts_with(state), "{again:?}");
        assert_eq!((again.0, &again.1, &again.2), (0, &first.1, &first.2), "after {} checks", first.0);
    }
}

#[test]
fn upstream_has_the_rules_of_its_policies() {
    let pair = made();
    let ca = json!({"data": {"ca.crt": pair.0}}).to_string();
    let answers = [(ContentKind::ConfigMap, "ca", ca), (ContentKind::UpstreamSecret, "gateway", secret("prod", &pair))];
    let all = objects(vec![document("prod", "https://10.0.0.1")]);
    let policy = |kind: PolicyKind, fields: Value| PolicyInEffect {
        kind,
        policy: "team-a/x".to_owned(),
        uid: None,
        role: PolicyRole::Decides,
        why: "overrides".to_owned(),
        fields: Ok(Arc::new(fields)),
    };
    let rules = json!([{"verbs": ["*"], "nonResourceURLs": ["*"]}]);
    let dispatch = json!({"dispatchPolicies": [{"rules": rules, "flowControlSchemaName": "few"}]});
    let limits = json!({"flowControl": {"flowControlSchemas": [{"name": "few", "maxRequestsInflight": {"max": 5}}]}});
    let both = [policy(PolicyKind::Dispatch, dispatch), policy(PolicyKind::FlowControl, limits)];
    let mut known = KnownUpstreams::default();
    let mut follow = |policies: &[PolicyInEffect]| {
        let of = |name: &str| UpstreamPolicies::from([(ObjectName::new("team-a", name), policies.to_vec())]);
        known.follow(&all, &within(&all), &of("prod"), &contents(&all, &answers));
        (state(&known, "prod"), known.resolved(|_| true).get("team-a/prod").map(|one| one.rules.clone()))
    };
    let (found, rules) = follow(&both);
    assert_eq!((found.as_str(), rules), ("usable", Some(upstream_rules(&both))));
    // Its routes lead nowhere, whatever was there before.
    let (found, rules) = follow(&both[..1]);
    assert!(
        found.starts_with("invalid: ") && found.contains("of DispatchPolicy team-a/x") && rules.is_none(),
        "{found}"
    );
    let (found, rules) = follow(&[]);
    assert_eq!((found.as_str(), rules), ("usable", Some(upstream_rules(&[]))));
}

#[test]
fn upstream_beyond_its_bounds_is_not_even_checked() {
    let pair = made();
    let ca = json!({"data": {"ca.crt": pair.0}}).to_string();
    let names: Vec<String> = (0..20).map(|index| format!("u{index:02}")).collect();
    // All have the same Secret, which is read for those that there is room for.
    let answers = [
        (ContentKind::ConfigMap, "ca", ca),
        (ContentKind::UpstreamSecret, "gateway", {
            let mut shared: Value = serde_json::from_str(&secret("", &pair)).unwrap();
            shared["metadata"]["annotations"] = json!({"portcullis.dev/kubernetes-upstreams": names.join(",")});
            shared.to_string()
        }),
    ];
    let all = objects(names.iter().map(|name| document(name, "https://10.0.0.1")).collect());
    let mut known = KnownUpstreams::default();
    known.follow(&all, &within(&all), &UpstreamPolicies::new(), &contents(&all, &answers));
    assert_eq!((known.states().len(), known.resolved(|_| true).len()), (16, 16));
    assert!(known.resolved(|key| key == "team-a/u16").is_empty());
}
