use std::sync::Arc;

use portcullis_filter_config::ClusterConfig;

use super::door_hosts::DoorHosts;
use super::route_judge::digest_of_denials;
use crate::cluster::{CompileError, CompiledCluster};
use crate::long_streams::Edition;
use crate::state_store::StateStore;
use crate::weak_map::WeakMap;
use crate::x509::hex_digest;

/// The newest compiled configuration of each cluster's name and variant, while something has it loaded: loads that differ from it in
/// host names and their listener alone share it. Never an older one that streams keep: compiling has set limits, servers and gauges to the newer one's.
#[derive(Debug, Default)]
pub struct CompiledClusters {
    /// By name and variant.
    editions: WeakMap<(String, String), CompiledEdition>,
    /// By the digest of a variant's denials and host names. A proxy loads all routes anew at an edit of one, and before it frees those of
    /// before: what has not changed stays in use.
    hosts: WeakMap<[u8; 64], DoorHosts>,
}

/// A compiled configuration with what belongs to all its loads.
#[derive(Debug)]
pub(super) struct CompiledEdition {
    /// Of the configuration without host names. `None` is never shared.
    digest: Option<[u8; 64]>,
    /// Of the part that denies streams.
    pub(super) denials: [u8; 64],
    pub(super) cluster: Arc<CompiledCluster>,
    pub(super) edition: Arc<Edition>,
}

impl CompiledEdition {
    /// Compiles a configuration with a text of that many bytes.
    pub(super) fn compile(
        config: &ClusterConfig,
        memory: &impl StateStore,
        text: usize,
        digest: Option<[u8; 64]>,
    ) -> Result<Arc<Self>, CompileError> {
        let cluster = Arc::new(CompiledCluster::compile(config, memory)?);
        let edition = Edition::new(cluster.series().id(), text, cluster.entries());
        let edition = Arc::new(edition.of_variant(&config.variant));
        let denials = digest_of_denials(config, edition.id());
        Ok(Arc::new(CompiledEdition { digest, denials, cluster, edition }))
    }
}

impl CompiledClusters {
    /// The compiled configuration of a text of that many bytes: one that is in use, or a new one.
    pub(super) fn get(
        &self,
        config: &mut ClusterConfig,
        memory: &impl StateStore,
        text: usize,
    ) -> Result<Arc<CompiledEdition>, CompileError> {
        let digest = digest_without_names(config);
        let key = (config.name.clone(), config.variant.clone());
        let known = self.editions.get(&key).filter(|known| digest.is_some() && known.digest == digest);
        if let Some(known) = known {
            return Ok(known);
        }
        let compiled = CompiledEdition::compile(config, memory, text, digest)?;
        self.editions.replace(key, &compiled);
        Ok(compiled)
    }

    /// The host names of a variant with this digest.
    pub(super) fn hosts(&self, digest: [u8; 64], config: &ClusterConfig) -> Arc<DoorHosts> {
        self.hosts.get_or_insert_with(digest, || DoorHosts::of(config))
    }
}

/// A digest of all but the host names and their listener. `None` if it cannot be written down.
fn digest_without_names(config: &mut ClusterConfig) -> Option<[u8; 64]> {
    let listener = std::mem::take(&mut config.listener);
    let names = [&mut config.authorities, &mut config.narrower_authorities].map(std::mem::take);
    let text = serde_json::to_vec(config);
    config.listener = listener;
    [config.authorities, config.narrower_authorities] = names;
    text.ok().map(|text| hex_digest(&text))
}
