use std::sync::Weak;

use portcullis_filter_config::{ClusterConfig, Policy};

use crate::cluster::CompiledCluster;
use crate::gateway::Gateway;
use crate::long_streams::StreamJudge;
use crate::stream_origin::StreamOrigin;
use crate::x509::hex_digest;

/// A cluster's configuration, for the streams that began before it.
#[derive(Debug)]
pub(super) struct RouteJudge {
    /// Alive for as long as the proxy keeps a load of the configuration: a registry outlives many.
    pub(super) cluster: Weak<CompiledCluster>,
    pub(super) digest: [u8; 64],
}

impl StreamJudge for RouteJudge {
    fn digest(&self) -> &[u8] {
        &self.digest
    }

    fn denies(&self, origin: &StreamOrigin, now: u64) -> Option<bool> {
        Some(Gateway::denies_running(&*self.cluster.upgrade()?, origin, now))
    }
}

/// A digest of the part of a configuration by which streams are denied. `edition` is in the place of what cannot be written down:
/// no other edition has its digest.
pub(super) fn digest_of_denials(config: &ClusterConfig, edition: u64) -> [u8; 64] {
    let policies = config.policies.policies();
    let denying: &[Policy] = if policies.iter().any(|policy| policy.deny.is_some()) { &policies } else { &[] };
    let text = serde_json::to_vec(&(&config.access, denying));
    hex_digest(&text.unwrap_or_else(|_| edition.to_string().into_bytes()))
}
