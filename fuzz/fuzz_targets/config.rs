//! A cluster's configuration: read or refused, never a panic, and what it makes judges requests.
#![no_main]

use libfuzzer_sys::fuzz_target;
use portcullis_core::review::ReviewAnswers;
use portcullis_core::state_store::EphemeralState;
use portcullis_core::{Cluster, Decision};
use portcullis_filter_config::{ClusterConfig, UpstreamIdentity};
use portcullis_fuzz::{NOW, gateway, judge};

fuzz_target!(|data: &[u8]| {
    let Ok(config) = serde_json::from_slice::<ClusterConfig>(data) else { return };
    let Ok(cluster) = Cluster::compile(&config, &EphemeralState([7; 32])) else { return };
    let gateway = gateway();
    let nobody: &[(&[u8], &[u8])] = &[];
    judge(&gateway, &cluster, nobody, &ReviewAnswers::default(), NOW, |decision| {
        if let Decision::Forward(forward) = &decision {
            assert!(!config.deny_all_requests && config.allow_anonymous && forward.user.is_none());
            assert!(config.policies.policies().iter().any(|policy| forward.destination.starts_with(&*policy.group)));
        }
    });
    judge(&gateway, &cluster, &[(b"impersonate-user", b"u")], &ReviewAnswers::default(), NOW, |decision| {
        if let Decision::Forward(forward) = &decision {
            assert_ne!(config.upstream_identity, UpstreamIdentity::Impersonate, "nobody was asked whether it may");
            assert!(forward.destination.contains(".anonymous."), "the upstream judges it, as nobody's");
        }
    });
});
