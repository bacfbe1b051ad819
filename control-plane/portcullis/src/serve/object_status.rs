//! The status of one object.

use std::ops::Deref;
use std::sync::Arc;

use portcullis_api::status::{ClusterStatus, InstanceCounts, InstanceStatus};
use portcullis_translate::Diagnosis;
use serde::{Serialize, Serializer};

/// The number of characters of a message, and of warnings of an object.
const MAX_TEXT: usize = 16_384;
const MAX_WARNINGS: usize = 100;

/// An object, or a file that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct ObjectStatus {
    #[serde(flatten)]
    pub(crate) diagnosis: SharedDiagnosis,
    /// Settings and files have the condition `Accepted` alone.
    #[serde(flatten)]
    pub(crate) status: ClusterStatus,
    /// The instances of an `UpstreamCluster`: its holder, and the next one while it passes over.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) instances: Vec<String>,
    /// The numbers of an `Instance`'s members; only of one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) counts: Option<InstanceCounts>,
    #[serde(skip)]
    pub(crate) holder: ClusterHolder,
    /// Whether everything that its conditions say of gateways comes from Envoys of the one instance that it belongs to.
    #[serde(skip)]
    pub(crate) is_of_own_envoys: bool,
}

/// The instance that holds an `UpstreamCluster`, if one does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClusterHolder {
    pub(crate) instance: Option<String>,
    /// Whether it passes over to another owner, whose Envoys have it, too.
    pub(crate) is_passing: bool,
}

/// A diagnosis. It is not copied: those of thousands of objects are in memory anyway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SharedDiagnosis(Arc<Diagnosis>);

impl Deref for SharedDiagnosis {
    type Target = Diagnosis;

    fn deref(&self) -> &Diagnosis {
        &self.0
    }
}

#[cfg(test)]
impl std::ops::DerefMut for SharedDiagnosis {
    fn deref_mut(&mut self) -> &mut Diagnosis {
        Arc::make_mut(&mut self.0)
    }
}

impl From<Arc<Diagnosis>> for SharedDiagnosis {
    fn from(diagnosis: Arc<Diagnosis>) -> Self {
        Self(diagnosis)
    }
}

impl Serialize for SharedDiagnosis {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl ObjectStatus {
    /// An object with bounded messages: a manifest may have as many mistakes as it has lines.
    pub(crate) fn new(mut diagnosis: Arc<Diagnosis>, status: ClusterStatus) -> Self {
        let is_long = |text: &String| text.len() > MAX_TEXT;
        let has_many = diagnosis.warnings.len() > MAX_WARNINGS;
        if has_many || is_long(&diagnosis.message) || diagnosis.warnings.iter().any(is_long) {
            let diagnosis = Arc::make_mut(&mut diagnosis);
            truncate(&mut diagnosis.message);
            diagnosis.warnings.truncate(MAX_WARNINGS);
            diagnosis.warnings.iter_mut().for_each(truncate);
        }
        Self {
            diagnosis: diagnosis.into(),
            status,
            instances: Vec::new(),
            counts: None,
            holder: ClusterHolder::default(),
            is_of_own_envoys: false,
        }
    }

    /// The status of an `Instance`, if it is one.
    pub(crate) fn instance_status(&self) -> Option<InstanceStatus> {
        let (observed_generation, conditions) = (self.status.observed_generation, self.status.conditions.clone());
        Some(InstanceStatus { observed_generation, conditions, counts: self.counts? })
    }
}

fn truncate(text: &mut String) {
    if let Some((end, _)) = text.char_indices().nth(MAX_TEXT) {
        text.truncate(end);
        text.push('…');
    }
}
