use portcullis_api::{
    Problem, ProblemCode, SETTINGS_KIND, Settings, check_settings, parse_settings, settings_mistakes,
};
use serde_json::Value;

use crate::checked_cluster::ClientCaCheck;
use crate::diagnosis::{Diagnosis, Reason};
use crate::policy::text;

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
        let (outcome, mut diagnosis) = checked(document, client_ca);
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

/// Judges the settings of an instance's Envoys. Fields by which the control plane itself acts, or that decide between instances, are
/// those of `shared`, the settings of all: names of resources, the owners of host names, and everything that servers believe. A
/// document that sets one of them otherwise is refused: then there are no settings, and the diagnosis has every problem.
pub fn instance_settings(
    document: &Value,
    shared: &Settings,
    client_ca: Option<ClientCaCheck>,
) -> (Option<Settings>, Diagnosis) {
    let (outcome, mut diagnosis) = checked(document, client_ca);
    let outcome = outcome.and_then(|own| {
        let problems = of_all(document, &own, shared);
        if problems.is_empty() { Ok(own) } else { Err(problems) }
    });
    match outcome {
        Ok(own) => (Some(with_fields_of_all(own, shared)), diagnosis),
        Err(problems) => {
            diagnosis.refuse(Reason::Invalid, problems);
            (None, diagnosis)
        }
    }
}

/// Settings of an instance with the fields that are those of the settings of all. These may have changed since they were judged.
#[must_use]
pub fn with_fields_of_all(own: Settings, shared: &Settings) -> Settings {
    Settings {
        instance: shared.instance.clone(),
        wildcard_subdomains: shared.wildcard_subdomains,
        request_header_names: shared.request_header_names.clone(),
        allow_loopback_upstreams: shared.allow_loopback_upstreams,
        ..own
    }
}

/// The fields that are set otherwise than in the settings of all.
fn of_all(document: &Value, own: &Settings, shared: &Settings) -> Vec<Problem> {
    let fields = [
        ("instance", own.instance == shared.instance),
        ("wildcardSubdomains", own.wildcard_subdomains == shared.wildcard_subdomains),
        ("requestHeaderNames", own.request_header_names == shared.request_header_names),
        ("allowLoopbackUpstreams", own.allow_loopback_upstreams == shared.allow_loopback_upstreams),
    ];
    let is_set = |field: &str| document.pointer(&format!("/spec/{field}")).is_some_and(|value| !value.is_null());
    let others = fields.into_iter().filter(|(field, is_same)| !is_same && is_set(field));
    let problem = |(field, _): (&str, bool)| {
        let message = "is another one than in the GatewaySettings of all, which decide about it for every Instance";
        Problem::new(format!("spec.{field}"), message).hint("omit it")
    };
    others.map(problem).collect()
}

/// The settings of one document, and a diagnosis that accepts them, with warnings.
fn checked(document: &Value, client_ca: Option<ClientCaCheck>) -> (Result<Settings, Vec<Problem>>, Diagnosis) {
    let name = document.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    let (outcome, warnings) = match parse_settings(document) {
        Err(_) => (Err(settings_mistakes(document)), Vec::new()),
        Ok(raw) => {
            let checked = check_settings(&raw);
            (checked.outcome.and_then(|settings| usable(settings, client_ca)), checked.warnings)
        }
    };
    (outcome, Diagnosis::accepted(SETTINGS_KIND, name, warnings))
}

/// Refuses settings whose default client CA no filter takes: it would refuse every cluster without one of its own.
fn usable(settings: Settings, client_ca: Option<ClientCaCheck>) -> Result<Settings, Vec<Problem>> {
    let (Some(check), Some(pem)) = (client_ca, &settings.default_client_ca) else { return Ok(settings) };
    match check(&text(pem)) {
        Ok(()) => Ok(settings),
        Err(message) => Err(vec![Problem::new("spec.defaultClientCA.data", message)]),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn judged(spec: &Value, shared: &Settings) -> Result<Settings, Vec<String>> {
        let document = json!({
            "apiVersion": portcullis_api::SETTINGS_API_VERSION, "kind": SETTINGS_KIND,
            "metadata": {"name": "own"}, "spec": spec,
        });
        let (settings, diagnosis) = instance_settings(&document, shared, Some(|_| Err("no CA".to_owned())));
        assert_eq!(settings.is_some(), diagnosis.accepted);
        settings.ok_or_else(|| diagnosis.problems.into_iter().map(|problem| problem.path).collect())
    }

    #[test]
    fn fields_of_all_are_those_of_the_shared_settings() {
        let shared = Settings { instance: "edge".to_owned(), allow_loopback_upstreams: true, ..Settings::default() };
        for (spec, expected) in [
            (json!({}), Ok(6443)),
            (json!({"listener": {"port": 7443}}), Ok(7443)),
            (json!({"instance": "edge", "allowLoopbackUpstreams": true, "wildcardSubdomains": null}), Ok(6443)),
            (json!({"instance": "other"}), Err(vec!["spec.instance"])),
            (json!({"instance": "portcullis"}), Err(vec!["spec.instance"])),
            (json!({"allowLoopbackUpstreams": false}), Err(vec!["spec.allowLoopbackUpstreams"])),
            (
                json!({"wildcardSubdomains": "Allowed", "requestHeaderNames": {"user": "X-Other"}}),
                Err(vec!["spec.wildcardSubdomains", "spec.requestHeaderNames"]),
            ),
            (json!({"listener": {"port": 0}}), Err(vec!["spec.listener.port"])),
            (json!({"listen": {}}), Err(vec!["spec.listen"])),
        ] {
            let found = judged(&spec, &shared);
            let told = found.as_ref().map(|own| own.port).map_err(|paths| paths.iter().map(String::as_str).collect());
            assert_eq!(told, expected, "{spec}");
            if let Ok(own) = found {
                assert_eq!((own.instance.as_str(), own.allow_loopback_upstreams), ("edge", true), "{spec}");
            }
        }
    }
}
