//! Every kind of change that ends nothing. They can be made over and over in this order, and each then changes something.

use portcullis_e2e::{Manifest, allow_all};
use portcullis_harness::certs::Ca;
use portcullis_stub_apiserver::StubServer;
use serde_json::{Value, json};

use super::references;
use super::site::{OWN_TOKENS, Site, encode, own_identity, servers};
use crate::fixture::NAME;

/// The name of a change, and the change; `turn` is the number of times it was made before.
pub(super) type Change = (&'static str, fn(&mut Site, usize));

/// In the order in which they are made.
pub(super) const CHANGES: &[Change] = &[
    ("a policy", policy),
    ("a policy's strategy", strategy),
    ("a policy's servers", subset),
    ("a policy's log mode", log_mode),
    ("a limit's number", limit),
    ("a limit's kind", limit_kind),
    ("a server is disabled", |site, _| {
        let value = servers(&site.addresses()[..2], &site.addresses()[2..]);
        site.change("/spec/servers", value);
    }),
    ("a server is enabled", all_servers),
    ("a server comes", server_comes),
    ("a server goes", all_servers),
    ("a server comes by name", server_by_name),
    ("a server goes by name", all_servers),
    ("the serving certificate", serving),
    ("the client certificate", client_certificate),
    ("the token", token),
    ("references instead of keys", references::instead),
    ("what is referred to", references::edited),
    ("keys instead of references", references::inline),
    ("users are told by request headers", request_headers),
    ("the gateway's own user", |site, _| {
        site.change("/spec/portcullis/requestHeader", json!({"user": "system:other"}))
    }),
    ("tokens are not asked about", |site, _| {
        site.change("/spec/portcullis/requestHeader", json!({"tokenReview": false}))
    }),
    ("users are told by impersonation", impersonation),
    ("the servers' CA", upstream_ca),
    ("servers are not verified", |site, _| verified(site, false)),
    ("servers are verified", |site, _| verified(site, true)),
    ("the servers' name", server_name),
    ("the clients' CA", client_ca),
    ("the health check", health),
    ("the request timeout", timeout),
    ("cache lifetimes", caches),
    ("extra authorities", authorities),
    ("zones", zones),
    ("weights", weights),
    ("the drain period", drain_period),
    ("the session limit", session_limit),
    ("audit attribution", attribution),
    ("anonymous requests", anonymous),
    ("the log mode", logging),
    ("CloseConnectionWhenIdle on", |site, _| gates(site, "CloseConnectionWhenIdle=true")),
    ("CloseConnectionWhenIdle off", |site, _| gates(site, "")),
    ("another cluster comes", |site, _| site.gateway.apply(&other(site)).unwrap()),
    ("another cluster is frozen", freeze_other),
    ("another cluster goes", remove_other),
    ("a wrong edit, and the right one", wrong),
    ("limits of the gateway", settings_limits),
    ("protected identities", protected_identities),
    ("connections drained at random", rebalance),
    ("the default certificate", default_certificate),
    ("another control plane", |site, _| site.gateway.restart_control_plane().unwrap()),
];

fn is_odd(turn: usize) -> bool {
    turn % 2 == 1
}

/// A value for even turns and one for odd ones; even ones come first.
fn either(turn: usize, even: Value, odd: Value) -> Value {
    if is_odd(turn) { odd } else { even }
}

/// Sets a field of the last policy, which takes what the others leave, without applying it.
fn catch_all_field(site: &mut Site, field: &str, value: Value) {
    let mut policies = site.manifest.get("/spec/dispatchPolicies");
    let last = policies.as_array().unwrap().len() - 1;
    policies[last][field] = value;
    site.set("/spec/dispatchPolicies", policies);
}

fn catch_all(site: &mut Site, field: &str, value: Value) {
    catch_all_field(site, field, value);
    site.gateway.apply(&site.manifest).unwrap();
}

fn policy(site: &mut Site, turn: usize) {
    let all = site.manifest.get("/spec/dispatchPolicies").as_array().unwrap().last().unwrap().clone();
    let rule = json!({"verbs": ["delete"], "apiGroups": ["*"], "resources": ["*"], "users": [format!("user-{turn}")]});
    let narrow = json!({"rules": [rule], "flowControlSchemaName": "other"});
    site.change("/spec/dispatchPolicies", json!([narrow, all]));
}

fn strategy(site: &mut Site, turn: usize) {
    catch_all(site, "strategy", either(turn, json!("LeastRequest"), json!("Random")));
}

fn subset(site: &mut Site, turn: usize) {
    let urls: Vec<_> = site.stubs.iter().map(StubServer::url).collect();
    catch_all(site, "upstreamSubset", either(turn, json!(urls[..2]), json!(urls[1..])));
}

fn log_mode(site: &mut Site, turn: usize) {
    catch_all(site, "logMode", either(turn, json!("on"), json!("")));
}

fn schemas(site: &mut Site, wide: Value) {
    let other = json!({"name": "other", "maxRequestsInflight": {"max": 1}});
    site.change("/spec/flowControl", json!({"flowControlSchemas": [wide, other]}));
}

fn limit(site: &mut Site, turn: usize) {
    schemas(site, json!({"name": "wide", "maxRequestsInflight": {"max": 90_000 - turn}}));
}

fn limit_kind(site: &mut Site, turn: usize) {
    let bucket = json!({"name": "wide", "tokenBucket": {"qps": 90_000, "burst": 100_000}});
    schemas(site, either(turn, bucket, json!({"name": "wide", "maxRequestsInflight": {"max": 100_000}})));
}

fn all_servers(site: &mut Site, _: usize) {
    let value = servers(&site.addresses(), &[]);
    site.change("/spec/servers", value);
}

/// A server that no watch is opened to: what runs on a server ends some time after it was removed.
fn server_comes(site: &mut Site, _: usize) {
    let more = [&site.addresses()[..], &[site.spare.address()]].concat();
    site.change("/spec/servers", servers(&more, &[]));
}

/// One name among the addresses, and Envoy gets clusters of another kind.
fn server_by_name(site: &mut Site, _: usize) {
    let mut all = servers(&site.addresses(), &[]);
    let named = json!({"endpoint": format!("https://localhost:{}", site.spare.address().port())});
    all.as_array_mut().unwrap().push(named);
    catch_all_field(site, "upstreamSubset", json!([]));
    site.change("/spec/servers", all);
}

fn serving(site: &mut Site, _: usize) {
    let identity = site.gateway.serving_identity(NAME).unwrap();
    site.set("/spec/secureServing/keyData", encode(&identity.key_pem()));
    site.change("/spec/secureServing/certData", encode(&identity.pem()));
}

fn client_certificate(site: &mut Site, _: usize) {
    let identity = own_identity(&site.pki.client_ca);
    site.set("/spec/clientConfig/keyData", encode(&identity.key_pem()));
    site.change("/spec/clientConfig/certData", encode(&identity.pem()));
}

/// Each time there was none: a cluster that forwards users in request headers has no token.
fn token(site: &mut Site, turn: usize) {
    site.change("/spec/clientConfig/bearerToken", encode(OWN_TOKENS[turn % OWN_TOKENS.len()]));
}

/// The authority and another one, which is new each time.
fn bundle(ca: &Ca) -> Value {
    encode(&format!("{}{}", ca.pem(), Ca::new("another").unwrap().pem()))
}

fn upstream_ca(site: &mut Site, _: usize) {
    let value = bundle(&site.pki.server_ca);
    site.change("/spec/clientConfig/caData", value);
}

fn verified(site: &mut Site, on: bool) {
    let ca = if on { encode(&site.pki.server_ca.pem()) } else { json!("") };
    site.set("/spec/clientConfig/caData", ca);
    site.change("/spec/clientConfig/insecure", json!(!on));
}

fn server_name(site: &mut Site, turn: usize) {
    site.change("/spec/clientConfig/serverName", either(turn, json!("apiserver"), json!("kubernetes")));
}

fn client_ca(site: &mut Site, _: usize) {
    let value = bundle(&site.pki.client_ca);
    site.change("/spec/secureServing/clientCAData", value);
}

fn health(site: &mut Site, turn: usize) {
    let (other, usual) = (json!({"path": "/livez", "interval": "1s"}), json!({"interval": "2s", "timeout": "4s"}));
    site.change("/spec/portcullis/healthCheck", either(turn, other, usual));
}

fn timeout(site: &mut Site, turn: usize) {
    site.change("/spec/portcullis/requestTimeout", either(turn, json!("61s"), json!("75s")));
}

fn caches(site: &mut Site, turn: usize) {
    site.change("/spec/portcullis/credentialCache", either(turn, json!({"tokenTTL": "1s"}), json!({"tokenTTL": "2m"})));
}

fn authorities(site: &mut Site, turn: usize) {
    site.change("/spec/portcullis/extraAuthorities", either(turn, json!(["other.example.com"]), json!([])));
}

fn request_headers(site: &mut Site, _: usize) {
    // A gateway that is a front proxy has no token of its own.
    site.set("/spec/clientConfig/bearerToken", json!(""));
    site.change("/spec/portcullis/upstreamIdentity", json!("RequestHeader"));
}

fn impersonation(site: &mut Site, _: usize) {
    site.set("/spec/portcullis/requestHeader", json!({}));
    site.change("/spec/portcullis/upstreamIdentity", json!("Impersonate"));
}

/// The gateway has no zone, so that this moves no request.
fn zones(site: &mut Site, turn: usize) {
    let entry = |stub: &StubServer| json!({"endpoint": stub.url(), "zone": "a"});
    let all: Vec<_> = site.stubs.iter().map(entry).collect();
    site.change("/spec/portcullis/servers", either(turn, json!(all), json!([])));
}

fn weights(site: &mut Site, turn: usize) {
    let heavy = turn % 2;
    let weight = |number: usize| if number == heavy { 5 } else { 1 };
    let stubs = site.stubs.iter().enumerate();
    let all: Vec<_> = stubs.map(|(number, stub)| json!({"endpoint": stub.url(), "weight": weight(number)})).collect();
    site.change("/spec/portcullis/servers", json!(all));
}

fn drain_period(site: &mut Site, turn: usize) {
    // By itself this changes nothing in Envoy: it is for `portcullis rbac`.
    site.set("/spec/portcullis/forwardedExtras", either(turn, json!(["example.com/team"]), json!([])));
    site.change("/spec/portcullis/drainPeriod", either(turn, json!("2s"), json!("1s")));
}

/// Longer than any session of the test is old; ends of sessions are for `stub/sessions.rs`.
fn session_limit(site: &mut Site, turn: usize) {
    site.change("/spec/portcullis/maxSessionDuration", either(turn, json!("24h"), json!("48h")));
}

fn attribution(site: &mut Site, turn: usize) {
    site.change("/spec/portcullis/auditAttribution", either(turn, json!(true), json!(false)));
}

fn anonymous(site: &mut Site, turn: usize) {
    site.change("/spec/portcullis/allowAnonymous", either(turn, json!(false), json!(true)));
}

fn logging(site: &mut Site, turn: usize) {
    site.change("/spec/logging", either(turn, json!({"mode": "on"}), json!({})));
}

fn gates(site: &mut Site, value: &str) {
    site.change("/metadata/annotations", json!({"proxy.kubegateway.io/feature-gates": value}));
}

pub(super) fn other(site: &Site) -> Manifest {
    let name = "other.example.org";
    let manifest = site.manifest.clone().set("/metadata/name", json!(name));
    manifest.serving(&site.gateway.serving_identity(name).unwrap(), &site.pki.client_ca)
}

fn freeze_other(site: &mut Site, _: usize) {
    let frozen = json!({"proxy.kubegateway.io/feature-gates": "DenyAllRequests=true"});
    site.gateway.apply(&other(site).set("/metadata/annotations", frozen)).unwrap();
}

fn remove_other(site: &mut Site, _: usize) {
    site.gateway.and_wait(|| site.gateway.remove("other.example.org")).unwrap();
}

fn wrong(site: &mut Site, turn: usize) {
    let bad = site.manifest.clone().policies(json!([{"rules": []}]));
    site.gateway.write(&bad).unwrap();
    // The edit that follows takes effect only after the wrong one was read.
    let rule = json!({"rules": [allow_all()], "flowControlSchemaName": "wide", "logMode": "off"});
    let all = json!({"rules": [allow_all()], "flowControlSchemaName": "wide"});
    site.change("/spec/dispatchPolicies", either(turn, json!([rule]), json!([all])));
}

fn settings_limits(site: &mut Site, turn: usize) {
    let limits = either(turn, json!({"maxRequests": 60_000}), json!({}));
    site.gateway.change_settings(|spec| spec["limits"] = limits).unwrap();
}

/// No user of the test is protected.
fn protected_identities(site: &mut Site, turn: usize) {
    let protected = either(turn, json!({"groups": ["break-glass"]}), json!({}));
    site.gateway.change_settings(|spec| spec["protectedIdentities"] = protected).unwrap();
}

fn rebalance(site: &mut Site, turn: usize) {
    let rebalance = either(turn, json!({"chance": 0.02, "connectionsPerSecond": 100}), json!(null));
    site.gateway.change_settings(|spec| spec["rebalance"] = rebalance).unwrap();
}

fn default_certificate(site: &mut Site, _: usize) {
    let identity = site.gateway.serving_identity("default.gateway").unwrap();
    let value = json!({"certData": encode(&identity.pem()), "keyData": encode(&identity.key_pem())});
    site.gateway.change_settings(|spec| spec["defaultCertificate"] = value).unwrap();
}
