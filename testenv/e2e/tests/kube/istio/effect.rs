//! The part of istiod's configuration that is in effect in Envoy.

use std::time::Duration;

use portcullis_e2e::Mesh;
use portcullis_harness::wait;
use serde_json::Value;

/// Nothing that istiod sent was refused by Envoy.
pub(super) fn nothing_was_refused(mesh: &Mesh) {
    assert_eq!(mesh.istiod().refusals().unwrap(), Vec::<String>::new(), "{}", mesh.istiod().process().log_tail());
    let rejected = mesh.gateway().admin().stats("update_rejected$|lds.update_failure$").unwrap();
    let rejected: Vec<_> = rejected.into_iter().filter(|(_, count)| *count > 0).collect();
    assert_eq!(rejected, [], "{}", mesh.gateway().process().log_tail());
    let dump = mesh.gateway().admin().config_dump().unwrap();
    assert!(!dump.to_string().contains("\"error_state\""), "{dump:#}");
}

/// The HTTP connection manager in the chain for a host name.
pub(super) fn manager(mesh: &Mesh, name: &str) -> Value {
    let chain = chain(mesh, name).unwrap_or_else(|| panic!("no chain for {name}"));
    chain["filters"][0]["typed_config"].clone()
}

/// Whether the gateway takes connections for a host name.
pub(super) fn serves(mesh: &Mesh, name: &str) -> bool {
    chain(mesh, name).is_some()
}

fn chain(mesh: &Mesh, name: &str) -> Option<Value> {
    let dump = mesh.gateway().admin().json("/config_dump?resource=dynamic_listeners").unwrap();
    let chains =
        values(&dump["configs"]).flat_map(|config| values(&config["active_state"]["listener"]["filter_chains"]));
    let mut chains = chains.filter(|chain| values(&chain["filter_chain_match"]["server_names"]).any(|one| one == name));
    chains.next().cloned()
}

/// The virtual host of a name, from Envoy's routes.
pub(super) fn virtual_host(mesh: &Mesh, name: &str) -> Value {
    let dump = mesh.gateway().admin().json("/config_dump?resource=dynamic_route_configs").unwrap();
    let hosts = values(&dump["configs"]).flat_map(|config| values(&config["route_config"]["virtual_hosts"]));
    let mut hosts = hosts.filter(|host| values(&host["domains"]).any(|one| one == name));
    hosts.next().cloned().unwrap_or_else(|| panic!("no virtual host for {name}: {dump:#}"))
}

/// Connections that the gateway has made to a subset's servers, by the version of HTTP.
pub(super) fn connections(mesh: &Mesh, subset: &str) -> (u64, u64) {
    let count = |version: &str| {
        let filter = format!("^cluster.(outbound|portcullis).443.{subset}.*upstream_cx_{version}_total");
        mesh.gateway().admin().stats(&filter).unwrap().iter().map(|(_, count)| count).sum()
    };
    (count("http1"), count("http2"))
}

/// Waits for an answer; `seen` says whether it is the one.
pub(super) fn eventually(what: &str, seen: impl Fn() -> Result<(), String>) {
    wait::until_ok(what, Duration::from_secs(30), seen).unwrap();
}

fn values(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}
