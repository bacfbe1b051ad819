use portcullis_sources::ObjectSet;
use serde_json::Value;

use super::DiffError;
use super::cluster::compare;
use super::cluster_diff::ClusterDiff;
use super::compare::Findings;
use super::content::{ContentChanges, content_changes, has_unknown_settings};
use super::doors::{DoorDiffs, compare_doors};
use super::endings::endings;
use super::fields::{ChangedField, changes};
use super::objects::{ChangedObject, changed_objects};
use crate::explain::{Environment, ServedCluster, name_of};

/// The differences between two sets of objects.
#[derive(Debug, Default)]
pub(super) struct DiffReport {
    /// Clusters of both.
    pub(super) clusters: Vec<ClusterDiff>,
    pub(super) removed: Vec<String>,
    pub(super) added: Vec<String>,
    /// Of the `GatewaySettings` of all gateways.
    pub(super) settings: Vec<ChangedField>,
    /// `GatewaySettings` of instances, and `Instances`.
    pub(super) objects: Vec<ChangedObject>,
    /// Whether they have references whose content is not at hand.
    pub(super) has_unknown_settings: bool,
}

impl DiffReport {
    pub(super) fn new(
        [old, new]: [&ObjectSet; 2],
        [old_content, new_content]: [&ObjectSet; 2],
        sides: &[Environment; 2],
        wanted: &[String],
        now: u64,
    ) -> Result<Self, DiffError> {
        let [old_side, new_side] = sides;
        let names = |set: &ObjectSet| set.clusters.iter().map(|one| name_of(one).to_owned()).collect::<Vec<_>>();
        let (old_names, new_names) = (names(old), names(new));
        let is_wanted = |name: &String| wanted.is_empty() || wanted.contains(name);
        if let Some(name) = wanted.iter().find(|name| !old_names.contains(name) && !new_names.contains(name)) {
            return Err(DiffError::NoCluster(name.clone()));
        }
        let only = |names: &[String], others: &[String]| {
            names.iter().filter(|name| is_wanted(name) && !others.contains(name)).cloned().collect()
        };
        let mut report = DiffReport {
            removed: only(&old_names, &new_names),
            added: only(&new_names, &old_names),
            settings: settings(old_content, new_content),
            objects: changed_objects(old_content, new_content),
            has_unknown_settings: [old_content, new_content].into_iter().any(has_unknown_settings),
            ..DiffReport::default()
        };
        for (document, then) in old.clusters.iter().zip(&old_side.clusters).filter(|(_, one)| is_wanted(&one.name)) {
            let found = new.clusters.iter().zip(&new_side.clusters).find(|(_, now)| now.name == then.name);
            let Some((new_document, other)) = found else { continue };
            let findings = match (then.is_passed_on, other.is_passed_on) {
                (true, true) => Findings::default(),
                (was_passed_on, _) if was_passed_on != other.is_passed_on => Findings::of_transport(),
                _ => compare(&new_side.gateway, &then.config, &other.config, now)
                    .map_err(|error| DiffError::Compile(then.name.clone(), error))?,
            };
            let content = |set: &ObjectSet| set.clusters.iter().find(|one| name_of(one) == then.name).cloned();
            let content = content(old_content).zip(content(new_content));
            let content = content.map(|(one, two)| content_changes([document, new_document], [&one, &two]));
            let ContentChanges { changed, unknown } = content.unwrap_or_default();
            let mut fields = changes(document, new_document);
            fields.extend(changed);
            fields.extend(instance_change(then, other));
            report.clusters.push(ClusterDiff {
                name: then.name.clone(),
                host: then.name.clone(),
                findings,
                fields,
                unknown_content: unknown,
                endings: endings(&then.config, &other.config, now),
            });
        }
        let DoorDiffs { clusters, removed, added } = compare_doors(sides, is_wanted, now)?;
        report.clusters.extend(clusters);
        report.removed.extend(removed);
        report.added.extend(added);
        Ok(report)
    }

    /// Whether nothing differs, and all was compared.
    pub(super) fn is_same(&self) -> bool {
        let is_same = |cluster: &ClusterDiff| {
            cluster.findings.differences.is_empty()
                && cluster.findings.uncompared.is_empty()
                && cluster.findings.beside.is_empty()
                && cluster.fields.is_empty()
                && cluster.unknown_content.is_empty()
        };
        self.removed.is_empty()
            && self.added.is_empty()
            && self.settings.is_empty()
            && self.objects.is_empty()
            && !self.has_unknown_settings
            && self.clusters.iter().all(is_same)
    }
}

/// Another instance that a cluster belongs to.
fn instance_change(then: &ServedCluster, now: &ServedCluster) -> Option<ChangedField> {
    let name = |served: &ServedCluster| served.instance.as_ref().and_then(|instance| instance.name.clone());
    let (then, now) = (name(then), name(now));
    (then != now).then(|| ChangedField { path: "the Instance that selects it".to_owned(), then, now })
}

/// Changes of the settings of all gateways. There is one object at most that holds.
fn settings(old: &ObjectSet, new: &ObjectSet) -> Vec<ChangedField> {
    let first = |set: &ObjectSet| set.settings.first().cloned().unwrap_or(Value::Null);
    let empty = || Value::Object(serde_json::Map::new());
    let filled = |value: Value| if value.is_null() { empty() } else { value };
    changes(&filled(first(old)), &filled(first(new)))
}
