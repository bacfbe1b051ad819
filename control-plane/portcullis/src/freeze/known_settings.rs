//! The settings among the files, as far as they say who is let in.

use portcullis_filter_config::ProtectedIdentities;
use portcullis_sources::ObjectSet;
use serde_json::Value;

use crate::explain::{ClusterSettings, EnvironmentError, ServedSettings};

/// The part of a cluster's settings that matters for a profile.
#[derive(Debug, Default)]
pub(super) struct KnownSettings {
    pub(super) allows_loopback: bool,
    pub(super) protected: ProtectedIdentities,
    /// Lines for the operator: by whose settings it was judged, and parts that were not.
    pub(super) remarks: Vec<String>,
}

impl KnownSettings {
    /// Those of a cluster, of its instance if that has some. Settings that are elsewhere, or cannot be used, may allow loopback servers,
    /// and must not keep an operator from closing a cluster.
    pub(super) fn of(objects: &ObjectSet, name: &str, document: &Value) -> Self {
        let mut known = match ServedSettings::of(objects).map_err(EnvironmentError::Settings) {
            Ok(served) => match served.of_cluster(name, document, None) {
                Ok(found) => Self::found(&found, !objects.settings.is_empty()),
                Err(error) => Self::unusable(&error),
            },
            Err(error) => Self::unusable(&error),
        };
        if !objects.policies.is_empty() {
            known.remarks.push(
                "policies of kinds of their own are not judged here: the profile is in the place of dispatch policies and limits at the \
                 cluster, and those at Gateways, listeners and HTTPRoutes go on to tighten there"
                    .to_owned(),
            );
        }
        known
    }

    fn found(found: &ClusterSettings<'_>, are_here: bool) -> Self {
        let instance =
            found.instance.as_ref().and_then(|instance| instance.name.as_ref().zip(instance.settings.as_ref()));
        Self {
            allows_loopback: found.settings.allow_loopback_upstreams || !are_here,
            protected: found.settings.protected.clone().unwrap_or_default(),
            remarks: instance
                .map(|(name, settings)| format!("judged by the GatewaySettings {settings} of Instance {name}"))
                .into_iter()
                .collect(),
        }
    }

    fn unusable(error: &EnvironmentError) -> Self {
        let remark = format!("their protectedIdentities and access lists may refuse some of these: {error}");
        Self { allows_loopback: true, remarks: vec![remark], ..Self::default() }
    }
}
