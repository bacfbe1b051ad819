use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use portcullis_api::{ReferencedData, SecretBytes, SecretData, Settings};
use portcullis_sources::{FileDiagnosis, Input, ObjectSet, read_inputs};
use portcullis_translate::Translation;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Outcome, Retention};
use crate::serve::explained_diagnoses::diagnosis_of_file;
use crate::serve::group_change::GroupChange;
use crate::serve::reconciler::{Reconciled, Reconciler};

const HOUR: Duration = Duration::from_secs(3_600);

/// A set of objects in which `a.test` refers to the Secret `wanted`, and this one is there.
fn set(wanted: &str, there: Option<&str>) -> ObjectSet {
    let text = format!(
        "apiVersion: portcullis.dev/v1alpha1\nkind: GatewaySettings\nmetadata: {{name: a}}\n---\n\
         apiVersion: proxy.kubegateway.io/v1alpha1\nkind: UpstreamCluster\nmetadata: {{name: a.test}}\nspec:\n  \
         servers: [{{endpoint: \"https://10.0.0.1\"}}]\n  clientConfig: {{insecure: true}}\n  \
         portcullis: {{references: {{token: {{secret: {{name: {wanted}}}}}, serving: {{secret: {{name: {wanted}}}}}}}}}\n  \
         dispatchPolicies: [{{rules: [{{verbs: [get], nonResourceURLs: [\"/\"]}}]}}]\n"
    );
    let set = read_inputs(&[Input::Text { name: "f.yaml".to_owned(), bytes: text.into() }]).unwrap();
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
    let certificate = rcgen::CertificateParams::new(vec!["a.test".to_owned()]).unwrap().self_signed(&key).unwrap();
    let data = [("token", "T0KEN".to_owned()), ("tls.crt", certificate.pem()), ("tls.key", key.serialize_pem())];
    let data = data.map(|(name, text)| (name.to_owned(), SecretBytes::new(text.into_bytes())));
    let secret = SecretData { owners: ["a.test".to_owned()].into(), data: data.into() };
    let secrets = there.map(|name| (name.to_owned(), secret));
    ObjectSet { referenced_data: ReferencedData::secrets(secrets), ..set }
}

fn is_served(update: &Reconciled) -> bool {
    // A removed object has a tombstone, which is no cluster.
    let clusters = portcullis_translate::type_urls::cluster();
    update.snapshot.resources().any(|(url, _, one)| url == clusters && one.owner() == Some("a.test"))
}

fn message(update: &Reconciled) -> String {
    update.diagnoses.iter().find(|one| one.name == "a.test").unwrap().message.clone()
}

#[test]
fn revoked_reference_keeps_serving_for_the_grace_period() {
    let start = Instant::now();
    let mut reconciler = Reconciler::resume(None, 24 * HOUR);
    let mut at = |hours: u32, wanted: &str, there: Option<&str>| {
        let update = reconciler.reconcile(&set(wanted, there), &BTreeSet::new(), start + hours * HOUR).unwrap();
        (is_served(&update), update.serving_revoked, message(&update), reconciler.next_expiry())
    };
    let (served, revoked, found, _) = at(0, "one", Some("one"));
    assert!(served && revoked == 0, "{found}");
    let (served, revoked, found, next) = at(1, "one", None);
    assert!(served && revoked == 1 && found.contains("is revoked"), "{found}");
    assert_eq!(next, Some(start + 25 * HOUR));
    let (served, revoked, ..) = at(24, "one", None);
    assert!(served && revoked == 1);
    let (served, revoked, found, next) = at(25, "one", None);
    assert!(!served && revoked == 0 && next.is_none_or(|next| next > start + 25 * HOUR), "{found}");
    let (served, ..) = at(26, "one", Some("one"));
    assert!(served, "the Secret is back");
}

#[test]
fn wrong_edit_of_a_reference_starts_no_grace_period() {
    let start = Instant::now();
    let mut reconciler = Reconciler::resume(None, Duration::ZERO);
    let mut at = |hours: u32, wanted: &str, there: Option<&str>| {
        let update = reconciler.reconcile(&set(wanted, there), &BTreeSet::new(), start + hours * HOUR).unwrap();
        (is_served(&update), update.serving_revoked, message(&update))
    };
    assert!(at(0, "one", Some("one")).0);
    let (served, revoked, found) = at(100, "other", Some("one"));
    assert!(served && revoked == 0 && found.contains("still served") && !found.contains("revoked"), "{found}");
    let (served, ..) = at(101, "other", None);
    assert!(!served, "the reference of the served version is revoked, too");
}

/// `kubectl replace --force`, or a relist after an outage: an object goes and another one of its name comes in one step.
#[test]
fn object_that_was_replaced_leaves_nothing() {
    let clusters = portcullis_translate::type_urls::cluster();
    let pools = |update: &Reconciled| -> BTreeSet<String> {
        let all = update.snapshot.resources().filter(|(url, _, one)| *url == clusters && one.owner() == Some("a.test"));
        all.map(|(_, name, _)| name.to_string()).collect()
    };
    for (uid, is_retained) in [("1", true), ("2", false)] {
        let (mut reconciler, now) = (Reconciler::resume(None, HOUR), Instant::now());
        let mut served = Vec::new();
        // Without a CA the server is part of the generation.
        for (uid, edit) in [("1", None), (uid, Some("https://10.0.0.2"))] {
            let mut set = set("one", Some("one"));
            for document in &mut set.clusters {
                let mut edited = serde_json::Value::clone(document);
                edited["metadata"]["uid"] = uid.into();
                if let Some(server) = edit {
                    edited["spec"]["servers"][0]["endpoint"] = server.into();
                }
                *document = std::sync::Arc::new(edited);
            }
            served.push(pools(&reconciler.reconcile(&set, &BTreeSet::new(), now).unwrap()));
        }
        let both = served[0].intersection(&served[1]).count();
        assert!(!served[0].is_empty() && !served[1].is_empty());
        assert_eq!(both > 0, is_retained, "{served:?}");
    }
}

/// An object: its name, its edition, and whether it is accepted.
type Drawn = (usize, u8, bool);

proptest! {
    /// Several objects of files may have one name, of which the last accepted one counts.
    #[test]
    fn documents_that_are_accepted_are_those_of_the_last_set(
        sets in proptest::collection::vec(proptest::collection::vec((0..3_usize, 0..2_u8, any::<bool>()), 0..5), 1..9),
    ) {
        let (mut retention, mut made) = (Retention::new(HOUR), BTreeMap::new());
        for set in sets {
            let one = |(name, edition, accepted): Drawn| {
                let file = FileDiagnosis { file: format!("c{name}"), message: String::new(), refused: !accepted, at: None };
                (Arc::new(json!({"edition": edition})), Arc::new(diagnosis_of_file(&file)))
            };
            let known = |object: Drawn| made.entry(object).or_insert_with(|| one(object)).clone();
            let (documents, diagnoses): (Vec<Arc<Value>>, Vec<_>) = set.iter().copied().map(known).unzip();
            let translation = Translation { groups: Vec::new(), diagnoses };
            let (change, settings) = (GroupChange::default(), Settings::default());
            let outcome = Outcome {
                written: &documents,
                translated: &documents,
                fallbacks: &[],
                translation: &translation,
                change: &change,
                settings: &settings,
            };
            retention.record(&outcome, Instant::now());
            let accepted = set.iter().zip(&documents).filter(|((_, _, accepted), _)| *accepted);
            let expected: BTreeMap<String, Arc<Value>> =
                accepted.map(|((name, ..), document)| (format!("c{name}"), Arc::clone(document))).collect();
            prop_assert_eq!(retention.accepted(), &expected);
        }
    }
}
