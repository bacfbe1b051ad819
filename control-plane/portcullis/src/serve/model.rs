use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use portcullis_api::Settings;
use portcullis_api::status::Served;
use portcullis_core::x509::ClientCa;
use portcullis_sources::{FileDiagnosis, ObjectSet, Place};
use portcullis_translate::{
    self as translated, Diagnosis, FilterBuild, Input, Reason, Resource as Translated, Translation, Translator,
    Version, choose_settings, type_urls,
};
use portcullis_xds::{Part, Resource, Snapshot};
use serde_json::Value;

use super::Resolved;
use super::departed::Departed;
use super::documents::Documents;
use super::filter_views::view_for;
use super::lingering::Lingering;
use super::version;
use super::withdrawn::{self, Kept, Withdrawn};

/// Turns sets of objects into snapshots, and remembers the last good settings and clusters: an edit that is wrong changes
/// nothing, as if an API server had refused it.
#[derive(Default)]
pub(crate) struct Model {
    settings: Option<Settings>,
    /// The document that was accepted last, by name, with what it referred to then. Holds keys.
    accepted: Documents,
    departed: Departed,
    withdrawn: Withdrawn,
    lingering: Lingering,
    translator: Judge,
    entries: Entries,
    snapshot: Snapshot,
    views: BTreeMap<FilterBuild, FilterView>,
    /// Views that were served before this program started, until they are made anew.
    before: BTreeMap<String, Snapshot>,
}

/// The snapshot for Envoys with another build of the filter.
#[derive(Default)]
struct FilterView {
    translator: Judge,
    /// Objects that are not served.
    refused: BTreeSet<String>,
    entries: Entries,
    snapshot: Snapshot,
}

/// A translator that judges as the filter does.
pub(crate) struct Judge(pub(crate) Translator);

impl Default for Judge {
    fn default() -> Self {
        Self(Translator::default().check_client_cas(check_client_ca))
    }
}

/// Why the filter would refuse a client CA bundle (PEM).
pub(crate) fn check_client_ca(pem: &str) -> Result<(), String> {
    ClientCa::from_pem(pem).map(drop).map_err(|error| error.to_string())
}

/// What a set of objects leads to.
#[derive(Debug)]
pub(crate) struct Update {
    pub(crate) snapshot: Snapshot,
    pub(crate) diagnoses: Vec<Diagnosis>,
    /// Objects that are served with what is withdrawn.
    pub(crate) withdrawn: usize,
}

/// Why a set of objects leads to nothing.
#[derive(Debug)]
pub(crate) enum ModelError {
    /// There never were settings that can be used. Guessing them could open a port that nobody wanted.
    Settings(Vec<Diagnosis>),
}

impl Model {
    /// A model that comes after what was served before this program started.
    ///
    /// Objects whose references are withdrawn are served for so long.
    pub(super) fn after(last_good: Option<&Snapshot>, keep_withdrawn: Duration) -> Self {
        let views = last_good.into_iter().flat_map(Snapshot::views);
        let before = views.map(|(name, view)| (name.to_owned(), view.clone())).collect();
        Self {
            snapshot: last_good.cloned().unwrap_or_default(),
            before,
            withdrawn: Withdrawn::keeping(keep_withdrawn),
            ..Self::default()
        }
    }

    /// Follows the objects, for Envoys with the module and with these builds of the filter.
    pub(crate) fn update(
        &mut self,
        objects: &ObjectSet,
        filters: &BTreeSet<FilterBuild>,
        now: Instant,
    ) -> Result<Update, ModelError> {
        let mut choice = choose_settings(&objects.settings, Some(check_client_ca));
        version::stamp(&mut choice.diagnoses, &objects.settings);
        place(&mut choice.diagnoses, &objects.settings_places);
        if let Some(settings) = choice.settings {
            self.settings = Some(settings);
        }
        let mut diagnoses: Vec<_> = objects.diagnoses.iter().map(file).collect();
        diagnoses.extend(choice.diagnoses);
        let Some(settings) = &self.settings else { return Err(ModelError::Settings(diagnoses)) };
        let resolved = Resolved::of(objects);
        let mut judge = |name: &str| self.withdrawn.judge(name, &objects.materials, now);
        let (mut translation, before, effective) =
            keep_last_good(&mut self.translator.0, settings, &resolved.documents, &mut self.accepted, &mut judge);
        let lingering = self.lingering.follow(&translation.resources, settings, now);
        self.departed.follow(before, &self.accepted);
        let views: Vec<_> = filters
            .iter()
            .filter_map(|filter| {
                let input = Input { settings, clusters: &effective, filter: *filter };
                let name = view_for(*filter).0?;
                let departed: Vec<_> = self.departed.resources(settings, *filter).collect();
                let made =
                    || FilterView { snapshot: self.before.remove(&name).unwrap_or_default(), ..Default::default() };
                let view = self.views.entry(*filter).or_insert_with(made);
                let snapshot = view.update(&input, &lingering, &departed);
                Some((name, snapshot))
            })
            .collect();
        translation.resources.extend(self.departed.resources(settings, FilterBuild::Module));
        let newest = objects.clusters.iter().zip(&translation.diagnoses).filter(|(_, diagnosis)| diagnosis.accepted);
        let newest = newest.map(|(document, diagnosis)| (diagnosis.name.clone(), Arc::clone(document)));
        self.withdrawn.follow(newest, &self.accepted);
        version::stamp(&mut translation.diagnoses, &objects.clusters);
        resolved.explain(objects, &mut translation.diagnoses);
        place(&mut translation.diagnoses, &objects.cluster_places);
        diagnoses.extend(translation.diagnoses);
        self.snapshot = self.snapshot.succeeded_by(self.entries.of(&translation.resources, &lingering));
        let snapshot = self.snapshot.clone().with_views(views);
        Ok(Update { snapshot, diagnoses, withdrawn: self.withdrawn.count() })
    }
}

impl FilterView {
    fn update(&mut self, input: &Input<'_>, lingering: &[Arc<Translated>], departed: &[Arc<Translated>]) -> Snapshot {
        let translation = self.translator.0.translate(input);
        let refused = translation.diagnoses.iter().filter(|one| !one.accepted).map(|one| one.name.clone()).collect();
        for name in BTreeSet::difference(&refused, &self.refused) {
            tracing::warn!(filter = %input.filter, name, "not served to the gateways with this build of the filter");
        }
        self.refused = refused;
        let mut resources = translation.resources;
        resources.extend(departed.iter().cloned());
        self.snapshot = self.snapshot.succeeded_by(self.entries.of(&resources, lingering));
        self.snapshot.clone()
    }
}

impl Model {
    /// When an update without a change of the objects leads to something else.
    pub(super) fn next_change(&self) -> Option<Instant> {
        self.lingering.next_end().into_iter().chain(self.withdrawn.next_end()).min()
    }
}

/// Tells where the objects stand.
fn place(diagnoses: &mut [Diagnosis], places: &[Place]) {
    for (diagnosis, place) in diagnoses.iter_mut().zip(places) {
        diagnosis.at = Some(format!("{}:{}", place.file, place.spans.start().line));
    }
}

/// Whether two documents of one name are of one object: one that was deleted is not served in place of one that was created since.
fn are_one_object(one: &Value, other: &Value) -> bool {
    let uid = |document: &Value| document.pointer("/metadata/uid").cloned();
    match (uid(one), uid(other)) {
        (Some(one), Some(other)) => one == other,
        _ => true,
    }
}

/// Translates; where an object is invalid, the document of it that was accepted last, if `judge` lets it stay. Returns what was accepted before,
/// and the documents that were translated in the end, too.
fn keep_last_good(
    translator: &mut Translator,
    settings: &Settings,
    documents: &[Arc<Value>],
    accepted: &mut Documents,
    judge: &mut impl FnMut(&str) -> Kept,
) -> (Translation, Documents, Vec<Arc<Value>>) {
    let mut translation = translator.translate(&Input { settings, clusters: documents, filter: FilterBuild::Module });
    let mut documents = documents.to_vec();
    let mut refused = Vec::new();
    for (index, (document, diagnosis)) in documents.iter_mut().zip(&translation.diagnoses).enumerate() {
        let invalid = !diagnosis.accepted && diagnosis.reason == Reason::Invalid;
        let is_kept = |good: &&Arc<Value>| invalid && are_one_object(good, document);
        let Some(good) = accepted.get(&diagnosis.name).filter(is_kept) else { continue };
        let kept = judge(&diagnosis.name);
        if kept != Kept::NoLonger {
            document.clone_from(good);
            refused.push((index, diagnosis.clone(), kept));
        }
    }
    if !refused.is_empty() {
        translation = translator.translate(&Input { settings, clusters: &documents, filter: FilterBuild::Module });
    }
    version::stamp(&mut translation.diagnoses, &documents);
    let effective = documents.clone();
    let served = documents.into_iter().zip(&translation.diagnoses).filter(|(_, diagnosis)| diagnosis.accepted);
    let served = served.map(|(document, diagnosis)| (diagnosis.name.clone(), document)).collect();
    let before = std::mem::replace(accepted, served);
    for (index, mut told, kept) in refused {
        let Some(diagnosis) = translation.diagnoses.get_mut(index) else { continue };
        if diagnosis.accepted {
            told.message.push_str(match kept {
                Kept::Whole => "; the version of it that was accepted last is still served",
                _ => withdrawn::TOLD,
            });
            told.version.served = Served::Older(diagnosis.version.generation);
        }
        *diagnosis = told;
    }
    (translation, before, effective)
}

/// Resources as they were last, by where they are: what did not change is not hashed again.
#[derive(Default)]
struct Entries {
    known: HashMap<usize, (Arc<Translated>, Resource)>,
}

impl Entries {
    fn of<'t>(
        &mut self,
        translated: &'t [Arc<Translated>],
        lingering: &'t [Arc<Translated>],
    ) -> Vec<(&'t str, &'t str, Resource)> {
        let mut known = std::mem::take(&mut self.known);
        self.known.reserve(translated.len());
        let mut all = Vec::with_capacity(translated.len() + lingering.len());
        for one in translated {
            let known = known.remove(&Arc::as_ptr(one).addr());
            let (kept, resource) = known.unwrap_or_else(|| (Arc::clone(one), entry(one)));
            all.push((one.type_url.as_str(), one.name.as_str(), resource.clone()));
            self.known.insert(Arc::as_ptr(one).addr(), (kept, resource));
        }
        let left = |one: &'t Arc<Translated>| (one.type_url.as_str(), one.name.as_str(), entry(one).lingering());
        all.extend(lingering.iter().map(left));
        all
    }
}

fn entry(one: &Arc<Translated>) -> Resource {
    let part = |part: &translated::Part| Part {
        owner: part.owner.clone(),
        range: part.start..part.end,
        fallback: Some(part.instead.clone().into()),
    };
    let body = Bytes::from_owner(Body(Arc::clone(one)));
    let mut resource = Resource::new(body);
    if one.type_url == type_urls::listener() {
        resource = resource.with_parts(one.parts.iter().map(part));
    }
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
        names: Vec::new(),
        version: Version::default(),
    }
}
