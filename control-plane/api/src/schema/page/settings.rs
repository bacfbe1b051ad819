use serde_json::{Value, json};

use super::{Default, defaults_are_told, rows};
use crate::check::{AccessLog, Settings, check_settings};
use crate::parse::parse_settings;
use crate::types::WildcardSubdomains;

const HEAD: &str = "# GatewaySettings

<!-- Written by a test from control-plane/api/src/types/settings.rs. -->

`apiVersion: portcullis.dev/v1alpha1`, `kind: GatewaySettings`, cluster-scoped: the settings of the whole gateway. A control plane uses one, and an [`Instance`](../instances.md#settings-of-an-instance) may name another one for its Envoys. It is in a file, in the directory of objects (`serve --config`) or by itself (`serve --settings`); \
or it is a Kubernetes object (`serve --settings-name`). Without any of the flags the defaults \
hold; with several in files, or one that is wrong, those that were used before. Of `metadata` only the name is used. \
`portcullis check` says whether it is good. The connections that an edit ends are listed in [operations.md](../operations.md#effects-of-changes).

A field that is not set, or null, has the default; `-` is none: an empty text or list, 0 or false. Bytes are in base64.

| field | type | default | meaning |
|---|---|---|---|
";

const STATUS: &str = "
## Status

The control plane writes it into the object in Kubernetes; of settings in a file `/status` has the condition. The rules are explained in [operations.md](../operations.md#settings-in-kubernetes).

| field | type | default | meaning |
|---|---|---|---|
";

/// Fields that take certain words.
const WORDS: [(&str, &[&str]); 8] = [
    ("clientCANames", &["Sent", "Omitted"]),
    ("listener.tls.minimumVersion", &["TLSv1_2", "TLSv1_3"]),
    ("metrics.users.mode", &["Off", "TopK"]),
    ("secondaryPools", &["Eager", "OnDemand"]),
    ("tracing.parents", &["Ignored", "Trusted"]),
    ("tracing.protocol", &["GRPC", "HTTP"]),
    ("tracing.users", &["Omitted", "Sent"]),
    ("wildcardSubdomains", &["Reserved", "Allowed"]),
];

/// Defaults that are more than the type's own; [`defaults_are_those_of_the_check`] holds them to it.
const DEFAULTS: [Default; 29] = [
    ("spec.accessLog.destination", "`stdout`"),
    ("spec.clientCANames", "`Sent`"),
    ("spec.defaultCertificate.secret.certificate", "`tls.crt`"),
    ("spec.defaultCertificate.secret.privateKey", "`tls.key`"),
    ("spec.defaultClientCA.secret.key", "`ca.crt`"),
    ("spec.instance", "`portcullis`"),
    ("spec.limits.maxConcurrentStreams", "`100`"),
    ("spec.limits.maxConnections", "`65536`"),
    ("spec.limits.maxPendingRequests", "`65536`"),
    ("spec.limits.maxRequests", "`65536`"),
    ("spec.rebalance.connectionsPerSecond", "`10`"),
    ("spec.listener.address", "`0.0.0.0`"),
    ("spec.listener.port", "`6443`"),
    ("spec.listener.tls.minimumVersion", "`TLSv1_2`"),
    ("spec.listener.tunnel.header", "`X-Gardener-Destination`"),
    ("spec.metrics.users.k", "`100`"),
    ("spec.metrics.users.mode", "`Off`"),
    ("spec.wildcardSubdomains", "`Reserved`"),
    ("spec.protectedIdentities.action", "`Refuse`"),
    ("spec.requestHeaderNames.extraPrefix", "`X-Remote-Extra-`"),
    ("spec.requestHeaderNames.group", "`X-Remote-Group`"),
    ("spec.requestHeaderNames.uid", "`X-Remote-Uid`"),
    ("spec.requestHeaderNames.user", "`X-Remote-User`"),
    ("spec.secondaryPools", "`Eager`"),
    ("spec.tracing.ca.secret.key", "`ca.crt`"),
    ("spec.tracing.parents", "`Ignored`"),
    ("spec.tracing.protocol", "`GRPC`"),
    ("spec.tracing.users", "`Omitted`"),
    ("spec.wasmModulePath", "`/usr/lib/portcullis/portcullis.wasm`"),
];

fn schema() -> Value {
    super::super::settings_spec()
}

/// Sets a field by its path.
fn set(spec: &mut Value, path: &str, value: Value) {
    *path.split('.').fold(spec, |spec, field| &mut spec[field]) = value;
}

#[test]
fn reference_says_what_the_code_does() {
    let mut page = HEAD.to_owned();
    rows(&schema(), "spec", &DEFAULTS, &mut page);
    page.push_str(STATUS);
    rows(&super::super::status::settings_status(), "status", &[], &mut page);
    portcullis_generated_docs::assert_generated("gatewaysettings.md", &page);
    defaults_are_told(&schema(), "spec", &DEFAULTS);
}

fn checked(spec: &Value) -> Settings {
    let document = json!({
        "apiVersion": crate::SETTINGS_API_VERSION, "kind": crate::SETTINGS_KIND, "metadata": {"name": "x"}, "spec": spec,
    });
    check_settings(&parse_settings(&document).unwrap()).outcome.unwrap()
}

#[test]
fn defaults_are_those_of_the_check() {
    let mut written = json!({});
    // Defaults within an object that has no default of its own are left out.
    let parts = ["spec.rebalance.", "spec.listener.tunnel.", ".secret."];
    let is_part = |path: &str| parts.iter().any(|part| path.contains(part));
    let whole = DEFAULTS.into_iter().filter(|(path, _)| !is_part(path));
    for (path, default) in whole {
        let default = default.trim_matches('`');
        let value = default.parse::<u32>().map_or_else(|_| json!(default), |number| json!(number));
        set(&mut written, path.trim_start_matches("spec."), value);
    }
    // Without it there are no defaults of it.
    let tracing = json!({"endpoint": "127.0.0.1:4317"});
    let settings = checked(&json!({"tracing": tracing}));
    written["tracing"]["endpoint"] = tracing["endpoint"].clone();
    assert_eq!(checked(&written), settings);
    assert_eq!(
        (&settings.access_log, settings.wildcard_subdomains),
        (&AccessLog::Stdout, WildcardSubdomains::Reserved)
    );
    let rebalance = checked(&json!({"rebalance": {"chance": 0.001}})).rebalance.unwrap();
    assert_eq!((rebalance.connections_per_second, rebalance.when), (10, None));
    let tunnel = checked(&json!({"listener": {"tunnel": {"port": 8443}}})).tunnel.unwrap();
    assert_eq!(tunnel.header, "X-Gardener-Destination".to_ascii_lowercase());
}

#[test]
fn defaults_of_a_status_are_those_of_the_page() {
    let spec =
        json!({"rebalance": {"chance": 0.001}, "listener": {"tunnel": {"port": 8443}}, "tracing": {"endpoint": "a:1"}});
    let filled = crate::status::filled_defaults(&json!({"spec": spec}));
    let filled: Vec<_> = filled.into_iter().map(|one| (one.field, format!("`{}`", one.value))).collect();
    // A reference is gone when the settings are looked at.
    let told = DEFAULTS.into_iter().filter(|(path, _)| !path.contains(".secret."));
    let mut told: Vec<_> = told.map(|(path, value)| (path.to_owned(), value.to_owned())).collect();
    told.sort();
    assert_eq!(filled, told);
}

#[test]
fn every_word_is_one() {
    for (field, words) in WORDS {
        let place = format!("/properties/{}", field.replace('.', "/properties/"));
        assert_eq!(schema().pointer(&place).unwrap()["enum"], json!(words), "{field}");
        for word in words {
            let mut spec = json!({});
            set(&mut spec, field, json!(word));
            if field.starts_with("tracing.") {
                set(&mut spec, "tracing.endpoint", json!("127.0.0.1:4317"));
            }
            checked(&spec);
        }
    }
    let other = json!({"apiVersion": crate::SETTINGS_API_VERSION, "kind": crate::SETTINGS_KIND, "metadata": {"name": "x"}, "spec": {"wildcardSubdomains": "x"}});
    assert!(parse_settings(&other).is_err());
}
