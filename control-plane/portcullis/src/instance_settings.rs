//! The `GatewaySettings` that an `Instance` names, for the control plane and for `portcullis check`.

use std::sync::Arc;

use portcullis_api::{Problem, Settings};
use portcullis_translate::{Diagnosis, instance_settings};
use serde_json::Value;

use crate::client_ca::check_client_ca;

/// The field of an `Instance` that names its settings.
const FIELD: &str = "spec.settings";

/// One `GatewaySettings` document that an instance names.
pub(crate) struct NamedSettings {
    /// The settings of its Envoys, or the problem of the `Instance`.
    pub(crate) outcome: Result<Settings, Problem>,
    /// The document's own diagnosis, and its place among all; none if there is none, or several.
    pub(crate) diagnosis: Option<(usize, Diagnosis)>,
}

/// The settings of a name among the documents. `shared`: those of all gateways.
pub(crate) fn named_settings(name: &str, documents: &[Arc<Value>], shared: &Settings) -> NamedSettings {
    let has_name = |document: &Arc<Value>| {
        document.pointer("/metadata/name").and_then(Value::as_str).is_some_and(|one| one == name)
    };
    let mut found = documents.iter().enumerate().filter(|(_, document)| has_name(document));
    let absent = |message: String| NamedSettings { outcome: Err(Problem::new(FIELD, message)), diagnosis: None };
    let (index, document) = match (found.next(), found.next()) {
        (None, _) => return absent(format!("there are no GatewaySettings {name}")),
        (Some(_), Some(_)) => return absent(format!("there is more than one GatewaySettings {name}")),
        (Some(one), None) => one,
    };
    let (settings, diagnosis) = instance_settings(document, shared, Some(check_client_ca));
    let refused = || Problem::new(FIELD, format!("the GatewaySettings {name} are refused: {}", diagnosis.message));
    NamedSettings { outcome: settings.ok_or_else(refused), diagnosis: Some((index, diagnosis)) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn name_leads_to_one_accepted_document() {
        let document = |name: &str, port: u16| {
            Arc::new(json!({
                "apiVersion": portcullis_api::SETTINGS_API_VERSION, "kind": portcullis_api::SETTINGS_KIND,
                "metadata": {"name": name}, "spec": {"listener": {"port": port}},
            }))
        };
        let documents =
            [document("a", 1), document("twice", 2), document("b", 3), document("twice", 4), document("bad", 0)];
        for (name, expected, has_diagnosis) in [
            ("a", Ok(1), Some(0)),
            ("b", Ok(3), Some(2)),
            ("gone", Err("spec.settings: there are no GatewaySettings gone"), None),
            ("twice", Err("spec.settings: there is more than one GatewaySettings twice"), None),
            (
                "bad",
                Err("spec.settings: the GatewaySettings bad are refused: spec.listener.port: must not be 0"),
                Some(4),
            ),
        ] {
            let NamedSettings { outcome, diagnosis } = named_settings(name, &documents, &Settings::default());
            let told = outcome.map(|settings| settings.port).map_err(|problem| problem.to_string());
            assert_eq!(told, expected.map_err(str::to_owned));
            assert_eq!(diagnosis.map(|(index, _)| index), has_diagnosis, "{name}");
        }
    }
}
