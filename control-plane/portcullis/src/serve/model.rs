use portcullis_api::Settings;
use portcullis_sources::{FileDiagnosis, ObjectSet};
use portcullis_translate::{Diagnosis, Input, Reason, Resource as Translated, choose_settings, translate, type_urls};
use portcullis_xds::{Resource, Snapshot};

/// Turns sets of objects into snapshots, and remembers the last good settings.
#[derive(Debug, Default)]
pub(crate) struct Model {
    settings: Option<Settings>,
}

/// What a set of objects leads to.
#[derive(Debug)]
pub(crate) struct Update {
    pub(crate) snapshot: Snapshot,
    pub(crate) diagnoses: Vec<Diagnosis>,
}

/// Why a set of objects leads to nothing.
#[derive(Debug)]
pub(crate) enum ModelError {
    /// There never were settings that can be used. Guessing them could open a port that nobody wanted.
    Settings(Vec<Diagnosis>),
}

impl Model {
    pub(crate) fn update(&mut self, objects: &ObjectSet) -> Result<Update, ModelError> {
        let choice = choose_settings(&objects.settings);
        if let Some(settings) = choice.settings {
            self.settings = Some(settings);
        }
        let mut diagnoses: Vec<_> = objects.diagnoses.iter().map(file).collect();
        diagnoses.extend(choice.diagnoses);
        let Some(settings) = &self.settings else { return Err(ModelError::Settings(diagnoses)) };
        let translation = translate(&Input { settings, clusters: &objects.clusters });
        diagnoses.extend(translation.diagnoses);
        let snapshot = Snapshot::new(translation.resources.into_iter().map(entry));
        Ok(Update { snapshot, diagnoses })
    }
}

fn entry(one: Translated) -> (String, String, Resource) {
    let mut resource = Resource::new(one.value);
    if let Some(assignment) = one.assignment {
        resource = resource.with_companion(type_urls::assignment(), assignment);
    }
    (one.type_url, one.name, resource)
}

fn file(diagnosis: &FileDiagnosis) -> Diagnosis {
    let (message, warnings) = if diagnosis.refused {
        (diagnosis.message.clone(), Vec::new())
    } else {
        (String::new(), vec![diagnosis.message.clone()])
    };
    Diagnosis {
        kind: "File".to_owned(),
        name: diagnosis.file.clone(),
        accepted: !diagnosis.refused,
        reason: if diagnosis.refused { Reason::Invalid } else { Reason::Accepted },
        message,
        warnings,
    }
}
