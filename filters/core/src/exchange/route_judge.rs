use std::fmt::Debug;
use std::sync::{Arc, Weak};

use portcullis_filter_config::{ClusterConfig, Policy};

use super::door_hosts::DoorHosts;
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
    /// The variant of the configuration.
    pub(super) variant: Box<str>,
    /// The listener of a variant's routes.
    pub(super) listener: Box<str>,
    /// The host names of a variant's routes: streams for these that began under another one, when the routes had none, are judged, too.
    /// Alive for as long as the proxy keeps a load with the same denials for them.
    pub(super) hosts: Weak<DoorHosts>,
}

impl StreamJudge for RouteJudge {
    fn digest(&self) -> &[u8] {
        &self.digest
    }

    fn denies(&self, origin: &StreamOrigin, now: u64) -> Option<bool> {
        Some(Gateway::denies_running(&*self.cluster.upgrade()?, origin, now))
    }

    fn needs(&self) -> Option<Arc<dyn Debug + Send + Sync>> {
        Some(self.cluster.upgrade()?)
    }

    fn is_gone(&self) -> bool {
        !self.variant.is_empty() && self.hosts.strong_count() == 0
    }

    fn variant(&self) -> &str {
        &self.variant
    }

    fn listener(&self) -> &str {
        &self.listener
    }

    fn owns(&self, origin: &StreamOrigin) -> bool {
        self.hosts.upgrade().is_some_and(|hosts| hosts.owns(origin))
    }

    /// The cluster's own denials are those of each variant, too.
    fn concerns(&self, variant: &str, origin: &StreamOrigin) -> bool {
        let is_for_its_hosts = || self.hosts.upgrade().is_some_and(|hosts| hosts.may_lead(origin));
        self.variant.is_empty() || *self.variant == *variant || is_for_its_hosts()
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

/// The digest of a configuration's denials for the streams that they concern.
pub(super) fn digest_of_door(denials: [u8; 64], config: &ClusterConfig) -> [u8; 64] {
    // The cluster's own concern each stream, whatever its host.
    if config.variant.is_empty() {
        return denials;
    }
    let ClusterConfig { name, object, variant, listener, authorities, narrower_authorities, .. } = config;
    let door = serde_json::to_vec(&(name, object, variant, listener, authorities, narrower_authorities));
    door.map_or(denials, |text| hex_digest(&[&denials[..], &text].concat()))
}
