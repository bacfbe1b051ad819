use std::sync::Arc;

use portcullis_filter_config::ClusterConfig;

use super::route_judge::digest_of_denials;
use crate::cluster::{CompileError, CompiledCluster};
use crate::long_streams::{Edition, EditionLoad};
use crate::state_store::StateStore;
use crate::weak_map::WeakMap;
use crate::x509::hex_digest;

/// The newest compiled configuration of each cluster's name and variant, while something has it loaded: loads that differ from it in
/// host names alone share it. Never an older one that streams keep: compiling has set limits, servers and gauges to the newer one's.
#[derive(Debug, Default)]
pub struct CompiledClusters(WeakMap<(String, String), CompiledEdition>);

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
    /// The compiled configuration of a text of that many bytes: one that is in use, with the place of a further load, or a new one.
    pub(super) fn get(
        &self,
        config: &mut ClusterConfig,
        memory: &impl StateStore,
        text: usize,
    ) -> Result<(Arc<CompiledEdition>, Option<EditionLoad>), CompileError> {
        let digest = digest_without_names(config);
        let key = (config.name.clone(), config.variant.clone());
        let known = self.0.get(&key).filter(|known| digest.is_some() && known.digest == digest);
        if let Some(known) = known
            && let Some(load) = known.edition.load(text)
        {
            return Ok((known, Some(load)));
        }
        let compiled = CompiledEdition::compile(config, memory, text, digest)?;
        self.0.replace(key, &compiled);
        Ok((compiled, None))
    }
}

/// A digest of all but the host names. `None` if it cannot be written down.
fn digest_without_names(config: &mut ClusterConfig) -> Option<[u8; 64]> {
    let authorities = std::mem::take(&mut config.authorities);
    let text = serde_json::to_vec(config);
    config.authorities = authorities;
    text.ok().map(|text| hex_digest(&text))
}
