//! Repeated translation: checks each document, emits its resources, decides who owns a name, and collects the filter chains of
//! all objects in the listeners.

use std::collections::BTreeSet;
use std::sync::Arc;

use portcullis_api::{Claims, Settings, WildcardSubdomains};
use serde_json::Value;

use crate::checked_cluster::{CheckedCluster, ClientCaCheck, names_alone, translate_object};
use crate::checked_documents::CheckedDocuments;
use crate::document_parts::{PartedTranslation, Parts};
use crate::filter_build::FilterBuild;
use crate::last_translation::{KnownDocument, LastTranslation, ServedPart, put};
use crate::listener::{self, Chain, CommonBytes};
use crate::ownership::LostName;
use crate::resource::{Resource, ResourceGroup};
use crate::{Input, Translation, cluster, ownership, secrets};

/// Translates repeatedly, and keeps the last outcome and the result of each document: an edit of one costs the work of one.
///
/// The output depends on the input alone, not on earlier translations. The cache holds the documents, and with them their keys.
#[derive(Default)]
pub struct Translator {
    /// The settings and the build of every cached translation.
    basis: Option<(Settings, FilterBuild)>,
    known: CheckedDocuments,
    /// The last translation. A document that is still in its place costs a comparison of addresses.
    last: LastTranslation,
    /// The last translation that had other documents than the one before it.
    changed: u64,
    /// The clusters of the gateway itself, and what they refer to.
    own_resources: Vec<Arc<Resource>>,
    /// The default certificate, for the first part alone.
    default_certificate: Option<Arc<Resource>>,
    /// The settings of the other parts.
    part_settings: Settings,
    /// Those with the listeners, of the last two translations: one with a refused object, and one with its accepted version.
    own_groups: Vec<OwnGroup>,
    /// The names that objects do not get, also of the last two translations.
    conflicts: Vec<KnownConflicts>,
    /// The bytes that the chains of many objects have.
    common: CommonBytes,
    /// The number of the present translation.
    sequence: u64,
    client_ca_check: Option<ClientCaCheck>,
}

/// The names that the objects do not get, as long as all claim what they claimed.
struct KnownConflicts {
    claims: Vec<Arc<Claims>>,
    lost: Arc<Vec<Vec<LostName>>>,
    /// The translation that used it last.
    used: u64,
}

/// The resources of the gateway itself, as long as the objects contribute the same chains.
struct OwnGroup {
    /// Whether it is of the first part.
    is_first: bool,
    /// The contributions to the listeners.
    chains: Vec<Arc<Chain>>,
    /// The listeners, and the routes of tunnels.
    listeners: Vec<Arc<Resource>>,
    group: ResourceGroup,
    /// The translation that used it last.
    used: u64,
}

impl Translator {
    /// Checks client CAs as the filter does: else Envoy alone would report an object that the filter refuses.
    #[must_use]
    pub fn check_client_cas(self, check: ClientCaCheck) -> Self {
        Self { client_ca_check: Some(check), ..self }
    }

    /// Translates all objects.
    pub fn translate(&mut self, input: &Input<'_>) -> Translation {
        let PartedTranslation { mut groups, diagnoses } = self.translate_parts(input, &Parts::default());
        Translation { groups: groups.pop().unwrap_or_default(), diagnoses }
    }

    /// Translates all objects for Envoys that have parts of them. Names of objects that are not in a part are closed where a wildcard
    /// in it would cover them. Only the first part has the default certificate: an object that needs it is refused in the others.
    pub fn translate_parts(&mut self, input: &Input<'_>, parts: &Parts<'_>) -> PartedTranslation {
        self.begin(input);
        // Taken, so that after a failure on the way everything is made anew.
        let mut last = std::mem::take(&mut self.last);
        let mut changed = self.follow(&mut last, input, parts);
        let lost = self.lost(&last.documents, input.settings.wildcard_subdomains);
        changed.extend(last.follow_lost(&lost));
        for index in changed {
            let (Some(known), Some(lost)) = (last.documents.get_mut(index), lost.get(index)) else { continue };
            let served = self.served(known, lost, input);
            last.put(index, &served, lost, parts);
        }
        let own = |(part, served): (usize, &ServedPart)| {
            let own = self.own_group(input.settings, &served.chains, part == 0);
            served.groups.values().cloned().chain([own]).collect()
        };
        let groups = last.parts.iter().enumerate().map(own).collect();
        let diagnoses = last.diagnoses.clone();
        self.last = last;
        self.forget();
        PartedTranslation { groups, diagnoses }
    }

    /// The number of results that are kept.
    #[cfg(test)]
    pub(crate) fn kept(&self) -> usize {
        self.known.count()
    }

    fn begin(&mut self, input: &Input<'_>) {
        let is_same =
            |(settings, filter): &(Settings, FilterBuild)| settings == input.settings && *filter == input.filter;
        if !self.basis.as_ref().is_some_and(is_same) {
            let default_certificate = secrets::default_certificate(input.settings).map(Arc::new);
            let part_settings = Settings { default_certificate: None, ..input.settings.clone() };
            let collector = cluster::collector(input.settings).into_iter().chain(secrets::collector_ca(input.settings));
            let own_resources = collector.chain(cluster::tunnel(input.settings)).map(Arc::new).collect();
            let basis = Some((input.settings.clone(), input.filter));
            let client_ca_check = self.client_ca_check;
            *self =
                Self { basis, own_resources, default_certificate, part_settings, client_ca_check, ..Self::default() };
        }
        self.sequence += 1;
    }

    /// Takes the documents. Returns the places of those whose outcome may be another one for that.
    fn follow(&mut self, last: &mut LastTranslation, input: &Input<'_>, parts: &Parts<'_>) -> BTreeSet<usize> {
        let (changed, dropped) = last.follow(input.clusters, parts);
        if !changed.is_empty() || !dropped.is_empty() {
            self.changed = self.sequence;
        }
        dropped.iter().for_each(|one| self.leave(one));
        for index in &changed {
            let (Some(document), is_foreign) = (input.clusters.get(*index), parts.is_foreign(*index)) else { continue };
            if !last.has(*index, document, is_foreign) {
                let checked = self.checked((document, is_foreign), &[], input);
                let known = KnownDocument::new(*index, document, parts, checked);
                put(&mut last.documents, *index, known).iter().for_each(|before| self.leave(before));
            }
        }
        changed
    }

    fn leave(&mut self, known: &KnownDocument) {
        for result in [&known.checked, &known.served] {
            self.known.leave(&known.document, result, self.sequence);
        }
    }

    /// The same object without the names that another one owns; it is served under the others, or keeps them closed.
    fn served(&mut self, known: &mut KnownDocument, lost: &[LostName], input: &Input<'_>) -> Arc<CheckedCluster> {
        let names: Vec<_> = lost.iter().map(|lost| lost.name.clone()).collect();
        let served = match names.as_slice() {
            [] => Arc::clone(&known.checked),
            names => self.checked((&known.document, known.is_foreign), names, input),
        };
        let before = std::mem::replace(&mut known.served, Arc::clone(&served));
        if !Arc::ptr_eq(&before, &served) {
            self.known.leave(&known.document, &before, self.sequence);
        }
        served
    }

    /// The cached result of a document, or a new one. A foreign one has its names alone.
    fn checked(
        &mut self,
        (document, is_foreign): (&Arc<Value>, bool),
        lost: &[String],
        input: &Input<'_>,
    ) -> Arc<CheckedCluster> {
        let (check, common) = (self.client_ca_check, &mut self.common);
        self.known.checked((document, is_foreign), lost, self.sequence, || match is_foreign {
            true => names_alone(document, lost),
            false => translate_object(document, lost, input, check, common),
        })
    }

    /// Drops what the last two translations did not use. A refused version and the accepted one before it are translated one after
    /// the other, so both stay.
    fn forget(&mut self) {
        let sequence = self.sequence;
        self.known.forget(sequence);
        // Two translations after the last change nothing is left to be dropped.
        if self.changed + 2 >= sequence {
            self.common.forget();
        }
        self.own_groups.retain(|one| one.used + 1 >= sequence);
        self.conflicts.retain(|one| one.used + 1 >= sequence);
    }

    /// For each object, the names that it claims and does not own.
    fn lost(&mut self, documents: &[KnownDocument], below: WildcardSubdomains) -> Arc<Vec<Vec<LostName>>> {
        let used = self.sequence;
        if let Some(known) = self.conflicts.iter_mut().find(|known| known.is_of(documents)) {
            known.used = used;
            known.keep_allocations_of(documents);
            return Arc::clone(&known.lost);
        }
        let claims: Vec<&Claims> = documents.iter().map(|one| one.claims.as_ref()).collect();
        let lost = Arc::new(ownership::conflicts(&claims, below));
        let claims = documents.iter().map(|one| Arc::clone(&one.claims)).collect();
        self.conflicts.push(KnownConflicts { claims, lost: Arc::clone(&lost), used });
        lost
    }

    /// The resources of the gateway itself.
    fn own_group(&mut self, settings: &Settings, chains: &[Arc<Chain>], is_first: bool) -> ResourceGroup {
        let used = self.sequence;
        let is_of = |known: &&mut OwnGroup| known.is_first == is_first && known.is_of(chains);
        if let Some(known) = self.own_groups.iter_mut().find(is_of) {
            known.used = used;
            return Arc::clone(&known.group);
        }
        let listeners = self.listeners(if is_first { settings } else { &self.part_settings }, chains);
        let certificate = self.default_certificate.iter().filter(|_| is_first);
        let all = certificate.chain(&self.own_resources).chain(&listeners);
        let is_same = |known: &&OwnGroup| known.group.iter().map(Arc::as_ptr).eq(all.clone().map(Arc::as_ptr));
        let known = self.own_groups.iter().find(is_same).map(|known| Arc::clone(&known.group));
        let group: ResourceGroup = known.unwrap_or_else(|| all.cloned().collect());
        let chains = chains.to_vec();
        self.own_groups.push(OwnGroup { is_first, chains, listeners, group: Arc::clone(&group), used });
        group
    }

    fn listeners(&self, settings: &Settings, chains: &[Arc<Chain>]) -> Vec<Arc<Resource>> {
        let made = listener::listeners(settings, chains).into_iter();
        let before = || self.own_groups.iter().flat_map(|known| &known.listeners);
        let known = |made: &Resource| before().find(|before| ***before == *made).cloned();
        made.map(|made| known(&made).unwrap_or_else(|| Arc::new(made))).collect()
    }
}

impl KnownConflicts {
    /// Whether these objects claim the same.
    fn is_of(&self, documents: &[KnownDocument]) -> bool {
        let claims_same =
            |(known, one): (&Arc<Claims>, &KnownDocument)| Arc::ptr_eq(known, &one.claims) || *known == one.claims;
        documents.len() == self.claims.len() && self.claims.iter().zip(documents).all(claims_same)
    }

    /// Takes over the allocations of the same claims, so that they are not read again.
    fn keep_allocations_of(&mut self, documents: &[KnownDocument]) {
        let others = self.claims.iter_mut().zip(documents).filter(|(known, one)| !Arc::ptr_eq(known, &one.claims));
        others.for_each(|(known, one)| *known = Arc::clone(&one.claims));
    }
}

impl OwnGroup {
    /// Whether it is made of these chains.
    fn is_of(&self, chains: &[Arc<Chain>]) -> bool {
        let is_same = |(one, other): (&Arc<Chain>, &Arc<Chain>)| Arc::ptr_eq(one, other);
        chains.len() == self.chains.len() && chains.iter().zip(&self.chains).all(is_same)
    }
}
