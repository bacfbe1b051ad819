use std::collections::BTreeMap;
use std::sync::Arc;

use portcullis_api::Settings;
use portcullis_translate::{Diagnosis, Input, PartedTranslation, Parts, ResourceGroup, Translation, Translator};

use crate::client_ca::check_client_ca;

/// A translator that refuses the client CAs that the filter would refuse.
struct CheckedTranslator(Translator);

impl Default for CheckedTranslator {
    fn default() -> Self {
        Self(Translator::default().check_client_cas(check_client_ca))
    }
}

/// Translates for the Envoys of all instances: by the settings of all, or by those of an instance that has its own.
///
/// A translator with other settings has the objects of its instance, and of all others their names, which it keeps closed.
#[derive(Default)]
pub(crate) struct DividedTranslator {
    shared: CheckedTranslator,
    /// By instance.
    own: BTreeMap<String, CheckedTranslator>,
}

/// The parts of the objects, each for Envoys of its own: those of no instance have the first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Division {
    /// The number of parts.
    pub(crate) count: usize,
    /// The parts of each document, in the documents' order: its holder's, then that of the next one. Empty if nothing is divided.
    pub(crate) of: Vec<Vec<usize>>,
    /// The parts with settings of their own.
    pub(crate) own: BTreeMap<usize, OwnPart>,
}

/// An instance with settings of its own.
#[derive(Clone, Debug)]
pub(crate) struct OwnPart {
    /// Its name.
    pub(crate) instance: String,
    /// The settings.
    pub(crate) settings: Arc<Settings>,
}

impl Division {
    fn has_own(&self, part: usize) -> bool {
        self.own.contains_key(&part)
    }

    /// The settings of all for those of the wanted parts that have no others.
    fn shared(&self, is_wanted: &impl Fn(usize) -> bool) -> (Vec<Vec<usize>>, Vec<bool>) {
        let is_shared = |part: &usize| is_wanted(*part) && !self.has_own(*part);
        let shared = |parts: &Vec<usize>| -> Vec<usize> { parts.iter().copied().filter(is_shared).collect() };
        let of: Vec<Vec<usize>> = self.of.iter().map(shared).collect();
        let foreign = self.of.iter().zip(&of).map(|(all, shared)| !all.is_empty() && shared.is_empty());
        let foreign = foreign.collect();
        (of, foreign)
    }
}

impl DividedTranslator {
    /// Translates all objects. `input` has the settings of all.
    pub(crate) fn translate(&mut self, input: &Input<'_>, division: &Division) -> PartedTranslation {
        self.translate_for(input, division, |_| true)
    }

    /// Translates for the Envoys of some parts. The names of all other objects are closed to them, and the groups of other parts are not
    /// to be served.
    pub(super) fn translate_for(
        &mut self,
        input: &Input<'_>,
        division: &Division,
        is_wanted: impl Fn(usize) -> bool,
    ) -> PartedTranslation {
        let own: Vec<_> = division.own.iter().filter(|(part, _)| is_wanted(**part)).collect();
        self.own.retain(|instance, _| own.iter().any(|(_, own)| own.instance == *instance));
        let (of, foreign) = division.shared(&is_wanted);
        let parts = Parts { count: division.count, of: &of, foreign: &foreign };
        let mut translation = self.shared.0.translate_parts(input, &parts);
        let mut diagnoses: BTreeMap<usize, Vec<Arc<Diagnosis>>> = BTreeMap::from([(0, translation.diagnoses.clone())]);
        for (part, own) in own {
            let of: Vec<Vec<usize>> =
                division.of.iter().map(|parts| parts.contains(part).then_some(0).into_iter().collect()).collect();
            let foreign: Vec<bool> = of.iter().map(Vec::is_empty).collect();
            let translator = self.own.entry(own.instance.clone()).or_default();
            let input = Input { settings: &own.settings, ..*input };
            let parts = Parts { count: 1, of: &of, foreign: &foreign };
            let mut of_part = translator.0.translate_parts(&input, &parts);
            if let Some(groups) = translation.groups.get_mut(*part) {
                *groups = of_part.groups.pop().unwrap_or_default();
            }
            diagnoses.insert(*part, of_part.diagnoses);
        }
        for (index, parts) in division.of.iter().enumerate() {
            if let (Some(found), Some(diagnosis)) =
                (translation.diagnoses.get_mut(index), diagnosis_of(index, parts, &diagnoses))
            {
                *found = diagnosis;
            }
        }
        translation
    }
}

/// The translation of the first part, and the groups of the others.
pub(super) fn first_part(parted: PartedTranslation) -> (Translation, Vec<Vec<ResourceGroup>>) {
    let PartedTranslation { groups, diagnoses } = parted;
    let mut groups = groups.into_iter();
    let first = groups.next().unwrap_or_default();
    (Translation { groups: first, diagnoses }, groups.collect())
}

/// The diagnosis of a document: that of its next owner, or of its holder as long as this one alone accepts it. Nothing is taken for
/// removed that an owner serves.
fn diagnosis_of(
    index: usize,
    parts: &[usize],
    diagnoses: &BTreeMap<usize, Vec<Arc<Diagnosis>>>,
) -> Option<Arc<Diagnosis>> {
    let of = |part: &usize| diagnoses.get(part).or_else(|| diagnoses.get(&0))?.get(index);
    let next = of(parts.last()?)?;
    let accepted = parts.iter().rev().filter_map(of).find(|one| one.accepted);
    Some(Arc::clone(accepted.unwrap_or(next)))
}
