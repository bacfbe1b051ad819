use portcullis_api::{
    Problem, ProblemCode, SETTINGS_KIND, Settings, check_settings, parse_settings, settings_mistakes,
};
use serde_json::Value;

use crate::diagnosis::{Diagnosis, Reason};
use crate::policy::text;
use crate::translator::ClientCaCheck;

/// The result of the `GatewaySettings` documents.
#[derive(Clone, Debug, Default)]
pub struct SettingsChoice {
    /// The settings; the defaults if there is no document. `None` if there is one that cannot be used: callers keep the
    /// settings that were used before.
    pub settings: Option<Settings>,
    /// One per document.
    pub diagnoses: Vec<Diagnosis>,
}

/// Chooses the settings: exactly one document is expected. With several, none is used, because it is unknown which was meant.
/// `client_ca` judges the default client CA as the filter does.
pub fn choose_settings(documents: &[Value], client_ca: Option<ClientCaCheck>) -> SettingsChoice {
    if documents.is_empty() {
        return SettingsChoice { settings: Some(Settings::default()), diagnoses: Vec::new() };
    }
    let mut choice = SettingsChoice::default();
    for document in documents {
        let name = document.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        let (outcome, warnings) = match parse_settings(document) {
            Err(_) => (Err(settings_mistakes(document)), Vec::new()),
            Ok(raw) => {
                let checked = check_settings(&raw);
                (checked.outcome.and_then(|settings| usable(settings, client_ca)), checked.warnings)
            }
        };
        let mut diagnosis = Diagnosis::accepted(SETTINGS_KIND, name, warnings);
        match outcome {
            Ok(_) if documents.len() > 1 => {
                let message = "there is more than one GatewaySettings, and none of them is used";
                diagnosis
                    .refuse(Reason::Conflicted, vec![Problem::coded(ProblemCode::Invalid, "metadata.name", message)]);
            }
            Ok(settings) => choice.settings = Some(settings),
            Err(problems) => diagnosis.refuse(Reason::Invalid, problems),
        }
        choice.diagnoses.push(diagnosis);
    }
    choice
}

/// Refuses settings whose default client CA no filter takes: it would refuse every cluster without one of its own.
fn usable(settings: Settings, client_ca: Option<ClientCaCheck>) -> Result<Settings, Vec<Problem>> {
    let (Some(check), Some(pem)) = (client_ca, &settings.default_client_ca) else { return Ok(settings) };
    match check(&text(pem)) {
        Ok(()) => Ok(settings),
        Err(message) => Err(vec![Problem::new("spec.defaultClientCA.data", message)]),
    }
}
