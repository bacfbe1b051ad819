//! From the README of `envoy/envoy-gateway` to kubectl at work.

use std::time::Duration;

use portcullis_harness::client::H2Client;
use portcullis_harness::envoy::Envoy;
use serde_json::{Value, json};

use super::fixture::{CONFIGMAPS, EnvoyGatewayFixture, OURS, values};
use crate::istio::users::nothing_said_changes_it;

#[test]
fn gateway_of_envoy_gateways_serves_with_the_module() {
    let Some(mut fixture) = EnvoyGatewayFixture::start("eg-serving", false) else { return };
    nothing_was_refused(fixture.proxy.as_ref().unwrap());
    nothing_is_lost(fixture.proxy.as_ref().unwrap());
    users_are_who_they_are(&fixture);
    sessions_work(&fixture);
    the_path_arrives_as_it_was_written(&fixture);
    connection_for_one_name_takes_no_request_for_another(&fixture);
    // With the Envoy that all other tests have, too.
    drop(fixture.proxy.take());
    fixture.proxy = Some(fixture.site.ready_proxy(&fixture.run, "pinned", None).unwrap());
    nothing_was_refused(fixture.proxy.as_ref().unwrap());
    users_are_who_they_are(&fixture);
}

#[test]
fn users_are_impersonated_behind_envoy_gateway() {
    let Some(fixture) = EnvoyGatewayFixture::start("eg-impersonate", true) else { return };
    nothing_was_refused(fixture.proxy.as_ref().unwrap());
    users_are_who_they_are(&fixture);
    let seen = |event: &Value| {
        event["user"]["username"] == "system:portcullis" && event["impersonatedUser"]["username"] == "alice"
    };
    fixture.kube.apiservers()[0].wait_audit("alice is impersonated", Duration::from_secs(30), seen).unwrap();
}

/// Nothing that Envoy Gateway sent was refused by Envoy.
fn nothing_was_refused(proxy: &Envoy) {
    let rejected = proxy.admin().stats("update_rejected$|lds.update_failure$").unwrap();
    let rejected: Vec<_> = rejected.into_iter().filter(|(_, count)| *count > 0).collect();
    assert_eq!(rejected, [], "{}", proxy.process().log_tail());
    let dump = proxy.admin().config_dump().unwrap();
    assert!(!dump.to_string().contains("\"error_state\""), "{dump:#}");
}

/// The features that the README of `envoy/` asks to keep, as far as no request of this test shows them.
fn nothing_is_lost(proxy: &Envoy) {
    let dump = proxy.admin().json("/config_dump?resource=dynamic_listeners").unwrap();
    let listeners = values(&dump["configs"]).map(|config| &config["active_state"]["listener"]);
    let mut chains = listeners.flat_map(|listener| values(&listener["filter_chains"]));
    let chain = chains.find(|chain| chain["name"] == format!("{OURS}/prod-example-com/https")).unwrap();
    let manager = &chain["filters"][0]["typed_config"];
    for (field, value) in [
        ("stream_idle_timeout", json!("300s")),
        ("normalize_path", json!(false)),
        ("path_with_escaped_slashes_action", json!("KEEP_UNCHANGED")),
        ("use_remote_address", json!(true)),
        ("forward_client_cert_details", json!("SANITIZE_SET")),
        ("stream_flush_timeout", json!("60s")),
    ] {
        assert_eq!(manager[field], value, "{field}: {manager:#}");
    }
    assert_ne!(manager["merge_slashes"], json!(true));
    assert_eq!(manager["set_current_client_cert_details"]["chain"], true);
    assert!(manager["early_header_mutation_extensions"].to_string().contains("x-remote-"));
    let tls = &chain["transport_socket"]["typed_config"];
    assert_eq!(tls["disable_stateless_session_resumption"], true, "{tls:#}");
    let dump = proxy.admin().json("/config_dump?resource=dynamic_route_configs").unwrap();
    let mut hosts = values(&dump["configs"]).flat_map(|config| values(&config["route_config"]["virtual_hosts"]));
    let host = hosts.next().unwrap();
    assert!(hosts.next().is_none(), "{dump:#}");
    let (last, opened) = host["routes"].as_array().unwrap().split_last().unwrap();
    assert_eq!(last["direct_response"]["status"], 503, "{last:#}");
    assert_eq!(opened.len(), 13, "{host:#}");
    for route in opened {
        assert!(route["match"]["filter_state"].is_array(), "only the filter opens it: {route:#}");
    }
}

/// Whatever a client says of itself, it is who it is past the gateway.
fn users_are_who_they_are(fixture: &EnvoyGatewayFixture) {
    let token = format!("Bearer {}", fixture.token);
    let token = &[("authorization", token.as_bytes())][..];
    for (case, identity, credential) in [
        ("certificate", Some(&fixture.alice), &[][..]),
        ("token", None, token),
        ("nobody", None, &[]),
        ("rejected", None, &[("authorization", b"Bearer unheard-of")]),
        ("administrator", Some(fixture.kube.admin()), &[]),
    ] {
        let with = |target: portcullis_harness::client::TlsTarget| match identity {
            Some(identity) => target.identity(identity),
            None => target,
        };
        nothing_said_changes_it(case, credential, &with(fixture.direct()), &with(fixture.target()));
    }
}

fn sessions_work(fixture: &EnvoyGatewayFixture) {
    fixture.kube.run_pod("pod").unwrap();
    let (alice, robot) = (fixture.kubeconfig().identity(&fixture.alice), fixture.kubeconfig().token(&fixture.token));
    for (name, through) in [("alice", alice), ("robot", robot)] {
        for websockets in ["true", "false"] {
            let kubectl = fixture.kubectl(&through).env("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", websockets);
            let output = kubectl.args(["exec", "-i", "pod", "--", "sh", "-c", "cat; exit 7"]).run().unwrap();
            assert_eq!(output.status.code(), Some(7), "{name}, WebSockets {websockets}: {output:?}");
        }
    }
}

fn the_path_arrives_as_it_was_written(fixture: &EnvoyGatewayFixture) {
    let path = "/api/v1/namespaces/default/services/web/proxy/a%2Fb//c/..%2f%41/./d";
    fixture.ask(path, &[]).unwrap();
    let arrived = |event: &Value| event["requestURI"] == path;
    fixture.kube.apiservers()[0].wait_audit("the same path", Duration::from_secs(30), arrived).unwrap();
}

fn connection_for_one_name_takes_no_request_for_another(fixture: &EnvoyGatewayFixture) {
    let alice = fixture.target().identity(&fixture.alice);
    for (name, status) in [
        ("other.example.com", 421),
        ("prod.example.com.evil.com", 421),
        ("prod.example.com:443", 200),
        ("PROD.example.com", 200),
        ("prod.example.com.", 200),
        ("10.0.0.1:443", 200),
    ] {
        let answer = H2Client::connect(&alice).unwrap().authority(name).get(CONFIGMAPS, &[]).unwrap();
        assert_eq!(answer.status, status, "{name}: {}", answer.text());
        assert!(answer.json().unwrap()["kind"].is_string(), "{name}");
    }
    assert!(fixture.target().sni("other.example.com").connect().is_err());
}
