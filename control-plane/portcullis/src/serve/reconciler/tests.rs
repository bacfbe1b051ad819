mod divided_gateways;
mod instance_settings;
mod instances;
mod spanning_policies;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use portcullis_sources::ObjectSet;
use portcullis_translate::FilterBuild;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Reconciler, WantedView, XdsResources};

const HOUR: Duration = Duration::from_secs(3_600);

/// A change of the objects, the settings or the time.
#[derive(Clone, Debug)]
enum SetStep {
    /// An object of this number is there, in this edition.
    Put(u8, u8),
    Remove(u8),
    Settings(bool),
    Hours(u32),
}

fn step() -> impl Strategy<Value = SetStep> {
    prop_oneof![
        6 => (0..4_u8, 0..6_u8).prop_map(|(object, edition)| SetStep::Put(object, edition)),
        2 => (0..4_u8).prop_map(SetStep::Remove),
        1 => any::<bool>().prop_map(SetStep::Settings),
        1 => (1..30_u32).prop_map(SetStep::Hours),
    ]
}

/// A certificate and its key, for all purposes.
fn certificate() -> [String; 2] {
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
    let certificate = rcgen::CertificateParams::new(vec!["kubernetes".to_owned()]).unwrap().self_signed(&key).unwrap();
    [certificate.pem(), key.serialize_pem()].map(|pem| STANDARD.encode(pem))
}

/// An object in one of its editions: with other policies, with other servers, refused, in conflict with others, and made anew under
/// the same name.
fn object(number: u8, edition: u8, [certificate, key]: &[String; 2]) -> Arc<Value> {
    let servers = match edition {
        2 => json!([{"endpoint": format!("https://10.0.1.{number}")}]),
        3 => json!([]),
        _ => json!([{"endpoint": format!("https://10.0.0.{number}")}]),
    };
    let verb = if edition == 1 { "list" } else { "get" };
    let uid = if edition == 5 { "another" } else { "one" };
    let mut object = json!({
        "apiVersion": "proxy.kubegateway.io/v1alpha1", "kind": "UpstreamCluster",
        "metadata": {"name": format!("c{number}.example.com"), "uid": format!("{uid}-{number}")},
        "spec": {
            "servers": servers,
            "clientConfig": {"certData": certificate, "keyData": key, "caData": certificate, "serverName": "kubernetes"},
            "secureServing": {"certData": certificate, "keyData": key, "clientCAData": certificate},
            "dispatchPolicies": [{"rules": [{"verbs": [verb], "apiGroups": ["*"], "resources": ["*"]}]}],
        },
    });
    if edition == 4 {
        object["spec"]["secureServing"]["serverNames"] = json!(["shared.example.com"]);
    }
    Arc::new(object)
}

fn settings(is_logged: bool) -> Value {
    let spec = if is_logged { json!({"accessLog": {"destination": "stderr"}}) } else { json!({}) };
    json!({"apiVersion": "portcullis.dev/v1alpha1", "kind": "GatewaySettings", "metadata": {"name": "a"}, "spec": spec})
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn snapshot_by_difference_is_that_of_all_resources(steps in proptest::collection::vec(step(), 1..20)) {
        let free = WantedView { filter: FilterBuild::Wasm, instance: None };
        let (certificate, wanted) = (certificate(), BTreeSet::from([free]));
        let [mut followed, mut whole] = [(); 2].map(|()| Reconciler::resume(None, 24 * HOUR));
        let (mut objects, mut was_served) = (BTreeMap::new(), false);
        let (mut gateway, mut now) = (settings(false), Instant::now());
        for step in std::iter::once(SetStep::Put(0, 0)).chain(steps) {
            match step {
                SetStep::Put(number, edition) => drop(objects.insert(number, object(number, edition, &certificate))),
                SetStep::Remove(number) => drop(objects.remove(&number)),
                SetStep::Settings(is_logged) => gateway = settings(is_logged),
                SetStep::Hours(hours) => now += hours * HOUR,
            }
            let clusters = objects.values().cloned().collect();
            let set = ObjectSet { clusters, settings: vec![gateway.clone()], ..ObjectSet::default() };
            // Without a snapshot to follow, one is made of all resources.
            whole.resources = XdsResources::default();
            whole.filters.forget_resources();
            let [one, other] = [&mut followed, &mut whole].map(|it| it.reconcile(&set, &wanted, now).unwrap().snapshot);
            prop_assert!(one == other, "after {step:?}");
            was_served |= one.version_of("c0.example.com").is_some();
        }
        prop_assert!(was_served, "the first object is good");
    }
}
