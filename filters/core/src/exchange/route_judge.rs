use std::sync::{Arc, Weak};

use portcullis_filter_config::{ClusterConfig, Policy};

use crate::cluster::CompiledCluster;
use crate::gateway::Gateway;
use crate::host_names::AllowedHosts;
use crate::long_streams::StreamJudge;
use crate::stream_origin::StreamOrigin;
use crate::x509::hex_digest;

/// A cluster's configuration, for the streams that began before it.
#[derive(Debug)]
pub(super) struct RouteJudge {
    /// Alive for as long as the proxy keeps a load of the configuration: a registry outlives many.
    pub(super) cluster: Weak<CompiledCluster>,
    pub(super) digest: [u8; 64],
    /// The variant of the configuration.
    pub(super) variant: Box<str>,
    /// The host names of a variant's routes: streams for these that began under another one, when the routes had none, are judged, too.
    pub(super) hosts: Arc<AllowedHosts>,
}

impl StreamJudge for RouteJudge {
    fn digest(&self) -> &[u8] {
        &self.digest
    }

    fn denies(&self, origin: &StreamOrigin, now: u64) -> Option<bool> {
        Some(Gateway::denies_running(&*self.cluster.upgrade()?, origin, now))
    }

    fn is_gone(&self) -> bool {
        self.cluster.strong_count() == 0
    }

    fn variant(&self) -> &str {
        &self.variant
    }

    /// The cluster's own denials are those of each variant, too.
    fn concerns(&self, variant: &str, origin: &StreamOrigin) -> bool {
        self.variant.is_empty() || *self.variant == *variant || self.hosts.name(&origin.host)
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

/// The digest of denials for streams of these host names; the same without any.
pub(super) fn of_names(denials: [u8; 64], names: &[String]) -> [u8; 64] {
    let Some(text) = serde_json::to_vec(names).ok().filter(|_| !names.is_empty()) else { return denials };
    hex_digest(&[&denials[..], &text].concat())
}
