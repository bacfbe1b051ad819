use serde_json::{Value, json};

use crate::check::{MAX_NAMES, MAX_PATH, MAX_POLICIES, MAX_SCHEMAS, MAX_SERVERS};

/// A duration as [`crate::parse_duration`] reads it.
pub(super) const DURATION: &str = r"^(0|(([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|ms|s|m|h))+)$";
/// What every endpoint looks like; KubeGateway's `http` is refused, because a credential would travel in the clear.
const ENDPOINT: &str = r"^https://[^@?#\\]+$";
/// The form of a DNS name, perhaps behind `*.`, in any case of letters.
const SERVED_NAME: &str = r"^(\*\.)?[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*$";

/// What is always wrong, whatever the settings and the other objects say: keywords of a schema by the path of the field
/// below `spec`. Every bound is one of `check`.
pub(super) fn rules() -> Vec<(&'static str, Value)> {
    [whole(), client(), serving(), limits(), policies(), ours()].concat()
}

fn whole() -> Vec<(&'static str, Value)> {
    let handshake = format!(
        "!has(self.portcullis) || !has(self.portcullis.clientCertificateVerification) \
         || self.portcullis.clientCertificateVerification != 'Handshake' \
         || (has(self.secureServing) && {})",
        set("self.secureServing.clientCAData")
    );
    let message = "needs spec.secureServing.clientCAData: without it no certificate verifies";
    vec![
        (
            "",
            json!({
                "required": ["servers", "clientConfig", "dispatchPolicies"],
                "x-kubernetes-validations": [
                    cel(&handshake, message, ".portcullis.clientCertificateVerification"),
                ],
            }),
        ),
        ("servers", json!({"minItems": 1, "maxItems": MAX_SERVERS})),
        ("servers[]", json!({"required": ["endpoint"]})),
        ("servers[].endpoint", json!({"pattern": ENDPOINT})),
        ("logging.mode", json!({"enum": ["", "on", "off"]})),
    ]
}

fn client() -> Vec<(&'static str, Value)> {
    let (cert, key) = (set("self.certData"), set("self.keyData"));
    let (ca, token) = (set("self.caData"), set("self.bearerToken"));
    let insecure = "(has(self.insecure) && self.insecure)";
    let identity = "neither certData with keyData nor bearerToken is set: the gateway would have no identity";
    vec![
        (
            "clientConfig",
            json!({"x-kubernetes-validations": [
                cel(&format!("{cert} || !{key}"), "is missing beside keyData", ".certData"),
                cel(&format!("{key} || !{cert}"), "is missing beside certData", ".keyData"),
                cel(&format!("{cert} || {key} || {token}"), identity, ""),
                cel(&format!("!({insecure} && {ca})"), "excludes insecure: remove one of the two", ".caData"),
                cel(&format!("{insecure} || {ca}"), "is required for https servers", ".caData"),
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
        ("flowControl.flowControlSchemas[].maxRequestsInflight.max", json!({"minimum": 0})),
        ("flowControl.flowControlSchemas[].tokenBucket", local),
        ("flowControl.flowControlSchemas[].tokenBucket.qps", json!({"minimum": 1})),
        ("flowControl.flowControlSchemas[].globalTokenBucket", bucket),
    ]
}

/// What holds within one limit.
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
        ("dispatchPolicies", json!({"minItems": 1, "maxItems": MAX_POLICIES})),
        ("dispatchPolicies[]", json!({"required": ["rules"]})),
        ("dispatchPolicies[].strategy", json!({"enum": ["", "RoundRobin", "LeastRequest", "Random"]})),
        ("dispatchPolicies[].upstreamSubset[]", json!({"pattern": ENDPOINT})),
        ("dispatchPolicies[].rules", json!({"minItems": 1})),
        ("dispatchPolicies[].logMode", json!({"enum": ["", "on", "off"]})),
    ]
}

fn ours() -> Vec<(&'static str, Value)> {
    let duration =
        |rule: &str, message: &str| json!({"pattern": DURATION, "x-kubernetes-validations": [cel(rule, message, "")]});
    // `check` looks at whole seconds.
    let timeout =
        duration("duration(self) >= duration('1s') && duration(self) < duration('3601s')", "must be from 1s to 1h");
    let drain = duration("duration(self) <= duration('24h')", "must be from 0 to 24h");
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
        ("portcullis.requestTimeout", timeout),
        ("portcullis.drainPeriod", drain),
        ("portcullis.extraAuthorities", json!({"maxItems": MAX_NAMES})),
        ("portcullis.extraAuthorities[]", json!({"maxLength": 255, "pattern": SERVED_NAME})),
        ("portcullis.clientCertificateVerification", json!({"enum": ["", "Request", "Handshake"]})),
        ("portcullis.credentialCache.token", lifetime()),
        ("portcullis.credentialCache.rejectedToken", lifetime()),
        ("portcullis.credentialCache.allowedImpersonation", lifetime()),
        ("portcullis.credentialCache.deniedImpersonation", lifetime()),
        ("portcullis.healthCheck.path", json!({"maxLength": MAX_PATH, "pattern": r##"^/[!"$-~]*$"##})),
        ("portcullis.healthCheck.interval", check()),
        ("portcullis.healthCheck.timeout", check()),
        ("portcullis.healthCheck.healthyThreshold", threshold.clone()),
        ("portcullis.healthCheck.unhealthyThreshold", threshold),
        ("portcullis.forwardedExtras[]", json!({"pattern": "^[^A-Z]+$", "x-kubernetes-validations": [reserved]})),
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
