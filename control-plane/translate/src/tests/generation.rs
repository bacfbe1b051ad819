use std::collections::BTreeSet;
use std::sync::Arc;

use envoy_types::pb::envoy::config::cluster::v3::Cluster;
use portcullis_api::{Discovered, Settings, with_discovered};
use prost::Message;
use serde_json::{Value, json};

use super::fixture::{Pki, base64, discovered, set, translated};
use crate::explain_input;
use crate::resource::type_urls;
use crate::settings::choose_settings;

/// Names of what reaches servers, and names for statistics.
fn names(cluster: &Value, request_headers: &Value) -> (BTreeSet<String>, BTreeSet<String>) {
    let document = json!({
        "apiVersion": "portcullis.dev/v1alpha1", "kind": "GatewaySettings", "metadata": {"name": "lab"},
        "spec": {"instance": "lab", "requestHeaderNames": request_headers},
    });
    let settings = choose_settings(&[document], None).settings.unwrap();
    let translation = translated(&settings, std::slice::from_ref(cluster));
    assert!(translation.diagnoses[0].accepted, "{:?}", translation.diagnoses);
    let marked = translation.resources().into_iter().filter(|one| one.name.contains('@'));
    let pools = translation.resources().into_iter().filter(|one| one.type_url == type_urls::cluster());
    let stat = |value: &[u8]| Cluster::decode(value).unwrap().alt_stat_name;
    (marked.map(|one| one.name.to_string()).collect(), pools.map(|one| stat(&one.value)).collect())
}

/// The base with one change; `front-proxy` forwards users in headers.
fn edited(pki: &Pki, edit: &str) -> (Value, Value) {
    let (mut cluster, mut headers) = (pki.cluster("prod.example.com"), json!({}));
    let client = "/spec/clientConfig";
    let renewed = pki.renewed_client();
    let mut change = |pointer: &str, value: Value| set(&mut cluster, pointer, value);
    match edit {
        "uid" => change("/metadata/uid", json!("2222")),
        "mode" => change("/spec/portcullis", json!({"upstreamIdentity": "RequestHeader"})),
        "asking user" => change(
            "/spec/portcullis",
            json!({"upstreamIdentity": "RequestHeader", "requestHeader": {"user": "system:other"}}),
        ),
        "header names" => {
            change("/spec/portcullis", json!({"upstreamIdentity": "RequestHeader"}));
            headers = json!({"user": "X-Other-User"});
        }
        "reserved names" => {
            change("/spec/portcullis", json!({"upstreamIdentity": "RequestHeader"}));
            headers = json!({"reserved": ["X-Legacy-Group"]});
        }
        "token" => change(&format!("{client}/bearerToken"), json!(base64("a-token"))),
        "other token" => change(&format!("{client}/bearerToken"), json!(base64("other-token"))),
        "subject" => {
            change(&format!("{client}/certData"), json!(base64(&pki.gateway.cert)));
            change(&format!("{client}/keyData"), json!(base64(&pki.gateway.key)));
        }
        "upstream CA" => change(&format!("{client}/caData"), json!(base64(&pki.serving.cert))),
        "server name" => change(&format!("{client}/serverName"), json!("apiserver")),
        "insecure" | "insecure, server" | "insecure, server disabled" => {
            change(&format!("{client}/caData"), Value::Null);
            change(&format!("{client}/insecure"), json!(true));
            match edit {
                "insecure, server" => change("/spec/servers/0/endpoint", json!("https://10.0.0.9:6443")),
                "insecure, server disabled" => change("/spec/servers/1/disabled", json!(true)),
                _ => {}
            }
        }
        "key" => {
            change(&format!("{client}/certData"), json!(base64(&renewed.cert)));
            change(&format!("{client}/keyData"), json!(base64(&renewed.key)));
        }
        "client CA" => change("/spec/secureServing/clientCAData", json!(base64(&pki.serving.cert))),
        "serving" => {
            change("/spec/secureServing/certData", json!(base64(&pki.gateway.cert)));
            change("/spec/secureServing/keyData", json!(base64(&pki.gateway.key)));
        }
        "server disabled" => change("/spec/servers/1/disabled", json!(true)),
        "server" => change("/spec/servers/0/endpoint", json!("https://10.0.0.9:6443")),
        "timeout" => change("/spec/portcullis", json!({"requestTimeout": "9s"})),
        "uid and timeout" => {
            change("/metadata/uid", json!("2222"));
            change("/spec/portcullis", json!({"requestTimeout": "9s"}));
        }
        "header names of the other mode" => headers = json!({"user": "X-Other-User"}),
        "nothing" => {}
        _ => panic!("{edit}"),
    }
    (cluster, headers)
}

#[test]
fn generation_changes_with_what_identity_depends_on() {
    let pki = Pki::new();
    let of = |edit: &str| {
        let (cluster, headers) = edited(&pki, edit);
        names(&cluster, &headers)
    };
    let (base, stats) = of("nothing");
    assert!(base.len() > 8 && base.iter().any(|name| name.starts_with("lab/-/prod.example.com/all.h2@")), "{base:?}");
    let mut seen = BTreeSet::from([base.clone()]);
    for edit in [
        "uid",
        "mode",
        "asking user",
        "header names",
        "reserved names",
        "token",
        "other token",
        "subject",
        "upstream CA",
        "server name",
        "insecure",
        "insecure, server",
    ] {
        let (names, edited_stats) = of(edit);
        assert!(names.is_disjoint(&base), "{edit}: {:?}", names.intersection(&base));
        assert!(seen.insert(names), "{edit}: a generation of its own");
        assert!(edited_stats.is_superset(&stats), "{edit}: statistics keep their names");
    }
    for edit in
        ["key", "client CA", "serving", "server disabled", "server", "timeout", "header names of the other mode"]
    {
        assert_eq!(of(edit), (base.clone(), stats.clone()), "{edit}");
    }
    assert_eq!(of("insecure, server disabled"), of("insecure"));
}

/// Their CA and name are those of the object: a roll of servers neither makes pools anew nor empties caches of credentials.
#[test]
fn discovered_servers_change_endpoints_alone() {
    let pki = Pki::new();
    let of = |discovery: &Value, address: &str| {
        let mut cluster = pki.cluster("prod.example.com");
        set(&mut cluster, "/spec/portcullis", json!({"discovery": discovery}));
        let servers = Discovered::Servers(vec![discovered(address, "")]);
        let cluster = with_discovered(&Arc::new(cluster), Some(&servers));
        let config = explain_input(&cluster, &Settings::default()).unwrap().config;
        let names = config.servers.unwrap().names;
        assert!(names.contains(&address.to_owned()), "{names:?}");
        (names_of(&cluster), config.identity)
    };
    let upstream = json!({"kubernetesService": true});
    let service = json!({"service": {"namespace": "a", "name": "b"}});
    let first = of(&upstream, "10.9.0.1:6443");
    assert_eq!(of(&upstream, "10.9.0.2:6443"), first);
    for other in [service, json!({"srvRecord": "_https._tcp.a.test"})] {
        assert_ne!(of(&other, "10.9.0.1:6443").1, first.1, "another source may be another cluster: {other}");
    }
}

fn names_of(cluster: &Value) -> BTreeSet<String> {
    names(cluster, &json!({})).0
}

/// The filter keeps counts by this word and the name.
#[test]
fn counts_are_kept_over_edits_and_not_over_objects() {
    let pki = Pki::new();
    let of = |edit: &str| {
        let (cluster, _) = edited(&pki, edit);
        explain_input(&cluster, &Settings::default()).map(|read| read.config.object).unwrap()
    };
    let base = of("nothing");
    assert_eq!((base.len(), of("uid").len()), (16, 16), "{base}");
    assert_ne!(of("uid"), base);
    for edit in ["mode", "token", "subject", "upstream CA", "server name", "insecure, server"] {
        assert_eq!(of(edit), base, "{edit}");
    }
}

/// Differences belong to one edition of a shadow and of what decides beside it. An edit of anything else begins no new count.
#[test]
fn shadow_has_another_mark_after_each_edit_of_either_side() {
    let pki = Pki::new();
    let rule = |verb: &str| json!({"verbs": [verb], "apiGroups": ["*"], "resources": ["*"]});
    let of = |edit: &str, real: &Value, shadow: &Value| {
        let (mut cluster, _) = edited(&pki, edit);
        set(&mut cluster, "/spec/dispatchPolicies", json!([{"rules": [real]}]));
        set(&mut cluster, "/spec/portcullis/shadow", json!({"dispatchPolicies": [{"rules": [shadow]}]}));
        let translation = translated(&Settings::default(), std::slice::from_ref(&cluster));
        let mark = translation.diagnoses[0].shadow.clone();
        let config = explain_input(&cluster, &Settings::default()).unwrap().config;
        assert_eq!(mark, config.shadow.map(|shadow| shadow.generation), "{:?}", translation.diagnoses);
        mark.unwrap()
    };
    let base = of("timeout", &rule("get"), &rule("list"));
    let others = [
        of("timeout", &rule("get"), &rule("watch")),
        of("timeout", &rule("list"), &rule("list")),
        of("timeout", &rule("list"), &rule("get")),
        of("uid and timeout", &rule("get"), &rule("list")),
    ];
    assert_eq!(others.iter().chain([&base]).collect::<BTreeSet<_>>().len(), 5, "{base} {others:?}");
    assert_eq!(of("mode", &rule("get"), &rule("list")), base);
    assert!(base.len() == 16 && translated(&Settings::default(), &[pki.cluster("a")]).diagnoses[0].shadow.is_none());
}
