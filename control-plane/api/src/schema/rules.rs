use serde_json::{Value, json};

use portcullis_filter_config::FairQueueConfig;

use crate::bounds::{
    MAX_ACCESS_ENTRIES, MAX_CLIENT_ADDRESSES, MAX_FAIR_QUEUES, MAX_NAMES, MAX_PATH, MAX_POLICIES, MAX_PROFILES,
    MAX_SCHEMAS, MAX_SERVER_WEIGHT, MAX_SERVERS, MAX_USER_AGENTS, MAX_VIRTUAL_IPS, MAX_WEIGHTS, MAX_ZONE,
};

/// A duration as [`crate::parse_duration`] reads it.
pub(super) const DURATION: &str = r"^(0|(([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|ms|s|m|h))+)$";
/// The pattern of every endpoint; KubeGateway's `http` is refused, because a credential would travel in the clear.
const ENDPOINT: &str = r"^https://[^@?#\\]+$";
/// The form of a DNS name, perhaps behind `*.`, in any case of letters.
const SERVED_NAME: &str = r"^(\*\.)?[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*$";

/// A DNS label.
pub(super) const LABEL: &str = "^[a-z0-9]([a-z0-9-]*[a-z0-9])?$";
/// The form of the name of SRV records.
const SRV_NAME: &str = r"^_[a-z0-9-]+\._tcp\.[a-z0-9-]+(\.[a-z0-9-]+)*$";
/// A label's value.
const ZONE: &str = "^([A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?)?$";

/// Rules that hold for any settings and other objects: keywords of a schema by the path of the field below `spec`. Every bound
/// is one of `check`.
pub(super) fn rules() -> Vec<(&'static str, Value)> {
    [object_rules(), client(), serving(), limits(), policies(), profiles(), ours(), discovery(), shadow(), references()]
        .concat()
}

fn object_rules() -> Vec<(&'static str, Value)> {
    let sole = "has(self.portcullis) && has(self.portcullis.discovery) && \
                (has(self.portcullis.discovery.service) || has(self.portcullis.discovery.srvRecord))";
    let servers = format!("(has(self.servers) && size(self.servers) > 0) || ({sole})");
    let policies = format!("(has(self.dispatchPolicies) && size(self.dispatchPolicies) > 0) || {PASSES_THROUGH}");
    let mut rules = credentials();
    rules.push(cel(&servers, "at least one server is required", ".servers"));
    rules.push(cel(&policies, "at least one policy is required", ".dispatchPolicies"));
    vec![
        ("", json!({"x-kubernetes-validations": rules})),
        ("servers", json!({"maxItems": MAX_SERVERS})),
        ("servers[]", json!({"required": ["endpoint"]})),
        ("servers[].endpoint", json!({"pattern": ENDPOINT})),
        ("logging.mode", json!({"enum": ["", "on", "off"]})),
    ]
}

/// That connections are passed on: the gateway then needs no credential and no policy.
const PASSES_THROUGH: &str =
    "(has(self.portcullis) && has(self.portcullis.transport) && self.portcullis.transport == 'TLSPassthrough')";

/// The gateway's credentials for servers, in the object or by reference, but not both.
fn credentials() -> Vec<Value> {
    let inline = |field: &str| format!("(has(self.clientConfig) && {})", set(&format!("self.clientConfig.{field}")));
    let (cert, key, token, ca) = (inline("certData"), inline("keyData"), inline("bearerToken"), inline("caData"));
    let insecure = "(has(self.clientConfig) && has(self.clientConfig.insecure) && self.clientConfig.insecure)";
    let (client, referred_token, upstream_ca) = (refers("client"), refers("token"), refers("upstreamCA"));
    let identity = "neither certData with keyData nor bearerToken is set: the gateway would have no identity";
    let serving = |field: &str| format!("(has(self.secureServing) && {})", set(&format!("self.secureServing.{field}")));
    let pair =
        |client: &str| format!("excludes spec.{client}.certData and spec.{client}.keyData: remove one of the two");
    let one = |field: &str| format!("excludes spec.{field}: remove one of the two");
    let both = |reference: &str, inline: &[&str], message: &str| {
        let rule = format!("!{} || !({})", refers(reference), inline.join(" || "));
        cel(&rule, message, &format!(".portcullis.references.{reference}"))
    };
    vec![
        cel(
            &format!("{cert} || {key} || {token} || {client} || {referred_token} || {PASSES_THROUGH}"),
            identity,
            ".clientConfig",
        ),
        cel(
            &format!("{insecure} || {ca} || {upstream_ca} || {PASSES_THROUGH}"),
            "is required for https servers",
            ".clientConfig.caData",
        ),
        cel(
            &format!("!{insecure} || !{upstream_ca}"),
            "excludes insecure: remove one of the two",
            ".portcullis.references.upstreamCA",
        ),
        both("client", &[&cert, &key], &pair("clientConfig")),
        both("token", &[&token], &one("clientConfig.bearerToken")),
        both("upstreamCA", &[&ca], &one("clientConfig.caData")),
        both("serving", &[&serving("certData"), &serving("keyData")], &pair("secureServing")),
        both("clientCA", &[&serving("clientCAData")], &one("secureServing.clientCAData")),
    ]
}

fn client() -> Vec<(&'static str, Value)> {
    let (cert, key) = (set("self.certData"), set("self.keyData"));
    let ca = set("self.caData");
    let insecure = "(has(self.insecure) && self.insecure)";
    vec![
        (
            "clientConfig",
            json!({"x-kubernetes-validations": [
                cel(&format!("{cert} || !{key}"), "is missing beside keyData", ".certData"),
                cel(&format!("{key} || !{cert}"), "is missing beside certData", ".keyData"),
                cel(&format!("!({insecure} && {ca})"), "excludes insecure: remove one of the two", ".caData"),
                cel(
                    "!has(self.qps) || self.qps <= 0 || (has(self.burst) && self.burst >= self.qps)",
                    "must be at least qps",
                    ".burst",
                ),
            ]}),
        ),
        ("clientConfig.qps", json!({"minimum": 0})),
        ("clientConfig.burst", json!({"minimum": 0})),
        ("clientConfig.qpsDivisor", json!({"minimum": 0})),
        ("clientConfig.serverName", json!({"maxLength": 253})),
    ]
}

/// The name of a Secret, and of a key in it; the default's place may be empty.
pub(super) const SECRET_NAME: &str = "^[a-z0-9.-]+$";
pub(super) const SECRET_KEY: &str = "^[A-Za-z0-9._-]*$";
/// No `..`, no `.` and no empty step, and nothing absolute.
pub(super) const FILE: &str = r"^([^/\x00.][^/\x00]*|\.[^/\x00.][^/\x00]*|\.\.[^/\x00]+)(/([^/\x00.][^/\x00]*|\.[^/\x00.][^/\x00]*|\.\.[^/\x00]+))*$";

fn references() -> Vec<(&'static str, Value)> {
    let one = || {
        let rule = cel("has(self.secret) != has(self.file)", "exactly one of secret and file is required", "");
        json!({"x-kubernetes-validations": [rule]})
    };
    let name = || json!({"maxLength": 253, "pattern": SECRET_NAME});
    let key = || json!({"maxLength": 253, "pattern": SECRET_KEY});
    let file = || json!({"maxLength": 1024, "pattern": FILE});
    let secret = || json!({"required": ["name"]});
    let files = || json!({"required": ["certificate", "privateKey"]});
    vec![
        ("portcullis.references.serving", one()),
        ("portcullis.references.serving.secret", secret()),
        ("portcullis.references.serving.secret.name", name()),
        ("portcullis.references.serving.secret.certificate", key()),
        ("portcullis.references.serving.secret.privateKey", key()),
        ("portcullis.references.serving.file", files()),
        ("portcullis.references.serving.file.certificate", file()),
        ("portcullis.references.serving.file.privateKey", file()),
        ("portcullis.references.clientCA", one()),
        ("portcullis.references.clientCA.secret", secret()),
        ("portcullis.references.clientCA.secret.name", name()),
        ("portcullis.references.clientCA.secret.key", key()),
        ("portcullis.references.clientCA.file", file()),
        ("portcullis.references.client", one()),
        ("portcullis.references.client.secret", secret()),
        ("portcullis.references.client.secret.name", name()),
        ("portcullis.references.client.secret.certificate", key()),
        ("portcullis.references.client.secret.privateKey", key()),
        ("portcullis.references.client.file", files()),
        ("portcullis.references.client.file.certificate", file()),
        ("portcullis.references.client.file.privateKey", file()),
        ("portcullis.references.token", one()),
        ("portcullis.references.token.secret", secret()),
        ("portcullis.references.token.secret.name", name()),
        ("portcullis.references.token.secret.key", key()),
        ("portcullis.references.token.file", file()),
        ("portcullis.references.upstreamCA", one()),
        ("portcullis.references.upstreamCA.secret", secret()),
        ("portcullis.references.upstreamCA.secret.name", name()),
        ("portcullis.references.upstreamCA.secret.key", key()),
        ("portcullis.references.upstreamCA.file", file()),
    ]
}

/// That a reference is there.
fn refers(name: &str) -> String {
    format!("(has(self.portcullis) && has(self.portcullis.references) && has(self.portcullis.references.{name}))")
}

fn serving() -> Vec<(&'static str, Value)> {
    vec![("secureServing.serverNames", json!({"maxItems": MAX_NAMES}))]
}

fn limits() -> Vec<(&'static str, Value)> {
    let bucket = json!({"required": ["qps", "burst"]});
    let mut local = bucket.clone();
    if let Some(local) = local.as_object_mut() {
        let rule = cel("self.burst >= self.qps", "must be at least qps", ".burst");
        local.insert("x-kubernetes-validations".to_owned(), json!([rule]));
    }
    let list =
        json!({"maxItems": MAX_SCHEMAS, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]});
    let strategies = json!({"enum": ["", "local", "globalAllocate", "globalCount"]});
    vec![
        ("flowControl.flowControlSchemas", list),
        ("flowControl.flowControlSchemas[]", json!({"required": ["name"], "x-kubernetes-validations": one_limit()})),
        ("flowControl.flowControlSchemas[].name", json!({"minLength": 1})),
        ("flowControl.flowControlSchemas[].strategy", strategies),
        ("flowControl.flowControlSchemas[].counts", json!({"enum": ["", "Requests", "Watches", "All"]})),
        ("flowControl.flowControlSchemas[].maxRequestsInflight.max", json!({"minimum": 0})),
        ("flowControl.flowControlSchemas[].tokenBucket", local),
        ("flowControl.flowControlSchemas[].tokenBucket.qps", json!({"minimum": 1})),
        ("flowControl.flowControlSchemas[].globalTokenBucket", bucket),
    ]
}

/// The rules within one limit.
fn one_limit() -> Value {
    let inflight = "(has(self.maxRequestsInflight.max) ? self.maxRequestsInflight.max : 0)";
    let global_inflight = "(has(self.globalMaxRequestsInflight.max) ? self.globalMaxRequestsInflight.max : 0)";
    json!([
        cel(
            "(has(self.exempt) ? 1 : 0) + (has(self.maxRequestsInflight) ? 1 : 0) \
             + (has(self.tokenBucket) ? 1 : 0) == 1",
            "exactly one of exempt, maxRequestsInflight and tokenBucket is required",
            "",
        ),
        cel(
            "!has(self.globalMaxRequestsInflight) || has(self.maxRequestsInflight)",
            "needs maxRequestsInflight beside it",
            ".globalMaxRequestsInflight",
        ),
        cel(
            &format!(
                "!has(self.globalMaxRequestsInflight) || !has(self.maxRequestsInflight) \
                 || {global_inflight} >= {inflight}"
            ),
            "must be at least maxRequestsInflight",
            ".globalMaxRequestsInflight",
        ),
        cel(
            "!has(self.globalTokenBucket) || has(self.tokenBucket)",
            "needs tokenBucket beside it",
            ".globalTokenBucket",
        ),
        cel(
            "!has(self.globalTokenBucket) || !has(self.tokenBucket) \
             || (self.globalTokenBucket.qps >= self.tokenBucket.qps \
             && self.globalTokenBucket.burst >= self.tokenBucket.burst)",
            "must be at least tokenBucket, qps and burst",
            ".globalTokenBucket",
        ),
    ])
}

fn policies() -> Vec<(&'static str, Value)> {
    vec![
        ("dispatchPolicies", json!({"maxItems": MAX_POLICIES})),
        ("dispatchPolicies[]", json!({"required": ["rules"]})),
        ("dispatchPolicies[].strategy", json!({"enum": ["", "RoundRobin", "LeastRequest", "Random"]})),
        ("dispatchPolicies[].upstreamSubset[]", json!({"pattern": ENDPOINT})),
        ("dispatchPolicies[].rules", json!({"minItems": 1})),
        ("dispatchPolicies[].logMode", json!({"enum": ["", "on", "off"]})),
    ]
}

/// Bounds of lists alone: the rules of limits and policies would cost too much in lists of lists, and `check` has them.
fn profiles() -> Vec<(&'static str, Value)> {
    let list =
        json!({"maxItems": MAX_PROFILES, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]});
    vec![
        ("portcullis.profiles", list),
        ("portcullis.profiles[]", json!({"required": ["name", "dispatchPolicies"]})),
        ("portcullis.profiles[].name", json!({"minLength": 1, "maxLength": 63, "pattern": "^[a-z0-9-]+$"})),
        ("portcullis.profiles[].dispatchPolicies", json!({"minItems": 1, "maxItems": MAX_POLICIES})),
        ("portcullis.profiles[].flowControl.flowControlSchemas", json!({"maxItems": MAX_SCHEMAS})),
        ("portcullis.operatorGroups", json!({"maxItems": MAX_NAMES, "x-kubernetes-list-type": "set"})),
        ("portcullis.operatorGroups[]", json!({"minLength": 1})),
    ]
}

/// Those that cost a kube-apiserver next to nothing: `check` applies all that hold for what decides.
fn shadow() -> Vec<(&'static str, Value)> {
    let names =
        json!({"maxItems": MAX_SCHEMAS, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]});
    vec![
        ("dispatchPolicies[].portcullis.mode", json!({"enum": ["", "Enforce", "Shadow"]})),
        ("portcullis.shadow.dispatchPolicies", json!({"minItems": 1, "maxItems": MAX_POLICIES})),
        ("portcullis.shadow.dispatchPolicies[]", json!({"required": ["rules"]})),
        ("portcullis.shadow.dispatchPolicies[].rules", json!({"minItems": 1})),
        ("portcullis.shadow.flowControl.flowControlSchemas", names),
        ("portcullis.shadow.flowControl.flowControlSchemas[]", json!({"required": ["name"]})),
        ("portcullis.shadow.flowControl.flowControlSchemas[].name", json!({"minLength": 1})),
        ("portcullis.shadow.access.deny", json!({"maxItems": MAX_ACCESS_ENTRIES})),
        ("portcullis.shadow.access.allow", json!({"maxItems": MAX_ACCESS_ENTRIES})),
    ]
}

fn ours() -> Vec<(&'static str, Value)> {
    let duration =
        |rule: &str, message: &str| json!({"pattern": DURATION, "x-kubernetes-validations": [cel(rule, message, "")]});
    // `check` looks at whole seconds.
    let timeout =
        duration("duration(self) >= duration('1s') && duration(self) < duration('3601s')", "must be from 1s to 1h");
    let drain = duration("duration(self) <= duration('24h')", "must be from 0 to 24h");
    let session =
        duration("duration(self) >= duration('1s') && duration(self) <= duration('720h')", "must be from 1s to 720h");
    let slow = duration(
        "duration(self) == duration('0s') || duration(self) >= duration('10ms') && duration(self) <= duration('1h')",
        "must be from 10ms to 1h, or 0 for no request",
    );
    let wait =
        duration("duration(self) >= duration('1ms') && duration(self) <= duration('1m')", "must be from 1ms to 1m");
    let map = |key: &str, most: usize| json!({"maxItems": most, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]});
    let lifetime = || duration("duration(self) <= duration('1h')", "must be from 0 to 1h");
    let check =
        || duration("duration(self) >= duration('1s') && duration(self) <= duration('300s')", "must be from 1s to 5m");
    let threshold = json!({"minimum": 1, "maximum": 10});
    let reserved = cel(
        "!self.startsWith('portcullis.dev/')",
        "must not start with portcullis.dev/: such keys are the gateway's own",
        "",
    );
    vec![
        ("portcullis.transport", json!({"enum": ["", "TLSTerminate", "TLSPassthrough"]})),
        ("portcullis.requestTimeout", timeout),
        ("portcullis.drainPeriod", drain),
        ("portcullis.maxSessionDuration", session),
        ("portcullis.fairQueues", map("name", MAX_FAIR_QUEUES)),
        ("portcullis.fairQueues[]", json!({"required": ["name", "max"]})),
        ("portcullis.fairQueues[].name", json!({"minLength": 1})),
        ("portcullis.fairQueues[].max", json!({"minimum": 1})),
        ("portcullis.fairQueues[].queues", json!({"minimum": 1, "maximum": FairQueueConfig::MAX_QUEUES})),
        ("portcullis.fairQueues[].handSize", json!({"minimum": 1, "maximum": FairQueueConfig::MAX_HAND_SIZE})),
        ("portcullis.fairQueues[].queueLength", json!({"minimum": 1, "maximum": FairQueueConfig::MAX_WAITING})),
        ("portcullis.fairQueues[].timeout", wait),
        ("portcullis.fairQueues[].by", json!({"enum": ["", "user", "userGroup", "namespace", "serviceAccount"]})),
        ("portcullis.fairQueues[].weights", map("flow", MAX_WEIGHTS)),
        ("portcullis.fairQueues[].weights[]", json!({"required": ["flow", "weight"]})),
        ("portcullis.fairQueues[].weights[].weight", json!({"minimum": 1, "maximum": FairQueueConfig::MAX_WEIGHT})),
        ("portcullis.logging.slow", slow),
        ("portcullis.access.deny", json!({"maxItems": MAX_ACCESS_ENTRIES})),
        ("portcullis.access.deny[].userAgents", json!({"maxItems": MAX_USER_AGENTS})),
        ("portcullis.access.allow[].userAgents", json!({"maxItems": MAX_USER_AGENTS})),
        ("portcullis.access.allow", json!({"maxItems": MAX_ACCESS_ENTRIES})),
        ("portcullis.clientAddresses.allow", json!({"maxItems": MAX_CLIENT_ADDRESSES})),
        ("portcullis.virtualIPs", json!({"maxItems": MAX_VIRTUAL_IPS, "x-kubernetes-list-type": "set"})),
        ("portcullis.virtualIPs[]", json!({"maxLength": 45, "pattern": "^[0-9A-Fa-f:.]+$"})),
        (
            "portcullis.servers",
            json!({
                "maxItems": MAX_SERVERS, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["endpoint"],
            }),
        ),
        ("portcullis.servers[]", json!({"required": ["endpoint"]})),
        ("portcullis.servers[].endpoint", json!({"pattern": ENDPOINT})),
        ("portcullis.servers[].zone", json!({"maxLength": MAX_ZONE, "pattern": ZONE})),
        ("portcullis.servers[].weight", json!({"minimum": 1, "maximum": MAX_SERVER_WEIGHT})),
        ("portcullis.extraAuthorities", json!({"maxItems": MAX_NAMES, "x-kubernetes-list-type": "set"})),
        ("portcullis.extraAuthorities[]", json!({"maxLength": 255, "pattern": SERVED_NAME})),
        ("portcullis.clientCertificateVerification", json!({"enum": ["", "Request", "Handshake"]})),
        ("portcullis.upstreamIdentity", json!({"enum": ["", "Impersonate", "RequestHeader"]})),
        ("portcullis.credentialCache.tokenTTL", lifetime()),
        ("portcullis.credentialCache.rejectedTokenTTL", lifetime()),
        ("portcullis.credentialCache.authorizedTTL", lifetime()),
        ("portcullis.credentialCache.unauthorizedTTL", lifetime()),
        ("portcullis.healthCheck.path", json!({"maxLength": MAX_PATH, "pattern": r##"^/[!"$-~]*$"##})),
        ("portcullis.healthCheck.interval", check()),
        ("portcullis.healthCheck.timeout", check()),
        ("portcullis.healthCheck.healthyThreshold", threshold.clone()),
        ("portcullis.healthCheck.unhealthyThreshold", threshold),
        ("portcullis.forwardedExtras", json!({"x-kubernetes-list-type": "set"})),
        ("portcullis.forwardedExtras[]", json!({"pattern": "^[^A-Z]+$", "x-kubernetes-validations": [reserved]})),
    ]
}

fn discovery() -> Vec<(&'static str, Value)> {
    let one = cel(
        "[has(self.service), has(self.kubernetesService) && self.kubernetesService, has(self.srvRecord)].filter(one, one).size() == 1",
        "exactly one of service, kubernetesService and srvRecord is required",
        "",
    );
    let port = cel("!(has(self.port) && has(self.portName))", "excludes port: remove one of the two", ".portName");
    // An empty object is one that was written out with its defaults.
    let one = json!({"x-kubernetes-validations": [one]});
    let label = || json!({"minLength": 1, "maxLength": 63, "pattern": LABEL});
    vec![
        ("portcullis.discovery", one),
        (
            "portcullis.discovery.service",
            json!({"required": ["namespace", "name"], "x-kubernetes-validations": [port]}),
        ),
        ("portcullis.discovery.service.namespace", label()),
        ("portcullis.discovery.service.name", label()),
        ("portcullis.discovery.service.port", json!({"minimum": 1, "maximum": 65_535})),
        ("portcullis.discovery.service.portName", label()),
        ("portcullis.discovery.srvRecord", json!({"maxLength": 253, "pattern": SRV_NAME})),
    ]
}

/// That bytes are there. White space in base64 is none.
fn set(field: &str) -> String {
    format!(r"(has({field}) && {field}.matches('\\S'))")
}

/// A rule in CEL; `field` is the one below its place that is to blame, if it is not the place itself.
pub(super) fn cel(rule: &str, message: &str, field: &str) -> Value {
    let mut written = json!({"rule": rule, "message": message});
    if let (Some(written), false) = (written.as_object_mut(), field.is_empty()) {
        written.insert("fieldPath".to_owned(), field.into());
    }
    written
}
