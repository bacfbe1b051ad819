use std::collections::BTreeMap;

use portcullis_api::Settings;
use portcullis_sources::{FileDiagnosis, ObjectSet, Place};
use portcullis_translate::{
    self as translated, Diagnosis, Input, Reason, Resource as Translated, Translation, choose_settings, translate,
    type_urls,
};
use portcullis_xds::{Part, Resource, Snapshot};
use serde_json::Value;

/// Turns sets of objects into snapshots, and remembers the last good settings and clusters: an edit that is wrong changes
/// nothing, as if an API server had refused it.
#[derive(Default)]
pub(crate) struct Model {
    settings: Option<Settings>,
    /// The document that was accepted last, by name. Holds keys.
    accepted: BTreeMap<String, Value>,
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
        let mut choice = choose_settings(&objects.settings);
        place(&mut choice.diagnoses, &objects.settings_places);
        if let Some(settings) = choice.settings {
            self.settings = Some(settings);
        }
        let mut diagnoses: Vec<_> = objects.diagnoses.iter().map(file).collect();
        diagnoses.extend(choice.diagnoses);
        let Some(settings) = &self.settings else { return Err(ModelError::Settings(diagnoses)) };
        let mut translation = keep_last_good(settings, &objects.clusters, &mut self.accepted);
        place(&mut translation.diagnoses, &objects.cluster_places);
        diagnoses.extend(translation.diagnoses);
        let snapshot = Snapshot::new(translation.resources.into_iter().map(entry));
        Ok(Update { snapshot, diagnoses })
    }
}

/// Tells where the objects stand.
fn place(diagnoses: &mut [Diagnosis], places: &[Place]) {
    for (diagnosis, place) in diagnoses.iter_mut().zip(places) {
        diagnosis.at = Some(format!("{}:{}", place.file, place.spans.start().line));
    }
}

/// Translates; where an object is invalid, the document of it that was accepted last.
fn keep_last_good(settings: &Settings, documents: &[Value], accepted: &mut BTreeMap<String, Value>) -> Translation {
    let mut translation = translate(&Input { settings, clusters: documents });
    let mut documents = documents.to_vec();
    let mut refused = Vec::new();
    for (index, (document, diagnosis)) in documents.iter_mut().zip(&translation.diagnoses).enumerate() {
        let invalid = !diagnosis.accepted && diagnosis.reason == Reason::Invalid;
        if let Some(good) = accepted.get(&diagnosis.name).filter(|_| invalid) {
            document.clone_from(good);
            refused.push((index, diagnosis.clone()));
        }
    }
    if !refused.is_empty() {
        translation = translate(&Input { settings, clusters: &documents });
    }
    let served = documents.into_iter().zip(&translation.diagnoses).filter(|(_, diagnosis)| diagnosis.accepted);
    *accepted = served.map(|(document, diagnosis)| (diagnosis.name.clone(), document)).collect();
    for (index, mut told) in refused {
        let Some(diagnosis) = translation.diagnoses.get_mut(index) else { continue };
        if diagnosis.accepted {
            told.message.push_str("; the version of it that was accepted last is still served");
        }
        *diagnosis = told;
    }
    translation
}

fn entry(one: Translated) -> (String, String, Resource) {
    let part = |part: translated::Part| Part {
        owner: part.owner,
        range: part.start..part.end,
        instead: Some(part.instead.into()),
    };
    let mut resource = Resource::new(one.value).with_parts(one.parts.into_iter().map(part));
    if let Some(assignment) = one.assignment {
        resource = resource.with_companion(type_urls::assignment(), assignment);
    }
    if let Some(owner) = one.owner {
        resource = resource.owned_by(owner);
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
        at: diagnosis.at.map(|at| format!("{}:{}", diagnosis.file, at.line)),
        accepted: !diagnosis.refused,
        reason: if diagnosis.refused { Reason::Invalid } else { Reason::Accepted },
        message,
        warnings,
        problems: Vec::new(),
        cautions: Vec::new(),
    }
}
