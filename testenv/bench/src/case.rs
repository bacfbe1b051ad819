//! The measured cases.

use clap::ValueEnum;
use serde_json::{Value, json};

use crate::verified;

/// Rules of a policy.
const RULES: u32 = 10;

/// The configuration that a request passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Case {
    /// Envoy without the filter.
    Bare,
    /// Bare, with the gateway's early header mutation.
    Early,
    /// Bare, with a module that does nothing.
    Idle,
    /// Bare, with a route that adds as many header lines as the gateway writes for the certificate's user.
    Lines,
    /// A cached certificate, 100 policies, the last one matches.
    Last,
    /// Bare, with a route that retries nothing.
    NoRetries,
    /// Bare, without access loggers.
    NoAccessLog,
    /// Bare, with Envoy's own windows of HTTP/2 and its bound of buffers.
    Windows,
    /// Bare, with AES-128-GCM of TLS 1.2 on both sides.
    Aes,
    /// Bare, with ChaCha20-Poly1305 of TLS 1.2 on both sides.
    #[value(name = "chacha")]
    ChaCha,
    /// As [`Case::Last`], with clients counted by name (`metrics.users`).
    Talkers,
    /// A cached certificate, 100 policies, none matches: 403.
    None,
    /// Envoy without the filter, and a client that presents a token.
    BareToken,
    /// As [`Case::Last`], with a rebalance whose conditions never hold.
    Rebalance,
    /// As [`Case::Last`], counted under a limit of requests in flight that is never reached.
    Limit,
    /// As [`Case::Limit`], with a limit of all gateways, of which Envoy has a part under a lease.
    GlobalLimit,
    /// As [`Case::Last`], counted under a limit of requests per second that is never reached.
    Rate,
    /// As [`Case::Rate`], with a limit of all gateways, of which Envoy has a part under a lease.
    GlobalRate,
    /// As [`Case::Last`], judged once more by a shadow of 100 policies under a limit.
    Shadow,
    /// A cached token, 100 policies, the last one matches.
    Token,
    /// A cached certificate and one policy, which matches.
    One,
    /// Bare, with the filter for request info alone, and a route by its attributes: those that `envoy/plain/request-info` reads.
    RequestInfo,
    /// As [`Case::RequestInfo`], with all attributes in filter state and metadata.
    AllRequestInfo,
    /// Bare, with the client's certificate in `x-forwarded-client-cert`.
    Header,
    /// Bare, with a Lua script that writes the user of the certificate into headers.
    Lua,
    /// As [`Case::Last`], for a cluster that takes its users from a front proxy.
    FrontProxy,
    /// As [`Case::Last`], of a client that impersonates another user (`kubectl --as`), whose right to it is known.
    Impersonated,
    /// As [`Case::Token`], with a new token in each request.
    Uncached,
    /// As [`Case::Uncached`], with tokens that the issuer's keys verify: none is reviewed.
    Verified,
    /// As [`Case::Last`], with the certificate by `x-forwarded-client-cert`.
    Forwarded,
    /// As [`Case::Last`], by portcullis.wasm.
    WasmLast,
    /// As [`Case::Token`], by portcullis.wasm.
    WasmToken,
    /// Bare, with a tracer that does not sample the request.
    BareUnsampled,
    /// As [`Case::Last`], of a request that Envoy's tracer does not sample.
    Unsampled,
    /// As [`Case::Last`], of a request that is traced.
    Sampled,
}

impl Case {
    /// In the order in which they run.
    pub(crate) const ALL: [Self; 35] = [
        Self::Bare,
        Self::BareToken,
        Self::Last,
        Self::Talkers,
        Self::Rebalance,
        Self::Limit,
        Self::GlobalLimit,
        Self::Rate,
        Self::GlobalRate,
        Self::Shadow,
        Self::None,
        Self::One,
        Self::Token,
        Self::Early,
        Self::Idle,
        Self::Lines,
        Self::NoRetries,
        Self::NoAccessLog,
        Self::Windows,
        Self::Aes,
        Self::ChaCha,
        Self::RequestInfo,
        Self::AllRequestInfo,
        Self::Header,
        Self::Forwarded,
        Self::Lua,
        Self::FrontProxy,
        Self::Impersonated,
        Self::Uncached,
        Self::Verified,
        Self::WasmLast,
        Self::WasmToken,
        Self::BareUnsampled,
        Self::Unsampled,
        Self::Sampled,
    ];

    /// The name in the report.
    pub(crate) const fn title(self) -> &'static str {
        match self {
            Case::Bare => "bare Envoy",
            Case::BareToken => "bare Envoy, client with a token",
            Case::Early => "bare Envoy with early header mutation",
            Case::Idle => "bare Envoy with a module that does nothing",
            Case::Lines => "bare Envoy with the user's header lines",
            Case::NoRetries => "bare Envoy without retries",
            Case::NoAccessLog => "bare Envoy without access loggers",
            Case::Windows => "bare Envoy with its own windows and buffers",
            Case::Aes => "bare Envoy, TLS 1.2 with AES-128-GCM",
            Case::ChaCha => "bare Envoy, TLS 1.2 with ChaCha20-Poly1305",
            Case::Last => "certificate, 100 policies, last matches",
            Case::Talkers => "certificate, 100 policies, last matches, clients by name",
            Case::Rebalance => "certificate, 100 policies, last matches, rebalance",
            Case::Limit => "certificate, 100 policies, last matches, requests in flight limited",
            Case::GlobalLimit => "certificate, 100 policies, last matches, requests in flight of all gateways limited",
            Case::Rate => "certificate, 100 policies, last matches, requests per second limited",
            Case::GlobalRate => "certificate, 100 policies, last matches, requests per second of all gateways limited",
            Case::Shadow => "certificate, 100 policies, last matches, beside a shadow of as many with a limit",
            Case::None => "certificate, 100 policies, none matches (403)",
            Case::Token => "token, 100 policies, last matches",
            Case::One => "certificate, 1 policy",
            Case::RequestInfo => "request info alone: class and verb",
            Case::AllRequestInfo => "request info alone: all attributes, and as metadata",
            Case::Header => "bare Envoy, the certificate in a header",
            Case::Lua => "Envoy with a Lua script for the certificate's user",
            Case::FrontProxy => "certificate, 100 policies, last matches, front-proxy mode",
            Case::Impersonated => "certificate and --as, 100 policies, last matches",
            Case::Uncached => "a new token each time, 100 policies, last matches",
            Case::Verified => "a new token each time, verified by its issuer's key, 100 policies, last matches",
            Case::Forwarded => "certificate by header, 100 policies, last matches",
            Case::WasmLast => "wasm: certificate, 100 policies, last matches",
            Case::WasmToken => "wasm: token, 100 policies, last matches",
            Case::BareUnsampled => "bare Envoy with a tracer that does not sample",
            Case::Unsampled => "certificate, 100 policies, with a tracer that does not sample",
            Case::Sampled => "certificate, 100 policies, traced",
        }
    }

    /// A file's name.
    pub(crate) const fn slug(self) -> &'static str {
        match self {
            Case::Bare => "bare",
            Case::BareToken => "bare-token",
            Case::Early => "early",
            Case::Idle => "idle",
            Case::Lines => "lines",
            Case::NoRetries => "no-retries",
            Case::NoAccessLog => "no-access-log",
            Case::Windows => "windows",
            Case::Aes => "aes",
            Case::ChaCha => "chacha",
            Case::Last => "last",
            Case::Talkers => "talkers",
            Case::Rebalance => "rebalance",
            Case::Limit => "limit",
            Case::GlobalLimit => "global-limit",
            Case::Rate => "rate",
            Case::GlobalRate => "global-rate",
            Case::Shadow => "shadow",
            Case::None => "none",
            Case::Token => "token",
            Case::One => "one",
            Case::RequestInfo => "request-info",
            Case::AllRequestInfo => "all-request-info",
            Case::Header => "header",
            Case::Lua => "lua",
            Case::FrontProxy => "front-proxy",
            Case::Impersonated => "impersonated",
            Case::Uncached => "uncached",
            Case::Verified => "verified",
            Case::Forwarded => "forwarded",
            Case::WasmLast => "wasm-last",
            Case::WasmToken => "wasm-token",
            Case::BareUnsampled => "bare-unsampled",
            Case::Unsampled => "unsampled",
            Case::Sampled => "sampled",
        }
    }

    /// How each request is answered.
    pub(crate) const fn status(self) -> u16 {
        match self {
            Case::None => 403,
            _ => 200,
        }
    }

    /// Whether Envoy runs what is made from a gateway's configuration, and not that itself.
    pub(crate) const fn is_remade(self) -> bool {
        let is_bare =
            matches!(self, Case::Bare | Case::BareToken | Case::Early | Case::Idle | Case::Lines | Case::Header);
        let is_changed = matches!(self, Case::NoRetries | Case::NoAccessLog | Case::Windows | Case::Aes | Case::ChaCha);
        is_bare || is_changed || self.exports() || matches!(self, Case::Forwarded | Case::BareUnsampled | Case::Lua)
    }

    /// Whether the filter exports request info, and does nothing else.
    pub(crate) const fn exports(self) -> bool {
        matches!(self, Case::RequestInfo | Case::AllRequestInfo)
    }

    /// Whether an agent runs Envoy, and brings it its part of limits that gateways share.
    pub(crate) const fn has_agent(self) -> bool {
        matches!(self, Case::GlobalLimit | Case::GlobalRate)
    }

    /// Whether Envoy runs portcullis.wasm.
    pub(crate) const fn is_wasm(self) -> bool {
        matches!(self, Case::WasmLast | Case::WasmToken)
    }

    /// Whether the client presents a token instead of a certificate.
    pub(crate) const fn uses_token(self) -> bool {
        matches!(self, Case::Token | Case::BareToken | Case::WasmToken | Case::Uncached | Case::Verified)
    }

    /// Traced requests in a million, where there is a tracer.
    pub(crate) const fn sampling_rate(self) -> Option<u32> {
        match self {
            Case::BareUnsampled | Case::Unsampled => Some(100),
            Case::Sampled => Some(1_000_000),
            _ => None,
        }
    }

    /// The case that it is compared with.
    pub(crate) const fn baseline(self) -> Self {
        if self.uses_token() { Case::BareToken } else { Case::Bare }
    }

    /// More of the `spec` of the settings.
    pub(crate) fn settings(self) -> Option<(&'static str, Value)> {
        let most = u32::MAX;
        let when = json!({"inFlight": most, "requestsPerSecond": most, "memory": "1Ti", "onLimited": true});
        match self {
            Case::Rebalance => Some(("rebalance", json!({"chance": 0.02, "when": when}))),
            Case::Talkers => Some(("metrics", json!({"users": {"mode": "TopK"}}))),
            _ => None,
        }
    }

    /// The `dispatchPolicies` of the manifest.
    pub(crate) fn policies(self) -> Value {
        let count = if self == Case::One { 1 } else { 100 };
        let mut policies: Vec<Vec<Value>> =
            (0..count).map(|policy| (0..RULES).map(|rule| others_rule(policy, rule)).collect()).collect();
        if self != Case::None
            && let Some(last) = policies.last_mut().and_then(|rules| rules.last_mut())
        {
            *last = matching_rule(if self == Case::Verified { verified::GROUP } else { "developers" });
        }
        let schema = if self.flow_control().is_some() { "many" } else { "" };
        let policy = |rules| json!({"rules": rules, "flowControlSchemaName": schema});
        policies.into_iter().map(policy).collect()
    }

    /// The `portcullis` of the manifest.
    pub(crate) fn portcullis(self) -> Value {
        match self {
            Case::FrontProxy => json!({"upstreamIdentity": "RequestHeader"}),
            Case::Shadow => {
                let limits = Case::Limit.flow_control();
                json!({"shadow": {"dispatchPolicies": Case::Limit.policies(), "flowControl": limits}})
            }
            _ => json!({}),
        }
    }

    /// The `flowControl` of the manifest, if it has any.
    pub(crate) fn flow_control(self) -> Option<Value> {
        let (local, global) = (json!({"max": 100_000}), json!({"max": 200_000}));
        let [local_rate, global_rate] = [100_000, 200_000].map(|qps| json!({"qps": qps, "burst": qps}));
        let schema = match self {
            Case::Limit => json!({"name": "many", "maxRequestsInflight": local}),
            Case::GlobalLimit => json!({"name": "many", "strategy": "globalAllocate", "maxRequestsInflight": local,
                "globalMaxRequestsInflight": global}),
            Case::Rate => json!({"name": "many", "tokenBucket": local_rate}),
            Case::GlobalRate => json!({"name": "many", "strategy": "globalAllocate", "tokenBucket": local_rate,
                "globalTokenBucket": global_rate}),
            _ => return None,
        };
        Some(json!({"flowControlSchemas": [schema]}))
    }
}

/// A rule for the benchmark's users and requests.
fn matching_rule(group: &str) -> Value {
    json!({
        "verbs": ["get", "list", "watch"], "apiGroups": [""], "resources": ["pods", "services", "-secrets"],
        "userGroups": [group],
    })
}

/// A rule for people of a tenant, as real ones look: some of its fields match the benchmark's requests, never all.
pub(crate) fn others_rule(policy: u32, rule: u32) -> Value {
    let tenant = format!("tenant-{policy:03}");
    let user = |number: u32| format!("{tenant}-user-{number}");
    match rule % 5 {
        0 => json!({"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods", "pods/log"],
            "users": [user(rule), user(rule + 1), "-mallory"]}),
        1 => json!({"verbs": ["*"], "apiGroups": ["", "apps"], "resources": ["*"], "userGroups": [tenant]}),
        2 => json!({"verbs": ["get", "watch", "-delete"], "apiGroups": ["*"], "resources": ["pods", "deployments"],
            "namespaces": [format!("{tenant}-ns-{rule}")], "users": ["-mallory"]}),
        3 => json!({"verbs": ["*"], "apiGroups": [format!("group{rule}.example.com")], "resources": ["*", "-secrets"],
            "users": [format!("{tenant}-*")]}),
        _ => json!({"verbs": ["get"], "nonResourceURLs": [format!("/{tenant}/*"), "/version"], "users": [user(rule)]}),
    }
}
