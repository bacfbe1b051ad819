use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use portcullis_api::Settings;
use portcullis_api::status::Served;
use portcullis_core::x509::ClientCa;
use portcullis_sources::{FileDiagnosis, ObjectSet, Place};
use portcullis_translate::{
    Diagnosis, Flavour, Input, Reason, Resource as Translated, Translation, Translator, Version, choose_settings,
    type_urls,
};
use portcullis_xds::{Resource, Snapshot};
use serde_json::Value;

use super::Resolved;
use super::departed::Departed;
use super::lingering::Lingering;
use super::version;

/// Turns sets of objects into snapshots, and remembers the last good settings and clusters: an edit that is wrong changes
/// nothing, as if an API server had refused it.
#[derive(Default)]
pub(crate) struct Model {
    settings: Option<Settings>,
    /// The document that was accepted last, by name, with what it referred to then. Holds keys.
    accepted: Documents,
    departed: Departed,
    lingering: Lingering,
    translator: Judge,
    entries: Entries,
    snapshot: Snapshot,
}

/// A translator that judges as the filter does.
pub(crate) struct Judge(pub(crate) Translator);

impl Default for Judge {
    fn default() -> Self {
        let check = |pem: &str| ClientCa::from_pem(pem).map(drop).map_err(|error| error.to_string());
        Self(Translator::default().check_client_cas(check))
    }
}

/// Documents by the name of their object.
pub(super) type Documents = BTreeMap<String, Arc<Value>>;

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
    pub(crate) fn update(&mut self, objects: &ObjectSet, now: Instant) -> Result<Update, ModelError> {
        let mut choice = choose_settings(&objects.settings);
        version::stamp(&mut choice.diagnoses, &objects.settings);
        place(&mut choice.diagnoses, &objects.settings_places);
        if let Some(settings) = choice.settings {
            self.settings = Some(settings);
        }
        let mut diagnoses: Vec<_> = objects.diagnoses.iter().map(file).collect();
        diagnoses.extend(choice.diagnoses);
        let Some(settings) = &self.settings else { return Err(ModelError::Settings(diagnoses)) };
        let resolved = Resolved::of(objects);
        let (mut translation, before) =
            keep_last_good(&mut self.translator.0, settings, &resolved.documents, &mut self.accepted);
        let lingering = self.lingering.follow(&translation.resources, settings, now);
        translation.resources.extend(lingering);
        self.departed.follow(before, &self.accepted);
        translation.resources.extend(self.departed.resources(settings));
        version::stamp(&mut translation.diagnoses, &objects.clusters);
        resolved.explain(objects, &mut translation.diagnoses);
        place(&mut translation.diagnoses, &objects.cluster_places);
        diagnoses.extend(translation.diagnoses);
        self.snapshot = self.snapshot.succeeded_by(self.entries.of(translation.resources));
        let snapshot = self.snapshot.clone();
        Ok(Update { snapshot, diagnoses })
    }
}

impl Model {
    /// When an update without a change of the objects leads to something else.
    pub(super) fn next_change(&self) -> Option<Instant> {
        self.lingering.next_end()
    }
}

/// Tells where the objects stand.
fn place(diagnoses: &mut [Diagnosis], places: &[Place]) {
    for (diagnosis, place) in diagnoses.iter_mut().zip(places) {
        diagnosis.at = Some(format!("{}:{}", place.file, place.spans.start().line));
    }
}

/// Translates; where an object is invalid, the document of it that was accepted last. Returns what was accepted before,
/// too.
fn keep_last_good(
    translator: &mut Translator,
    settings: &Settings,
    documents: &[Arc<Value>],
    accepted: &mut Documents,
) -> (Translation, Documents) {
    let mut translation =
        translator.translate(&Input { settings, clusters: documents, flavour: Flavour::of_envoy(None) });
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
        translation = translator.translate(&Input { settings, clusters: &documents, flavour: Flavour::of_envoy(None) });
    }
    version::stamp(&mut translation.diagnoses, &documents);
    let served = documents.into_iter().zip(&translation.diagnoses).filter(|(_, diagnosis)| diagnosis.accepted);
    let served = served.map(|(document, diagnosis)| (diagnosis.name.clone(), document)).collect();
    let before = std::mem::replace(accepted, served);
    for (index, mut told) in refused {
        let Some(diagnosis) = translation.diagnoses.get_mut(index) else { continue };
        if diagnosis.accepted {
            told.message.push_str("; the version of it that was accepted last is still served");
            told.version.served = Served::Older(diagnosis.version.generation);
        }
        *diagnosis = told;
    }
    (translation, before)
}

/// Resources as they were last, by where they are: what did not change is not hashed again.
#[derive(Default)]
struct Entries {
    known: HashMap<usize, (Arc<Translated>, Resource)>,
}

impl Entries {
    fn of(&mut self, translated: Vec<Arc<Translated>>) -> Vec<(String, String, Resource)> {
        let mut known = std::mem::take(&mut self.known);
        let mut all = Vec::with_capacity(translated.len());
        for one in translated {
            let resource =
                known.remove(&Arc::as_ptr(&one).addr()).map_or_else(|| entry(&one), |(_, resource)| resource);
            all.push((one.type_url.clone(), one.name.clone(), resource.clone()));
            self.known.insert(Arc::as_ptr(&one).addr(), (one, resource));
        }
        all
    }
}

fn entry(one: &Arc<Translated>) -> Resource {
    let mut resource = Resource::new(Bytes::from_owner(Body(Arc::clone(one))));
    if let Some(assignment) = &one.assignment {
        resource = resource.with_companion(type_urls::assignment(), assignment);
    }
    match &one.owner {
        Some(owner) => resource.owned_by(owner),
        None => resource,
    }
}

/// The bytes of a translated resource, which are not copied.
struct Body(Arc<Translated>);

impl AsRef<[u8]> for Body {
    fn as_ref(&self) -> &[u8] {
        &self.0.value
    }
}

pub(super) fn file(diagnosis: &FileDiagnosis) -> Diagnosis {
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
        version: Version::default(),
    }
}
