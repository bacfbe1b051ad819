//! A gateway in front of one cluster, with answers to reviews that the fuzz target chooses.

pub mod der;

use portcullis_core::review::ReviewAnswers;
use portcullis_core::state_store::EphemeralState;
use portcullis_core::{Cluster, Decision, Gateway, Peer, RequestContext};
use portcullis_filter_config::{CONFIG_VERSION, ClusterConfig, FilterConfig};
use rustls_pki_types::UnixTime;

/// 2030-01-01.
pub const NOW: u64 = 1_893_456_000;

/// The uptime since [`NOW`].
pub fn age(now: u64) -> std::time::Duration {
    std::time::Duration::from_secs(now.saturating_sub(NOW))
}

pub fn at(seconds: u64) -> UnixTime {
    UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds))
}

pub fn gateway() -> Gateway {
    Gateway::compile(&FilterConfig::new("lab")).unwrap()
}

/// A cluster that lets everything through, with empty caches.
pub fn cluster() -> Cluster {
    let all = serde_json::json!(["*"]);
    let config = serde_json::json!({
        "version": CONFIG_VERSION, "name": "lab/-/prod", "identity": "prod", "authorities": ["prod"], "allowAnonymous": true,
        "reviews": {
            "cluster": "upstream", "tokenTTLSeconds": 120, "rejectedTokenTTLSeconds": 10, "authorizedTTLSeconds": 300,
            "unauthorizedTTLSeconds": 30,
        },
        "upstreamIdentity": "Impersonate",
        "policies": [{"group": "all", "rules": [
            {"verbs": all, "apiGroups": all, "resources": all, "nonResourceURLs": all},
        ]}],
    });
    let config: ClusterConfig = serde_json::from_value(config).unwrap();
    Cluster::compile(&config, &EphemeralState([7; 32])).unwrap()
}

/// Judges a GET of one pod with these headers.
pub fn judge<T>(
    gateway: &Gateway,
    cluster: &Cluster,
    headers: &[(&[u8], &[u8])],
    answers: &ReviewAnswers,
    now: u64,
    read: impl FnOnce(Decision<'_>) -> T,
) -> T {
    let mut all: Vec<(&[u8], &[u8])> =
        vec![(b":method", b"GET"), (b":path", b"/api/v1/namespaces/n/pods/a"), (b":authority", b"prod")];
    all.extend_from_slice(headers);
    let scan = gateway.scan(Some(cluster), all.iter().copied());
    let request = RequestContext { scan: &scan, peer: Peer::None, answers, now: at(now), uptime: age(now) };
    read(gateway.decide(cluster, &request))
}
