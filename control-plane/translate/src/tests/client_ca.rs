//! The client CA of the settings, for clusters that have none of their own.

use std::collections::{BTreeMap, BTreeSet};

use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::certificate_validation_context::TrustChainVerification;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::{Secret, secret};
use portcullis_api::{ProblemCode, PublicBytes, Settings};
use prost::Message;
use serde_json::{Value, json};

use super::fixture::{Pki, base64, set, translated};
use crate::diagnosis::Reason;
use crate::settings::choose_settings;
use crate::{Translation, explain_input};

fn cluster(pki: &Pki, own_ca: Option<&str>) -> Value {
    let mut cluster = pki.cluster("prod.example.com");
    set(&mut cluster, "/spec/secureServing/clientCAData", json!(own_ca.map(base64).unwrap_or_default()));
    cluster
}

fn settings(pki: &Pki, default_ca: Option<&str>) -> Settings {
    Settings { default_client_ca: default_ca.map(|pem| PublicBytes::new(pem.into())), ..pki.settings() }
}

fn identity_of(cluster: &Value, settings: &Settings) -> String {
    explain_input(cluster, settings).unwrap().config.identity
}

/// Bytes by type and name.
fn bytes(translation: &Translation) -> BTreeMap<(&str, &str), Vec<u8>> {
    translation.resources().into_iter().map(|one| ((one.type_url, one.name.as_ref()), one.message())).collect()
}

#[test]
fn default_client_ca_acts_as_the_clusters_own() {
    let pki = Pki::new();
    let [one, other] = [&pki.client_ca.cert, &pki.upstream_ca.cert].map(String::as_str);
    let own = translated(&settings(&pki, None), &[cluster(&pki, Some(one))]);
    for default in [one, other] {
        let with_own = translated(&settings(&pki, Some(default)), &[cluster(&pki, Some(one))]);
        assert_eq!(with_own.resources(), own.resources(), "the cluster's own CA is the only one");
    }
    let by_default = translated(&settings(&pki, Some(one)), &[cluster(&pki, None)]);
    assert_eq!(by_default.resources(), own.resources());
    assert!(by_default.diagnoses[0].accepted && by_default.diagnoses[0].warnings.is_empty());
}

#[test]
fn default_client_ca_edit_renames_nothing_and_empties_caches() {
    let pki = Pki::new();
    let cluster = cluster(&pki, None);
    let authorities = [None, Some(pki.client_ca.cert.as_str()), Some(pki.upstream_ca.cert.as_str())];
    let all =
        authorities.map(|ca| (settings(&pki, ca), translated(&settings(&pki, ca), std::slice::from_ref(&cluster))));
    for ((settings, translation), (others, other)) in [(&all[0], &all[1]), (&all[1], &all[2]), (&all[2], &all[0])] {
        assert_ne!(identity_of(&cluster, settings), identity_of(&cluster, others));
        let (before, after) = (bytes(translation), bytes(other));
        let changed = after.iter().filter(|(key, value)| before.get(*key) != Some(value));
        let changed: BTreeSet<_> = changed.map(|((_, name), _)| name.rsplit('/').next().unwrap()).collect();
        assert_eq!(changed, BTreeSet::from(["client-validation", "routes"]), "neither listener nor pools change");
        assert!(before.keys().eq(after.keys()));
    }
}

#[test]
fn clusters_without_any_client_ca_are_reported() {
    let pki = Pki::new();
    let mut cluster = cluster(&pki, None);
    let diagnosis =
        |cluster: &Value, settings: &Settings| translated(settings, std::slice::from_ref(cluster)).diagnoses.remove(0);
    let (without, with) = (settings(&pki, None), settings(&pki, Some(&pki.client_ca.cert)));
    let found = diagnosis(&cluster, &without);
    assert_eq!((found.accepted, found.cautions[0].code), (true, ProblemCode::DiffersFromKubegateway));
    assert_eq!(found.cautions[0].path, "spec.secureServing.clientCAData");

    set(&mut cluster, "/spec/portcullis", json!({"allowAnonymous": false}));
    let found = diagnosis(&cluster, &without);
    assert!(found.accepted && found.cautions.is_empty(), "a 401 tells such clients: {:?}", found.cautions);

    set(&mut cluster, "/spec/portcullis", json!({"clientCertificateVerification": "Handshake"}));
    let found = diagnosis(&cluster, &without);
    assert_eq!(
        (found.accepted, found.reason, found.problems[0].code),
        (false, Reason::Invalid, ProblemCode::NoClientCa)
    );
    let accepted = translated(&with, &[cluster]);
    assert!(accepted.diagnoses[0].accepted, "{:?}", accepted.diagnoses);
    let validation = accepted.resources().into_iter().find(|one| one.name.ends_with("/client-validation")).unwrap();
    let secret = Secret::decode(validation.value.as_slice()).unwrap();
    let Some(secret::Type::ValidationContext(context)) = secret.r#type else { panic!("{}", validation.name) };
    assert_eq!(context.trust_chain_verification(), TrustChainVerification::VerifyTrustChain);
    assert!(context.trusted_ca.is_some());
}

#[test]
fn settings_with_a_client_ca_that_no_filter_takes_are_refused() {
    let pki = Pki::new();
    let document = json!({
        "apiVersion": "portcullis.dev/v1alpha1", "kind": "GatewaySettings", "metadata": {"name": "g"},
        "spec": {"defaultClientCA": {"data": base64(&pki.client_ca.cert)}},
    });
    let refuse = |_: &str| Err("is not taken".to_owned());
    let choice = choose_settings(std::slice::from_ref(&document), Some(refuse));
    assert_eq!((choice.settings, choice.diagnoses[0].accepted), (None, false));
    assert!(choice.diagnoses[0].message.contains("spec.defaultClientCA.data: is not taken"));
    let settings = choose_settings(&[document], Some(|_| Ok(()))).settings.unwrap();
    assert_eq!(settings.default_client_ca.unwrap().as_slice(), pki.client_ca.cert.as_bytes());
}
