use portcullis_api::{SETTINGS_KIND, Settings, check_settings, parse_settings};
use serde_json::Value;

use crate::diagnosis::{Diagnosis, Reason, join};

/// What the `GatewaySettings` documents say.
#[derive(Clone, Debug, Default)]
pub struct SettingsChoice {
    /// The settings; the defaults if there is no document. `None` if there is one that cannot be used: whoever asks keeps
    /// what was used before.
    pub settings: Option<Settings>,
    /// One per document.
    pub diagnoses: Vec<Diagnosis>,
}

/// Chooses the settings: exactly one document is expected. With several, none is used, because nobody can tell which was
/// meant.
pub fn choose_settings(documents: &[Value]) -> SettingsChoice {
    if documents.is_empty() {
        return SettingsChoice { settings: Some(Settings::default()), diagnoses: Vec::new() };
    }
    let mut choice = SettingsChoice::default();
    for document in documents {
        let name = document.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        let mut diagnosis = Diagnosis::accepted(name, Vec::new());
        diagnosis.kind = SETTINGS_KIND.to_owned();
        let outcome = parse_settings(document).map_err(|problem| vec![problem]).and_then(|raw| {
            let checked = check_settings(&raw);
            diagnosis.warnings = checked.warnings.iter().map(ToString::to_string).collect();
            checked.outcome
        });
        match outcome {
            Ok(_) if documents.len() > 1 => {
                diagnosis.refuse(Reason::Conflicted, "there is more than one GatewaySettings".to_owned());
            }
            Ok(settings) => choice.settings = Some(settings),
            Err(problems) => diagnosis.refuse(Reason::Invalid, join(&problems)),
        }
        choice.diagnoses.push(diagnosis);
    }
    choice
}
