use serde_json::{Value, json};

use super::fixture::{Pki, TOKEN, base64, set, translated};
use super::render::render;
use crate::{Translation, type_urls};

/// Everything but secrets, whose content is no matter of a golden.
fn shown(pki: &Pki, translation: &Translation, wanted: impl Fn(&str) -> bool) -> String {
    let all = translation.resources.iter().filter(|one| one.type_url != type_urls::secret() && wanted(&one.name));
    let text: String = all.map(render).collect();
    // The hash in the identity covers the CAs, which are new in every run.
    let mut parts = text.split("0000-1111");
    let first = parts.next().unwrap_or_default().to_owned();
    assert_eq!(parts.next(), None, "the identity is a hash");
    hide_identity(&pki.hide(&first))
}

fn hide_identity(text: &str) -> String {
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
fn a_cluster_with_a_certificate() {
    let pki = Pki::new();
    let translation = translated(&pki.settings(), &[pki.cluster("prod.example.com")]);
    let part = |wanted: &'static str| shown(&pki, &translation, move |name| name.contains(wanted));
    insta::assert_snapshot!("clusters", part("/all"));
    insta::assert_snapshot!("routes", part("/routes"));
    insta::assert_snapshot!("listener", part("/listener"));
    let names: Vec<_> = translation.resources.iter().map(|one| format!("{one:?}")).collect();
    let names: Vec<_> = names.iter().map(|name| name.rsplit_once(" (").unwrap().0).collect();
    insta::assert_snapshot!("names", names.join("\n"));
}

#[test]
fn a_cluster_with_a_token_and_dns_names() {
    let pki = Pki::new();
    let mut cluster = pki.cluster("dns.example.com");
    set(&mut cluster, "/spec/servers", json!([{"endpoint": "https://api.example.com"}]));
    set(&mut cluster, "/spec/dispatchPolicies/0/upsteamSubset", json!([]));
    set(
        &mut cluster,
        "/spec/clientConfig",
        json!({"insecure": true, "bearerToken": base64(TOKEN), "serverName": "10.0.0.1"}),
    );
    set(&mut cluster, "/spec/secureServing", Value::Null);
    cluster["spec"].as_object_mut().unwrap().remove("secureServing");
    let translation = translated(&pki.settings(), &[cluster]);
    insta::assert_snapshot!("token_clusters", shown(&pki, &translation, |name| name.contains("/all")));
}
