use std::collections::BTreeSet;

use portcullis_api::status::{Acceptance, SettingsStatus, accepted};
use portcullis_sources::{StoredStatus, StoredStatuses, WatchedKind};
use serde_json::Value;

use super::{conditions, timestamp};
use crate::serve::object_status::ObjectStatus;
use crate::serve::source::SettingsOrigin;

/// The reason of `Accepted` of settings that are valid or not, and that the control plane does not look at.
const NOT_USED: &str = "NotUsed";
/// Maximum number of objects that get a status with it. One or two are usual.
const MAX_NOT_USED: usize = 100;

/// Which `GatewaySettings` are used, and by which control plane.
pub(in crate::serve) struct SettingsUse {
    origin: SettingsOrigin,
    control_plane: String,
}

impl SettingsUse {
    /// The use by a control plane, as [`SettingsStatus::control_plane`] names it.
    pub(in crate::serve) fn new(origin: SettingsOrigin, control_plane: String) -> Self {
        Self { origin, control_plane }
    }

    /// The status of the settings that are used.
    pub(super) fn used(&self, object: &ObjectStatus) -> SettingsStatus {
        SettingsStatus {
            observed_generation: object.status.observed_generation,
            control_plane: self.control_plane.clone(),
            conditions: object.status.conditions.clone(),
            defaults: object.diagnosis.version.defaults.clone(),
        }
    }

    /// The names, UIDs and statuses of objects that are not used, nor by an instance. Another control plane's settings are left alone: it says of them
    /// that they are used.
    pub(super) fn not_used<'a>(
        &self,
        stored: &'a StoredStatuses,
        of_instances: &'a BTreeSet<String>,
    ) -> impl Iterator<Item = (&'a str, &'a str, SettingsStatus)> {
        let message = self.message();
        let settings = stored.of(WatchedKind::GatewaySettings);
        let others = settings.filter(move |(key, _)| !self.uses(&key.name) && !of_instances.contains(&key.name));
        let ours = others.filter(move |(_, stored)| self.is_ours(stored));
        ours.take(MAX_NOT_USED).filter_map(move |(key, stored)| {
            let acceptance = Acceptance { reason: NOT_USED, message: &message, ..Acceptance::default() };
            let before = conditions(&stored.status);
            let accepted = accepted(&acceptance, stored.generation, &before, &timestamp());
            let status = SettingsStatus {
                observed_generation: stored.generation,
                control_plane: self.control_plane.clone(),
                conditions: vec![accepted],
                defaults: Vec::new(),
            };
            Some((key.name.as_str(), stored.uid.as_deref()?, status))
        })
    }

    /// Whether the object of this name is used.
    pub(super) fn uses(&self, name: &str) -> bool {
        matches!(&self.origin, SettingsOrigin::Object(used) if used == name)
    }

    /// Whether no other control plane has written a status.
    fn is_ours(&self, stored: &StoredStatus) -> bool {
        let writer = stored.status.get("controlPlane").and_then(Value::as_str);
        writer.is_none_or(|writer| writer == self.control_plane)
    }

    fn message(&self) -> String {
        let control_plane = &self.control_plane;
        match &self.origin {
            SettingsOrigin::Defaults => {
                format!("the control plane {control_plane} runs without --settings-name: it uses the defaults")
            }
            SettingsOrigin::Files => {
                format!("the control plane {control_plane} uses the GatewaySettings of a file (--settings)")
            }
            SettingsOrigin::Object(used) => {
                format!("the control plane {control_plane} uses the GatewaySettings {used} (--settings-name)")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use portcullis_api::status::Timestamp;
    use portcullis_sources::ObjectKey;
    use serde_json::json;

    use super::*;

    fn stored(all: &[(&str, Value)]) -> StoredStatuses {
        let one = |(name, status): &(&str, Value)| {
            let key = ObjectKey::cluster_scoped(WatchedKind::GatewaySettings, *name);
            (key, StoredStatus { uid: Some("u".to_owned()), generation: Some(1), status: status.clone() })
        };
        all.iter().map(one).collect()
    }

    fn told(origin: SettingsOrigin, stored: &StoredStatuses) -> Vec<(String, String)> {
        let using = SettingsUse::new(origin, "gateways/portcullis".to_owned());
        let none = BTreeSet::new();
        let all = using.not_used(stored, &none);
        all.map(|(name, _, status)| (name.to_owned(), status.conditions[0].message.clone())).collect()
    }

    #[test]
    fn settings_that_are_not_used_are_told_by_one_control_plane() {
        let of = |control_plane: &str| json!({"controlPlane": control_plane});
        let all = stored(&[
            ("default", of("gateways/portcullis")),
            ("new", Value::Null),
            ("old", of("gateways/portcullis")),
            ("theirs", of("elsewhere/portcullis")),
        ]);
        let names = |origin| told(origin, &all).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        assert_eq!(names(SettingsOrigin::Object("default".to_owned())), ["new", "old"]);
        assert_eq!(names(SettingsOrigin::Files), ["default", "new", "old"]);
        assert_eq!(names(SettingsOrigin::Defaults), ["default", "new", "old"]);
        let messages = told(SettingsOrigin::Files, &all);
        assert!(messages[0].1.contains("of a file (--settings)"), "{messages:?}");
    }

    #[test]
    fn time_of_a_condition_stays_with_its_status() {
        let using = SettingsUse::new(SettingsOrigin::Files, "a/b".to_owned());
        let first = stored(&[("x", Value::Null)]);
        let none = BTreeSet::new();
        let (_, _, mut status) = using.not_used(&first, &none).next().unwrap();
        status.conditions[0].last_transition_time = Timestamp::from_seconds(1);
        let second = stored(&[("x", serde_json::to_value(&status).unwrap())]);
        assert_eq!(using.not_used(&second, &none).next().unwrap().2, status);
        assert_eq!(using.not_used(&second, &["x".to_owned()].into()).count(), 0, "an instance uses them");
    }

    #[test]
    fn number_of_objects_that_are_told_is_bounded() {
        let names: Vec<String> = (0..1_000).map(|n| format!("s{n}")).collect();
        let all: Vec<(&str, Value)> = names.iter().map(|name| (name.as_str(), Value::Null)).collect();
        assert_eq!(told(SettingsOrigin::Defaults, &stored(&all)).len(), MAX_NOT_USED);
    }
}
