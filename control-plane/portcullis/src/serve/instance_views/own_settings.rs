use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use portcullis_api::Settings;
use portcullis_api::status::filled_defaults;
use portcullis_instances::JudgedInstance;
use portcullis_translate::{Diagnosis, with_fields_of_all};
use serde_json::Value;

use super::super::version;
use crate::instance_settings::{NamedSettings, named_settings};

/// Fields that no instance's settings have a default of: the settings of all decide about them.
const OF_ALL: [&str; 3] = ["spec.instance", "spec.wildcardSubdomains", "spec.requestHeaderNames."];

/// The settings of instances' Envoys, over time.
#[derive(Default)]
pub(super) struct OwnSettings {
    /// Those that were accepted last, by the instance.
    in_use: BTreeMap<String, SettingsInUse>,
    /// The `GatewaySettings` that instances name, each once, in the order of the documents.
    diagnoses: Vec<Arc<Diagnosis>>,
}

struct SettingsInUse {
    /// The name that the instance's last accepted version says.
    name: Option<String>,
    /// `None`: those of all gateways, without the default certificate.
    settings: Option<Arc<Settings>>,
}

/// Everything that decides about settings.
pub(super) struct SettingsDocuments<'a> {
    /// Those of all gateways.
    pub(super) shared: &'a Settings,
    pub(super) all: &'a [Arc<Value>],
    /// The documents that `shared` may be of: they have a diagnosis already.
    pub(super) of_all: &'a [Value],
}

impl OwnSettings {
    /// Takes the settings that instances name. An instance whose settings are not there or refused keeps those that it had, and says
    /// why; one that had none is to be served nothing.
    pub(super) fn follow(&mut self, judged: &mut [JudgedInstance], documents: &SettingsDocuments<'_>) {
        self.renew(documents.shared);
        let mut diagnoses: BTreeMap<usize, Diagnosis> = BTreeMap::new();
        for instance in judged {
            let known = self.in_use.get(&instance.name);
            let name = match (&instance.outcome, known) {
                (Ok(checked), _) => checked.settings.clone(),
                // One that is refused has its last accepted version.
                (Err(_), Some(known)) => known.name.clone(),
                (Err(_), None) => continue,
            };
            let Some(wanted) = &name else {
                self.in_use.insert(instance.name.clone(), SettingsInUse { name, settings: None });
                continue;
            };
            let NamedSettings { outcome, diagnosis } = named_settings(wanted, documents.all, documents.shared);
            diagnoses.extend(diagnosis);
            match outcome {
                Ok(settings) => {
                    let same = known.and_then(|known| known.settings.clone()).filter(|known| **known == settings);
                    let settings = Some(same.unwrap_or_else(|| Arc::new(settings)));
                    self.in_use.insert(instance.name.clone(), SettingsInUse { name, settings });
                }
                Err(mut problem) => {
                    problem.message.push_str(match known {
                        Some(_) => "; the settings that were used before are still in use",
                        None => "; its Envoys get nothing until they are there",
                    });
                    instance.settings_problem = Some(problem);
                }
            }
        }
        let stamped = |(index, mut diagnosis): (usize, Diagnosis)| {
            let document = documents.all.get(index)?;
            version::stamp(&mut diagnosis, document);
            diagnosis.version.defaults = filled_defaults(document);
            diagnosis.version.defaults.retain(|one| !OF_ALL.iter().any(|field| one.field.starts_with(field)));
            (!documents.of_all.contains(document.as_ref())).then(|| Arc::new(diagnosis))
        };
        self.diagnoses = diagnoses.into_iter().filter_map(stamped).collect();
    }

    /// Settings that stay though their document is refused follow those of all in what these decide.
    fn renew(&mut self, shared: &Settings) {
        for own in self.in_use.values_mut().filter_map(|one| one.settings.as_mut()) {
            let renewed = with_fields_of_all(own.as_ref().clone(), shared);
            if **own != renewed {
                *own = Arc::new(renewed);
            }
        }
    }

    /// Forgets instances without a view.
    pub(super) fn keep(&mut self, served: &BTreeSet<String>) {
        self.in_use.retain(|name, _| served.contains(name));
    }

    /// Whether it is known by which settings an instance is served.
    pub(super) fn are_known(&self, instance: &str) -> bool {
        self.in_use.contains_key(instance)
    }

    /// The settings of an instance, if it has some of its own.
    pub(super) fn of(&self, instance: &str) -> Option<&Arc<Settings>> {
        self.in_use.get(instance)?.settings.as_ref()
    }

    /// The settings of all instances that have some of their own.
    pub(super) fn all_own(&self) -> BTreeMap<String, Arc<Settings>> {
        let own = |(name, one): (&String, &SettingsInUse)| Some((name.clone(), Arc::clone(one.settings.as_ref()?)));
        self.in_use.iter().filter_map(own).collect()
    }

    /// The diagnoses of the `GatewaySettings` that instances name.
    pub(super) fn diagnoses(&self) -> &[Arc<Diagnosis>] {
        &self.diagnoses
    }
}
