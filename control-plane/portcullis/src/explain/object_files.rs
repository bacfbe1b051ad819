//! Objects of files, read as one set.

use std::path::PathBuf;

use portcullis_attach::AttachedPolicies;
use portcullis_sources::ObjectSet;

use super::error::EnvironmentError;
use super::served_settings::ServedSettings;
use crate::policies::{self, JudgedPolicies};
use crate::read_manifests::read_manifests;
use crate::spanning_policies::spanning_at_doors;

/// Files that belong together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ObjectFiles<'a> {
    /// Files and directories.
    pub(crate) paths: &'a [PathBuf],
    /// The control plane's own namespace.
    pub(crate) namespace: &'a str,
    /// The name of the `GatewaySettings` of all gateways, if others may be beside them.
    pub(crate) settings_name: Option<&'a str>,
}

/// The objects of files, with policies in their clusters: names are owned across files.
pub(crate) struct ReadObjects {
    /// The objects.
    pub(crate) set: ObjectSet,
    /// Verdicts about policies.
    pub(crate) attached: AttachedPolicies,
}

impl ObjectFiles<'_> {
    /// Reads all files.
    pub(crate) fn read(&self) -> Result<ReadObjects, EnvironmentError> {
        let mut all = ObjectSet::default();
        for path in self.paths {
            let set = read_manifests(path)?;
            all.clusters.extend(set.clusters);
            all.settings.extend(set.settings);
            all.settings_places.extend(set.settings_places);
            all.instances.extend(set.instances);
            all.policies.extend(set.policies);
            all.policy_places.extend(set.policy_places);
            all.others.extend(set.others);
            all.diagnoses.extend(set.diagnoses);
        }
        all.divide_settings(self.settings_name);
        let JudgedPolicies { mut attached, doors, .. } = policies::judge(&all, self.namespace);
        let mut set = policies::merged(&all, &attached);
        // Settings that cannot be used are an error later.
        if let Ok(settings) = ServedSettings::of(&set) {
            attached.refuse_spanning(&settings.refuse_spanning(&mut set.clusters));
            let spanning = spanning_at_doors(&attached, &doors, &settings.owners());
            attached.refuse_spanning_at_doors(&spanning);
        }
        Ok(ReadObjects { set, attached })
    }
}
