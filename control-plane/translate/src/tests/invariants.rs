use std::collections::BTreeSet;

use envoy_types::pb::envoy::config::route::v3::RouteConfiguration;
use proptest::prelude::*;
use prost::Message;
use serde_json::{Value, json};

use super::fixture::{Pki, TOKEN, base64, set, translated};
use super::render::render;
use crate::resource::type_urls;

fn many(pki: &Pki, count: usize) -> Vec<Value> {
    (0..count)
        .map(|number| {
            let mut cluster = pki.cluster(&format!("c{number}.example.com"));
            set(&mut cluster, "/spec/clientConfig/bearerToken", json!(base64(TOKEN)));
            cluster
        })
        .collect()
}

#[test]
fn equal_input_has_equal_bytes() {
    let pki = Pki::new();
    let (settings, clusters) = (pki.settings(), many(&pki, 3));
    let first = translated(&settings, &clusters);
    for _ in 0..100 {
        assert_eq!(translated(&settings, &clusters).resources(), first.resources());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    /// Objects come in any order, from files or from a watch.
    #[test]
    fn order_of_objects_does_not_matter(order in Just((0..4_usize).collect::<Vec<_>>()).prop_shuffle()) {
        let pki = Pki::new();
        let (settings, clusters) = (pki.settings(), many(&pki, 4));
        let shuffled: Vec<_> = order.iter().map(|index| clusters[*index].clone()).collect();
        let (shuffled, ordered) = (translated(&settings, &shuffled), translated(&settings, &clusters));
        prop_assert_eq!(shuffled.resources(), ordered.resources());
    }
}

#[test]
fn sorted_encoding_is_the_generated_messages_own() {
    let pki = Pki::new();
    let translation = translated(&pki.settings(), &many(&pki, 1));
    let routes =
        translation.resources().into_iter().find(|one| one.type_url == type_urls::route_configuration()).unwrap();
    let decoded = RouteConfiguration::decode(routes.value.as_slice()).unwrap();
    let again = RouteConfiguration::decode(decoded.encode_to_vec().as_slice()).unwrap();
    assert_eq!(decoded, again);
    assert_eq!(decoded.encoded_len(), routes.value.len(), "nothing is lost on the way");
    assert!(decoded.virtual_hosts[0].matcher.is_some());
}

fn holds(haystack: &[u8], needle: &str) -> bool {
    haystack.windows(needle.len()).any(|window| window == needle.as_bytes())
}

#[test]
fn keys_and_tokens_are_in_secrets_only() {
    let pki = Pki::new();
    let mut clusters = many(&pki, 1);
    // A careless user puts a key beside a CA.
    let mixed = format!("{}{}", pki.upstream_ca.key, pki.upstream_ca.cert);
    set(&mut clusters[0], "/spec/clientConfig/caData", json!(base64(&mixed)));
    let mixed = format!("{}{}", pki.client_ca.key, pki.client_ca.cert);
    set(&mut clusters[0], "/spec/secureServing/clientCAData", json!(base64(&mixed)));
    let translation = translated(&pki.settings(), &clusters);
    assert!(translation.diagnoses[0].accepted, "{:?}", translation.diagnoses);
    let key_line = |pem: &str| pem.lines().nth(1).unwrap().to_owned();
    let secrets: Vec<_> = [&pki.gateway, &pki.serving, &pki.client].iter().map(|pair| key_line(&pair.key)).collect();
    let strays = [key_line(&pki.upstream_ca.key), key_line(&pki.client_ca.key)];
    let is_secret = |type_url: &str| type_url == type_urls::secret();
    for secret in secrets.iter().map(String::as_str).chain([TOKEN]) {
        let found = |wanted: bool| {
            translation
                .resources()
                .into_iter()
                .any(|one| is_secret(one.type_url) == wanted && holds(&one.message(), secret))
        };
        assert!(found(true) && !found(false), "{secret}");
    }
    for stray in &strays {
        assert!(!translation.resources().into_iter().any(|one| holds(&one.message(), stray)));
    }
    let shown = format!("{translation:?}");
    assert!(!shown.contains(TOKEN) && secrets.iter().all(|secret| !shown.contains(secret.as_str())));
}

#[test]
fn references_between_resources_resolve() {
    let pki = Pki::new();
    let translation = translated(&pki.settings(), &many(&pki, 2));
    let names: BTreeSet<&str> = translation.resources().into_iter().map(|one| one.name.as_ref()).collect();
    let text: String =
        translation.resources().into_iter().filter(|one| one.type_url != type_urls::secret()).map(render).collect();
    let mut references = 0;
    for name in text.split('"').filter(|name| name.starts_with("lab/-/")) {
        let part = name.trim_start_matches("lab/-/").split_once('/').map_or("", |(_, part)| part);
        // A chain's name, a name for statistics and an identity inside JSON refer to nothing.
        let refers = !part.is_empty() && !name.contains(['_', '\\']) && !["default", "reserved"].contains(&part);
        assert!(!refers || names.contains(name), "{name}");
        references += usize::from(refers);
    }
    assert!(references > 50);
}

#[test]
fn bad_object_takes_nothing_from_the_others() {
    let pki = Pki::new();
    let good = many(&pki, 2);
    let alone = translated(&pki.settings(), &good);
    for bad in [json!({}), json!([]), json!({"metadata": {"name": "a.*.b"}}), json!({"spec": {"serverz": 1}})] {
        let mut all = good.clone();
        all.insert(0, bad.clone());
        let translation = translated(&pki.settings(), &all);
        assert!(!translation.diagnoses[0].accepted, "{bad}");
        assert_eq!(translation.resources(), alone.resources(), "{bad}");
    }
}

#[test]
fn name_of_a_refused_object_does_not_fall_to_a_wildcard() {
    let pki = Pki::new();
    let wild = pki.cluster("example.com");
    let mut refused = pki.cluster("sub.example.com");
    set(&mut refused, "/spec/servers", json!([]));
    set(&mut refused, "/metadata/creationTimestamp", json!("2020-01-01T00:00:00Z"));
    let is_closed = |refused: &Value| {
        let translation = translated(&pki.settings(), &[wild.clone(), refused.clone()]);
        let listener = translation.resources().into_iter().find(|one| one.type_url == type_urls::listener()).unwrap();
        let names = ["sub.example.com", "lab/-/-/reserved"].map(|name| holds(&listener.message(), name));
        assert_eq!(names[0], names[1]);
        names[0]
    };
    assert!(is_closed(&refused));
    set(&mut refused, "/metadata/creationTimestamp", json!("2030-01-01T00:00:00Z"));
    assert!(!is_closed(&refused), "a newcomer closes nothing that somebody else serves");
    set(&mut refused, "/status", json!({"names": ["sub.example.com"]}));
    assert!(is_closed(&refused), "it is no newcomer any more");
}
